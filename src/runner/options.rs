//! The options of a runner that most applications leave alone, and their defaults: retries, polls, lease, stop and
//! maintenance.

use std::time::Duration;

use super::maintenance::MaintenanceSettings;
use crate::maintenance::MAX_CRASHES;
use crate::words::retry::RetryPolicy;

/// The options. Their defaults are those of a new runner.
#[derive(Debug)]
pub(super) struct RunnerOptions {
    pub(super) retry_policy: RetryPolicy,
    pub(super) timeout: Option<Duration>,
    pub(super) poll_interval: Duration,
    pub(super) maintenance: MaintenanceSettings,
    pub(super) lease: Duration,
    pub(super) stop_timeout: Duration,
    pub(super) stop_grace: Duration,
    pub(super) is_listening: bool,
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
    pub(super) fn problem(&self) -> Option<String> {
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
