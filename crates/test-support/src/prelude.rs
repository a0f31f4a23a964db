//! What most tests use: `use support::prelude::*;`.
//!
//! Each name is listed here. What few tests use is imported where it is used, and so is `uniqueue::Result`, which would hide that
//! of the standard library.

pub use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
pub use std::fs;
pub use std::path::{Path, PathBuf};
pub use std::process::{Command, Stdio};
pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use std::sync::{Arc, Mutex};
pub use std::time::{Duration, Instant};

pub use serde::{Deserialize, Serialize};
pub use serde_json::value::RawValue;
pub use serde_json::{Value, json};
pub use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow};
pub use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Row};
pub use time::OffsetDateTime;
pub use time::format_description::well_known::Rfc3339;
pub use time::macros::datetime;
pub use tokio::sync::{Barrier, Notify, Semaphore, mpsc, watch};
pub use tokio::task::JoinSet;
pub use tokio::time::timeout;
pub use uniqueue::embedded::{Durability, Postgres};
pub use uniqueue::json::{canonical_json, parse_json};
pub use uniqueue::period::Length;
pub use uniqueue::{
    BoxError, Client, Error, Events, Happened, InsertOptions, InsertOutcome, Inserted, Job, JobCount, JobError,
    JobFilter, JobId, JobRow, JobState, NewJob, OnConflict, OnReentry, Outcome, PeriodicJob, PlaceAddress, PlaceBy,
    PlaceMap, Places, QueueChanges, Rate, Retention, RetryPolicy, Runner, RunnerHandle, RunningJob, SchemaName,
    StateSet, StopReason, Subject, UniqueKey, UniquePolicy, UniqueScope, Until, Update, UpdateArgs, Worker,
    WorkerOptions,
};
pub use uniqueue_admin::Admin;
pub use uuid::Uuid;

pub use crate::cluster::Cluster;
pub use crate::dice::Dice;
pub use crate::process::{Order, RunnerProcess};
pub use crate::proxy::{Fault, Proxy};
pub use crate::work::{Deed, Work};
pub use crate::{
    DAY, Database, Gate, HOUR, MINUTE, SECOND, Task, WAIT, at_once, counting_statements, eventually, held_up,
    inserting, job, next, quick, soak, statements_of, telling, together, until_sent,
};
