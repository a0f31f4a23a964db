//! Making a diagnosis, check by check.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, Instant};

use sqlx::Connection;
use time::OffsetDateTime;

use super::finding::{Diagnosis, Finding, FindingCode, Remedy, Severity, SkippedCheck};
use super::thresholds::Thresholds;
use super::{database, drift, environment, groups, kinds, periodic, queues, work};
use crate::client::Client;
use crate::client::pooled_connection::PooledConnection;
use crate::client::time_limit;
use crate::error::{Error, Result};
use crate::store::{self, Pooling};

/// The default timeout of a check.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The most jobs that a check reads where no index leads to those that matter.
const MOST_JOBS: i64 = 1_000;

/// The most groups of each sort that are read.
const MOST_GROUPS: i32 = 1_000;

/// How many jobs on either side of a slow one are looked at for what is usual.
const NEIGHBOURS: i64 = 2_500;

/// A diagnosis to be awaited. Made by [`Client::diagnose`].
#[derive(Debug)]
#[must_use = "a diagnosis is not made until it is awaited"]
pub struct Diagnose<'a> {
    client: &'a Client,
    thresholds: Thresholds,
    timeout: Duration,
}

impl Client {
    /// Finds problems of the queue: its schema, its database, its runners and its jobs. Changes nothing.
    ///
    /// ```no_run
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// let diagnosis = client.diagnose().await?;
    /// for finding in &diagnosis.findings {
    ///     println!("{} {} {}: {}", finding.severity, finding.code, finding.subject, finding.seen);
    /// }
    /// assert!(diagnosis.is_healthy());
    /// # Ok(()) }
    /// ```
    ///
    /// It takes one connection of the pool, opens a second one for a moment, and sends about twenty statements, each with a
    /// timeout ([`Diagnose::timeout`]). It reads no whole table, so a health endpoint may call it every few seconds. Checks
    /// for which the role lacks a privilege are reported as skipped: to make all of them, the role must be a member of
    /// `pg_monitor` and read the queue's tables and views. docs/operate/doctor.md lists the checks.
    ///
    /// # Errors
    ///
    /// [`Error::Database`] when the database cannot be reached. Later failures are in the diagnosis.
    pub fn diagnose(&self) -> Diagnose<'_> {
        Diagnose { client: self, thresholds: Thresholds::default(), timeout: TIMEOUT }
    }
}

impl<'a> Diagnose<'a> {
    /// The limits of findings. Default: [`Thresholds::default`].
    pub fn thresholds(mut self, thresholds: Thresholds) -> Self {
        self.thresholds = thresholds;
        self
    }

    /// How long each check may take, and wait for a lock. A check that takes longer is reported as skipped. Default: 5 s;
    /// at least 1 ms.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl<'a> IntoFuture for Diagnose<'a> {
    type Output = Result<Diagnosis>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, thresholds, timeout } = self;
            let connection = client.connection().await?;
            Examination::new(client, connection, thresholds, timeout).run().await
        })
    }
}

/// A diagnosis while it is made.
struct Examination<'a> {
    client: &'a Client,
    connection: PooledConnection,
    thresholds: Thresholds,
    timeout: Duration,
    findings: Vec<Finding>,
    skipped: Vec<SkippedCheck>,
    checks: Vec<&'static str>,
    /// Whether no check failed that every role that sees the queue can make.
    sees_queue: bool,
}

/// Makes one check in a transaction of its own. `None`: it failed, which is recorded.
macro_rules! check {
    ($examination:ident, $check:literal, $query:path $(, $argument:expr)*) => {{
        let limit = $examination.answer_timeout();
        let checked = async {
            let mut transaction = store::begin_check(&mut $examination.connection, $examination.timeout).await?;
            let found = $query(&mut transaction, $examination.client.statements() $(, $argument)*).await?;
            transaction.rollback().await?;
            Ok(found)
        };
        let checked = time_limit::within(limit, checked).await;
        $examination.settle($check, checked)?
    }};
}

