//! The text of a policy file, and its JSON schema.
//!
//! The schema is made of the same lists of fields and words as the parser uses.

use crate::policy::Policy;
use crate::rules::{Effect, FileRule, ObjectSelector, SubjectSelector};
use crate::view::{Document, Verb};
use larder_resource::Kind;
use larder_yaml::{Mistake, Node, Value};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most rules in a file.
const MOST_RULES: usize = 1000;
/// The longest name of a rule.
const LONGEST_NAME: usize = 63;

const FILE: [&str; 2] = ["version", "rules"];
const RULE: [&str; 5] = ["name", "effect", "subjects", "objects", "documents"];
const SUBJECT: [&str; 7] = ["serviceAccount", "namespace", "podLabels", "user", "group", "client", "clientGroup"];
const OBJECTS: [&str; 4] = ["kinds", "namespaces", "names", "verbs"];
/// The documents that a rule can name.
const DOCUMENTS: [Document; 3] = [Document::Status, Document::Metrics, Document::Whois];

impl Policy {
    /// Reads the text of a policy file.
    ///
    /// # Errors
    ///
    /// The first mistake: what is not YAML, an unknown or missing field, a field that stands twice, a value of the wrong type, or one
    /// that means nothing.
    ///
    /// ```
    /// use larder_policy::Policy;
    /// let mistake = Policy::parse("version: 1\nrules:\n- name: a\n  effect: permit\n").unwrap_err();
    /// assert_eq!(
    ///     mistake.to_string(),
    ///     "rules[0].effect: it must be one of allow, allowMetadata, deny, denyData"
    /// );
    /// assert_eq!(mistake.place().unwrap().to_string(), "line 4 column 11");
    /// ```
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let root = larder_yaml::strict_yaml(text)?;
        let file = Fields::of(&root, String::new(), &FILE)?;
        let version = file.required("version")?;
        if !matches!(version.node.value, Value::Int(1)) {
            return Err(version.mistake("it must be 1"));
        }
        let rules = file.required("rules")?.list()?;
        if rules.len() > MOST_RULES {
            return Err(root.mistake("rules", format!("it must have at most {MOST_RULES} rules")));
        }
        let mut names = BTreeSet::new();
        let mut parsed = Vec::new();
        for item in &rules {
            let rule = rule(item)?;
            if !names.insert(Arc::clone(&rule.name)) {
                let problem = format!("another rule has the name \"{}\"", rule.name);
                return Err(Field { node: item.node, path: format!("{}.name", item.path) }.mistake(problem));
            }
            parsed.push(Arc::new(rule));
        }
        Ok(Self::of_rules(parsed))
    }

    /// The JSON schema of a policy file.
    pub fn schema() -> serde_json::Value {
        let texts = || json!({"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}});
        let words = |words: Vec<&str>| json!({"type": "array", "minItems": 1, "items": {"enum": words}});
        let text = json!({"type": "string", "minLength": 1});
        let id = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX - 1});
        let object = |fields: &[&str], values: Vec<serde_json::Value>, required: &[&str]| {
            let properties: serde_json::Map<_, _> =
                fields.iter().map(|field| (*field).to_owned()).zip(values).collect();
            json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required})
        };
        let account = json!({"type": "string", "pattern": "^[^/]+/[^/]+$"});
        let labels = json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}});
        let values = vec![account, text.clone(), labels, id.clone(), id, text.clone(), text];
        let mut subject = object(&SUBJECT, values, &[]);
        subject["oneOf"] = json!(
            ["serviceAccount", "namespace", "user", "group", "client", "clientGroup"]
                .map(|field| json!({"required": [field]}))
        );
        subject["dependentRequired"] = json!({"podLabels": ["namespace"]});
        let objects = object(
            &OBJECTS,
            vec![
                words(Kind::ALL.map(Kind::resource).to_vec()),
                texts(),
                texts(),
                words(Verb::ALL.map(Verb::as_str).to_vec()),
            ],
            &["kinds"],
        );
        let name = json!({"type": "string", "pattern": format!("^[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}$")});
        let list = |items| json!({"type": "array", "minItems": 1, "items": items});
        let values = vec![
            name,
            json!({"enum": Effect::ALL.map(Effect::as_str)}),
            list(subject),
            list(objects),
            words(DOCUMENTS.map(Document::as_str).to_vec()),
        ];
        let mut rule = object(&RULE, values, &["name", "effect", "subjects"]);
        rule["anyOf"] = json!([{"required": ["objects"]}, {"required": ["documents"]}]);
        let rules = json!({"type": "array", "maxItems": MOST_RULES, "items": rule});
        let mut schema = object(&FILE, vec![json!({"const": 1}), rules], &FILE);
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        schema["title"] = "A policy file of larder".into();
        schema
    }
}

