//! Waiting for a condition, with a deadline.

use anyhow::{Result, bail};
use std::fmt::Display;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often a condition is looked at.
const INTERVAL: Duration = Duration::from_millis(25);

/// Looks at a condition again and again until it holds, and returns what it found; fails after `limit` with the last
/// reason why it did not hold.
///
/// # Errors
///
/// When the condition does not hold by the deadline.
///
/// ```
/// use larder_testbed::poll::until;
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let mut looks = 0;
/// let found = until("the third look", Duration::from_secs(10), async || {
///     looks += 1;
///     if looks < 3 { Err(format!("only {looks} looks")) } else { Ok(looks) }
/// });
/// assert_eq!(found.await.unwrap(), 3);
/// # });
/// ```
pub async fn until<T, E: Display>(
    what: &str,
    limit: Duration,
    mut condition: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    let mut reason = None;
    loop {
        match tokio::time::timeout_at(deadline, condition()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(latest)) if Instant::now() < deadline => reason = Some(latest),
            Ok(Err(latest)) => bail!("{what}: not within {limit:?}: {latest:#}"),
            Err(_) => match reason {
                Some(reason) => bail!("{what}: not within {limit:?}; the last look that ended: {reason:#}"),
                None => bail!("{what}: not within {limit:?}; not even the first look ended by then"),
            },
        }
        sleep(INTERVAL).await;
    }
}
