//! Answers of the database that all open pages share.
//!
//! A page that follows the queue is read again in every tab after each sample. The first tab asks the database. The other
//! tabs get its answer, until the next sample or the next change from the dashboard. So a page costs one look-up a sample,
//! however many tabs show it. The history and the proposed names are shared for 20 s instead, whatever was sampled or changed.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::sync::Mutex;

use crate::failure::Failure;

/// How long an answer is shared where no sample follows, as when no tab follows the queue.
const SHARED_FOR: Duration = Duration::from_secs(2);

/// How long an answer is shared that changes slowly, such as the history, which grows once a minute.
pub(crate) const SHARED_FOR_LONG: Duration = Duration::from_secs(20);

/// The most answers of one type that are kept.
const MOST: usize = 32;

/// The shared answers of a dashboard. An answer is found by its type and by what was asked for.
#[derive(Default)]
pub(crate) struct Answers(std::sync::Mutex<HashMap<(TypeId, String), Arc<dyn Any + Send + Sync>>>);

impl Answers {
    /// The answer about the thing with this key.
    pub(crate) fn of<T: Send + Sync + 'static>(&self, key: impl Debug) -> Arc<Answer<T>> {
        let (of, key) = (TypeId::of::<T>(), format!("{key:?}"));
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.keys().filter(|(one, known)| *one == of && *known != key).count() >= MOST {
            // Those that a request waits for stay.
            answers.retain(|(one, known), answer| *one != of || *known == key || Arc::strong_count(answer) > 1);
        }
        let answer = answers.entry((of, key)).or_insert_with(|| Arc::new(Answer::<T>::default()));
        // The entry has the type that its key names.
        Arc::clone(answer).downcast().unwrap_or_default()
    }
}

/// An answer, and the database's time when it was read.
pub(crate) struct Timed<T> {
    read_at: (OffsetDateTime, Instant),
    pub(crate) of: T,
}

impl<T> Timed<T> {
    pub(crate) fn new(now: OffsetDateTime, of: T) -> Self {
        Self { read_at: (now, Instant::now()), of }
    }

    /// The database's time now.
    pub(crate) fn now(&self) -> OffsetDateTime {
        self.read_at.0 + self.read_at.1.elapsed()
    }
}

/// One shared answer.
pub(crate) struct Answer<T>(Mutex<Option<Kept<T>>>);

