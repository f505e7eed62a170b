//! Whether the server serves streaming lists, as far as is known.

use parking_lot::Mutex;

#[derive(Default)]
pub(super) struct Streaming {
    known: Mutex<Known>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Known {
    #[default]
    Nothing,
    Served,
    Refused,
    /// It was refused, and the server was away since: the next one tries it for all.
    Doubtful,
}

impl Streaming {
    /// Whether the caller is to ask for one.
    pub(super) fn worth_asking(&self) -> bool {
        let mut known = self.known.lock();
        let before = *known;
        if before == Known::Doubtful {
            *known = Known::Refused;
        }
        before != Known::Refused
    }

    /// Whether one has been served, so that patience is not wasted.
    pub(super) fn is_served(&self) -> bool {
        *self.known.lock() == Known::Served
    }

    pub(super) fn served(&self) {
        *self.known.lock() = Known::Served;
    }

    pub(super) fn refused(&self) {
        *self.known.lock() = Known::Refused;
    }

    /// The server is away, and may come back as another one.
    pub(super) fn away(&self) {
        let mut known = self.known.lock();
        if *known == Known::Refused {
            *known = Known::Doubtful;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_remembered_and_tried_again_by_one_after_the_server_was_away() {
        let streaming = Streaming::default();
        assert!(streaming.worth_asking() && streaming.worth_asking(), "nothing is known yet");
        streaming.refused();
        assert!(!streaming.worth_asking());
        streaming.away();
        assert!(streaming.worth_asking() && !streaming.worth_asking());
        streaming.served();
        streaming.away();
        assert!(streaming.worth_asking() && streaming.is_served());
    }
}
