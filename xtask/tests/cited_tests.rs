//! The tests that the documents name exist, so that a test which is renamed or removed does not leave a claim without one.
//!
//! A test is named in the last column of a table headed `test` or `here`, as a path such as `watch_store::a_watch_follows_an_object`:
//! modules and a function, or a module alone, or the path of a file.

use regex::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the documents and the sources are.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the checkout")
}

/// A source file: where it is, and what it defines.
struct Source {
    file: String,
    modules: BTreeSet<String>,
    functions: BTreeSet<String>,
}

impl Source {
    fn new(file: String, text: &str) -> Self {
        let mut modules: BTreeSet<String> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let mut functions = BTreeSet::new();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let mut before = "";
        for word in words {
            match before {
                "mod" => drop(modules.insert(word.to_owned())),
                "fn" => drop(functions.insert(word.to_owned())),
                _ => {}
            }
            before = word;
        }
        Self { file, modules, functions }
    }

    /// Whether a citation can mean something in this file.
    fn has(&self, cited: &str) -> bool {
        if cited.contains('.') {
            return Path::new(&self.file).ends_with(cited);
        }
        let path: Vec<&str> = cited.split("::").collect();
        path.split_last().is_some_and(|(last, modules)| {
            modules.iter().all(|module| self.modules.contains(*module))
                && (self.functions.contains(*last) || self.modules.contains(*last))
        })
    }
}

/// Every Rust file of the checkout.
fn sources() -> Vec<Source> {
    let mut folders: Vec<PathBuf> = ["benches", "crates", "testbed", "xtask"].map(|name| root().join(name)).into();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the checkout").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let file = path.strip_prefix(root()).expect("in the checkout").display().to_string();
                sources.push(Source::new(file, &text));
            }
        }
    }
    sources
}

/// The tests that a document names, each with its line.
fn cited(text: &str) -> Vec<(usize, String)> {
    let code = Regex::new("`([a-z0-9_:/]+(?:\\.rs)?)`").expect("a pattern");
    let mut cited = Vec::new();
    let mut names_tests = false;
    let mut in_table = false;
    for (index, line) in text.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
            in_table = false;
            continue;
        };
        let last = row.rsplit(" | ").next().unwrap_or(row).trim();
        if !in_table {
            in_table = true;
            names_tests = matches!(last, "test" | "here");
        } else if names_tests {
            let names = code.captures_iter(last).map(|found| found[1].to_owned());
            // A word alone is a name of another kind.
            cited.extend(names.filter(|name| name.contains(['_', ':', '/'])).map(|name| (index + 1, name)));
        }
    }
    cited
}

#[test]
fn every_test_that_a_document_names_exists() {
    let sources = sources();
    let mut missing = Vec::new();
    let mut number = 0;
    for entry in fs::read_dir(root().join("docs")).expect("the documents").flatten() {
        if entry.path().extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).expect("a document");
        for (line, name) in cited(&text) {
            number += 1;
            if !sources.iter().any(|source| source.has(&name)) {
                missing.push(format!("docs/{}:{line}: {name}", entry.file_name().display()));
            }
        }
    }
    assert!(missing.is_empty(), "no test has these names:\n{}", missing.join("\n"));
    assert!(number > 100, "only {number} tests are named: the tables are read wrongly");
}

#[test]
fn a_name_is_sought_with_its_modules() {
    let source = Source::new("crates/a/tests/it/store.rs".into(), "mod inner { #[test] fn keeps_all() {} }");
    for cited in ["keeps_all", "store::keeps_all", "store::inner::keeps_all", "store::inner", "it/store.rs"] {
        assert!(source.has(cited), "{cited}");
    }
    for cited in ["keeps", "other::keeps_all", "store::keeps_all::inner_one", "tests/store.rs"] {
        assert!(!source.has(cited), "{cited}");
    }
}

#[test]
fn only_tables_of_tests_name_tests() {
    let text = "| what | test |\n| --- | --- |\n| `no_test` | crate `a::b_c`, `tests/d.rs`, `word` |\n\n| x | y |\n| - | - |\n| x | `e_f` |\n";
    assert_eq!(cited(text), [(3, "a::b_c".to_owned()), (3, "tests/d.rs".to_owned())]);
}
