//! The database's clock, which ages and countdowns are told by, without a question for each page.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// How long an answer is counted on from. A clock that was set meanwhile is noticed after this time.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// An answer that took longer than this is not kept: the time could be wrong by as much.
const QUICK: Duration = Duration::from_millis(100);

/// The time of the database, by its last answer and the monotonic clock of this process.
#[derive(Default)]
pub(crate) struct Clock(Mutex<Option<(OffsetDateTime, Instant)>>);

impl Clock {
    /// The database's time now. Asks where the last answer is old.
    pub(crate) async fn now<E>(
        &self,
        ask: impl Future<Output = Result<OffsetDateTime, E>>,
    ) -> Result<OffsetDateTime, E> {
        if let Some((then, at)) = *self.0.lock().unwrap_or_else(PoisonError::into_inner)
            && at.elapsed() < KEPT_FOR
        {
            return Ok(then + at.elapsed());
        }
        // The time before the question: the clock of this process is never behind, and no job was inserted in its future.
        let asked_at = Instant::now();
        let now = ask.await?;
        if asked_at.elapsed() < QUICK {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, asked_at));
        }
        Ok(now)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn the_database_is_asked_again_when_its_answer_is_old() {
        let asked = Cell::new(0);
        let ask = async || {
            asked.set(asked.get() + 1);
            Ok::<_, ()>(OffsetDateTime::UNIX_EPOCH)
        };
        let clock = Clock::default();
        let kept_since = |at| *clock.0.lock().unwrap() = Some((OffsetDateTime::UNIX_EPOCH, at));
        // Further ahead than a slow machine makes an answer old.
        kept_since(Instant::now() + HOUR);
        assert_eq!(clock.now(ask()).await, Ok(OffsetDateTime::UNIX_EPOCH));
        kept_since(Instant::now() - Duration::from_secs(5));
        assert!(clock.now(ask()).await.unwrap() > OffsetDateTime::UNIX_EPOCH, "it goes on");
        assert_eq!(asked.get(), 0);
        kept_since(Instant::now() - KEPT_FOR);
        assert_eq!(clock.now(ask()).await, Ok(OffsetDateTime::UNIX_EPOCH));
        assert_eq!(asked.get(), 1);
    }

    #[tokio::test]
    async fn a_failure_and_a_slow_answer_are_not_kept() {
        let clock = Clock::default();
        assert_eq!(clock.now(async { Err("down") }).await, Err("down"));
        let slow = async {
            tokio::time::sleep(QUICK).await;
            Ok::<_, &str>(OffsetDateTime::UNIX_EPOCH)
        };
        clock.now(slow).await.unwrap();
        assert_eq!(clock.now(async { Err("down") }).await, Err("down"));
    }
}
