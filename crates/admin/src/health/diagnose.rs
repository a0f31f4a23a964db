//! Making a diagnosis, check by check.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use time::OffsetDateTime;
use uniqueue::{Call, Client, Error, Pooling, Result};

use super::environment::{self, Itself};
use super::finding::{Diagnosis, Finding, Remedy, Severity, SkippedCheck};
use super::thresholds::Thresholds;
use super::{drift, objects};
use crate::Admin;
use crate::statement::{arguments, ask, collect};

/// The default timeout of a check.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How much longer than its timeout a check may take, if the connection fell silent and the server cannot end it.
const GRACE: Duration = Duration::from_secs(2);

/// A diagnosis to be awaited. Made by [`Admin::diagnose`].
#[derive(Debug)]
#[must_use = "a diagnosis is not made until it is awaited"]
pub struct Diagnose<'a> {
    client: &'a Client,
    thresholds: Thresholds,
    timeout: Duration,
}

impl<'a> Admin<'a> {
    /// Finds problems of the queue: its schema, its database, its runners and its jobs. Changes nothing.
    ///
    /// ```no_run
    /// # use uniqueue_admin::Admin;
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// let diagnosis = Admin::new(&client).diagnose().await?;
    /// for finding in &diagnosis.findings {
    ///     println!("{} {} {}: {}", finding.severity, finding.code, finding.subject, finding.seen);
    /// }
    /// assert!(diagnosis.is_healthy());
    /// # Ok(()) }
    /// ```
    ///
    /// It takes one connection of the pool at a time, opens a second one for a moment, and makes 27 checks, each with a
    /// timeout ([`Diagnose::timeout`]). It reads no whole table, so a health endpoint may call it every few seconds. Checks
    /// for which the role lacks a privilege are reported as skipped: to make all of them, the role must be a member of
    /// `pg_monitor` and read the queue's tables and views. docs/operate/doctor.md lists the checks.
    ///
    /// # Errors
    ///
    /// [`Error::Database`] when the database cannot be reached. Later failures are in the diagnosis.
    pub fn diagnose(self) -> Diagnose<'a> {
        Diagnose { client: self.client, thresholds: Thresholds::default(), timeout: TIMEOUT }
    }
}

impl<'a> Diagnose<'a> {
    /// The limits of findings. Default: [`Thresholds::default`].
    pub fn thresholds(mut self, thresholds: Thresholds) -> Self {
        self.thresholds = thresholds;
        self
    }

    /// How long each check may take. A check that takes longer is reported as skipped. Default: 5 s; at least 1 ms.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl<'a> IntoFuture for Diagnose<'a> {
    type Output = Result<Diagnosis>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(
            Examination {
                asked: self,
                findings: Vec::new(),
                skipped: Vec::new(),
                checks: Vec::new(),
                sees_queue: true,
            }
            .run(),
        )
    }
}

/// A diagnosis while it is made.
struct Examination<'a> {
    asked: Diagnose<'a>,
    findings: Vec<Finding>,
    skipped: Vec<SkippedCheck>,
    checks: Vec<String>,
    /// Whether no check failed that every role that sees the queue can make.
    sees_queue: bool,
}

impl<'a> Examination<'a> {
    async fn run(mut self) -> Result<Diagnosis> {
        let client = self.asked.client;
        let (asked_at, began) = (OffsetDateTime::now_utc(), Instant::now());
        let schema = json!({ "schema": client.schema().quoted() });
        let itself = collect(client, include_str!("../sql/health_self.sql"), arguments(schema), |mut rows| rows.pop());
        let itself: Option<Itself> = itself.timeout(self.asked.timeout).await?;
        let itself = itself.ok_or(sqlx::Error::RowNotFound)?;
        let took = began.elapsed();
        self.checks.push("clock".to_owned());
        self.findings.extend(environment::clock_offset(itself.clock, asked_at, took, &self.asked.thresholds));
        self.findings.extend(environment::standby(&itself));
        self.findings.extend(environment::encoding(&itself));
        let pooling = self.within("pooler", pooling(client)).await?;
        self.findings.extend(pooling.and_then(environment::pooler));
        self.say_what_is_hidden(&itself);
        // Where the encoding is wrong, no schema would be right.
        if itself.encoding == "UTF8" && self.check_schema(&itself).await? {
            self.check_queue().await?;
        }

        self.findings.sort_by(|one, other| (other.severity, &one.code).cmp(&(one.severity, &other.code)));
        let Self { findings, skipped, checks, sees_queue, .. } = self;
        Ok(Diagnosis {
            schema: client.schema().clone(),
            database: itself.database,
            role: itself.role,
            server_version: itself.version,
            at: OffsetDateTime::UNIX_EPOCH + time::Duration::seconds_f64(itself.clock),
            sees_queue,
            findings,
            skipped,
            checks,
        })
    }

