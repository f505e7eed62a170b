//! Container images made on the spot: an OCI image layout in a tar, with Debian's static busybox as the only layer.

use crate::programs::hex;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::path::Path;
use tar::{Builder, EntryType, Header};

/// The image that containers run: a shell and the usual small programs.
pub const BUSYBOX: &str = "larder.test/busybox:1";
/// The image of sandboxes: a process that sleeps.
pub const PAUSE: &str = "larder.test/pause:1";

/// The programs of busybox that the image has a name for.
const APPLETS: [&str; 14] =
    ["sh", "sleep", "echo", "cat", "ls", "true", "false", "date", "env", "printf", "kill", "touch", "test", "ps"];

/// Writes an archive for `ctr images import` that holds both images.
///
/// # Errors
///
/// When busybox is not installed, or the file cannot be written.
pub fn write_archive(file: &Path) -> Result<()> {
    let busybox = fs::read("/bin/busybox").context("read /bin/busybox (Debian's busybox-static)")?;
    let layer = layer(&busybox)?;
    let mut archive = Builder::new(File::create(file)?);
    append(&mut archive, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let layer_descriptor = append_blob(&mut archive, "application/vnd.oci.image.layer.v1.tar", &layer)?;
    let mut images = Vec::new();
    for (name, entrypoint) in [(BUSYBOX, json!(["/bin/sh"])), (PAUSE, json!(["/bin/sleep", "2147483647"]))] {
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": { "Entrypoint": entrypoint, "Env": ["PATH=/bin"], "WorkingDir": "/" },
            "rootfs": { "type": "layers", "diff_ids": [layer_descriptor["digest"]] },
        });
        let config_type = "application/vnd.oci.image.config.v1+json";
        let config = append_blob(&mut archive, config_type, &serde_json::to_vec(&config)?)?;
        let manifest_type = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({
            "schemaVersion": 2, "mediaType": manifest_type, "config": config, "layers": [layer_descriptor],
        });
        let mut descriptor = append_blob(&mut archive, manifest_type, &serde_json::to_vec(&manifest)?)?;
        descriptor["annotations"] = json!({ "io.containerd.image.name": name });
        images.push(descriptor);
    }
    let index =
        json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": images });
    append(&mut archive, "index.json", &serde_json::to_vec(&index)?)?;
    archive.into_inner()?.sync_all()?;
    Ok(())
}

/// The architecture in Go's words, as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn layer(busybox: &[u8]) -> Result<Vec<u8>> {
    let mut layer = Builder::new(Vec::new());
    for folder in ["bin/", "dev/", "etc/", "proc/", "sys/", "tmp/"] {
        let mut header = header(EntryType::Directory, 0, 0o755);
        layer.append_data(&mut header, folder, std::io::empty())?;
    }
    let mut program = header(EntryType::Regular, busybox.len(), 0o755);
    layer.append_data(&mut program, "bin/busybox", busybox)?;
    for applet in APPLETS {
        let mut link = header(EntryType::Symlink, 0, 0o777);
        layer.append_link(&mut link, format!("bin/{applet}"), "busybox")?;
    }
    Ok(layer.into_inner()?)
}

fn header(kind: EntryType, size: usize, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size as u64);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    // Always the same, so that the same busybox gives the same digests.
    header.set_mtime(0);
    header
}

fn append(archive: &mut Builder<File>, path: &str, content: &[u8]) -> Result<()> {
    Ok(archive.append_data(&mut header(EntryType::Regular, content.len(), 0o644), path, content)?)
}

/// Appends a blob under its digest, and returns its descriptor.
fn append_blob(archive: &mut Builder<File>, media_type: &str, content: &[u8]) -> Result<Value> {
    let digest = hex(&Sha256::digest(content));
    append(archive, &format!("blobs/sha256/{digest}"), content)?;
    Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len() }))
}