impl<'a> Examination<'a> {
    fn new(client: &'a Client, connection: PooledConnection, thresholds: Thresholds, timeout: Duration) -> Self {
        let (findings, skipped, checks) = Default::default();
        Self { client, connection, thresholds, timeout, findings, skipped, checks, sees_queue: true }
    }

    /// The server ends a check that takes too long. Without its answer the connection fell silent.
    fn answer_timeout(&self) -> Duration {
        self.timeout + time_limit::CHECK_TIMEOUT
    }

    async fn run(mut self) -> Result<Diagnosis> {
        let limits = self.thresholds;
        let (asked_at, began) = (OffsetDateTime::now_utc(), Instant::now());
        let limit = self.answer_timeout();
        let itself = time_limit::within(limit, async {
            let mut transaction = store::begin_check(&mut self.connection, self.timeout).await?;
            let itself = store::itself(&mut transaction, self.client.statements()).await?;
            transaction.rollback().await?;
            Ok(itself)
        })
        .await?;
        let took = began.elapsed();
        let schema = self.client.schema().clone();
        self.checks.push("clock");
        self.findings.extend(environment::clock_offset(&itself, asked_at, took, &limits));
        self.findings.extend(environment::notify_usage(&itself, &limits));
        self.checks.push("notifications");
        self.findings.extend(environment::standby(&itself));
        self.findings.extend(environment::encoding(&itself));

        if let Some(pooling) = self.pooling().await? {
            self.findings.extend(environment::pooler(pooling));
        }
        self.check_sessions(&itself).await?;

        // Where the encoding is wrong, no schema would be right.
        let is_current = itself.encoding == "UTF8" && self.check_schema(&itself).await?;
        if is_current {
            self.check_tables().await?;
            self.check_work(time_of(&itself)).await?;
        }

        self.findings.sort_by(|one, other| {
            let order = |finding: &Finding| (std::cmp::Reverse(finding.severity), finding.code.as_str());
            order(one).cmp(&order(other))
        });
        let Self { findings, skipped, checks, sees_queue, .. } = self;
        let at = time_of(&itself);
        Ok(Diagnosis {
            schema,
            database: itself.database,
            role: itself.role,
            server_version: itself.version,
            at,
            sees_queue,
            findings,
            skipped,
            checks,
        })
    }

    /// Whether this library may use the schema. At another version, checks of its tables would fail or mislead.
    async fn check_schema(&mut self, itself: &store::Itself) -> Result<bool> {
        if itself.has_schema && !itself.may_use {
            self.sees_queue = false;
            self.skip(
                "schema",
                format!("role {} may not use schema {}", itself.role, self.client.schema()),
                Some(format!("GRANT USAGE ON SCHEMA {} TO \"{}\";", self.client.schema().quoted(), itself.role)),
            );
            return Ok(false);
        }
        let Some(version) = check!(self, "version", store::schema_version) else { return Ok(false) };
        let schema = self.client.schema();
        self.findings.extend(drift::version(schema, version));
        if version.check(schema).is_err() {
            self.skip("schema, tables, work", "the schema is not at a version that this uniqueue may use", None);
            return Ok(false);
        }
        if version.is_newer() {
            self.skip("schema", "the schema is newer than this uniqueue", None);
        } else if let Some(found) = check!(self, "schema", store::schema_objects) {
            self.findings.extend(drift::judge(schema, &store::golden_objects()?, &found));
        }
        if let Some(indexes) = check!(self, "indexes", store::invalid_indexes) {
            self.findings.extend(indexes.iter().map(|index| database::invalid_index(schema, index)));
        }
        Ok(true)
    }

