//! The tasks of a node's larder. Each ends when the cancellation token is cancelled. [`Tasks::stop`] waits for them, and aborts a task that takes longer
//! than 5 s. A lasting task has a name; if it ends before the token, the report and `/livez` name it.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long tasks may take to end after the token is cancelled.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

pub(crate) struct Tasks {
    pub(crate) token: CancellationToken,
    /// Short tasks that reads leave behind. They end by themselves, or with the token.
    pub(crate) short: TaskTracker,
    running: Mutex<JoinSet<()>>,
    ended: Arc<Mutex<Vec<Cow<'static, str>>>>,
}

/// Records the end of a task, also by a panic.
struct EndGuard {
    name: Cow<'static, str>,
    token: CancellationToken,
    ended: Arc<Mutex<Vec<Cow<'static, str>>>>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if !self.token.is_cancelled() {
            tracing::error!(task = &*self.name, "a task of larder has ended that was to run on");
            self.ended.lock().push(self.name.clone());
        }
    }
}

impl Tasks {
    pub(crate) fn new(token: CancellationToken) -> Self {
        Self { token, short: TaskTracker::new(), running: Mutex::default(), ended: Arc::default() }
    }

    pub(crate) fn spawn(&self, name: impl Into<Cow<'static, str>>, task: impl Future<Output = ()> + Send + 'static) {
        let guard = EndGuard { name: name.into(), token: self.token.clone(), ended: Arc::clone(&self.ended) };
        self.running.lock().spawn(async move {
            let _guard = guard;
            task.await;
        });
    }

    /// The tasks that ended before the token was cancelled.
    pub(crate) fn ended(&self) -> Vec<Cow<'static, str>> {
        self.ended.lock().clone()
    }

    /// Cancels the token and waits for all tasks. Aborts those that do not end in time.
    pub(crate) async fn stop(&self) {
        self.token.cancel();
        self.short.close();
        let mut running = std::mem::take(&mut *self.running.lock());
        let all_ended = async {
            while running.join_next().await.is_some() {}
            self.short.wait().await;
        };
        if tokio::time::timeout(STOP_DEADLINE, all_ended).await.is_err() {
            tracing::warn!(left = running.len(), "tasks did not end in time, and are dropped");
        }
        running.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_early_is_noticed_and_one_that_is_told_to_is_not() {
        let tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("short", async {});
        let token = tasks.token.clone();
        tasks.spawn("long", async move { token.cancelled().await });
        while tasks.ended().is_empty() {
            tokio::task::yield_now().await;
        }
        tasks.stop().await;
        assert_eq!(tasks.ended(), ["short"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_aborted() {
        let tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("stubborn", std::future::pending());
        tasks.stop().await;
        assert!(tasks.running.lock().is_empty());
    }
}
