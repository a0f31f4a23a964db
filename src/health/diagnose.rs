//! Making a diagnosis, check by check.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, Instant};

use sqlx::Connection;
use time::OffsetDateTime;

use super::finding::{Diagnosis, Finding, Remedy, Severity, SkippedCheck};
use super::thresholds::Thresholds;
use super::{drift, environment};
use crate::client::Client;
use crate::client::pooled_connection::PooledConnection;
use crate::client::time_limit;
use crate::error::{Error, Result};
use crate::store::{self, Pooling};

/// The default timeout of a check.
const TIMEOUT: Duration = Duration::from_secs(5);

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
    checks: Vec<String>,
    /// Whether no check failed that every role that sees the queue can make.
    sees_queue: bool,
}

/// Makes one check in a transaction of its own. `None`: it failed, which is recorded.
macro_rules! check {
    ($examination:ident, $check:expr, $query:path $(, $argument:expr)*) => {{
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
        self.checks.push("clock".to_owned());
        self.findings.extend(environment::clock_offset(itself.clock, asked_at, took, &self.thresholds));
        self.findings.extend(environment::standby(&itself));
        self.findings.extend(environment::encoding(&itself));
        if let Some(pooling) = self.pooling().await? {
            self.findings.extend(environment::pooler(pooling));
        }
        self.say_what_is_hidden(&itself);
        // Where the encoding is wrong, no schema would be right.
        if itself.encoding == "UTF8" && self.check_schema(&itself).await? {
            self.check_queue().await?;
        }

        self.findings.sort_by(|one, other| (other.severity, &one.code).cmp(&(one.severity, &other.code)));
        let Self { findings, skipped, checks, sees_queue, .. } = self;
        let at = OffsetDateTime::UNIX_EPOCH + time::Duration::seconds_f64(itself.clock);
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

    /// Whether there is a schema, whose checks fit it at any version.
    async fn check_schema(&mut self, itself: &store::Itself) -> Result<bool> {
        let schema = self.client.schema();
        if itself.has_schema && !itself.may_use {
            self.sees_queue = false;
            self.skip(
                "schema",
                format!("role {} may not use schema {schema}", itself.role),
                Some(format!("GRANT USAGE ON SCHEMA {} TO \"{}\";", schema.quoted(), itself.role)),
            );
            return Ok(false);
        }
        let Some(version) = check!(self, "version", store::schema_version) else { return Ok(false) };
        self.findings.extend(drift::version(schema, version));
        if version.check(schema).is_err() {
            self.skip("schema", "the schema is not at a version that this uniqueue may use", None);
        } else if version.is_newer() {
            self.skip("schema", "the schema is newer than this uniqueue", None);
        } else if let Some(found) = check!(self, "schema", store::schema_objects) {
            self.findings.extend(drift::judge(schema, &store::golden_objects()?, &found));
        }
        Ok(version.found > 0)
    }

    /// Makes the checks of the schema.
    async fn check_queue(&mut self) -> Result<()> {
        let thresholds = serde_json::to_value(self.thresholds).unwrap_or_default();
        for name in check!(self, "functions", store::checks).unwrap_or_default() {
            if let Some(found) = check!(self, &name, store::check::<Finding>, &name, &thresholds) {
                self.findings.extend(found);
            }
        }
        Ok(())
    }

    /// The database shows other roles' sessions and standbys only to members of pg_monitor.
    fn say_what_is_hidden(&mut self, itself: &store::Itself) {
        if itself.sees_sessions {
            return;
        }
        let grant = format!("GRANT pg_monitor TO \"{}\";", itself.role);
        if itself.hidden_sessions > 0 {
            let why = format!("{} sessions of other roles: needs pg_monitor", itself.hidden_sessions);
            self.skip("transactions", why, Some(grant.clone()));
        }
        self.skip("replication", "the feedback of standbys: needs pg_monitor", Some(grant));
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
    fn settle<T>(&mut self, check: &str, checked: Result<T>) -> Result<Option<T>> {
        let error = match checked {
            Ok(found) => {
                self.checks.push(check.to_owned());
                return Ok(Some(found));
            }
            Err(error) => error,
        };
        // Any check can meet a pooler that mixes up statements.
        if error.is_mix_up() {
            if !self.findings.iter().any(|finding| finding.code == "pooler") {
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
                let subject = format!("check {check}");
                let failed = Finding::new("check_failed", Severity::Warning, subject, seen, Remedy::advice(advice));
                self.findings.push(failed);
            }
        }
        Ok(None)
    }
}
