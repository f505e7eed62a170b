//! Tables and metadata of objects: to larder, and to the printers of the API server.

mod objects;
mod same;

use super::oracle;
use crate::{checkout, shell};
use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use larder_resource::representation::{IncludeObject, Table, partial_metadata, partial_metadata_list};
use larder_resource::{DecodeError, Kind};
use objects::{NOW, Objects};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Differences that are shown in full.
const SHOWN: usize = 10;

/// One question to both sides.
struct Question {
    kind: Kind,
    include: IncludeObject,
    document: Document,
}

enum Document {
    Object(Value),
    List { version: String, items: Vec<Value> },
    Bookmark(Value),
}

/// What came of the objects that were compared.
pub(super) struct Agreement {
    /// How many documents were compared, with those of upstream's own tests.
    pub(super) documents: usize,
    /// How many both sides take.
    pub(super) taken: usize,
}

/// Compares so many random documents, and the objects of upstream's own tests.
pub(super) fn check(program: &Path, seed: u64, count: usize) -> Result<Agreement> {
    let mut objects = Objects::new(seed);
    let mut questions: Vec<Question> = (0..count).map(|at| random_question(&mut objects, at)).collect();
    questions.extend(upstream_objects()?);
    let lines: Vec<String> = questions.iter().map(|question| question.line().to_string()).collect();
    let answers = oracle::answer_lines(program, "tables", &lines)?;
    let now: Timestamp = NOW.parse()?;
    let (mut differences, mut agreement) = (0, Agreement { documents: questions.len(), taken: 0 });
    let (mut found, mut words) = (0, BTreeSet::new());
    for ((question, line), right) in questions.iter().zip(&lines).zip(&answers) {
        let right: Value = serde_json::from_str(right).with_context(|| format!("the oracle's {right:?}"))?;
        let ours = question.answer(now);
        if right.get("refused").is_some() {
            continue;
        }
        match ours.map_err(|error| format!("refused: {error}")).and_then(|ours| same::check(question, &ours, &right)) {
            Ok(()) => agreement.taken += 1,
            Err(why) => {
                differences += 1;
                if differences <= SHOWN {
                    println!("\n{line}\nlarder differs: {why}");
                }
            }
        }
        // A printer that is wrong on purpose, for the comparison has to find it.
        let late = question.answer(now + SignedDuration::from_mins(1));
        found += usize::from(late.is_ok_and(|late| same::check(question, &late, &right).is_err()));
        words.extend(right["table"]["rows"].as_array().into_iter().flatten().map(|row| row["cells"][2].to_string()));
    }
    if differences > 0 {
        bail!("{differences} of {} tables differ, seed {seed}", questions.len());
    }
    // Where nearly all are refused or alike, the comparison shows nothing.
    ensure!(agreement.taken * 2 >= questions.len(), "only {} of {} tables are made", agreement.taken, questions.len());
    ensure!(found * 20 >= count, "a printer whose clock is late differs in {found} tables only");
    ensure!(count < 500 || words.len() >= 50, "the third cell has {} values only", words.len());
    Ok(agreement)
}

fn random_question(objects: &mut Objects, at: usize) -> Question {
    // Every other object is a pod, for its printer has the most cases.
    let kind = if at.is_multiple_of(2) { Kind::Pod } else { Kind::ALL[at / 2 % Kind::ALL.len()] };
    let include = objects.pick(&[IncludeObject::None, IncludeObject::Metadata, IncludeObject::Object]);
    let document = if objects.percent(8) {
        let items = (0..objects.up_to(5)).map(|_| objects.object(kind)).collect();
        Document::List { version: objects.version(), items }
    } else if objects.percent(3) {
        Document::Bookmark(objects.bookmark(kind))
    } else {
        Document::Object(objects.object(kind))
    };
    Question { kind, include, document }
}

/// The objects with which upstream tests that releases read each other's: every field of a kind is set.
fn upstream_objects() -> Result<Vec<Question>> {
    let folder = upstream_folder()?;
    let mut questions = Vec::new();
    for release in std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let release = release?.path();
        if !release.is_dir() {
            continue;
        }
        for kind in Kind::ALL {
            for roundtrip in ["", ".after_roundtrip"] {
                let path = release.join(format!("core.v1.{}{roundtrip}.json", kind.as_str()));
                if !path.exists() {
                    continue;
                }
                let object: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
                questions.extend(
                    [IncludeObject::None, IncludeObject::Metadata, IncludeObject::Object].map(|include| Question {
                        kind,
                        include,
                        document: Document::Object(object.clone()),
                    }),
                );
            }
        }
    }
    ensure!(questions.len() >= 15, "{} has {} objects only", folder.display(), questions.len());
    Ok(questions)
}

/// The folder of the objects of upstream's own tests, which has one for each release.
pub(super) fn upstream_folder() -> Result<PathBuf> {
    let mut find = shell::program_in(Path::new("go"), &checkout::root().join("oracle"));
    find.args(["list", "-m", "-f", "{{.Dir}}", "k8s.io/api"]).env("GOTOOLCHAIN", "local");
    Ok(PathBuf::from(shell::output(&mut find)?.trim()).join("testdata"))
}

impl Question {
    /// The question as the oracle takes it.
    fn line(&self) -> Value {
        let include = match self.include {
            IncludeObject::None => "None",
            IncludeObject::Metadata => "Metadata",
            IncludeObject::Object => "Object",
        };
        let mut line = json!({"now": NOW, "include": include});
        match &self.document {
            Document::Object(object) => line["object"] = object.clone(),
            Document::List { version, items } => {
                line["object"] = json!({
                    "kind": format!("{}List", self.kind.as_str()), "apiVersion": "v1",
                    "metadata": {"resourceVersion": version}, "items": items,
                });
            }
            Document::Bookmark(object) => line["bookmark"] = object.clone(),
        }
        line
    }

    /// What larder makes of it.
    fn answer(&self, now: Timestamp) -> Result<Answer, DecodeError> {
        let table = Table { kind: self.kind, include: self.include, with_columns: true };
        let bytes = |object: &Value| Bytes::from(object.to_string());
        let (parts, metadata) = match &self.document {
            Document::Object(object) => {
                let json = bytes(object);
                (table.object(&json, now)?, partial_metadata(self.kind, &json)?)
            }
            Document::Bookmark(object) => {
                let json = bytes(object);
                (table.bookmark(&json)?, partial_metadata(self.kind, &json)?)
            }
            Document::List { version, items } => {
                let items: Vec<Bytes> = items.iter().map(bytes).collect();
                let metadata = partial_metadata_list(self.kind, version, &items)?;
                (table.list(version, items, now)?, metadata)
            }
        };
        Ok(Answer { table: parts.concat(), metadata: metadata.to_vec() })
    }

    /// The objects in it.
    fn objects(&self) -> &[Value] {
        match &self.document {
            Document::Object(object) | Document::Bookmark(object) => std::slice::from_ref(object),
            Document::List { items, .. } => items,
        }
    }
}

/// Larder's documents.
struct Answer {
    table: Vec<u8>,
    metadata: Vec<u8>,
}