    /// Whether there is a schema, whose checks fit it at any version.
    async fn check_schema(&mut self, itself: &Itself) -> Result<bool> {
        let client = self.asked.client;
        let schema = client.schema();
        if itself.has_schema && !itself.may_use {
            self.sees_queue = false;
            self.skip(
                "schema",
                format!("role {} may not use schema {schema}", itself.role),
                Some(format!("GRANT USAGE ON SCHEMA {} TO \"{}\";", schema.quoted(), itself.role)),
            );
            return Ok(false);
        }
        let Some(version) = self.within("version", drift::version(client)).await? else { return Ok(false) };
        self.findings.extend(version.finding(schema));
        if version.refused.is_some() {
            self.skip("schema", "the schema is not at a version that this uniqueue may use", None);
        } else if version.is_newer() {
            self.skip("schema", "the schema is newer than this uniqueue", None);
        } else if let Some(found) = self.check("schema", objects::objects(client)).await? {
            self.findings.extend(drift::judge(schema, &objects::golden_objects()?, &found));
        }
        Ok(version.found > 0)
    }

    /// Makes the checks of the schema.
    async fn check_queue(&mut self) -> Result<()> {
        let client = self.asked.client;
        let thresholds = self.asked.thresholds.of_database();
        let checks =
            ask(client, "SELECT c.name FROM unnest(/* schema */_checks()) AS c (name)", arguments(Value::Null));
        let checks: Vec<Check> = self.check("functions", checks).await?.unwrap_or_default();
        for Check { name } in checks {
            let given = json!({ "name": name, "thresholds": thresholds });
            let found = ask(client, include_str!("../sql/health_check.sql"), arguments(given));
            let found: Option<Vec<Finding>> = self.check(&name, found).await?;
            self.findings.extend(found.into_iter().flatten());
        }
        Ok(())
    }

    /// The database shows other roles' sessions and standbys only to members of pg_monitor.
    fn say_what_is_hidden(&mut self, itself: &Itself) {
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

    /// Makes a check in a transaction of its own. `None`: it failed, which is recorded.
    async fn check<T: Send + 'static>(&mut self, check: &str, asking: Call<'_, T>) -> Result<Option<T>> {
        let checked = asking.timeout(self.asked.timeout).await;
        self.settle(check, checked)
    }

    /// Makes a check that the server cannot end.
    async fn within<T>(&mut self, check: &str, checking: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        match tokio::time::timeout(self.asked.timeout + GRACE, checking).await {
            Ok(checked) => self.settle(check, checked),
            Err(_) => {
                self.skip(check, format!("no answer within {:?}", self.asked.timeout), None);
                Ok(None)
            }
        }
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
                let seen = if is_late { format!("no answer within {:?}", self.asked.timeout) } else { said };
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

#[derive(Deserialize)]
struct Check {
    name: String,
}

/// Finds a pooler between the client and the database. This needs two connections at once, so it opens one.
async fn pooling(client: &Client) -> Result<Pooling> {
    let asking = Call::new(client, |client, connection| {
        Box::pin(async move {
            let mut other = PgConnection::connect_with(&client.pool().connect_options()).await?;
            let found = client.pooling(connection, &mut other).await;
            let closed = other.close().await;
            let found = found?;
            closed?;
            Ok(found)
        })
    });
    asking.await
}
