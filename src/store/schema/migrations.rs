//! The migrations, and which of them a schema has seen.

use sqlx::Row;

use crate::error::{Error, Result};
use crate::store::Store;
use crate::words::ident::SchemaName;

macro_rules! migrations {
    ($($oldest:literal => [$($name:literal),+ $(,)?]),+ $(,)?) => {
        /// The text of each migration, by its name.
        pub const MIGRATIONS: &[(&str, &str)] =
            &[$($(($name, include_str!(concat!("../../../migrations/", $name, ".sql")))),+),+];

        /// The oldest version of the library that works with the schema that these migrations make. The schema stores it.
        #[cfg(feature = "migrate")]
        pub(in crate::store) const OLDEST_VERSION: i32 = {
            let lists = [$($oldest),+];
            lists[lists.len() - 1]
        };
    };
}

// Each migration stands behind the oldest version of the library that works with the schema once it has run. A migration that
// only adds joins the last list. One that an older library cannot work with begins a list with its own number.
migrations! {
    37 => [
        "V01__job",
        "V02__queue_and_runner",
        "V03__rate",
        "V04__group",
        "V05__fetch",
        "V06__canonical_json",
        "V07__unique_policy",
        "V08__duplicate_audit",
        "V09__insert_unique",
        "V10__on_conflict",
        "V11__insert_batch",
        "V12__insert_job",
        "V13__explain_unique",
        "V14__argument",
        "V15__claim",
        "V16__change_jobs",
        "V17__queue_settings",
        "V18__periodic",
        "V19__views",
        "V20__why_waiting_sentences",
        "V21__why_waiting_queue",
        "V22__why_waiting",
        "V23__kind",
        "V24__group_views",
        "V25__stuck_job",
        "V26__health",
        "V27__finish",
        "V28__rescue",
        "V29__prune",
        "V30__maintain",
        "V31__fetch_jobs",
        "V32__finish_jobs",
        "V33__job_parent",
        "V34__release_children",
        "V35__relatives",
        "V36__place",
        "V37__history",
        "V38__diagnose",
        "V39__find_in_database",
        "V40__find_in_queues",
        "V41__find_in_kinds",
        "V42__find_in_jobs",
        "V43__find_in_maintenance",
        "V44__fetch_plan",
        "V45__function_settings",
    ],
}

/// The version of the schema that this library was built with: the number of its last migration.
pub const LATEST_VERSION: i32 = {
    let name = MIGRATIONS[MIGRATIONS.len() - 1].0.as_bytes();
    let (mut version, mut place) = (0, 1);
    while name[place] != b'_' {
        version = version * 10 + (name[place] - b'0') as i32;
        place += 1;
    }
    version
};

/// The table that records which migrations a schema has seen.
pub(in crate::store) const HISTORY: &str = "schema_history";

/// The version of a schema in the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaVersion {
    /// 0 where there is none.
    pub(crate) found: i32,
    /// The oldest version of the library that may use it.
    oldest: i32,
}

impl SchemaVersion {
    /// Whether this library may use it.
    pub(crate) fn check(self, schema: &SchemaName) -> Result<()> {
        let (Self { found, oldest }, schema, known) = (self, schema.clone(), LATEST_VERSION);
        match found {
            _ if found < known => Err(Error::NotMigrated { schema, found, needed: known }),
            _ if oldest > known => Err(Error::NewerSchema { schema, found, oldest, known }),
            _ => Ok(()),
        }
    }

    pub(crate) const fn is_newer(self) -> bool {
        self.found > LATEST_VERSION
    }
}

impl Store<'_> {
    /// The version of the schema in the database.
    ///
    /// # Errors
    ///
    /// [`Error::IncompatibleSchema`] where a migration that it has seen is not this library's: until the first release the
    /// migrations themselves are edited. Without the feature `migrate` only the versions are compared.
    pub(crate) async fn schema_version(self) -> Result<SchemaVersion> {
        let mut latest = SchemaVersion { found: 0, oldest: 0 };
        let has_history: bool = sqlx::query("SELECT to_regclass($1) IS NOT NULL")
            .bind(format!("{}.{HISTORY}", self.statements.schema().quoted()))
            .fetch_one(&mut *self.connection)
            .await?
            .try_get(0)?;
        if !has_history {
            return Ok(latest);
        }
        let known = checksums(MIGRATIONS);
        // Neither prepared nor unnamed: a prepared statement fails after the schema changed, and a pooler can bind an unnamed one
        // on another connection.
        for row in sqlx::raw_sql(self.statements.schema_version.clone()).fetch_all(self.connection).await? {
            let (version, name): (i32, String) = (row.try_get("version")?, row.try_get("name")?);
            let is_known = known.iter().find(|(known, _)| *known == version);
            if is_known.is_some_and(|(_, checksum)| checksum != row.get::<&str, _>("checksum")) {
                return Err(Error::IncompatibleSchema {
                    schema: self.statements.schema().clone(),
                    found: label(version, &name),
                });
            }
            latest = SchemaVersion { found: version, oldest: latest.oldest.max(row.try_get("oldest")?) };
        }
        Ok(latest)
    }
}

/// Such as `V1 job`.
pub(in crate::store) fn label(version: i32, name: &str) -> String {
    format!("V{version} {name}")
}

/// The version and the checksum of each migration.
#[cfg(feature = "migrate")]
fn checksums(migrations: &[(&str, &str)]) -> Vec<(i32, String)> {
    // A test migrates, so each name has refinery's form.
    let read = |(name, sql): &(&str, &str)| refinery::Migration::unapplied(name, sql).ok();
    migrations.iter().filter_map(read).map(|known| (known.version(), known.checksum().to_string())).collect()
}

/// Checksums are refinery's, and without it no migration has one.
#[cfg(not(feature = "migrate"))]
const fn checksums(_: &[(&str, &str)]) -> Vec<(i32, String)> {
    Vec::new()
}
