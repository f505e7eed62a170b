//! The audit of decisions: who asked for what, which rule decided, and how, without values.
//!
//! # Guarantees
//!
//! - *Each decision in a line*: the first decision of a kind (caller, verb, object, rule, outcome) is written at once, and those that repeat it
//!   within [`WINDOW`] are one line at its end, which counts them. The metric of lost decisions counts those that are in no line.
//! - *Never in the way*: a read notes its decision in a bounded table. One task writes, and no read waits for it.
//! - *Nobody hides another*: each pod, and each other caller, has a bounded number of kinds. Its further decisions are one line for each verb,
//!   rule and outcome. Callers who may see nothing share theirs.
//! - *Quiet*: a line has names and paths, and no query, value or token.
//! - *At the end too*: when the daemon ends, what is noted is written.
//!
//! # Locks
//!
//! One for the table, one for the file, which only the thread that writes takes, and one for the last problem. No other lock is taken under
//! any of them.

use crate::access::PodAccess;
use crate::app::App;
use crate::caller::Caller;
use jiff::Timestamp;
use larder_file::append::{AppendError, AppendFile};
use larder_node::Report;
use larder_policy::{Decision, Rule};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use serde::Serialize;
use std::fmt;
use std::future::pending;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use table::{Group, Key, Line, Outcome, Table};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

mod table;

/// Decisions of a kind that follow one in a line within this time are one line together.
const WINDOW: Duration = Duration::from_mins(1);
/// The pause between two writes, of [`AT_ONCE`] lines each.
const PAUSE: Duration = Duration::from_millis(100);
/// The most lines that are written at once: 200 a second.
const AT_ONCE: usize = 20;
/// How long the last write may take when the daemon ends.
const LAST: Duration = Duration::from_secs(1);
/// The most characters of what was asked for.
const LONGEST: usize = 300;

/// Which decisions have lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditLevel {
    /// None.
    None,
    /// Refusals.
    #[default]
    Refused,
    /// Refusals, what is allowed, and what is passed on to the API server.
    All,
}

/// A word that is no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write none, refused or all")]
pub struct UnknownAuditLevel;

impl AuditLevel {
    /// Every level.
    pub const ALL: [Self; 3] = [Self::None, Self::Refused, Self::All];

    /// The level's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Refused => "refused",
            Self::All => "all",
        }
    }

    fn has(self, outcome: Outcome) -> bool {
        match self {
            Self::None => false,
            Self::Refused => outcome == Outcome::Refused,
            Self::All => true,
        }
    }
}

impl FromStr for AuditLevel {
    type Err = UnknownAuditLevel;

    fn from_str(text: &str) -> Result<Self, UnknownAuditLevel> {
        Self::ALL.into_iter().find(|level| level.as_str() == text).ok_or(UnknownAuditLevel)
    }
}

/// Which decisions are written, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditOptions {
    /// Which decisions have lines. Default: refusals.
    pub level: AuditLevel,
    /// The file to which the lines are appended, each as JSON; `None` for the log, with the target `larder_audit`. Default: the log.
    pub file: Option<PathBuf>,
}

/// An option of the audit that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The option is wrong, whatever the machine.
    #[error("setting audit.{field}: {problem}")]
    Option {
        /// The option: `file`.
        field: &'static str,
        /// Why it cannot be used.
        problem: String,
    },
    /// The file cannot be used.
    #[error("cannot write the audit (--audit-file): {0}")]
    File(#[from] AppendError),
}

impl AuditOptions {
    /// Checks what does not depend on the machine.
    ///
    /// # Errors
    ///
    /// A path without a name.
    pub fn validate(&self) -> Result<(), AuditError> {
        match &self.file {
            Some(path) if path.file_name().is_none() => {
                Err(AuditError::Option { field: "file", problem: "must name a file".to_owned() })
            }
            _ => Ok(()),
        }
    }
}

/// The decisions that are to be written, and where.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    level: AuditLevel,
    /// `None` for the log.
    file: Option<Arc<Mutex<AppendFile>>>,
    table: Mutex<Table>,
    /// Notified when the table has a line that is due at once.
    changed: Notify,
    /// Why the last write failed.
    problem: Mutex<Option<String>>,
}

