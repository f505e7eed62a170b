//! Documents that are odd in one or two places: as a tree that can say what YAML can, and as text.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, seq::IndexedRandom as _};
use std::fmt::Write as _;

/// A document. The text of a scalar is written as it is.
#[derive(Clone)]
pub(super) enum Tree {
    Scalar(String),
    List(Vec<Tree>),
    /// Keys may stand twice.
    Map(Vec<(String, Tree)>),
}

pub(super) fn scalar(text: &str) -> Tree {
    Tree::Scalar(text.to_owned())
}

pub(super) fn map(fields: &[(&str, Tree)]) -> Tree {
    Tree::Map(fields.iter().map(|(key, tree)| ((*key).to_owned(), tree.clone())).collect())
}

/// What may stand in the place of a value: other types, empty ones, and other ways to write them.
const SCALARS: [&str; 58] = [
    "",
    "''",
    "\"\"",
    "null",
    "~",
    "Null",
    "0",
    "1",
    "-1",
    "80",
    "70000",
    "2147483648",
    "1.0",
    "1.5",
    "1e3",
    "0x1F",
    "0o17",
    "0400",
    "08",
    "1_000",
    "9223372036854775808",
    "99999999999999999999",
    ".5",
    ".inf",
    "true",
    "false",
    "yes",
    "No",
    "on",
    "y",
    "x",
    "a-b",
    "a.b",
    "A_b",
    "'x'",
    "\"x\"",
    "'1'",
    "\"\\u0041\\n\"",
    "!!str 1",
    "!!int '1'",
    "!!int x",
    "!!bool yes",
    "!!null ''",
    "!!float 1",
    "!foo x",
    "! 1",
    "!!binary aGk=",
    "&a x",
    "*a",
    "[]",
    "{}",
    "[x]",
    "{x: y}",
    "2001-01-01",
    "2001-01-01T00:00:00Z",
    "x # comment",
    "|\n text\n",
    ">-\n folded\n text\n",
];

/// A tree with so many odd places, as text.
pub(super) fn odd_text(random: &mut Xoshiro256PlusPlus, base: &Tree, values: &[&str]) -> String {
    let mut tree = base.clone();
    let changes = *[0, 1, 1, 1, 1, 2, 2].choose(random).unwrap_or(&1);
    for _ in 0..changes {
        change(random, &mut tree, values);
    }
    let mut text = String::new();
    write(&tree, 0, &mut text);
    if random.random_bool(0.25) {
        disturb(random, &mut text);
    }
    text
}

/// How many nodes a tree has.
fn size(tree: &Tree) -> usize {
    1 + match tree {
        Tree::Scalar(_) => 0,
        Tree::List(items) => items.iter().map(size).sum(),
        Tree::Map(fields) => fields.iter().map(|(_, tree)| size(tree)).sum(),
    }
}

/// The node of this number.
fn node<'t>(tree: &'t mut Tree, at: &mut usize) -> Option<&'t mut Tree> {
    if *at == 0 {
        return Some(tree);
    }
    *at -= 1;
    match tree {
        Tree::Scalar(_) => None,
        Tree::List(items) => items.iter_mut().find_map(|item| node(item, at)),
        Tree::Map(fields) => fields.iter_mut().find_map(|(_, tree)| node(tree, at)),
    }
}

/// Makes one place odd.
fn change(random: &mut Xoshiro256PlusPlus, tree: &mut Tree, values: &[&str]) {
    let root = tree.clone();
    let value = |random: &mut Xoshiro256PlusPlus| {
        let from = if random.random_bool(0.5) { values } else { &SCALARS[..] };
        from.choose(random).copied().unwrap_or_default().to_owned()
    };
    let mut at = random.random_range(0..size(tree));
    let Some(place) = node(tree, &mut at) else { return };
    let kind = random.random_range(0..12);
    if let (Tree::Map(fields), true) = (&mut *place, kind < 8) {
        if fields.is_empty() {
            return;
        }
        let at = random.random_range(0..fields.len());
        match kind {
            0 => {
                fields.remove(at);
            }
            1 => {
                let twice = fields[at].clone();
                fields.insert(random.random_range(0..=fields.len()), twice);
            }
            2 => {
                let key = fields[at].0.clone();
                fields.insert(random.random_range(0..=fields.len()), (key, Tree::Scalar(value(random))));
            }
            3 => {
                let key = &mut fields[at].0;
                *key = match random.random_range(0..4) {
                    0 => key.to_uppercase(),
                    1 => key[..1].to_uppercase() + &key[1..],
                    2 => format!("'{key}'"),
                    _ => format!("{key}x"),
                };
            }
            4 => fields.push((
                ["unknown", "<<", "1", "true", "x y"].choose(random).unwrap_or(&"x").to_string(),
                Tree::Scalar(value(random)),
            )),
            // A field of another place.
            5 => {
                let mut at = random.random_range(0..size(&root));
                if let Some(Tree::Map(others)) = node(&mut root.clone(), &mut at)
                    && let Some(other) = others.choose(random)
                {
                    fields.push(other.clone());
                }
            }
            _ => fields[at].1 = Tree::Scalar(value(random)),
        }
        return;
    }
    *place = match (kind, place.clone()) {
        (0, inner) => Tree::List(vec![inner]),
        (1, inner) => Tree::Map(vec![("x".to_owned(), inner)]),
        (2, Tree::List(mut items)) => {
            items.push(Tree::Scalar(value(random)));
            Tree::List(items)
        }
        (3, Tree::List(items)) => Tree::List(items.iter().chain(&items).cloned().collect()),
        (4, Tree::Scalar(text)) => Tree::Scalar(format!("&a {text}")),
        (5, Tree::Scalar(text)) => Tree::Scalar(format!("\"{}\"", text.trim_matches(['\'', '"']))),
        _ => Tree::Scalar(value(random)),
    };
}