struct Kept<T> {
    round: u64,
    asked_at: Instant,
    answer: Result<Arc<T>, Failure>,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Answer<T> {
    /// The answer of this round. Of the requests that come at once, one asks, and the others wait for it. A failure is
    /// shared as well: a database that does not answer in time is not asked once for each tab.
    pub(crate) async fn get(
        &self,
        round: impl Fn() -> u64,
        ask: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Arc<T>, Failure> {
        self.get_within([SHARED_FOR; 2], round, ask).await
    }

    /// The answer of the last [`SHARED_FOR_LONG`], whatever was sampled or changed since. A failure is shared as briefly as
    /// that of [`get`](Self::get).
    pub(crate) async fn get_slow(&self, ask: impl Future<Output = Result<T, Failure>>) -> Result<Arc<T>, Failure> {
        self.get_within([SHARED_FOR_LONG, SHARED_FOR], || 0, ask).await
    }

    async fn get_within(
        &self,
        [answer_for, failure_for]: [Duration; 2],
        round: impl Fn() -> u64,
        ask: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Arc<T>, Failure> {
        let mut kept = self.0.lock().await;
        let is_current = |kept: &&Kept<T>| {
            let shared_for = if kept.answer.is_ok() { answer_for } else { failure_for };
            kept.round == round() && kept.asked_at.elapsed() < shared_for
        };
        if let Some(kept) = kept.as_ref().filter(is_current) {
            return kept.answer.clone();
        }
        // Read before the question: a change during the look-up makes its answer old.
        let (round, asked_at) = (round(), Instant::now());
        let answer = ask.await.map(Arc::new);
        *kept = Some(Kept { round, asked_at, answer: answer.clone() });
        answer
    }
}

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// How long an answer is counted on from. A clock that was set meanwhile is noticed after this time.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// An answer that took longer than this is not kept: the time could be wrong by as much.
const QUICK: Duration = Duration::from_millis(100);

/// The time of the database, by its last answer and the monotonic clock of this process.
#[derive(Default)]
pub(crate) struct Clock(std::sync::Mutex<Option<(OffsetDateTime, Instant)>>);

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
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    /// So long that no slow machine makes an answer old.
    const LASTING: [Duration; 2] = [Duration::from_secs(3_600); 2];

    /// Makes the kept answer older by this time.
    async fn age(answer: &Answer<u64>, by: Duration) {
        answer.0.lock().await.as_mut().unwrap().asked_at -= by;
    }

    async fn ask(asked: &AtomicU64) -> Result<u64, Failure> {
        let number = asked.fetch_add(1, SeqCst) + 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok(number)
    }

    #[tokio::test]
    async fn fifty_tabs_cost_one_look_up_a_sample() {
        let (answer, round, asked) = (Arc::new(Answer::default()), Arc::new(AtomicU64::new(0)), Arc::default());
        for sample in 1..=3 {
            let tabs: Vec<_> = (0..50)
                .map(|_| {
                    let (answer, round, asked) = (Arc::clone(&answer), Arc::clone(&round), Arc::clone(&asked));
                    tokio::spawn(async move {
                        *answer.get_within(LASTING, || round.load(SeqCst), ask(&asked)).await.unwrap()
                    })
                })
                .collect();
            for tab in tabs {
                assert_eq!(tab.await.unwrap(), sample);
            }
            round.fetch_add(1, SeqCst);
        }
        assert_eq!(asked.load(SeqCst), 3);
    }

    #[tokio::test]
    async fn a_change_during_a_look_up_makes_its_answer_old() {
        let (answer, round, asked) = (Answer::default(), AtomicU64::new(0), AtomicU64::new(0));
        let first = answer.get_within(LASTING, || round.load(SeqCst), async {
            round.fetch_add(1, SeqCst);
            ask(&asked).await
        });
        assert_eq!(*first.await.unwrap(), 1);
        assert_eq!(*answer.get_within(LASTING, || round.load(SeqCst), ask(&asked)).await.unwrap(), 2);
        // Without samples the answer ages.
        assert_eq!(*answer.get_within(LASTING, || round.load(SeqCst), ask(&asked)).await.unwrap(), 2);
        age(&answer, LASTING[0]).await;
        assert_eq!(*answer.get_within(LASTING, || round.load(SeqCst), ask(&asked)).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_failure_is_shared_and_a_dropped_look_up_is_not() {
        let (answer, asked) = (Answer::<u64>::default(), AtomicU64::new(0));
        let failing = || async {
            asked.fetch_add(1, SeqCst);
            Err(Failure::Bad("no".to_owned()))
        };
        assert!(
            answer.get_within(LASTING, || 0, failing()).await.is_err()
                && answer.get_within(LASTING, || 0, failing()).await.is_err()
        );
        assert_eq!(asked.load(SeqCst), 1);
        let answer = Answer::default();
        drop(tokio::time::timeout(Duration::ZERO, answer.get_within(LASTING, || 0, std::future::pending())).await);
        assert_eq!(*answer.get_within(LASTING, || 0, ask(&asked)).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_slow_answer_is_shared_over_samples_and_changes_for_its_time_and_a_failure_briefly() {
        let (answer, asked) = (Answer::default(), AtomicU64::new(0));
        for _ in 0..3 {
            assert_eq!(*answer.get_slow(ask(&asked)).await.unwrap(), 1);
        }
        age(&answer, SHARED_FOR_LONG).await;
        assert_eq!(*answer.get_slow(ask(&asked)).await.unwrap(), 2);
        let answer = Answer::default();
        assert!(answer.get_slow(async { Err(Failure::Bad("no".to_owned())) }).await.is_err());
        age(&answer, SHARED_FOR).await;
        assert_eq!(*answer.get_slow(ask(&asked)).await.unwrap(), 3);
    }

    #[test]
    fn few_answers_are_kept() {
        let answers = Answers::default();
        let held = answers.of::<u8>(0);
        for key in 1..1_000 {
            answers.of::<u8>(key);
            answers.of::<u16>(key);
            assert!(answers.0.lock().unwrap().len() <= 2 * (MOST + 1));
        }
        assert!(Arc::ptr_eq(&held, &answers.of::<u8>(0)));
    }

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
