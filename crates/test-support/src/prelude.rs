//! What most tests use: `use support::prelude::*;`.
//!
//! Each name is listed here. What few tests use is imported where it is used, and so is `uniqueue::Result`, which would hide that
//! of the standard library.

pub use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use std::sync::{Arc, Mutex};
pub use std::time::{Duration, Instant};

pub use serde::{Deserialize, Serialize};
pub use serde_json::value::RawValue;
pub use serde_json::{Value, json};
pub use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow};
pub use sqlx::{Connection, PgConnection, PgPool, Row};
pub use time::OffsetDateTime;
pub use time::format_description::well_known::Rfc3339;
pub use time::macros::datetime;
pub use tokio::sync::{Barrier, Notify};
pub use tokio::task::JoinSet;
pub use tokio::time::timeout;
pub use uniqueue::json::{canonical_json, parse_json};
pub use uniqueue::period::Length;
pub use uniqueue::{
    BoxError, Client, Error, InsertOptions, InsertOutcome, Inserted, Job, JobCount, JobFilter, JobId, JobRow, JobState,
    NewJob, OnConflict, OnReentry, Outcome, PeriodicJob, QueueChanges, Retention, RetryPolicy, Runner, RunnerHandle,
    RunningJob, SchemaName, StateSet, Subject, UniqueKey, UniquePolicy, UniqueScope, Until, Update, UpdateArgs,
};
pub use uuid::Uuid;

pub use crate::{Database, Task, WAIT, counting_statements, eventually, job, quick, soak};
