//! The server's current version. After an outage one list-watch asks, and the others share the answer.

use crate::error::KubeError;
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::OnceCell;
use tokio::time::Instant;

#[derive(Default)]
pub(super) struct Revision {
    last: Mutex<Option<Arc<Asked>>>,
}

struct Asked {
    begun: Instant,
    answer: OnceCell<Result<u64, KubeError>>,
}

impl Revision {
    /// A version that the server has reached since then. Those who come while it is asked for wait for the same answer, and for
    /// the same failure: a server that hangs is waited for once, not by one after the other.
    pub(super) async fn since(
        &self,
        lost_at: Instant,
        ask: impl Future<Output = Result<u64, KubeError>>,
    ) -> Result<u64, KubeError> {
        let asked = {
            let mut last = self.last.lock();
            match &*last {
                Some(asked) if asked.begun > lost_at => Arc::clone(asked),
                _ => {
                    let asked = Arc::new(Asked { begun: Instant::now(), answer: OnceCell::new() });
                    Arc::clone(last.insert(asked))
                }
            }
        };
        asked.answer.get_or_init(|| ask).await.clone()
    }
}