/// What a caller asks for before it is known whether it may see anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) verb: &'static str,
    /// The path, without the query.
    pub(crate) path: &'a str,
}

impl<'a> Asked<'a> {
    /// An answer that goes on when its caller is judged again.
    pub(crate) const UNDER_WAY: Asked<'static> = Asked { verb: "watch", path: "an answer under way" };

    pub(crate) fn of<B>(request: &'a http::Request<B>) -> Self {
        Self { verb: verb_of(request.method()), path: request.uri().path() }
    }
}

/// The method of a request as a word from a bounded set.
pub(crate) fn verb_of(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    }
}

/// The one place of every decision: it is counted, and noted for the audit.
impl App {
    /// A decision on what a caller may see, by its view.
    pub(crate) fn decided(
        &self,
        caller: &Caller,
        pod: Option<&PodAccess>,
        verb: &'static str,
        what: impl fmt::Display,
        decision: &Decision,
    ) {
        let is_allowed = decision.is_allowed();
        self.metrics.decided(caller, &decision.rule, is_allowed);
        let outcome = if is_allowed { Outcome::Allowed } else { Outcome::Refused };
        if self.audit.level.has(outcome) {
            let rule = match &decision.rule {
                Rule::File(name) => format!("file:{name}"),
                built_in => built_in.kind().to_owned(),
            };
            self.note(Key::of(caller, pod, Group::of_reader(caller), verb, &what.to_string(), rule, outcome));
        }
    }

    /// A refusal of a caller that may see nothing, with a word from a bounded set for the reason.
    pub(crate) fn refused_caller(&self, caller: &Caller, asked: Asked<'_>, reason: &'static str) {
        self.metrics.decided(caller, &Rule::None, false);
        self.note_refusal(caller, asked, reason.to_owned());
    }

    /// A refusal of a token, or the end of an answer with its token.
    pub(crate) fn refused_token(&self, caller: &Caller, asked: Asked<'_>, reason: &'static str) {
        self.metrics.refused_token(reason);
        self.metrics.decided(caller, &Rule::None, false);
        self.note_refusal(caller, asked, format!("token:{reason}"));
    }

    /// A request that goes to the API server, which decides, with a word from a bounded set for the reason.
    pub(crate) fn passed_on(&self, caller: &Caller, pod: Option<&PodAccess>, asked: Asked<'_>, reason: &'static str) {
        self.note_without_view(caller, pod, asked, format!("pass-through:{reason}"), Outcome::PassedOn);
    }

    fn note_refusal(&self, caller: &Caller, asked: Asked<'_>, rule: String) {
        self.note_without_view(caller, None, asked, rule, Outcome::Refused);
    }

    fn note_without_view(
        &self,
        caller: &Caller,
        pod: Option<&PodAccess>,
        asked: Asked<'_>,
        rule: String,
        outcome: Outcome,
    ) {
        if self.audit.level.has(outcome) {
            self.note(Key::of(caller, pod, Group::of_refused(caller), asked.verb, asked.path, rule, outcome));
        }
    }

    fn note(&self, key: Key) {
        self.audit.note(key, self.node.clock().wall_now(), &self.metrics.audit_lost);
    }
}

