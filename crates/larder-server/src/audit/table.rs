//! The decisions that are in no line yet, by kind.

use super::{LONGEST, WINDOW};
use crate::access::PodAccess;
use crate::caller::Caller;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The most kinds of decisions.
const MOST: usize = 16_384;
/// The most besides, of [further](Key::further) decisions.
const MOST_FURTHER: usize = 1024;

/// Whose kinds of decisions are bounded together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// A pod, with its containers and its tokens.
    Pod(Arc<str>),
    /// An administrator.
    Admin(Arc<str>),
    /// Another caller who may see something.
    Caller(Arc<str>),
    /// All callers who may see nothing.
    Strangers,
}

impl Group {
    /// The group of a caller who may see something.
    pub(super) fn of_reader(caller: &Caller) -> Self {
        match caller {
            Caller::Container(_) | Caller::Token(_) => Self::of_refused(caller),
            Caller::Host { .. }
            | Caller::Certificate { .. }
            | Caller::Unresolved { .. }
            | Caller::Refused { .. }
            | Caller::RefusedToken(_)
            | Caller::Anonymous => {
                let name = name_of(caller).into();
                if caller.is_admin() { Self::Admin(name) } else { Self::Caller(name) }
            }
        }
    }

    /// The group of a caller who may see nothing.
    pub(super) fn of_refused(caller: &Caller) -> Self {
        match caller {
            Caller::Container(container) => {
                Self::Pod(format!("pod \"{}/{}\"", container.namespace, container.pod).into())
            }
            Caller::Token(_) => Self::Pod(caller.to_string().into()),
            Caller::Host { .. }
            | Caller::Certificate { .. }
            | Caller::Unresolved { .. }
            | Caller::Refused { .. }
            | Caller::RefusedToken(_)
            | Caller::Anonymous => Self::Strangers,
        }
    }

    fn name(&self) -> Arc<str> {
        match self {
            Self::Pod(name) | Self::Admin(name) | Self::Caller(name) => Arc::clone(name),
            Self::Strangers => "callers who may see nothing".into(),
        }
    }

    /// The most kinds of it.
    const fn most(&self) -> usize {
        match self {
            Self::Pod(_) | Self::Caller(_) => 256,
            Self::Admin(_) => 2048,
            Self::Strangers => 1024,
        }
    }
}

/// A caller by name. A reason that a caller can choose is left out, so that it makes no new kind of decision.
fn name_of(caller: &Caller) -> String {
    match caller {
        Caller::Unresolved { uid, .. } => format!("a process of user {uid} that is not told apart"),
        Caller::Refused { .. } => "a client whose certificate is refused".to_owned(),
        Caller::Host { .. }
        | Caller::Container(_)
        | Caller::Certificate { .. }
        | Caller::Token(_)
        | Caller::RefusedToken(_)
        | Caller::Anonymous => caller.to_string(),
    }
}

/// How a decision ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outcome {
    Allowed,
    Refused,
    /// The API server decides.
    PassedOn,
}

/// A kind of decision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    group: Group,
    pub(super) caller: Arc<str>,
    /// The namespace and name of the pod's service account.
    pub(super) service_account: Option<String>,
    pub(super) verb: &'static str,
    pub(super) what: String,
    pub(super) rule: String,
    pub(super) outcome: Outcome,
    pub(super) source: &'static str,
}

impl Key {
    pub(super) fn of(
        caller: &Caller,
        pod: Option<&PodAccess>,
        group: Group,
        verb: &'static str,
        what: &str,
        rule: String,
        outcome: Outcome,
    ) -> Self {
        let subject = pod.map(|pod| &pod.subject).filter(|subject| !subject.service_account.is_empty());
        let service_account = subject.map(|subject| format!("{}/{}", subject.namespace, subject.service_account));
        let (caller, source) = (name_of(caller).into(), caller.listener());
        // A path may have any UTF-8, and a terminal obeys control characters, which JSON does not escape from U+0080 on.
        let visible = |char: char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char };
        let what = what.chars().take(LONGEST).map(visible).collect();
        Self { group, caller, service_account, verb, what, rule, outcome, source }
    }

    /// The kind of the decisions of a group that has too many kinds.
    fn further(self) -> Self {
        Self { caller: self.group.name(), service_account: None, what: "further objects and paths".to_owned(), ..self }
    }
}

/// A line to be written.
#[derive(Debug)]
pub(super) enum Line {
    /// A decision, at the time of the last of its kind.
    Decision {
        key: Arc<Key>,
        time: Timestamp,
        /// How many decisions of its kind there were besides since the last line.
        suppressed: u64,
    },
    /// Decisions that are in no other line.
    Lost { time: Timestamp, lost: u64 },
}

