//! The results of the latest relists of all pods, and whether a failure is worth a warning.

use crate::error::RuntimeError;
use larder_clock::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How the latest relists of all pods went.
#[derive(Debug, Default)]
pub(super) struct LastRelist {
    /// When the last successful one began.
    pub(super) succeeded: Option<Timestamp>,
    /// When the last one that was also brought to its end began.
    pub(super) completed: Option<Timestamp>,
    /// Why the last one failed, if none has succeeded since.
    pub(super) failed: Option<Arc<RuntimeError>>,
    /// The kinds of failure since the last success. They are few, whatever words a runtime finds each time.
    kinds: BTreeSet<&'static str>,
}

impl LastRelist {
    /// Takes in a failure. Returns whether it is news: a runtime that is away fails every period, which is worth a warning
    /// once, and once more for each other kind of failure until it can be listed again.
    pub(super) fn fail(&mut self, error: Arc<RuntimeError>) -> bool {
        let is_news = self.kinds.insert(error.kind());
        self.failed = Some(error);
        is_news
    }

    /// Takes in a success that began then. Returns whether the one before it had failed.
    pub(super) fn succeed(&mut self, began: Timestamp) -> bool {
        self.succeeded = Some(began);
        self.kinds.clear();
        self.failed.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuntimeCall;

    fn failures() -> Vec<Arc<RuntimeError>> {
        let call = || Arc::new(RuntimeCall::new("ListPodSandbox"));
        let (endpoint, reason) = (|| Arc::from("unix:///cri.sock"), || Arc::from("garbage"));
        let all = [
            RuntimeError::Unavailable { call: call(), endpoint: endpoint(), reason: reason() },
            RuntimeError::NotCri { call: call(), endpoint: endpoint(), reason: reason() },
            RuntimeError::NotCri { call: call(), endpoint: endpoint(), reason: "other garbage".into() },
            RuntimeError::Failed { call: call(), code: "Internal", reason: reason() },
            RuntimeError::Failed { call: call(), code: "Unknown", reason: reason() },
            RuntimeError::BadResponse { call: call(), reason: reason() },
        ];
        all.map(Arc::new).into()
    }

    #[test]
    fn failures_of_several_kinds_in_turn_are_news_once_each_until_a_success() {
        let mut last = LastRelist::default();
        for outage in 0..2 {
            for (round, expected) in [(0, 4), (1, 0), (2, 0)] {
                let news = failures().into_iter().filter(|error| last.fail(Arc::clone(error))).count();
                assert_eq!(news, expected, "outage {outage}, round {round}");
                assert_eq!(last.failed.as_ref(), failures().last(), "the latest one is known, news or not");
            }
            assert!(last.succeed(Timestamp::from_nanos(outage)), "it had failed");
            assert!(last.failed.is_none() && !last.succeed(Timestamp::from_nanos(outage)));
        }
    }
}
