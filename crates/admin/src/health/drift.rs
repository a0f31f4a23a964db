//! The schema, compared with the migrations of this library.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use uniqueue::{Client, Error, Result, SCHEMA_VERSION, SchemaName};

use super::finding::{Finding, Remedy, Severity};
use super::objects::{self, SchemaObject};
use crate::statement::{Arguments, collect};

/// The version of a schema in the database.
#[derive(Debug, Deserialize)]
pub(super) struct Version {
    /// 0 where there is none.
    pub(super) found: i32,
    /// Why this library may not use it.
    #[serde(skip)]
    pub(super) refused: Option<Error>,
}

impl Version {
    pub(super) const fn is_newer(&self) -> bool {
        self.found > SCHEMA_VERSION
    }

    /// A version that is not this library's.
    pub(super) fn finding(&self, schema: &SchemaName) -> Option<Finding> {
        let known = SCHEMA_VERSION;
        let migrate = format!("uniqueue migrate --schema {schema}");
        let (code, severity, seen, remedy) = match (self.found, &self.refused) {
            (0, _) => {
                let seen = format!("it is not there, or was never migrated; this uniqueue needs version {known}");
                let remedy = Remedy::advice("Migrate it, or give another --schema").command(migrate);
                ("schema_missing", Severity::Critical, seen, remedy)
            }
            (found, _) if found < known => {
                let seen =
                    format!("it is at version {found}, and this uniqueue needs {known}: its runners do not start");
                ("schema_behind", Severity::Critical, seen, Remedy::advice("Migrate it").command(migrate))
            }
            (found, None) if found > known => {
                let seen =
                    format!("it is at version {found}, newer than this uniqueue, which knows {known} and may use it");
                let remedy = Remedy::advice("Check it with the uniqueue that migrated it, or a newer one");
                ("schema_newer", Severity::Warning, seen, remedy)
            }
            (found, Some(error)) if found > known => {
                let remedy = Remedy::advice("Upgrade all processes: runners of this version do not start");
                ("schema_newer", Severity::Critical, error.to_string(), remedy)
            }
            _ => return None,
        };
        Some(Finding::new(code, severity, format!("schema {schema}"), seen, remedy))
    }
}

/// The version of the schema, and whether this library may use it.
pub(super) async fn version(client: &Client) -> Result<Version> {
    match client.check_schema().await {
        Ok(()) => {
            let newest = "SELECT max(h.version) AS found FROM /* schema */schema_history AS h";
            let version = collect(client, newest, Arguments::new(), |mut rows| rows.pop()).await?;
            Ok(version.ok_or(sqlx::Error::RowNotFound)?)
        }
        Err(error) => match error {
            Error::NotMigrated { found, .. } | Error::NewerSchema { found, .. } => {
                Ok(Version { found, refused: Some(error) })
            }
            error => Err(error),
        },
    }
}

/// The triggers that exist only while a queue has a `max_waiting`, and in a place that knows the hashed places.
const PASSING_TRIGGERS: [&str; 2] = [
    "CREATE TRIGGER job_max_waiting AFTER INSERT ON job REFERENCING NEW TABLE AS entered \
     FOR EACH STATEMENT EXECUTE FUNCTION _refuse_beyond_max_waiting()",
    "CREATE TRIGGER job_place AFTER INSERT ON job REFERENCING NEW TABLE AS entered \
     FOR EACH STATEMENT EXECUTE FUNCTION _refuse_misplaced()",
];

/// The identity of an object.
type Name<'a> = (&'a str, Option<&'a str>, &'a str);

/// Compares the objects that exist with those of the migrations.
pub(super) fn judge(schema: &SchemaName, all: &[SchemaObject], found: &[SchemaObject]) -> Vec<Finding> {
    let (golden, found) = (by_name(all), by_name(found));
    let has_table = |table: &str| found.contains_key(&("table", Some(table), table));
    let mut findings = Vec::new();
    for (name, should) in &golden {
        // A missing table is one finding, with all that belongs to it.
        let is_of_missing_table =
            should.kind != "table" && should.of_table.as_deref().is_some_and(|table| !has_table(table));
        match found.get(name) {
            None if is_of_missing_table => {}
            None => findings.push(missing(schema, should, all)),
            Some(is) if is.definition != should.definition => findings.push(changed(schema, is, should)),
            Some(_) => {}
        }
    }
    let tables: BTreeSet<_> = golden.values().filter(|o| o.kind == "table").map(|o| o.name.as_str()).collect();
    let functions: BTreeSet<_> = golden.values().filter(|o| o.kind == "function").map(|o| bare(&o.name)).collect();
    for (name, is) in &found {
        let concerns_us = match is.kind.as_str() {
            "function" => functions.contains(bare(&is.name)),
            // Other tables and views are the application's.
            "table" | "view" | "type" => false,
            "trigger" if PASSING_TRIGGERS.contains(&is.definition.as_str()) => false,
            _ => is.of_table.as_deref().is_some_and(|table| tables.contains(table)),
        };
        if concerns_us && !golden.contains_key(name) {
            findings.push(extra(schema, is));
        }
    }
    findings
}