impl Line {
    /// How many decisions it stands for.
    pub(super) fn decisions(&self) -> u64 {
        match self {
            Self::Decision { suppressed, .. } => suppressed.saturating_add(1),
            Self::Lost { .. } => 0,
        }
    }
}

/// What a decision did to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    /// A line is due at once.
    pub(super) is_due: bool,
    /// There was no room, so the decision is in no line.
    pub(super) is_lost: bool,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    kinds: HashMap<Arc<Key>, Kind>,
    /// How many kinds each group has, without the further ones.
    groups: HashMap<Group, usize>,
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Kind {
    /// When the last decision was made.
    time: Timestamp,
    /// Decisions since the last line.
    decisions: u64,
    /// When the next line may be written, and a kind without a decision is forgotten.
    due: Instant,
    is_further: bool,
}

#[derive(Debug)]
struct Lost {
    time: Timestamp,
    decisions: u64,
    due: Instant,
}

impl Table {
    /// Notes a decision.
    pub(super) fn note(&mut self, key: Key, time: Timestamp, now: Instant) -> Noted {
        let noted = Noted { is_due: false, is_lost: false };
        if self.repeat(&key, time) {
            return noted;
        }
        let of_group = self.groups.get(&key.group).copied().unwrap_or_default();
        let is_further = of_group >= key.group.most() || self.kinds.len() >= MOST;
        let key = if is_further { key.further() } else { key };
        if is_further && self.repeat(&key, time) {
            return noted;
        }
        if self.kinds.len() >= MOST + MOST_FURTHER {
            let lost = self.lost.get_or_insert(Lost { time, decisions: 0, due: now });
            (lost.time, lost.decisions) = (time, lost.decisions.saturating_add(1));
            return Noted { is_due: lost.decisions == 1, is_lost: true };
        }
        if !is_further {
            *self.groups.entry(key.group.clone()).or_default() += 1;
        }
        self.kinds.insert(Arc::new(key), Kind { time, decisions: 1, due: now, is_further });
        Noted { is_due: true, ..noted }
    }

    /// Counts a decision of a kind that is known.
    fn repeat(&mut self, key: &Key, time: Timestamp) -> bool {
        let Some(kind) = self.kinds.get_mut(key) else { return false };
        (kind.time, kind.decisions) = (time, kind.decisions.saturating_add(1));
        true
    }

    /// Takes the lines that are due, those first that have waited longest, and at most so many; and when to look again.
    pub(super) fn take(&mut self, now: Instant, most: usize) -> (Vec<Line>, Option<Instant>) {
        let groups = &mut self.groups;
        self.kinds.retain(|key, kind| {
            let stays = kind.decisions > 0 || kind.due > now;
            if !stays && !kind.is_further {
                forget(groups, &key.group);
            }
            stays
        });
        let due = self.kinds.iter().filter(|(_, kind)| kind.decisions > 0 && kind.due <= now);
        let mut due: Vec<_> = due.map(|(key, kind)| (kind.due, Arc::clone(key))).collect();
        due.sort_by_key(|(at, _)| *at);
        due.truncate(most);
        let mut lines: Vec<_> = due.into_iter().filter_map(|(_, key)| self.line(key, now)).collect();
        if let Some(lost) = &mut self.lost
            && lost.due <= now
        {
            if lost.decisions == 0 {
                self.lost = None;
            } else {
                lines.push(Line::Lost { time: lost.time, lost: std::mem::take(&mut lost.decisions) });
                lost.due = now + WINDOW;
            }
        }
        let next = self.kinds.values().map(|kind| kind.due).chain(self.lost.as_ref().map(|lost| lost.due)).min();
        (lines, next)
    }

    /// Takes all lines that there are.
    pub(super) fn take_all(&mut self) -> Vec<Line> {
        let keys: Vec<_> = self.kinds.keys().cloned().collect();
        let now = Instant::now();
        let mut lines: Vec<_> = keys.into_iter().filter_map(|key| self.line(key, now)).collect();
        let lost = self.lost.take().filter(|lost| lost.decisions > 0);
        lines.extend(lost.map(|lost| Line::Lost { time: lost.time, lost: lost.decisions }));
        lines
    }

    fn line(&mut self, key: Arc<Key>, now: Instant) -> Option<Line> {
        let kind = self.kinds.get_mut(&key)?;
        let suppressed = std::mem::take(&mut kind.decisions).checked_sub(1)?;
        kind.due = now + WINDOW;
        Some(Line::Decision { key, time: kind.time, suppressed })
    }
}

fn forget(groups: &mut HashMap<Group, usize>, group: &Group) {
    if let Some(kinds) = groups.get_mut(group) {
        *kinds = kinds.saturating_sub(1);
        if *kinds == 0 {
            groups.remove(group);
        }
    }
}
