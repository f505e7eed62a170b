//! The programs of a real node: Go programs built from pinned modules, and Debian packages.
//!
//! A built program is kept in the user's cache folder, under a name that says what it was built from, so that a second
//! checkout finds it. It appears there whole or not at all, and two runs that need the same one build it once.

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A Go module of `testbed/programs`, and the programs that are built from it.
struct Module {
    folder: &'static str,
    linker_flags: &'static str,
    /// Build tags, with commas between them.
    tags: &'static str,
}

const CONTAINERD: Module = Module { folder: "containerd", linker_flags: "-s -w", tags: "" };
const ETCD: Module = Module { folder: "etcd", linker_flags: "-s -w", tags: "" };
/// Clients that others wrote, in a program of ours.
const CLIENTS: Module = Module { folder: "clients", linker_flags: "-s -w", tags: "" };
const CRI_TOOLS: Module = Module { folder: "cri-tools", linker_flags: "-s -w", tags: "" };
/// Without its version an API server calls itself v0.0.0, and clients that look at it behave otherwise.
const KUBERNETES: Module = Module {
    folder: "kubernetes",
    linker_flags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2 \
                   -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37",
    tags: "",
};
/// With the discovery of Kubernetes alone: all of them take ten minutes to build. Debian builds its Prometheus without Kubernetes.
const PROMETHEUS: Module =
    Module { folder: "prometheus", linker_flags: "-s -w", tags: "remove_all_sd,enable_kubernetes_sd" };

/// A program that is built from a Go module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// etcd 3.7
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The node agent whose caches larder takes after.
    Kubelet,
    /// The command line client.
    Kubectl,
    /// The container runtime.
    Containerd,
    /// Its shim, one process a pod.
    ContainerdShim,
    /// Its own client.
    Ctr,
    /// The client of any CRI runtime: the reference for what a runtime says.
    Crictl,
    /// The informers of client-go and the cache of controller-runtime, which print what they see.
    Clients,
    /// The monitoring system, which discovers its targets by the Kubernetes API.
    Prometheus,
}

impl Program {
    /// Every program.
    pub const ALL: [Self; 10] = [
        Self::Containerd,
        Self::ContainerdShim,
        Self::Ctr,
        Self::Etcd,
        Self::Crictl,
        Self::KubeApiserver,
        Self::Kubectl,
        Self::Kubelet,
        Self::Clients,
        Self::Prometheus,
    ];

    fn module(self) -> &'static Module {
        match self {
            Self::Etcd => &ETCD,
            Self::KubeApiserver | Self::Kubelet | Self::Kubectl => &KUBERNETES,
            Self::Containerd | Self::ContainerdShim | Self::Ctr => &CONTAINERD,
            Self::Crictl => &CRI_TOOLS,
            Self::Clients => &CLIENTS,
            Self::Prometheus => &PROMETHEUS,
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Containerd => "github.com/containerd/containerd/v2/cmd/containerd",
            Self::ContainerdShim => "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            Self::Ctr => "github.com/containerd/containerd/v2/cmd/ctr",
            Self::Crictl => "sigs.k8s.io/cri-tools/cmd/crictl",
            Self::Clients => ".",
            Self::Prometheus => "github.com/prometheus/prometheus/cmd/prometheus",
        }
    }

    /// The name of its file.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::Kubelet => "kubelet",
            Self::Kubectl => "kubectl",
            Self::Containerd => "containerd",
            Self::ContainerdShim => "containerd-shim-runc-v2",
            Self::Ctr => "ctr",
            Self::Crictl => "crictl",
            Self::Clients => "clients",
            Self::Prometheus => "prometheus",
        }
    }

    /// The built program, built now if it was not before. The first build of a module takes minutes, and says so.
    ///
    /// # Errors
    ///
    /// When Go is not installed, or the build fails.
    pub fn build(self) -> Result<PathBuf> {
        let module = self.module();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(module.folder);
        let cache = cache_folder(&format!("{}-{}", module.folder, fingerprint(module, &source)?))?;
        let built = cache.join(self.file_name());
        if built.exists() {
            return Ok(built);
        }
        let lock = File::create(cache.join("lock"))?;
        lock.lock().context("wait for another run that builds the same")?;
        if built.exists() {
            return Ok(built);
        }
        eprintln!("testbed: building {} (once; the first program of a module takes minutes)", self.file_name());
        let unfinished = cache.join(format!("{}.{}", self.file_name(), std::process::id()));
        let mut compiler = Command::new("go");
        compiler
            .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", module.linker_flags])
            .args(["-tags", module.tags, "-o"])
            .arg(&unfinished)
            .arg(self.package())
            .current_dir(&source)
            .env("GOTOOLCHAIN", "local")
            .stdin(Stdio::null());
        let status = compiler.status().context("run `go build`: Go 1.26 or later is needed (https://go.dev/dl)")?;
        if !status.success() {
            let _ = fs::remove_file(&unfinished);
            bail!("go build of {} in {} failed: {status}", self.package(), source.display());
        }
        fs::rename(&unfinished, &built)?;
        Ok(built)
    }
}

/// A folder below `larder/testbed` in the user's cache folder, made now if it is missing.
pub(crate) fn cache_folder(name: &str) -> Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = match absolute("XDG_CACHE_HOME") {
        Some(cache) => cache,
        None => absolute("HOME").context("set HOME or XDG_CACHE_HOME to an absolute path")?.join(".cache"),
    };
    let folder = cache.join("larder/testbed").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}

