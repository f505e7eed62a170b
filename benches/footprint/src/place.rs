//! A place in the cgroups of a container, where this process is one of the container's.

use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// This process is in the cgroups of a container until this is dropped. Processes that it started before stay where they are.
pub(crate) struct Place {
    hierarchies: Vec<Hierarchy>,
}

/// A mounted hierarchy: version 2, or the freezer of version 1.
struct Hierarchy {
    /// The cgroup that this process came from.
    home: PathBuf,
    /// The folders that were made, the outermost first.
    made: Vec<PathBuf>,
}

impl Place {
    /// Makes cgroups with the name of the container, and moves this process there, which takes root.
    pub(crate) fn enter(container: &str) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
        let ours = fs::read_to_string("/proc/self/cgroup").context("read /proc/self/cgroup")?;
        // Not below `kubepods`: a kubelet removes the pods that it does not know.
        let top = format!("larder-footprint-{}", std::process::id());
        let pod = format!("pod-{container:.32}");
        let mut place = Self { hierarchies: Vec::new() };
        for (root, home) in hierarchies(&mounts, &ours) {
            place.hierarchies.push(Hierarchy { home: root.join(home), made: Vec::new() });
            let Some(hierarchy) = place.hierarchies.last_mut() else { continue };
            let mut at = root;
            for name in [&top, &pod, container] {
                at.push(name);
                fs::create_dir(&at).with_context(|| format!("make the cgroup {}", at.display()))?;
                hierarchy.made.push(at.clone());
            }
            move_to(&at)?;
        }
        if place.hierarchies.is_empty() {
            bail!("neither cgroups of version 2 nor the freezer of version 1 are mounted");
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for Hierarchy { home, made } in &self.hierarchies {
            if let Err(error) = move_to(home) {
                eprintln!("  {error:#}");
            }
            for folder in made.iter().rev() {
                if let Err(error) = fs::remove_dir(folder) {
                    eprintln!("  remove the cgroup {}: {error}", folder.display());
                }
            }
        }
    }
}

/// Moves all threads of this process.
fn move_to(cgroup: &Path) -> Result<()> {
    let procs = cgroup.join("cgroup.procs");
    fs::write(&procs, std::process::id().to_string()).with_context(|| format!("write {}", procs.display()))
}

/// The root of each hierarchy, and the path of this process below it.
fn hierarchies(mounts: &str, ours: &str) -> Vec<(PathBuf, PathBuf)> {
    let below = |is_it: fn(&str) -> bool| {
        // A line is `number:controllers:/path`; version 2 has no controllers.
        let paths = ours.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        paths
            .filter(|(controllers, _)| is_it(controllers))
            .map(|(_, path)| PathBuf::from(path.trim_start_matches('/')))
            .next()
    };
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (root, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let home = match kind {
            "cgroup2" => below(str::is_empty)?,
            "cgroup" if options.split(',').any(|option| option == "freezer") => {
                below(|controllers| controllers.split(',').any(|controller| controller == "freezer"))?
            }
            _ => return None,
        };
        Some((PathBuf::from(root), home))
    });
    mounted.collect()
}