    async fn check_sessions(&mut self, itself: &store::Itself) -> Result<()> {
        let limits = self.thresholds;
        let at_least = limits.transaction.warning;
        if let Some(open) = check!(self, "transactions", store::open_transactions, at_least) {
            self.findings.extend(open.iter().filter_map(|one| database::open_transaction(one, &limits)));
        }
        if !itself.sees_sessions {
            let hidden = check!(self, "hidden sessions", store::hidden_sessions).unwrap_or(0);
            if hidden > 0 {
                self.skip(
                    "transactions",
                    format!("{hidden} sessions of other roles: needs pg_monitor"),
                    Some(format!("GRANT pg_monitor TO \"{}\";", itself.role)),
                );
            }
        }
        if let Some(prepared) = check!(self, "prepared transactions", store::prepared_transactions, at_least) {
            self.findings.extend(prepared.iter().filter_map(|one| database::prepared_transaction(one, &limits)));
        }
        if let Some(held) = check!(self, "replication", store::held_from_outside) {
            self.findings.extend(held.iter().filter_map(|one| database::held_from_outside(one, &limits)));
            if !itself.sees_sessions {
                self.skip(
                    "replication",
                    "the feedback of standbys: needs pg_monitor",
                    Some(format!("GRANT pg_monitor TO \"{}\";", itself.role)),
                );
            }
        }
        Ok(())
    }

    async fn check_tables(&mut self) -> Result<()> {
        let (limits, client) = (self.thresholds, self.client);
        let schema = client.schema();
        if let Some(tables) = check!(self, "tables", store::tables) {
            let has_holder = self.findings.iter().any(|finding| database::holds_snapshot(finding.code));
            self.findings.extend(tables.iter().flat_map(|table| database::table(schema, table, has_holder, &limits)));
        }
        let pages = i64::try_from(limits.bloat_bytes / 8_192).unwrap_or(i64::MAX);
        if let Some(indexes) =
            check!(self, "index bloat", store::bloated_indexes, pages, i64::from(limits.bloat_factor))
        {
            self.findings.extend(indexes.iter().map(|index| database::bloated_index(schema, index)));
        }
        if let Some(overdue) = check!(self, "retention", store::overdue, limits.retention.warning) {
            self.findings.extend(overdue.iter().filter_map(|one| work::retention(schema, one, &limits)));
        }
        Ok(())
    }

    async fn check_work(&mut self, now: OffsetDateTime) -> Result<()> {
        let (limits, client) = (self.thresholds, self.client);
        let schema = client.schema();
        // Where the check fails, runners may be alive.
        let mut has_runners = true;
        if let Some(runners) = check!(self, "runners", store::runners) {
            self.findings.extend(runners.iter().filter_map(work::runner));
            has_runners = runners.iter().any(|runner| runner.lease_left > 0.0);
        }
        if let Some(queues) = check!(self, "queues", store::list_queues, 10_000) {
            self.findings.extend(queues::all_waiting(schema, &queues, has_runners, &limits, now));
        }
        if let Some(queues) = check!(self, "queue limits", store::full_queues) {
            self.findings.extend(queues.iter().map(|queue| queues::full(schema, queue)));
        }
        if let Some(kinds) = check!(self, "kinds", store::unknown_kinds, MOST_JOBS) {
            self.findings.extend(kinds.iter().map(|kind| work::unknown_kind(schema, kind, &limits)));
        }
        if let Some(held) = check!(self, "groups", store::held_groups, MOST_GROUPS, limits.waiting.warning) {
            self.findings.extend(held.iter().filter_map(|one| groups::held(schema, one, &limits)));
        }
        if let Some(stuck) = check!(self, "jobs", store::stuck_jobs, limits.running, limits.overdue.warning) {
            self.findings.extend(stuck.iter().filter_map(|jobs| work::stuck(schema, jobs, &limits)));
        }
        let suspects = check!(self, "suspects", store::suspect_jobs, MOST_JOBS);
        self.findings.extend(suspects.iter().flatten().map(|jobs| work::suspects(schema, jobs)));
        let expired = check!(self, "expired jobs", store::expired_kinds, MOST_JOBS);
        self.findings.extend(expired.iter().flatten().map(|jobs| work::expired(schema, jobs)));
        let unreadable = check!(self, "rows", store::unreadable_jobs, MOST_JOBS);
        self.findings.extend(unreadable.iter().flatten().map(|jobs| work::unreadable(schema, jobs)));
        if let Some(slow) = check!(self, "attempts", store::slow_jobs, limits.slow, limits.slow_factor, NEIGHBOURS) {
            self.findings.extend(slow.iter().map(|jobs| work::slow(schema, jobs)));
        }
        if let Some(claims) = check!(self, "claims", store::idle_claims, limits.claim, MOST_JOBS) {
            self.findings.extend(claims.iter().map(|claims| work::idle_claims(schema, claims)));
        }
        if let Some(neglected) = check!(self, "maintenance", store::neglected, work::NEGLECTED_AFTER) {
            self.findings.extend(neglected.iter().map(|one| work::neglected(schema, one)));
        }
        if let Some(found) = check!(self, "schedules", store::periodic_definitions) {
            self.findings.extend(found.iter().map(|one| periodic::definitions(schema, one)));
        }
        if let Some(found) = check!(self, "registered kinds", store::kind_definitions) {
            self.findings.extend(found.iter().map(|one| kinds::definitions(schema, one)));
        }
        Ok(())
    }