/// The lock that runs of `apt-get` take: two at once fail on dpkg's own.
fn lock_apt() -> Result<File> {
    let lock = File::create(cache_folder("")?.join("apt.lock"))?;
    lock.lock().context("wait for another run that installs packages")?;
    Ok(lock)
}

/// What the module's programs are built from, and with.
fn fingerprint(module: &Module, source: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    hash.update(go_version()?);
    hash.update(module.linker_flags);
    hash.update(module.tags);
    for file in ["go.mod", "go.sum"] {
        hash.update(fs::read(source.join(file)).with_context(|| format!("read {file} in {}", source.display()))?);
    }
    // The program of ours, where the module has one.
    let main = source.join("main.go");
    if main.exists() {
        hash.update(fs::read(&main).with_context(|| format!("read {}", main.display()))?);
    }
    Ok(hex(&hash.finalize()[..8]))
}

/// What `go env` says of the toolchain and the machine, asked once.
fn go_version() -> Result<&'static [u8]> {
    static VERSION: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(version) = VERSION.get() {
        return Ok(version);
    }
    let go = Command::new("go")
        .args(["env", "GOVERSION", "GOOS", "GOARCH"])
        .env("GOTOOLCHAIN", "local")
        .output()
        .context("run `go env`: Go 1.26 or later is needed (https://go.dev/dl)")?;
    Ok(VERSION.get_or_init(|| go.stdout))
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A Debian package that the testbed uses, and a file by which it is known to be there.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    name: &'static str,
    file: &'static str,
}

impl Package {
    /// Runs containers for containerd's shim.
    pub const RUNC: Self = Self { name: "runc", file: "/usr/sbin/runc" };
    /// The one program in the images.
    pub const BUSYBOX: Self = Self { name: "busybox-static", file: "/usr/share/doc/busybox-static/copyright" };
    /// etcd 3.4, on which an API server refuses streaming lists.
    pub const OLD_ETCD: Self = Self { name: "etcd-server", file: "/usr/bin/etcd" };
    /// Python and what its virtual environments need.
    pub const PYTHON: Self = Self { name: "python3-venv", file: "/usr/share/doc/python3-venv/copyright" };
    /// Tells a program another time of the day than the machine has.
    pub const FAKETIME: Self = Self { name: "libfaketime", file: "/usr/share/doc/libfaketime/copyright" };

    /// Installs the packages that are missing, with `apt-get`.
    ///
    /// # Errors
    ///
    /// When one is missing and `apt-get` cannot install it (it needs root and Debian or a relative).
    pub fn install(packages: &[Self]) -> Result<()> {
        let missing: Vec<&str> =
            packages.iter().filter(|package| !Path::new(package.file).exists()).map(|package| package.name).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let _lock = lock_apt()?;
        eprintln!("testbed: installing {}", missing.join(" "));
        apt_get(&["update", "-qq"])?;
        let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
        install.extend(&missing);
        apt_get(&install)
    }
}

/// The folder with the programs of Debian's package `containerd` (1.6), unpacked and not installed: nothing of it is started,
/// and none of its programs is on anybody's `PATH`.
///
/// # Errors
///
/// When the package cannot be had or unpacked (that needs Debian or a relative).
pub fn debians_containerd() -> Result<PathBuf> {
    let cache = cache_folder("")?;
    let unpacked = cache.join("debian-containerd");
    let programs = unpacked.join("usr/bin");
    let _lock = lock_apt()?;
    if programs.exists() {
        return Ok(programs);
    }
    let unfinished = cache.join(format!("debian-containerd.{}", std::process::id()));
    fs::create_dir_all(&unfinished)?;
    eprintln!("testbed: downloading Debian's containerd");
    let download = ["download", "-qq", "containerd"];
    // Without lists of packages, or with old ones, it is not found.
    if apt_get_in(&unfinished, &download).is_err() {
        apt_get(&["update", "-qq"])?;
        apt_get_in(&unfinished, &download)?;
    }
    let mut files = fs::read_dir(&unfinished)?.flatten().map(|entry| entry.path());
    let package =
        files.find(|path| path.extension().is_some_and(|it| it == "deb")).context("no package was downloaded")?;
    let contents = unfinished.join("contents");
    let unpack =
        Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&contents).status().context("run dpkg-deb")?;
    if !unpack.success() {
        bail!("dpkg-deb --extract {} failed: {unpack}", package.display());
    }
    fs::rename(&contents, &unpacked)?;
    fs::remove_dir_all(&unfinished)?;
    Ok(programs)
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    apt_get_in(Path::new("/"), arguments)
}

fn apt_get_in(folder: &Path, arguments: &[&str]) -> Result<()> {
    let result = Command::new("apt-get")
        .args(arguments)
        .current_dir(folder)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .context("run apt-get: the testbed takes runc and busybox from Debian's packages")?;
    if !result.status.success() {
        bail!(
            "apt-get {} failed ({}); it needs root:\n{}{}",
            arguments.join(" "),
            result.status,
            String::from_utf8_lossy(&result.stdout),
            String::from_utf8_lossy(&result.stderr)
        );
    }
    Ok(())
}
