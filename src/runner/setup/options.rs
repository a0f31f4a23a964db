//! The options of a runner that most applications leave alone, and their defaults: retries, polls, lease, stop and
//! maintenance.

use std::time::Duration;

use crate::maintenance::MAX_CRASHES;
use crate::runner::maintainer::MaintenanceSettings;
use crate::words::retry::RetryPolicy;

/// The options. Their defaults are those of a new runner.
#[derive(Debug)]
pub(in crate::runner) struct RunnerOptions {
    pub(in crate::runner) retry_policy: RetryPolicy,
    pub(in crate::runner) timeout: Option<Duration>,
    pub(in crate::runner) poll_interval: Duration,
    pub(in crate::runner) maintenance: MaintenanceSettings,
    pub(in crate::runner) lease: Duration,
    pub(in crate::runner) stop_timeout: Duration,
    pub(in crate::runner) stop_grace: Duration,
    pub(in crate::runner) is_listening: bool,
}

impl Default for RunnerOptions {
    fn default() -> Self {
        Self {
            retry_policy: RetryPolicy::default(),
            timeout: None,
            poll_interval: Duration::from_secs(1),
            maintenance: MaintenanceSettings::default(),
            lease: Duration::from_secs(20),
            stop_timeout: Duration::from_secs(25),
            stop_grace: Duration::from_secs(1),
            is_listening: true,
        }
    }
}

impl RunnerOptions {
    /// The problem of a value that is below its least one.
    pub(in crate::runner) fn problem(&self) -> Option<String> {
        if self.lease < Duration::from_secs(1) {
            return Some(format!("a lease must be at least 1 s: {:?}", self.lease));
        }
        if self.maintenance.max_crashes < MAX_CRASHES {
            return Some(format!("max_crashes must be at least {MAX_CRASHES}: {}", self.maintenance.max_crashes));
        }
        let own = [("timeout", self.timeout.unwrap_or(Duration::MAX)), ("poll_interval", self.poll_interval)];
        (own.into_iter().chain(self.maintenance.intervals()))
            .find(|(_, interval)| *interval < Duration::from_millis(1))
            .map(|(name, interval)| format!("{name} must be at least 1 ms: {interval:?}"))
    }
}
