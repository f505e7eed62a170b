//! Whether the API server serves streaming lists of a kind, as far as is known.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// After how long one request tries again what the server refused: long enough to cost next to nothing, short enough that
/// one bad answer does not last.
const RETRY: Duration = Duration::from_mins(10);

#[derive(Default)]
pub(super) struct Streaming {
    known: Mutex<Known>,
}

#[derive(Clone, Copy, Default)]
enum Known {
    #[default]
    Nothing,
    Served,
    Refused {
        /// From when on the next request tries again, for all.
        retry_at: Instant,
    },
}

impl Streaming {
    /// Whether the caller is to ask for one.
    pub(super) fn worth_asking(&self) -> bool {
        match &mut *self.known.lock() {
            Known::Nothing | Known::Served => true,
            Known::Refused { retry_at } if Instant::now() >= *retry_at => {
                *retry_at = Instant::now() + RETRY;
                true
            }
            Known::Refused { .. } => false,
        }
    }

    /// Whether one has been served, so that a slow answer is no refusal.
    pub(super) fn is_served(&self) -> bool {
        matches!(*self.known.lock(), Known::Served)
    }

    pub(super) fn served(&self) {
        *self.known.lock() = Known::Served;
    }

    pub(super) fn refused(&self) {
        *self.known.lock() = Known::Refused { retry_at: Instant::now() + RETRY };
    }

    /// The server is away, and may come back as another one: the next request tries again.
    pub(super) fn server_lost(&self) {
        if let Known::Refused { retry_at } = &mut *self.known.lock() {
            *retry_at = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_request_retries_after_ten_minutes_and_after_an_outage() {
        let streaming = Streaming::default();
        assert!(streaming.worth_asking() && streaming.worth_asking(), "nothing is known yet");
        streaming.refused();
        tokio::time::advance(Duration::from_mins(9)).await;
        assert!(!streaming.worth_asking());
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(streaming.worth_asking() && !streaming.worth_asking(), "one tries for all");
        streaming.server_lost();
        assert!(streaming.worth_asking() && !streaming.worth_asking(), "the server may be another one");
        streaming.served();
        streaming.server_lost();
        assert!(streaming.worth_asking() && streaming.is_served());
    }
}
