//! The testbed's programs in a home that nothing was built in yet.

use larder_testbed::programs::Program;
use larder_testbed::python::PythonProgram;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Makes an empty program at once; the real ones take minutes to build. Python's packages are really installed.
const GO: &str = r#"#!/bin/sh
[ "$1" = env ] && exit
while [ "$1" != -o ]; do shift; done
: > "$2"
"#;

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).expect("a program");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it runs");
}

#[test]
fn every_program_is_built_into_an_empty_home() {
    let folder = tempfile::tempdir().expect("a folder");
    let (home, bin) = (folder.path().join("home"), folder.path().join("bin"));
    fs::create_dir(&home).expect("a home");
    fs::create_dir(&bin).expect("a folder of programs");
    write_program(&bin.join("go"), GO);
    write_program(&bin.join("apt-get"), "#!/bin/sh\n");
    let path = std::env::var("PATH").expect("PATH");
    let build = Command::new(env!("CARGO_BIN_EXE_larder-testbed"))
        .arg("build")
        .env("HOME", &home)
        .env_remove("XDG_CACHE_HOME")
        .env("PATH", format!("{}:{path}", bin.display()))
        .output()
        .expect("the testbed's program runs");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let printed = String::from_utf8(build.stdout).expect("paths");
    let programs: Vec<&Path> = printed.lines().map(Path::new).collect();
    assert_eq!(programs.len(), Program::ALL.len() + PythonProgram::ALL.len(), "{printed}");
    let cache = home.join(".cache/larder/testbed");
    assert!(programs.iter().all(|program| program.exists() && program.starts_with(&cache)), "{printed}");
}
