//! The status of a node's larder: the report of `larder status`, and the checks of `/livez` and `/readyz`.
//!
//! It reads the state of the sources, caches and tasks, and asks no source. `gauges` turns the same report into metrics.

use super::Node;
use super::sources::Origin;
use crate::error::ReadError;
use crate::registrar::Cache;
use crate::report::{
    ApiServerReport, Check, Counts, EveryName, Keeping, ObjectCounts, ObjectReport, Report, ReportedNames,
    SourceReport, SourceState,
};
use larder_clock::MachineClocks;
use larder_objects::{Kept, ObjectState, ObjectStatus};
use larder_resource::source::SourceObject;
use larder_resource::{Kind, ObjectKind, PerKind, SourceReader};

impl<M: MachineClocks> Node<M> {
    /// The status of this larder. No source is asked for it.
    pub fn report(&self) -> Report {
        self.report_with(&EveryName)
    }

    /// As [`report`](Self::report), with these names of objects alone. Where an error may name another object, the report does not have the
    /// error's text.
    pub fn report_with(&self, names: &dyn ReportedNames) -> Report {
        // Pods and objects have the same API server: an answer about the pods ends an outage of the objects.
        let pods = self.pods.status();
        if let Some(at) = pods.last_contact.filter(|_| pods.failures == 0) {
            self.caches.values().for_each(|cache| cache.log().source_answered(at));
        }
        let sources = self.source_reports(names);
        let counts = self.counts();
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.name.to_string(),
            started_at: self.wall_time(self.started_at).unwrap_or_default(),
            degraded: self.degraded(&sources, names),
            notes: self.runtime.as_ref().map(|runtime| runtime.notes()).unwrap_or_default(),
            sources,
            counts,
            keeping: ObjectKind::ALL.map(|kind| self.keeping(kind)).into(),
            api_server: self.api_server(),
            listen: None,
            policy: None,
            objects: None,
        }
    }

    /// As [`report_with`](Self::report_with), with a line for each object that it may name.
    pub fn detailed_report(&self, names: &dyn ReportedNames) -> Report {
        let mut objects = Vec::new();
        for (kind, cache) in self.caches.iter() {
            let mut all = cache.snapshot();
            all.retain(|object| names.has(kind.kind(), object.key.namespace(), object.key.name()));
            all.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            objects.extend(all.into_iter().map(|object| self.object_report(kind, cache, &object)));
        }
        Report { objects: Some(objects), ..self.report_with(names) }
    }

    fn object_report(&self, kind: ObjectKind, cache: &Cache<M>, object: &ObjectStatus) -> ObjectReport {
        let age = object.state.freshness().map(|freshness| freshness.age(self.now()).as_secs_f64());
        ObjectReport {
            kind: kind.resource().to_owned(),
            namespace: object.key.namespace().to_owned(),
            name: object.key.name().to_owned(),
            references: number(object.references),
            kept: if cache.is_of_manifests() { MANIFEST.to_owned() } else { object.kept.to_string() },
            state: ReportedState::of(cache, object).as_str().to_owned(),
            age_seconds: age,
        }
    }

    fn keeping(&self, kind: ObjectKind) -> Keeping {
        let cache = self.caches.of(kind);
        let stats = cache.watch_stats();
        let mut keeping = Keeping {
            kind: kind.resource().to_owned(),
            strategy: if cache.is_of_manifests() { MANIFEST } else { cache.strategy().as_str() }.to_owned(),
            watches: number(stats.watching),
            namespace_watches: number(stats.watching_namespaces),
            bytes: number(cache.held_bytes()),
            ..Keeping::default()
        };
        for object in cache.snapshot() {
            match object.kept {
                Kept::Watched => keeping.watched += 1,
                Kept::NamespaceWatched => keeping.namespace_watched += 1,
                Kept::Held => keeping.held += 1,
                Kept::Idle => keeping.idle += 1,
                Kept::Polled => keeping.polled += 1,
                Kept::Direct => keeping.direct += 1,
            }
        }
        keeping
    }

    fn api_server(&self) -> Option<ApiServerReport> {
        let Origin::Kube(client, _) = &self.origin else { return None };
        let stats = client.stats();
        Some(ApiServerReport { connections: stats.connections_open, watches: stats.watches_open })
    }

    /// The status of the container runtime; `None` without a runtime.
    pub fn runtime_report(&self) -> Option<SourceReport> {
        self.runtime.as_ref().map(|runtime| runtime.report())
    }

    /// Whether every task still runs.
    pub fn liveness(&self) -> Vec<Check> {
        let ended = self.tasks.ended();
        vec![Check { name: "tasks", failure: (!ended.is_empty()).then(|| format!("ended: {}", ended.join(", "))) }]
    }

    /// Whether each source has answered at least once since the start. A source that fails later does not make larder
    /// unready, because larder serves what it holds.
    pub fn readiness(&self) -> Vec<Check> {
        let mut checks = vec![Check { name: "pods", failure: not_synced(&self.pods) }];
        if matches!(self.origin, Origin::Kube(..)) {
            checks.push(Check { name: "node", failure: not_synced(&self.api_object) });
        }
        if let Some(runtime) = &self.runtime {
            let failure = (!runtime.has_relisted())
                .then(|| runtime.failure().map_or_else(|| "not listed yet".to_owned(), |error| error.to_string()));
            checks.push(Check { name: "runtime", failure });
        }
        checks.extend(self.liveness());
        checks
    }

    pub(super) fn is_settled(&self) -> bool {
        fn has_answered<T: SourceObject>(reader: &SourceReader<T>) -> bool {
            let status = reader.status();
            status.synced || status.last_fault.is_some()
        }
        let runtime = self.runtime.as_ref().is_none_or(|runtime| runtime.has_relisted() || runtime.failure().is_some());
        let objects = self.caches.values().all(|cache| {
            // Objects of the direct strategy are fetched by reads only.
            let is_open =
                |object: &ObjectStatus| object.state == ObjectState::NotFetched && object.kept != Kept::Direct;
            cache.snapshot().iter().all(|object| !is_open(object) || cache.log().failure(&object.key).is_some())
        });
        has_answered(&self.pods) && has_answered(&self.api_object) && runtime && objects
    }

    fn source_reports(&self, names: &dyn ReportedNames) -> Vec<SourceReport> {
        let from = match &self.origin {
            Origin::Kube(client, _) => client.server().to_string(),
            Origin::Manifests { reader, .. } => reader.folder().display().to_string(),
        };
        let mut sources = vec![self.source_report("pods", &from, &self.pods)];
        if matches!(self.origin, Origin::Kube(..)) {
            sources.push(self.source_report("node", &from, &self.api_object));
        }
        sources.extend(ObjectKind::ALL.map(|kind| self.objects_report(&from, kind)));
        sources.push(match &self.runtime {
            Some(runtime) => runtime.report(),
            None => SourceReport {
                name: "runtime".to_owned(),
                from: "none".to_owned(),
                state: SourceState::Off,
                last_contact: None,
                age_seconds: None,
                last_error: None,
                last_error_at: None,
            },
        });
        for (kind, source) in [(Kind::Pod, "pods"), (Kind::Pod, "runtime")]
            .into_iter()
            .chain(ObjectKind::ALL.map(|kind| (kind.kind(), kind.resource())))
        {
            if names.has_every(kind) {
                continue;
            }
            for report in sources.iter_mut().filter(|report| report.name == source) {
                report.last_error = report.last_error.take().map(|_| UNNAMED.to_owned());
            }
        }
        sources
    }

    fn source_report<T: SourceObject>(&self, name: &str, from: &str, reader: &SourceReader<T>) -> SourceReport {
        let status = reader.status();
        let state = match (status.synced, status.connected, &status.last_fault) {
            (true, true, _) => SourceState::Ok,
            (false, _, None) | (_, false, None) => SourceState::Starting,
            _ => SourceState::Failing,
        };
        let at = status.last_contact;
        SourceReport {
            name: name.to_owned(),
            from: from.to_owned(),
            state,
            last_contact: at.and_then(|at| self.wall_time(at)),
            age_seconds: at.map(|at| self.now().saturating_duration_since(at).as_secs_f64()),
            last_error: status.last_fault.as_ref().map(|fault| fault.error.to_string()),
            last_error_at: status.last_fault.as_ref().and_then(|fault| self.wall_time(fault.at)),
        }
    }

    fn objects_report(&self, from: &str, kind: ObjectKind) -> SourceReport {
        let health = self.caches.of(kind).log().health();
        let state = match (health.is_failing, &health.last_answer, &health.last_failure) {
            (true, _, _) | (false, None, Some(_)) => SourceState::Failing,
            (false, Some(_), _) => SourceState::Ok,
            (false, None, None) => SourceState::Idle,
        };
        SourceReport {
            name: kind.resource().to_owned(),
            from: from.to_owned(),
            state,
            last_contact: health.last_answer.and_then(|at| self.wall_time(at)),
            age_seconds: health.last_answer.map(|at| self.now().saturating_duration_since(at).as_secs_f64()),
            last_error: health.last_failure.as_ref().map(|(_, why)| why.to_string()),
            last_error_at: health.last_failure.as_ref().and_then(|(at, _)| self.wall_time(*at)),
        }
    }

    fn counts(&self) -> Counts {
        let count = |cache: &Cache<M>| {
            let mut counts = ObjectCounts::default();
            for object in cache.snapshot() {
                counts.referenced += 1;
                *match ReportedState::of(cache, &object) {
                    ReportedState::Fresh => &mut counts.fresh,
                    ReportedState::Due => &mut counts.due,
                    ReportedState::Stale => &mut counts.stale,
                    ReportedState::Absent => &mut counts.absent,
                    ReportedState::Unknown => &mut counts.unknown,
                } += 1;
            }
            counts
        };
        Counts {
            pods: number(self.pods.status().objects),
            pods_registered: number(self.caches.secrets.registered_pods().len()),
            objects: PerKind::from_fn(|kind| count(self.caches.of(kind))),
            containers: self.runtime.as_ref().map(|runtime| runtime.container_counts()).unwrap_or_default(),
            open_waits: self.runtime.as_ref().map_or(0, |runtime| number(runtime.open_waits())),
        }
    }

    fn degraded(&self, sources: &[SourceReport], names: &dyn ReportedNames) -> Vec<String> {
        let mut degraded = Vec::new();
        // Errors of the runtime may name containers.
        let of_runtime = |why: String| if names.has_every(Kind::Pod) { why } else { UNNAMED.to_owned() };
        for source in sources.iter().filter(|source| source.state == SourceState::Failing) {
            let why = source.last_error.as_deref().unwrap_or("no answer");
            degraded.push(format!("{}: {why}", source.name));
        }
        if let Some(problem) = self.runtime.as_ref().and_then(|runtime| runtime.event_stream_problem())
            && !degraded.iter().any(|line| line.starts_with("runtime:"))
        {
            degraded.push(format!("runtime: {}", of_runtime(problem)));
        }
        if let Some(Err(why)) = self.runtime.as_ref().map(|runtime| runtime.health())
            && !degraded.iter().any(|line| line.starts_with("runtime:"))
            && self.now().saturating_duration_since(self.started_at) > super::GRACE
        {
            degraded.push(format!("runtime: {}", of_runtime(why.clone())));
        }
        if let Origin::Kube(client, _) = &self.origin
            && let Some(problem) = client.credentials_problem()
            // If a source fails because of it, the line of that source contains it.
            && !degraded.iter().any(|line| line.contains(&problem))
        {
            degraded.push(format!("credentials: {problem}"));
        }
        if let Origin::Manifests { reader, .. } = &self.origin {
            let has_every = Kind::ALL.into_iter().all(|kind| names.has_every(kind));
            let told = |problem: &str| if has_every { problem.to_owned() } else { UNNAMED.to_owned() };
            degraded
                .extend(reader.problems().iter().map(|problem| format!("manifests: {}", told(&problem.to_string()))));
            degraded.dedup();
        }
        if matches!(self.origin, Origin::Kube(..))
            && let Err(error) = self.get_node(&self.name)
        {
            match (self.refusal.get(), error) {
                (Some(refusal), _) => degraded.push(refusal.clone()),
                (None, ReadError::NotFound { key, .. }) => {
                    let name = key.name();
                    degraded.push(format!("node {name}: the API server has none; check --node-name (NODE_NAME)"));
                }
                // The line of the source says why.
                _ => {}
            }
        }
        let may_name = |namespace: &str, name: &str| names.has(Kind::Pod, namespace, name);
        degraded.extend(self.registrar.unreadable(may_name));
        for (kind, cache) in self.caches.iter() {
            // If the source itself fails, the line of the source says so.
            if cache.log().health().is_failing {
                continue;
            }
            let resource = kind.resource();
            let mut failures: Vec<_> = cache
                .snapshot()
                .into_iter()
                .filter_map(|object| Some((cache.log().failure(&object.key)?, object.key)))
                .map(|(failure, key)| names.has(kind.kind(), key.namespace(), key.name()).then_some(failure))
                .collect();
            // Those that may be named come first.
            failures.sort_by_key(Option::is_none);
            if let Some((first, more)) = first_and_count(failures.into_iter()) {
                let and_more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
                let why = first.map_or_else(|| format!("{resource}: {UNNAMED}"), |failure| failure.why.to_string());
                degraded.push(format!("{why}{and_more}"));
            }
        }
        degraded.extend(self.tasks.ended().iter().map(|name| format!("the task '{name}' has ended: restart larder")));
        degraded
    }
}