impl Audit {
    /// Opens the file, if there is one.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub(crate) fn open(options: &AuditOptions) -> Result<Self, AuditError> {
        options.validate()?;
        let file = match &options.file {
            Some(path) if options.level != AuditLevel::None => Some(Arc::new(Mutex::new(AppendFile::open(path)?))),
            _ => None,
        };
        Ok(Self { level: options.level, file, ..Self::default() })
    }

    fn note(&self, key: Key, at: Timestamp, lost: &Counter) {
        let noted = self.table.lock().note(key, at, Instant::now());
        if noted.is_lost {
            lost.inc();
        }
        if noted.is_due {
            self.changed.notify_one();
        }
    }

    /// Adds the last problem to a report.
    pub(crate) fn report(&self, report: &mut Report) {
        let problem = self.problem.lock().clone();
        report.degraded.extend(problem.map(|problem| format!("audit: {problem}")));
    }

    /// Writes what is noted until the token is cancelled, and then the rest. Only one caller at a time does.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, lines are lost that it has taken.
    pub(crate) async fn write(&self, lost: &Counter, end: &CancellationToken) {
        if self.level == AuditLevel::None {
            return;
        }
        let mut wakes_at = None;
        loop {
            let due = async {
                match wakes_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = end.cancelled() => break,
                () = self.changed.notified() => {}
                () = due => {}
            }
            let (lines, next) = self.table.lock().take(Instant::now(), AT_ONCE);
            wakes_at = next;
            // A file system that does not answer holds the thread, and not the end of the daemon.
            end.run_until_cancelled(self.write_lines(lines, lost)).await;
            end.run_until_cancelled(sleep(PAUSE)).await;
        }
        let rest = self.table.lock().take_all();
        if timeout(LAST, self.write_lines(rest, lost)).await.is_err() {
            tracing::warn!("the file of the audit does not answer: its last lines may be missing");
        }
    }

    async fn write_lines(&self, lines: Vec<Line>, lost: &Counter) {
        let Some(file) = &self.file else {
            lines.iter().for_each(log);
            return;
        };
        let mut text = Vec::new();
        for line in &lines {
            // JSON can hold all of these types, so this does not fail. If it did, the line would be left out.
            if serde_json::to_writer(&mut text, &Json::of(line)).is_ok() {
                text.push(b'\n');
            }
        }
        if text.is_empty() {
            return;
        }
        let file = Arc::clone(file);
        let written = tokio::task::spawn_blocking(move || file.lock().append(&text)).await;
        let problem = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if problem.is_some() {
            lost.inc_by(lines.iter().map(Line::decisions).sum());
        }
        let mut told = self.problem.lock();
        if let Some(problem) = problem.as_ref().filter(|_| told.is_none()) {
            tracing::warn!(%problem, "cannot write the audit: its lines are lost until that is mended");
        }
        *told = problem;
    }
}

/// A line in a file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Json<'a> {
    time: Timestamp,
    #[serde(flatten)]
    line: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    #[serde(rename_all = "camelCase")]
    Decision {
        /// Left out where the API server decides.
        #[serde(skip_serializing_if = "Option::is_none")]
        allowed: Option<bool>,
        caller: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        service_account: Option<&'a str>,
        verb: &'a str,
        what: &'a str,
        rule: &'a str,
        source: &'a str,
        suppressed: u64,
    },
    Lost {
        lost: u64,
    },
}

impl<'a> Json<'a> {
    fn of(line: &'a Line) -> Self {
        match line {
            Line::Decision { key, time, suppressed } => Self {
                time: *time,
                line: Content::Decision {
                    allowed: match key.outcome {
                        Outcome::Allowed => Some(true),
                        Outcome::Refused => Some(false),
                        Outcome::PassedOn => None,
                    },
                    caller: &key.caller,
                    service_account: key.service_account.as_deref(),
                    verb: key.verb,
                    what: &key.what,
                    rule: &key.rule,
                    source: key.source,
                    suppressed: *suppressed,
                },
            },
            Line::Lost { time, lost } => Self { time: *time, line: Content::Lost { lost: *lost } },
        }
    }
}

/// Writes a line to the log.
fn log(line: &Line) {
    match line {
        Line::Decision { key, time, suppressed } => {
            let is_repeated = *suppressed > 0;
            tracing::info!(
                target: "larder_audit",
                caller = &*key.caller,
                service_account = key.service_account.as_deref(),
                verb = key.verb,
                what = &*key.what,
                rule = &*key.rule,
                source = key.source,
                suppressed = is_repeated.then_some(*suppressed),
                last = is_repeated.then(|| tracing::field::display(time)),
                "{}",
                match key.outcome {
                    Outcome::Allowed => "allowed",
                    Outcome::Refused => "refused",
                    Outcome::PassedOn => "passed on",
                }
            );
        }
        Line::Lost { lost, .. } => {
            tracing::warn!(target: "larder_audit", lost, "decisions are in no line: there were too many kinds of them");
        }
    }
}

#[cfg(test)]
mod tests;
