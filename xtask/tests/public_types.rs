//! The public types of the library crates can grow, and their traits can be wrapped.

use regex::Regex;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Crates whose types only the workspace's own tests build.
const OF_TESTS: [&str; 2] = ["larder-sim", "larder-testkit"];

/// Structs that a container runtime fills in whole: a field that is added must be refused until each runtime fills it in.
const FILLED_IN_WHOLE: [&str; 3] = ["PodStatus", "ContainerStatus", "SandboxStatus"];

/// The structs that outside code can build or match, and that can grow, by their names.
static GROWING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^pub struct (\w*(?:Options|Settings|Stats|Status|Config|Policy|Limits|Report|Counts))\b.*\{$")
});
static TRAIT: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:pub(?:\([^)]*\))? )?trait (\w+)"));
static METHOD: LazyLock<Regex> = LazyLock::new(|| pattern(r"^    (?:const |async )*fn (\w+)"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

/// The sources of the library crates: the path and the text of each.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the checkout");
    let crates = fs::read_dir(root.join("crates")).expect("the crates").flatten();
    let libraries = crates.filter(|entry| !OF_TESTS.iter().any(|name| entry.file_name() == *name));
    let mut folders: Vec<PathBuf> = libraries.map(|entry| entry.path().join("src")).collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                sources.push((path.strip_prefix(root).expect("in the checkout").display().to_string(), text));
            }
        }
    }
    sources
}

/// The structs of a source that can grow, each with whether it is `#[non_exhaustive]`.
fn growing_structs(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut can_grow = false;
    for line in text.lines() {
        if let Some(name) = GROWING.captures(line) {
            found.push((name[1].to_owned(), can_grow));
        }
        // Attributes and comments stand directly before the item that they are of.
        can_grow = line == "#[non_exhaustive]" || (can_grow && line.starts_with(['#', '/']));
    }
    found
}

/// The traits of a source, each with the names of its methods that have a default body. The source is as rustfmt leaves it.
fn traits(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut in_trait = false;
    let mut last = "";
    for line in text.lines() {
        if let Some(name) = TRAIT.captures(line) {
            found.push((name[1].to_owned(), Vec::new()));
            in_trait = !line.ends_with('}');
        } else if line == "}" {
            in_trait = false;
        } else if in_trait {
            if let Some(name) = METHOD.captures(line) {
                last = name.get(1).map_or("", |name| name.as_str());
            }
            // The body of a method ends at the method's own indentation, or is empty.
            if (line == "    }" || (line.starts_with("    ") && line.ends_with("{}") && !line.contains("//")))
                && let Some((_, defaults)) = found.last_mut()
            {
                defaults.push(last.to_owned());
            }
        }
    }
    found
}

#[test]
fn options_and_statuses_of_the_libraries_can_grow() {
    let mut closed = Vec::new();
    let mut number = 0;
    for (path, text) in sources() {
        for (name, can_grow) in growing_structs(&text) {
            number += 1;
            if !can_grow && !FILLED_IN_WHOLE.contains(&name.as_str()) {
                closed.push(format!("{path}: {name}"));
            }
        }
    }
    assert!(closed.is_empty(), "mark these #[non_exhaustive], or give a reason here:\n{}", closed.join("\n"));
    assert!(number > 20, "only {number} structs are found: the sources are read wrongly");
}

#[test]
fn no_trait_has_a_method_that_a_wrapper_could_forget() {
    let mut defaults = Vec::new();
    let mut number = 0;
    for (path, text) in sources() {
        for (name, methods) in traits(&text) {
            number += 1;
            defaults.extend(methods.iter().map(|method| format!("{path}: {name}::{method}")));
        }
    }
    assert!(defaults.is_empty(), "make these methods required:\n{}", defaults.join("\n"));
    assert!(number > 15, "only {number} traits are found: the sources are read wrongly");
}

#[test]
fn a_closed_struct_is_found() {
    let text = "#[non_exhaustive]\n#[derive(Debug)]\npub struct OpenStats {\n}\npub struct RunOptions<'a> {\n}\npub struct Word {\n}\n";
    assert_eq!(growing_structs(text), [("OpenStats".to_owned(), true), ("RunOptions".to_owned(), false)]);
}

#[test]
fn a_default_method_is_found() {
    let text = "pub trait Read {\n    fn required(\n        &self,\n    ) -> u8;\n    fn short(&self) -> u8 {\n        1\n    }\n    fn nothing(&self) {}\n}\n\
                trait Mark: Read {}\nfn free() {\n    if true {\n    }\n}\n";
    let expected = [("Read".to_owned(), vec!["short".to_owned(), "nothing".to_owned()]), ("Mark".to_owned(), vec![])];
    assert_eq!(traits(text), expected);
}