/// Stands in place of an error that may name objects which the reader of the report may not see.
const UNNAMED: &str = "the reason is told to those who may see every object that it may name";

/// Stands in place of a strategy: every read looks into the manifests.
const MANIFEST: &str = "manifest";

pub(super) fn number(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// The state of an object in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedState {
    Fresh,
    Due,
    Stale,
    Absent,
    Unknown,
}

impl ReportedState {
    fn of(cache: &Cache<impl MachineClocks>, object: &ObjectStatus) -> Self {
        match object.state {
            ObjectState::Present(freshness) if freshness.is_fresh() => Self::Fresh,
            ObjectState::Present(_) if cache.log().failure(&object.key).is_some() => Self::Stale,
            ObjectState::Present(_) => Self::Due,
            ObjectState::Absent(_) => Self::Absent,
            ObjectState::NotFetched => Self::Unknown,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Due => "due",
            Self::Stale => "stale",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
        }
    }
}

fn not_synced<T: SourceObject>(reader: &SourceReader<T>) -> Option<String> {
    let status = reader.status();
    let why = || status.last_fault.map_or_else(|| "not listed yet".to_owned(), |fault| fault.error.to_string());
    (!status.synced).then(why)
}

fn first_and_count<T>(mut all: impl Iterator<Item = T>) -> Option<(T, usize)> {
    let first = all.next()?;
    Some((first, all.count()))
}