fn rule(item: &Field<'_>) -> Result<FileRule, Mistake> {
    let fields = Fields::of(item.node, item.path.clone(), &RULE)?;
    let name = fields.required("name")?;
    let text = name.text()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if text.is_empty() || text.len() > LONGEST_NAME || !text.chars().all(is_plain) {
        return Err(name.mistake(format!("it must have from 1 to {LONGEST_NAME} letters, digits, '.', '_' and '-'")));
    }
    let effect = fields.required("effect")?.word(&Effect::ALL, Effect::as_str)?;
    let subjects = fields.required("subjects")?.list()?;
    let subjects = subjects.iter().map(subject).collect::<Result<Vec<_>, _>>()?;
    let objects = match fields.optional("objects") {
        Some(field) => field.list()?.iter().map(objects).collect::<Result<Vec<_>, _>>()?,
        None => Vec::new(),
    };
    let documents = match fields.optional("documents") {
        Some(field) if matches!(effect, Effect::Allow | Effect::Deny) => field.words(&DOCUMENTS, Document::as_str)?,
        Some(field) => return Err(field.mistake("only the effects allow and deny have documents")),
        None => BTreeSet::new(),
    };
    if objects.is_empty() && documents.is_empty() {
        return Err(item.mistake("it has neither objects nor documents"));
    }
    Ok(FileRule { name: text.into(), effect, subjects, objects, documents })
}

fn subject(item: &Field<'_>) -> Result<SubjectSelector, Mistake> {
    let fields = Fields::of(item.node, item.path.clone(), &SUBJECT)?;
    let labels = fields.optional("podLabels");
    let mut found: Option<(&str, SubjectSelector)> = None;
    for name in SUBJECT {
        let Some(field) = fields.optional(name) else { continue };
        let selector = match name {
            "serviceAccount" => {
                let account = field.text()?.split_once('/');
                let is_whole =
                    |(namespace, name): &(&str, &str)| !namespace.is_empty() && !name.is_empty() && !name.contains('/');
                let Some((namespace, name)) = account.filter(is_whole) else {
                    return Err(field.mistake("it must be NAMESPACE/NAME"));
                };
                SubjectSelector::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            "namespace" => {
                let labels = labels.as_ref().map(Field::labels).transpose()?.unwrap_or_default();
                SubjectSelector::Pods { namespace: field.full_text()?, labels }
            }
            "user" => SubjectSelector::User(field.id()?),
            "group" => SubjectSelector::Group(field.id()?),
            "client" => SubjectSelector::Client(field.full_text()?),
            "clientGroup" => SubjectSelector::ClientGroup(field.full_text()?),
            _ => continue,
        };
        if let Some((other, _)) = found {
            return Err(field.mistake(format!("it does not go with {other}: write two subjects")));
        }
        found = Some((name, selector));
    }
    let Some((_, selector)) = found else {
        return Err(item
            .mistake("it names nobody: write one of serviceAccount, namespace, user, group, client and clientGroup"));
    };
    match labels {
        Some(labels) if !matches!(selector, SubjectSelector::Pods { .. }) => {
            Err(labels.mistake("it goes with namespace alone"))
        }
        _ => Ok(selector),
    }
}

fn objects(item: &Field<'_>) -> Result<ObjectSelector, Mistake> {
    let fields = Fields::of(item.node, item.path.clone(), &OBJECTS)?;
    let kinds = fields.required("kinds")?.words(&Kind::ALL, Kind::resource)?;
    let texts = |name| fields.optional(name).map_or_else(|| Ok(BTreeSet::new()), |field| field.texts());
    let (namespaces, names) = (texts("namespaces")?, texts("names")?);
    if let Some(field) = fields.optional("namespaces")
        && let Some(kind) = kinds.iter().find(|kind| !kind.is_namespaced())
    {
        return Err(field.mistake(format!("{} are in no namespace: write another entry for them", kind.resource())));
    }
    let verbs = match fields.optional("verbs") {
        Some(field) => field.words(&Verb::ALL, Verb::as_str)?,
        None => Verb::ALL.into(),
    };
    Ok(ObjectSelector { kinds, namespaces, names, verbs })
}

/// The fields of a map, all of which are known.
struct Fields<'a> {
    node: &'a Node,
    path: String,
}

