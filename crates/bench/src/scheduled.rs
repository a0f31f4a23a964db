//! Scheduled jobs: inserted a little ahead of their time, at a steady rate.

use std::time::{Duration, Instant};

use sqlx::types::time::OffsetDateTime;
use sqlx::{PgConnection, Row};

use crate::delays::{Delays, Start};
use crate::failure::Failure;
use crate::failures::{interrupted, wrong};
use crate::test_database::TestDatabase;

/// One call inserts the jobs of each tick.
const TICK: Duration = Duration::from_millis(100);

/// How far ahead of its time a job is inserted, at least.
const AHEAD: Duration = Duration::from_millis(500);

/// The jobs to schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) n: u64,
    /// Jobs that are due in each second.
    pub(crate) rate: u32,
    /// Connections of the pool.
    pub(crate) connections: u32,
    /// Jobs that the runner works at once, and that SQL fetches at a time.
    pub(crate) slots: u32,
}

/// A job, and when it is due by the clock of the database.
pub(crate) type Due = (u64, OffsetDateTime);

impl Schedule {
    /// How long after the start a job is due.
    fn due_after(&self, number: u64) -> Duration {
        AHEAD + Duration::from_nanos(number.saturating_mul(1_000_000_000) / u64::from(self.rate))
    }

    /// How many jobs are inserted by the end of a tick, counted from 0: those that would be due in it without `AHEAD`.
    fn inserted_at(&self, tick: u64) -> u64 {
        let millis = (tick + 1).saturating_mul(u64::try_from(TICK.as_millis()).unwrap_or(u64::MAX));
        u64::from(self.rate).saturating_mul(millis).div_ceil(1_000).min(self.n)
    }

    /// Inserts the jobs of each tick with one call.
    pub(crate) async fn insert_all(
        &self,
        database: &TestDatabase,
        clock: &Clock,
        mut insert: impl AsyncFnMut(Vec<Due>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut ticks = tokio::time::interval(TICK);
        let (mut tick, mut next) = (0, 0);
        while next < self.n {
            ticks.tick().await;
            if database.interrupt.is_cancelled() {
                return Err(interrupted());
            }
            let end = self.inserted_at(tick);
            let jobs: Vec<Due> = (next..end).map(|number| (number, clock.time + self.due_after(number))).collect();
            if !jobs.is_empty() {
                insert(jobs).await?;
            }
            (tick, next) = (tick + 1, end);
        }
        Ok(())
    }

    /// How late the jobs started.
    pub(crate) fn delays(&self, clock: &Clock, starts: &[Start]) -> Result<Delays, Failure> {
        for (number, started_at) in starts {
            let due_at = clock.read_at + self.due_after(*number);
            if *started_at + clock.error < due_at {
                return Err(wrong(format!("job {number} started {:?} before its time", due_at - *started_at)));
            }
        }
        let late = |(number, started_at): &Start| {
            started_at.saturating_duration_since(clock.read_at + self.due_after(*number))
        };
        Ok(Delays::of(starts.iter().map(late)))
    }
}

/// The clock of the database, read beside that of this process.
pub(crate) struct Clock {
    read_at: Instant,
    time: OffsetDateTime,
    error: Duration,
}

impl Clock {
    pub(crate) async fn read(connection: &mut PgConnection) -> sqlx::Result<Self> {
        let asked_at = Instant::now();
        let time = sqlx::query("SELECT clock_timestamp()").fetch_one(connection).await?.try_get(0)?;
        let error = asked_at.elapsed();
        Ok(Self { read_at: asked_at + error / 2, time, error })
    }
}

/// Checks that every job is completed, and no other is there.
pub(crate) async fn check(database: &mut TestDatabase, schedule: Schedule) -> Result<(), Failure> {
    let all = database.count("SELECT count(*) FROM /* schema */job").await?;
    let completed = database.count("SELECT count(*) FROM /* schema */job WHERE state = 'completed'").await?;
    if (all, completed) == (schedule.n, schedule.n) {
        return Ok(());
    }
    Err(wrong(format!("of {} scheduled jobs {all} are stored and {completed} completed", schedule.n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_is_inserted_ahead_of_its_time() {
        for (n, rate) in [(40, 1_000), (1_000, 7), (5, 1)] {
            let schedule = Schedule { n, rate, connections: 1, slots: 1 };
            let (mut tick, mut next) = (0, 0);
            while next < n {
                let end = schedule.inserted_at(tick);
                let inserted_after = TICK * u32::try_from(tick).unwrap();
                for number in next..end {
                    let ahead = schedule.due_after(number).checked_sub(inserted_after).unwrap();
                    assert!(ahead >= AHEAD && ahead <= AHEAD + TICK, "{n} {rate} {number}: {ahead:?}");
                }
                (tick, next) = (tick + 1, end);
            }
            assert_eq!(next, n);
        }
    }

    #[test]
    fn delays_count_from_the_time_that_a_job_is_due() {
        let schedule = Schedule { n: 2, rate: 10, connections: 1, slots: 1 };
        let clock = Clock { read_at: Instant::now(), time: OffsetDateTime::UNIX_EPOCH, error: Duration::ZERO };
        let start = |number, late| (number, clock.read_at + schedule.due_after(number) + late);
        let delays = schedule.delays(&clock, &[start(0, Duration::ZERO), start(1, Duration::from_millis(7))]).unwrap();
        assert_eq!((delays.p50_ms, delays.max_ms), (0.0, 7.0));
        assert!(schedule.delays(&clock, &[(0, clock.read_at)]).is_err(), "a job that started early");
    }
}
