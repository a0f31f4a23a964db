//! What a stretch of time cost: seconds, WAL and processor time.

use std::time::{Duration, Instant};

use serde::Serialize;
use sqlx::{PgConnection, Row};

use super::cpu;
use super::ground::Ground;
use crate::failure::Failure;

/// The readings at the start of a stretch.
pub(super) struct Meter {
    begun_at: Instant,
    wal: i64,
    client_cpu: Option<Duration>,
    server_cpu: Option<Duration>,
}

/// What one turn of a workload, or of its counterpart, measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Measure {
    pub(super) jobs: u64,
    pub(super) seconds: f64,
    /// Bytes, of everything in the server.
    pub(super) wal: f64,
    /// Seconds of this process.
    pub(super) client_cpu: Option<f64>,
    /// Seconds of all processes of the embedded server.
    pub(super) server_cpu: Option<f64>,
    pub(super) latency: Option<Latency>,
    /// Jobs a second in the first and in the last tenth.
    pub(super) tenths: Option<[f64; 2]>,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Latency {
    /// From the answer of the insert to the start of the job; 0 where the job was quicker than the answer.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    /// From the call of the insert to the start of the job: with the commit itself.
    pub(super) from_call_p50_ms: f64,
    pub(super) from_call_p99_ms: f64,
}

impl Meter {
    pub(super) async fn start(ground: &mut Ground) -> Result<Self, Failure> {
        let wal = wal(&mut ground.connection).await?;
        let (client_cpu, server_cpu) = (cpu::own(), ground.data_dir().and_then(cpu::server));
        ground.profiler.tell(true);
        Ok(Self { begun_at: Instant::now(), wal, client_cpu, server_cpu })
    }

    /// The stretch ends here, and so many jobs were done in it.
    pub(super) async fn stop(self, ground: &mut Ground, jobs: u64) -> Result<Measure, Failure> {
        let seconds = self.begun_at.elapsed().as_secs_f64();
        ground.profiler.tell(false);
        let spent = |before: Option<Duration>, after: Option<Duration>| {
            before.zip(after).map(|(before, after)| after.saturating_sub(before).as_secs_f64())
        };
        let client_cpu = spent(self.client_cpu, cpu::own());
        let server_cpu = spent(self.server_cpu, ground.data_dir().and_then(cpu::server));
        let wal = (wal(&mut ground.connection).await? - self.wal) as f64;
        Ok(Measure { jobs, seconds, wal, client_cpu, server_cpu, latency: None, tenths: None })
    }
}

impl Measure {
    pub(super) fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds.max(f64::EPSILON)
    }
}

/// How much WAL there is, in bytes.
async fn wal(connection: &mut PgConnection) -> sqlx::Result<i64> {
    let asked = sqlx::query("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetch_one(connection);
    asked.await?.try_get(0)
}