impl<'a> Fields<'a> {
    fn of(node: &'a Node, path: String, known: &[&str]) -> Result<Self, Mistake> {
        let Value::Map(fields) = &node.value else {
            return Err(node.mistake(&path, format!("it must be a map of {}", known.join(", "))));
        };
        let this = Self { node, path };
        match fields.iter().find(|(name, _)| !known.contains(&&***name)) {
            None => Ok(this),
            // The name may be of any file. Only its place is told.
            Some((_, value)) => {
                let problem = format!("a field here is unknown: the fields are {}", known.join(", "));
                Err(value.mistake(&this.path, problem))
            }
        }
    }

    fn optional(&self, name: &str) -> Option<Field<'a>> {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.node.get(name).map(|node| Field { node, path: format!("{}{dot}{name}", self.path) })
    }

    fn required(&self, name: &str) -> Result<Field<'a>, Mistake> {
        let missing = || self.node.mistake(&self.path, format!("the field {name} is missing"));
        self.optional(name).ok_or_else(missing)
    }
}

/// A value and its path.
struct Field<'a> {
    node: &'a Node,
    path: String,
}

impl<'a> Field<'a> {
    fn mistake(&self, problem: impl Into<std::borrow::Cow<'static, str>>) -> Mistake {
        self.node.mistake(&self.path, problem)
    }

    fn text(&self) -> Result<&'a str, Mistake> {
        self.node.as_str().ok_or_else(|| self.mistake("it must be a text: put it in quotes"))
    }

    fn full_text(&self) -> Result<String, Mistake> {
        match self.text()? {
            "" => Err(self.mistake("it must not be empty")),
            text => Ok(text.to_owned()),
        }
    }

    fn id(&self) -> Result<u32, Mistake> {
        let id = match self.node.value {
            Value::Int(id) => u32::try_from(id).ok().filter(|id| *id != u32::MAX),
            _ => None,
        };
        id.ok_or_else(|| self.mistake("it must be the ID, a whole number"))
    }

    fn list(&self) -> Result<Vec<Self>, Mistake> {
        let Value::List(items) = &self.node.value else { return Err(self.mistake("it must be a list")) };
        if items.is_empty() && self.path != "rules" {
            return Err(self.mistake("it must not be empty: leave it out, or name something"));
        }
        let items = items.iter().enumerate();
        Ok(items.map(|(at, node)| Field { node, path: format!("{}[{at}]", self.path) }).collect())
    }

    fn texts(&self) -> Result<BTreeSet<String>, Mistake> {
        self.list()?.iter().map(Field::full_text).collect()
    }

    fn labels(&self) -> Result<BTreeMap<String, String>, Mistake> {
        let Value::Map(labels) = &self.node.value else { return Err(self.mistake("it must be a map of labels")) };
        if labels.is_empty() {
            return Err(self.mistake("it must not be empty: leave it out, or name a label"));
        }
        let value = |node| Field { node, path: self.path.clone() }.text().map(str::to_owned);
        labels.iter().map(|(label, node)| Ok((label.clone(), value(node)?))).collect()
    }

    fn word<T: Copy>(&self, all: &[T], as_str: impl Fn(T) -> &'static str) -> Result<T, Mistake> {
        let text = self.text()?;
        let found = all.iter().copied().find(|word| as_str(*word) == text);
        let words = || all.iter().map(|word| as_str(*word)).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| self.mistake(format!("it must be one of {}", words())))
    }

    fn words<T: Copy + Ord>(&self, all: &[T], as_str: impl Fn(T) -> &'static str) -> Result<BTreeSet<T>, Mistake> {
        self.list()?.iter().map(|item| item.word(all, &as_str)).collect()
    }
}

#[cfg(test)]
mod tests;
