//! What the API server has refused a pod, and of which objects the pod was given a part here instead.
//!
//! # Guarantees
//!
//! - *Not asked at each read*: a refusal counts for a minute. A pod without rights of its own does not ask the API server at each read.
//! - *No part is written back*: larder notes of which objects it has given a pod a part. A pod that replaces such an object (PUT) gets a 409, until
//!   it has read the object whole from the API server. Otherwise a client that reads, changes and writes back would remove the rest.
//! - *Bounded*: [`MOST_OBJECTS`] for each pod and [`MOST_PODS`] pods. Where there is no room to note it, no part is given.
//!
//! # Limits
//!
//! Nothing outlasts the daemon. A client that writes past larder, straight to the API server, is not held back.
//!
//! # Locks
//!
//! One, over all pods. No other lock is taken under it.

use larder_policy::Verb;
use larder_resource::Kind;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long a refusal counts: a binding that an administrator adds takes effect by then.
const REFUSED: Duration = Duration::from_mins(1);
/// The most objects that are remembered of a pod: a pod refers to far fewer.
const MOST_OBJECTS: usize = 256;
/// The most pods: several times those of a large node.
const MOST_PODS: usize = 1024;

/// What a request is about. A list of this node's pods has no name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What the API server said when this pod last asked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It has refused, less than a minute ago.
    Refused,
    /// It has refused, and is to be asked again.
    RefusedBefore,
    /// It has not refused, or has not been asked.
    Nothing,
}

#[derive(Debug)]
pub(super) struct Refusals(Mutex<HashMap<String, OfPod>>);

#[derive(Debug)]
struct OfPod {
    used: Instant,
    subjects: HashMap<Subject, OfSubject>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfSubject {
    refused: [Option<Instant>; Verb::ALL.len()],
    gave_part: bool,
}

const fn place(verb: Verb) -> usize {
    match verb {
        Verb::Get => 0,
        Verb::List => 1,
        Verb::Watch => 2,
    }
}

impl Refusals {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    /// What is known of a read of a pod, by the pod's UID.
    pub(super) fn known(&self, pod: &str, verb: Verb, subject: &Subject) -> Known {
        let pods = self.0.lock();
        let of_subject = pods.get(pod).and_then(|of_pod| of_pod.subjects.get(subject));
        match of_subject.and_then(|of_subject| of_subject.refused[place(verb)]) {
            Some(at) if at.elapsed() < REFUSED => Known::Refused,
            Some(_) => Known::RefusedBefore,
            None => Known::Nothing,
        }
    }

    /// Notes that the API server has refused a read.
    pub(super) fn refused(&self, pod: &str, verb: Verb, subject: &Subject) {
        self.with(pod, subject, |of_subject| of_subject.refused[place(verb)] = Some(Instant::now()));
    }

    /// Notes that the API server has answered a read, and so has given the pod all of the object.
    pub(super) fn answered(&self, pod: &str, verb: Verb, subject: &Subject) {
        let mut pods = self.0.lock();
        let Some(of_subject) = pods.get_mut(pod).and_then(|of_pod| of_pod.subjects.get_mut(subject)) else { return };
        of_subject.refused[place(verb)] = None;
        of_subject.gave_part = false;
    }

    /// Notes that the pod gets a part of the object. Returns whether there is room for the note.
    pub(super) fn gives_part(&self, pod: &str, subject: &Subject) -> bool {
        self.with(pod, subject, |of_subject| of_subject.gave_part = true)
    }

    /// Whether the pod was given a part of the object, and not all of it since.
    pub(super) fn gave_part(&self, pod: &str, subject: &Subject) -> bool {
        let pods = self.0.lock();
        pods.get(pod).and_then(|of_pod| of_pod.subjects.get(subject)).is_some_and(|of_subject| of_subject.gave_part)
    }

    /// Changes what is noted. Returns whether there is room for it.
    fn with(&self, pod: &str, subject: &Subject, change: impl FnOnce(&mut OfSubject)) -> bool {
        let mut pods = self.0.lock();
        if !pods.contains_key(pod)
            && pods.len() >= MOST_PODS
            && let Some(oldest) = pods.iter().min_by_key(|(_, of_pod)| of_pod.used).map(|(pod, _)| pod.clone())
        {
            // Its pod has most likely gone: no node has as many.
            pods.remove(&oldest);
        }
        let now = Instant::now();
        let of_pod = pods.entry(pod.to_owned()).or_insert_with(|| OfPod { used: now, subjects: HashMap::new() });
        of_pod.used = now;
        if !of_pod.subjects.contains_key(subject) && of_pod.subjects.len() >= MOST_OBJECTS {
            of_pod.subjects.retain(|_, of_subject| of_subject.gave_part || of_subject.is_recent());
            if of_pod.subjects.len() >= MOST_OBJECTS {
                return false;
            }
        }
        change(of_pod.subjects.entry(subject.clone()).or_default());
        true
    }
}

impl OfSubject {
    fn is_recent(&self) -> bool {
        self.refused.iter().flatten().any(|at| at.elapsed() < REFUSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn secret(name: &str) -> Subject {
        Subject { kind: Kind::Secret, namespace: "shop".to_owned(), name: name.to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_for_a_minute_for_its_pod_verb_and_object() {
        let refusals = Refusals::new();
        refusals.refused("a", Verb::Get, &secret("db"));
        let known = |pod, verb, name| refusals.known(pod, verb, &secret(name));
        assert_eq!(known("a", Verb::Get, "db"), Known::Refused);
        for (pod, verb, name) in [("b", Verb::Get, "db"), ("a", Verb::List, "db"), ("a", Verb::Get, "tls")] {
            assert_eq!(known(pod, verb, name), Known::Nothing, "{pod} {verb:?} {name}");
        }
        advance(REFUSED).await;
        assert_eq!(known("a", Verb::Get, "db"), Known::RefusedBefore);
        refusals.answered("a", Verb::Get, &secret("db"));
        assert_eq!(known("a", Verb::Get, "db"), Known::Nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_is_remembered_until_the_object_was_read_whole() {
        let refusals = Refusals::new();
        assert!(refusals.gives_part("a", &secret("db")));
        advance(REFUSED * 100).await;
        assert!(refusals.gave_part("a", &secret("db")) && !refusals.gave_part("b", &secret("db")));
        refusals.answered("a", Verb::Get, &secret("db"));
        assert!(!refusals.gave_part("a", &secret("db")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_with_many_objects_takes_no_room_from_another() {
        let refusals = Refusals::new();
        let room = |pod, count: usize| (0..count).all(|at| refusals.gives_part(pod, &secret(&at.to_string())));
        assert!(room("a", MOST_OBJECTS));
        assert!(!refusals.gives_part("a", &secret("one more")), "no note, and no part");
        assert!(room("b", MOST_OBJECTS));
        // Refusals that no longer count make room.
        for at in 0..MOST_OBJECTS {
            refusals.refused("c", Verb::Get, &secret(&at.to_string()));
        }
        assert!(!refusals.gives_part("c", &secret("one more")));
        advance(REFUSED).await;
        assert!(refusals.gives_part("c", &secret("one more")));
        for at in 0..MOST_PODS * 2 {
            refusals.refused(&format!("pod {at}"), Verb::Get, &secret("db"));
        }
        assert_eq!(refusals.0.lock().len(), MOST_PODS);
    }
}
