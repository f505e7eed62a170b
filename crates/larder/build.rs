//! Links the program with packed relocations where this machine's C library can load them.

use std::process::Command;

/// The first version of the GNU C library that reads packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of_target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let is_native = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    if of_target("OS") == "linux" && of_target("ENV") == "gnu" && is_native && c_library() >= Some(PACKED_SINCE) {
        // Without it, each address in the program's tables takes 24 bytes more, which are read at the start and stay resident.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's GNU C library.
fn c_library() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let (major, minor) = std::str::from_utf8(&told.stdout).ok()?.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
