//! Waiting in tests: for a condition, with a deadline, instead of for a while.

use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// The condition was not met within the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the condition was not met within {within:?}")]
pub struct NotMet {
    /// How long it was waited for.
    pub within: Duration,
}

/// How often the condition is looked at.
const INTERVAL: Duration = Duration::from_millis(5);

/// Looks again and again until the condition gives something, on tokio's time; the last look is after the deadline.
///
/// # Errors
///
/// The condition gave `None` for all that time.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// use std::time::Duration;
/// let mut looks = 0;
/// let met = larder_testkit::poll_until(Duration::from_secs(1), || {
///     looks += 1;
///     std::future::ready((looks == 3).then_some("there"))
/// });
/// assert_eq!(met.await, Ok("there"));
/// # });
/// ```
pub async fn poll_until<T, F>(within: Duration, mut condition: impl FnMut() -> F) -> Result<T, NotMet>
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + within;
    loop {
        let last = Instant::now() >= deadline;
        if let Some(met) = condition().await {
            return Ok(met);
        }
        if last {
            return Err(NotMet { within });
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
