//! The machine's sleep: noted as soon as it wakes, so that what was read before counts as that much older.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio_util::sync::CancellationToken;

/// How often the sleep is noted. A timer that expires while the machine sleeps fires as it wakes.
const PERIOD: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Shorter than any sleep that a person or a battery orders.
const WORTH_A_LINE: Duration = Duration::from_secs(1);

/// A timer that goes on while the machine sleeps; tokio's timers stand still then.
pub(super) struct SleepTimer(Receiver);

impl SleepTimer {
    /// To be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// The kernel has no timer to give.
    pub(super) fn start() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let each_period = Itimerspec { it_interval: PERIOD, it_value: PERIOD };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &each_period)?;
        // A timer is read as a pipe is.
        Receiver::from_file_unchecked(timer.into()).map(Self)
    }

    /// Waits until it fires.
    async fn fired(&mut self) -> io::Result<()> {
        self.0.read_u64().await.map(drop)
    }

    /// Has each sleep noted until the token is cancelled. `note` notes it and returns how long it was.
    pub(super) async fn run(mut self, note: impl Fn() -> Duration, token: CancellationToken) {
        while let Some(fired) = token.run_until_cancelled(self.fired()).await {
            if let Err(error) = fired {
                tracing::error!(%error, "cannot detect that this machine sleeps: restart larder after each sleep");
                return;
            }
            let slept = note();
            if slept >= WORTH_A_LINE {
                tracing::info!(?slept, "the machine has slept; everything that larder holds is older by that time");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_fires_each_period_by_the_clock_that_counts_sleep() {
        let mut timer = SleepTimer::start().unwrap();
        for _ in 0..2 {
            tokio::time::timeout(Duration::from_mins(1), timer.fired()).await.expect("it fires").unwrap();
        }
        let now = rustix::time::timerfd_gettime(&timer.0).unwrap();
        assert_eq!((now.it_interval.tv_sec, now.it_interval.tv_nsec), (1, 0));
    }

    #[tokio::test]
    async fn it_ends_with_the_daemon() {
        let token = CancellationToken::new();
        let noting = tokio::spawn(SleepTimer::start().unwrap().run(|| Duration::ZERO, token.clone()));
        token.cancel();
        tokio::time::timeout(Duration::from_mins(1), noting).await.expect("it ends").unwrap();
    }
}