    /// Finds a pooler between the client and the database. This needs two connections at once, so it opens one.
    async fn pooling(&mut self) -> Result<Option<Pooling>> {
        let checking = async {
            let options = self.client.pool().connect_options();
            let mut other = time_limit::connect(&options).await?;
            let found = store::pooling(&mut self.connection, &mut other, self.client.statements()).await;
            let closed = other.close().await;
            let found = found?;
            closed?;
            Ok(found)
        };
        match tokio::time::timeout(self.timeout, checking).await {
            Ok(checked) => self.settle("pooler", checked),
            Err(_) => {
                // The connection may be in the middle of an answer.
                self.renew().await?;
                self.skip("pooler", format!("no answer within {:?}", self.timeout), None);
                Ok(None)
            }
        }
    }

    /// Takes another connection in the place of one that may be in the middle of an answer.
    async fn renew(&mut self) -> Result<()> {
        let new = self.client.connection().await?;
        std::mem::replace(&mut self.connection, new).cut();
        Ok(())
    }

    fn skip(&mut self, check: &str, why: impl Into<String>, remedy: Option<String>) {
        self.skipped.push(SkippedCheck { check: check.to_owned(), why: why.into(), remedy });
    }

    /// Records the result of a check. An error means that the connection is lost, which ends the diagnosis.
    fn settle<T>(&mut self, check: &'static str, checked: Result<T>) -> Result<Option<T>> {
        let error = match checked {
            Ok(found) => {
                self.checks.push(check);
                return Ok(Some(found));
            }
            Err(error) => error,
        };
        // Any check can meet a pooler that mixes up statements.
        if error.is_mix_up() {
            if !self.findings.iter().any(|finding| finding.code == FindingCode::Pooler) {
                self.findings.extend(environment::pooler(Pooling::MixesUp));
            }
            self.skip(check, error.to_string(), None);
            return Ok(None);
        }
        let (code, said) = match &error {
            Error::Database(sqlx::Error::Database(said)) => {
                (said.code().unwrap_or_default().into_owned(), said.message().to_owned())
            }
            Error::Database(sqlx::Error::Io(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed) => {
                return Err(error);
            }
            other => (String::new(), other.to_string()),
        };
        match code.as_str() {
            "42501" => {
                // An observer has the right to make these two.
                self.sees_queue &= !matches!(check, "version" | "queues");
                let remedy =
                    "grant the role what the guide for operators lists for a reader, and pg_monitor".to_owned();
                self.skip(check, said, Some(remedy));
            }
            // An object that is missing is a finding of its own.
            "42P01" | "42883" | "42703" | "3F000" => self.skip(check, said, None),
            _ => {
                let is_late = matches!(code.as_str(), "57014" | "55P03");
                let seen = if is_late { format!("no answer within {:?}", self.timeout) } else { said };
                self.skip(check, seen.clone(), None);
                let advice = match is_late {
                    true => "See whether the server is overloaded or the tables are locked, or allow more time",
                    false => "See the server's log",
                };
                let (code, subject) = (FindingCode::CheckFailed, format!("check {check}"));
                self.findings.push(Finding::new(code, Severity::Warning, subject, seen, Remedy::advice(advice)));
            }
        }
        Ok(None)
    }
}

/// The time, by the database's clock.
fn time_of(itself: &store::Itself) -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + time::Duration::seconds_f64(itself.clock)
}
