//! The audit of suppressed duplicates: switching it on for a kind, and reading its counters.

use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use uniqueue::{Call, JobId, Kind, stored_time};

use crate::statement::{arguments, ask, change_to};
use crate::{Admin, List};

/// A kind whose suppressed duplicates are or were counted, as
/// [`Admin::audited_kinds`] lists it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditedKind {
    /// The kind of the inserts that were duplicates.
    pub kind: Kind,
    /// Whether they are counted now.
    pub is_audited: bool,
    /// When counting started.
    #[serde(with = "stored_time")]
    pub since: OffsetDateTime,
    /// When counting stopped. `None` if they are counted now.
    #[serde(with = "stored_time::option")]
    pub stopped_at: Option<OffsetDateTime>,
    /// How many there were, over all keys.
    pub suppressed: u64,
    /// When the last duplicate came. `None` if there was none.
    #[serde(with = "stored_time::option")]
    pub last_at: Option<OffsetDateTime>,
    /// How long the counter of a key is kept after its last duplicate.
    #[serde(with = "uniqueue::period::seconds")]
    pub keep: Duration,
    /// Whether counting has stopped because the buffer of duplicates is full. Maintenance empties the
    /// buffer, so either no runner does maintenance, or an open transaction keeps it from doing so.
    pub tally_is_full: bool,
}

/// The number of duplicates of a kind and key, as
/// [`Admin::suppressed_duplicates`] lists it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SuppressedDuplicate {
    /// The kind of the inserts. The holder of a raw key may be of another kind.
    pub kind: Kind,
    /// Their unique key.
    pub unique_key: String,
    /// How many there were.
    pub suppressed: u64,
    /// When the first duplicate came.
    #[serde(with = "stored_time")]
    pub first_at: OffsetDateTime,
    /// When the last duplicate came.
    #[serde(with = "stored_time")]
    pub last_at: OffsetDateTime,
    /// The holder that the last duplicate met. It may be deleted.
    pub last_holder: JobId,
}

impl<'a> Admin<'a> {
    /// Counts the inserts of a kind that are duplicates, by their keys, from now on. Default: no kind is audited, and a
    /// duplicate writes nothing. `keep`: how long the counter of a key is kept after the key's last duplicate. `None`: as it
    /// was, and at first 7 days. The kind's total stays for good.
    ///
    /// ```no_run
    /// # use uniqueue_admin::Admin;
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// let admin = Admin::new(&client);
    /// admin.audit_duplicates("email.send", None).await?;
    /// for counter in admin.suppressed_duplicates().kind("email.send").await? {
    ///     println!("{}: {} since {}", counter.unique_key, counter.suppressed, counter.first_at);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// It applies to every insert after its commit, in Rust and in SQL. Neither code nor keys change. Costs and
    /// details are in docs/learn/unique.md.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database), also for an invalid kind and for a `keep` that is too long.
    pub fn audit_duplicates(self, kind: &str, keep: Option<Duration>) -> Call<'a, ()> {
        self.switch_audit("audit_duplicates", kind, keep)
    }

    /// Stops counting the duplicates of a kind. The counters stay until their time is over. `keep` as for
    /// [`audit_duplicates`](Self::audit_duplicates).
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn stop_audit(self, kind: &str, keep: Option<Duration>) -> Call<'a, ()> {
        self.switch_audit("stop_audit", kind, keep)
    }

    fn switch_audit(self, verb: &'static str, kind: &str, keep: Option<Duration>) -> Call<'a, ()> {
        let subject = json!({ "kind": kind, "keep": keep.map(|keep| keep.as_secs_f64()) });
        let asked = json!({ "kind": kind, "audit": verb == "audit_duplicates", "keep": subject["keep"] });
        change_to(self.client, verb, subject, AUDIT, asked, |_: Vec<IgnoredAny>| ())
    }

    /// The kinds whose suppressed duplicates are or were counted, by name, with their totals.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn audited_kinds(self) -> Call<'a, Vec<AuditedKind>> {
        ask(self.client, include_str!("sql/audited_kinds.sql"), arguments(json!({})))
    }

    /// How many duplicates of audited kinds were suppressed, by kind and key, the latest first.
    pub fn suppressed_duplicates(self) -> List<'a, SuppressedDuplicate> {
        List::new(self.client, include_str!("sql/suppressed_duplicates.sql"))
    }
}

/// Switches the audit of a kind.
const AUDIT: &str = "\
SELECT a.kind
FROM /* schema */audit_duplicates(
    $1::jsonb ->> 'kind', ($1::jsonb ->> 'audit')::boolean, make_interval(secs => ($1::jsonb ->> 'keep')::double precision)
) AS a";

impl List<'_, SuppressedDuplicate> {
    /// Only inserts of this kind.
    pub fn kind(self, kind: impl Into<String>) -> Self {
        self.with("kind", kind.into())
    }

    /// Only inserts with this unique key.
    pub fn unique_key(self, unique_key: impl Into<String>) -> Self {
        self.with("unique_key", unique_key.into())
    }
}
