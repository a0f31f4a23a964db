//! Answers of the database that all open pages share.
//!
//! A page that follows the queue is read again in every tab after each sample. The first tab asks the database. The other
//! tabs get its answer, until the next sample or the next change from the dashboard. So a page costs one look-up a sample,
//! however many tabs show it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::sync::Mutex;

use crate::failure::Failure;

/// How long an answer is shared where no sample follows, as when no tab follows the queue.
const SHARED_FOR: Duration = Duration::from_secs(2);

/// The most jobs, the most keys, and the most queues, whose answers are kept.
const MOST: usize = 32;

/// The shared answers of a dashboard. An answer is found by its type and by what was asked for.
#[derive(Default)]
pub(crate) struct Answers(std::sync::Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Answers {
    /// The answer to a question that has no key.
    pub(crate) fn one<T: Send + Sync + 'static>(&self) -> Arc<Answer<T>> {
        self.of(())
    }

    /// The answer about the thing with this key.
    pub(crate) fn of<K, T>(&self, key: K) -> Arc<Answer<T>>
    where
        K: Eq + Hash + Send + 'static,
        T: Send + Sync + 'static,
    {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || -> Arc<dyn Any + Send + Sync> { Arc::new(Keyed::<K, T>::default()) };
        let kind = Arc::clone(kinds.entry(TypeId::of::<Keyed<K, T>>()).or_insert_with(new));
        drop(kinds);
        // The entry has the type that its key names.
        kind.downcast::<Keyed<K, T>>().unwrap_or_default().of(key)
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
pub(crate) struct Answer<T> {
    kept: Mutex<Option<Kept<T>>>,
    shared_for: Duration,
}

struct Kept<T> {
    round: u64,
    asked_at: Instant,
    answer: Result<Arc<T>, Failure>,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self { kept: Mutex::new(None), shared_for: SHARED_FOR }
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
        let mut kept = self.kept.lock().await;
        let is_current = |kept: &&Kept<T>| kept.round == round() && kept.asked_at.elapsed() < self.shared_for;
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

/// Shared answers about things with a name.
struct Keyed<K, T>(std::sync::Mutex<HashMap<K, Arc<Answer<T>>>>);

impl<K, T> Default for Keyed<K, T> {
    fn default() -> Self {
        Self(std::sync::Mutex::default())
    }
}

impl<K: Eq + Hash, T> Keyed<K, T> {
    /// The answer about one of them.
    fn of(&self, key: K) -> Arc<Answer<T>> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MOST && !answers.contains_key(&key) {
            // Those that a request waits for stay.
            answers.retain(|_, answer| Arc::strong_count(answer) > 1);
        }
        Arc::clone(answers.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::*;

    /// An answer that no slow machine makes old.
    fn lasting() -> Answer<u64> {
        Answer { shared_for: Duration::from_secs(3_600), ..Answer::default() }
    }

    async fn ask(asked: &AtomicU64) -> Result<u64, Failure> {
        let number = asked.fetch_add(1, SeqCst) + 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok(number)
    }

    #[tokio::test]
    async fn fifty_tabs_cost_one_look_up_a_sample() {
        let (answer, round, asked) = (Arc::new(lasting()), Arc::new(AtomicU64::new(0)), Arc::default());
        for sample in 1..=3 {
            let tabs: Vec<_> = (0..50)
                .map(|_| {
                    let (answer, round, asked) = (Arc::clone(&answer), Arc::clone(&round), Arc::clone(&asked));
                    tokio::spawn(async move { *answer.get(|| round.load(SeqCst), ask(&asked)).await.unwrap() })
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
        let (answer, round, asked) = (lasting(), AtomicU64::new(0), AtomicU64::new(0));
        let first = answer.get(|| round.load(SeqCst), async {
            round.fetch_add(1, SeqCst);
            ask(&asked).await
        });
        assert_eq!(*first.await.unwrap(), 1);
        assert_eq!(*answer.get(|| round.load(SeqCst), ask(&asked)).await.unwrap(), 2);
        // Without samples the answer ages.
        assert_eq!(*answer.get(|| round.load(SeqCst), ask(&asked)).await.unwrap(), 2);
        answer.kept.lock().await.as_mut().unwrap().asked_at -= answer.shared_for;
        assert_eq!(*answer.get(|| round.load(SeqCst), ask(&asked)).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_failure_is_shared_and_a_dropped_look_up_is_not() {
        let (answer, asked) = (lasting(), AtomicU64::new(0));
        let failing = || async {
            asked.fetch_add(1, SeqCst);
            Err(Failure::Bad("no".to_owned()))
        };
        assert!(answer.get(|| 0, failing()).await.is_err() && answer.get(|| 0, failing()).await.is_err());
        assert_eq!(asked.load(SeqCst), 1);
        let answer = lasting();
        drop(tokio::time::timeout(Duration::ZERO, answer.get(|| 0, std::future::pending())).await);
        assert_eq!(*answer.get(|| 0, ask(&asked)).await.unwrap(), 2);
    }

    #[test]
    fn few_answers_are_kept() {
        let answers = Keyed::<u32, ()>::default();
        let held = answers.of(0);
        for key in 1..1_000 {
            answers.of(key);
            assert!(answers.0.lock().unwrap().len() <= MOST);
        }
        assert!(Arc::ptr_eq(&held, &answers.of(0)));
    }
}