/// Block style, as people write it.
fn write(tree: &Tree, indent: usize, text: &mut String) {
    match tree {
        Tree::Scalar(scalar) => {
            let mut lines = scalar.split('\n');
            text.push_str(lines.next().unwrap_or_default());
            for line in lines.filter(|line| !line.is_empty()) {
                let _ = write!(text, "\n{:indent$}{line}", "");
            }
            text.push('\n');
        }
        Tree::List(items) if items.is_empty() => text.push_str("[]\n"),
        Tree::Map(fields) if fields.is_empty() => text.push_str("{}\n"),
        Tree::List(items) => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 || indent > 0 {
                    start_line(text, indent);
                }
                text.push_str("- ");
                inner(item, indent + 2, text);
            }
        }
        Tree::Map(fields) => {
            for (key, value) in fields {
                start_line(text, indent);
                let _ = write!(text, "{key}:");
                match value {
                    Tree::Scalar(_) => {
                        text.push(' ');
                        write(value, indent + 1, text);
                    }
                    Tree::List(items) if items.is_empty() => text.push_str(" []\n"),
                    Tree::Map(fields) if fields.is_empty() => text.push_str(" {}\n"),
                    Tree::List(_) => {
                        text.push('\n');
                        write(value, indent, text);
                    }
                    Tree::Map(_) => {
                        text.push('\n');
                        write(value, indent + 2, text);
                    }
                }
            }
        }
    }
}

/// A value after the dash of a list: a map begins on the same line.
fn inner(item: &Tree, indent: usize, text: &mut String) {
    match item {
        Tree::Map(fields) if !fields.is_empty() => write(item, indent, text),
        Tree::List(items) if !items.is_empty() => {
            text.push('\n');
            write(item, indent, text);
        }
        _ => write(item, indent, text),
    }
}

/// Begins a line, unless the line has just a dash.
fn start_line(text: &mut String, indent: usize) {
    if text.is_empty() || text.ends_with('\n') {
        let _ = write!(text, "{:indent$}", "");
    }
}

/// Changes the text itself: other line endings, marks, blanks and comments, or a place that is cut or has one character too many.
fn disturb(random: &mut Xoshiro256PlusPlus, text: &mut String) {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let at = *places.choose(random).unwrap_or(&0);
    let line = text[..at].rfind('\n').map_or(0, |at| at + 1);
    match random.random_range(0..12) {
        0 => *text = text.replace('\n', "\r\n"),
        1 => text.insert(0, '\u{feff}'),
        2 => text.insert_str(0, "---\n"),
        3 => text.insert_str(0, "# comment\n\n"),
        4 => text.push_str("---\nsecond: document\n"),
        5 => text.push_str("...\n"),
        6 => text.insert(line, ' '),
        7 => text.insert_str(line, "# comment\n"),
        8 => text.truncate(at),
        9 => text.insert_str(0, "%YAML 1.1\n---\n"),
        10 => text.insert(line, '\n'),
        // What YAML 1.1 and 1.2 allow in the names of tags and anchors differs.
        _ if text[..at].ends_with(['!', '&', '*']) || text[at..].starts_with('!') => {}
        _ => text.insert_str(
            at,
            ["'", "\"", ":", ",", "[", "{", "}", "]", "&", "*", "-", "#", "\u{7}"].choose(random).unwrap_or(&" "),
        ),
    }
}
