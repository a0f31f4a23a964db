//! The cost of a run: seconds, WAL and processor time.

use std::time::{Duration, Instant};

use sqlx::{PgConnection, Row};

use crate::cpu;
use crate::delays::Delays;
use crate::failure::Failure;
use crate::test_database::TestDatabase;

/// The readings at the start of a run.
pub(crate) struct Meter {
    begun_at: Instant,
    wal: i64,
    client_cpu: Option<Duration>,
    server_cpu: Option<Duration>,
}

/// The measurements of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measure {
    pub(crate) jobs: u64,
    pub(crate) seconds: f64,
    /// Bytes, of everything in the server.
    pub(crate) wal: f64,
    /// Seconds of this process.
    pub(crate) client_cpu: Option<f64>,
    /// Seconds of all processes of the embedded server.
    pub(crate) server_cpu: Option<f64>,
    pub(crate) delays: Option<Delays>,
    /// The same with the time of the insert itself.
    pub(crate) delays_from_call: Option<Delays>,
    /// Jobs a second in the first and in the last tenth.
    pub(crate) tenths: Option<[f64; 2]>,
}

impl Meter {
    pub(crate) async fn start(database: &mut TestDatabase) -> Result<Self, Failure> {
        let wal = wal(&mut database.connection).await?;
        let (client_cpu, server_cpu) = (cpu::own(), database.data_dir().and_then(cpu::server));
        database.profiler.tell(true);
        Ok(Self { begun_at: Instant::now(), wal, client_cpu, server_cpu })
    }

    /// Ends the run, in which this many jobs were done.
    pub(crate) async fn stop(self, database: &mut TestDatabase, jobs: u64) -> Result<Measure, Failure> {
        let seconds = self.begun_at.elapsed().as_secs_f64();
        database.profiler.tell(false);
        let spent = |before: Option<Duration>, after: Option<Duration>| {
            before.zip(after).map(|(before, after)| after.saturating_sub(before).as_secs_f64())
        };
        let client_cpu = spent(self.client_cpu, cpu::own());
        let server_cpu = spent(self.server_cpu, database.data_dir().and_then(cpu::server));
        let wal = (wal(&mut database.connection).await? - self.wal) as f64;
        Ok(Measure { jobs, seconds, wal, client_cpu, server_cpu, ..Measure::default() })
    }
}

impl Measure {
    /// Jobs a second.
    pub(crate) fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds.max(f64::EPSILON)
    }

    pub(crate) fn per_job(&self, cost: f64) -> f64 {
        cost / self.jobs.max(1) as f64
    }

    /// Microseconds.
    pub(crate) fn server_cpu_per_job(&self) -> Option<f64> {
        Some(self.per_job(self.server_cpu? * 1e6))
    }
}

/// The bytes of WAL that the server has written so far.
async fn wal(connection: &mut PgConnection) -> sqlx::Result<i64> {
    let asked = sqlx::query("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetch_one(connection);
    asked.await?.try_get(0)
}