fn by_name(objects: &[SchemaObject]) -> BTreeMap<Name<'_>, &SchemaObject> {
    objects.iter().map(|object| (name(object), object)).collect()
}

fn name(object: &SchemaObject) -> Name<'_> {
    (&object.kind, object.of_table.as_deref(), &object.name)
}

/// A function's name without its arguments.
fn bare(name: &str) -> &str {
    name.split('(').next().unwrap_or(name)
}

fn subject(object: &SchemaObject) -> String {
    match (object.kind.as_str(), object.of_table.as_deref()) {
        ("function", _) => format!("function {}", bare(&object.name)),
        ("column", Some(table)) => format!("column {table}.{}", object.name),
        ("constraint" | "trigger" | "rule", Some(table)) => format!("{} {} of {table}", object.kind, object.name),
        (kind, _) => format!("{kind} {}", object.name),
    }
}

fn missing(schema: &SchemaName, should: &SchemaObject, all: &[SchemaObject]) -> Finding {
    let is_index = should.kind == "index";
    let code = if is_index { "index_missing" } else { "object_missing" };
    let is_key = objects::key(should).is_some();
    let severity = if should.kind == "constraint" && !is_key { Severity::Warning } else { Severity::Critical };
    let seen = match should.name.as_str() {
        "job_unique_key" => "it is missing: two jobs can claim one key".to_owned(),
        _ if is_index => "it is missing: the statements that need it read the whole table".to_owned(),
        _ if is_key => "it is missing: the table can have a row twice".to_owned(),
        _ => "it is missing".to_owned(),
    };
    let sql = objects::sql_to_make(schema, should, all);
    let advice = match should.kind.as_str() {
        "index" => "Create it without blocking writes, as the owner of the tables",
        "constraint" if is_key => "Delete the doubled rows and create it again, as the owner of the schema",
        "table" => "Create it again, as the owner of the schema, and repeat its grants. Only a backup has its rows",
        "column" => "Create it again, as the owner of the schema. Only a backup has its values",
        "function" | "view" => {
            "Create it again, as the owner of the schema, and repeat its grants (the guide for operators lists them). If it needs another \
             missing object, create that first"
        }
        _ => "Create it again, as the owner of the schema",
    };
    Finding::new(code, severity, subject(should), seen, Remedy::advice(advice).sql(sql)).with(should)
}

fn changed(schema: &SchemaName, is: &SchemaObject, should: &SchemaObject) -> Finding {
    let severity = match should.kind.as_str() {
        "constraint" | "view" => Severity::Warning,
        _ => Severity::Critical,
    };
    let seen = match (should.kind.as_str(), is.definition.as_str()) {
        ("table", definition) if definition.contains("row security") => {
            "it has row security: rows are invisible to roles without a policy".to_owned()
        }
        ("table", definition) if definition.starts_with("UNLOGGED") => {
            "it is UNLOGGED: after a crash of the server it is empty".to_owned()
        }
        ("table", _) => "it is written to the WAL, which it does not need".to_owned(),
        ("function" | "view", _) => "it differs from the migrations".to_owned(),
        (_, definition) => format!("it is {definition}, and should be {}", should.definition),
    };
    let advice = match should.kind.as_str() {
        "index" => "Rebuild it without blocking writes, as the owner of the tables",
        _ if objects::is_made_anew(is, should) => {
            "Restore it, as the owner of the schema, and repeat its grants (the guide for operators lists them)"
        }
        _ => "Restore it, as the owner of the schema",
    };
    let facts = serde_json::json!({ "is": is.definition, "should_be": should.definition });
    let remedy = Remedy::advice(advice).sql(objects::sql_to_mend(schema, is, should));
    Finding::new("object_changed", severity, subject(should), seen, remedy).with(&facts)
}

fn extra(schema: &SchemaName, is: &SchemaObject) -> Finding {
    let (severity, seen) = match is.kind.as_str() {
        "index" => (Severity::Notice, "it is not the queue's: every insert and every change of a job maintains it"),
        "column" => (Severity::Notice, "it is not the queue's: a later migration may need the name"),
        "constraint" => (Severity::Warning, "it is not the queue's: it may refuse rows of the queue"),
        "function" => (Severity::Warning, "it overloads a function of the queue: calls may become ambiguous"),
        _ => (Severity::Warning, "it is not the queue's: it runs in every insert or change of a job"),
    };
    let remedy = Remedy::advice("If it is not needed, drop it, as the owner of the tables");
    let remedy = remedy.sql(objects::sql_to_drop(schema, is));
    Finding::new("object_extra", severity, subject(is), seen, remedy).with(is)
}
