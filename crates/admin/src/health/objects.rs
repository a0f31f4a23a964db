//! The objects of the schema, as they are and as the migrations make them, and the SQL that restores one. The SQL is meant for
//! psql, as the owner.

use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{AssertSqlSafe, Executor};
use uniqueue::{Call, Client, MIGRATIONS, Result, SchemaName};

use crate::statement::{arguments, rows};

/// An object of the schema, as it is or as the migrations make it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct SchemaObject {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) of_table: Option<String>,
    pub(super) definition: String,
}

/// The objects that the migrations make, one a line. `GOLDEN=overwrite cargo test --test sql schema` writes it anew.
const OBJECTS: &str = include_str!("objects.jsonl");

/// The objects that the migrations make.
pub(super) fn golden_objects() -> Result<Vec<SchemaObject>> {
    Ok(OBJECTS.lines().map(serde_json::from_str).collect::<Result<_, _>>().map_err(|error| {
        sqlx::Error::Decode(format!("the golden objects of this build cannot be read: {error}").into())
    })?)
}

/// The objects of the schema. Needs a transaction, since it sets `search_path`.
pub(super) fn objects(client: &Client) -> Call<'_, Vec<SchemaObject>> {
    let asking = Call::new(client, |client, connection| {
        Box::pin(async move {
            let schema = client.schema().quoted();
            // Safe to splice: a schema name is checked against an alphabet without quotes.
            let path = AssertSqlSafe(format!("SET LOCAL search_path = {schema}, pg_temp"));
            connection.execute(path).await?;
            let asked = arguments(json!({ "schema": schema }));
            let mut objects = rows(client, connection, include_str!("../sql/health_objects.sql"), &asked).await?;
            objects.extend(rows(client, connection, include_str!("../sql/health_table_parts.sql"), &asked).await?);
            Ok(objects)
        })
    });
    asking.of_statements(3)
}

/// Creates a missing object. `golden`: all objects that the migrations make.
pub(super) fn sql_to_make(schema: &SchemaName, object: &SchemaObject, golden: &[SchemaObject]) -> String {
    in_schema(schema, &create(object, golden))
}

/// Changes an existing object back.
pub(super) fn sql_to_mend(schema: &SchemaName, is: &SchemaObject, should: &SchemaObject) -> String {
    let (name, table) = (&should.name, should.of_table.as_deref().unwrap_or_default());
    let sql = match should.kind.as_str() {
        "index" => format!("DROP INDEX CONCURRENTLY {name};\n{}", create(should, &[])),
        "constraint" => format!("ALTER TABLE {table} DROP CONSTRAINT {name};\n{}", create(should, &[])),
        "table" if is.definition.contains("row security") => format!("ALTER TABLE {name} DISABLE ROW LEVEL SECURITY;"),
        "table" if is_unlogged(is) => format!("ALTER TABLE {name} SET LOGGED;"),
        "table" => format!("ALTER TABLE {name} SET UNLOGGED;"),
        // With other columns it cannot be replaced; otherwise it can, and keeps its grants.
        "view" if is_made_anew(is, should) => format!("DROP VIEW {name};\n{}", create(should, &[])),
        "column" => alter_column(table, name, &is.definition, &should.definition),
        "type" => format!("-- ALTER TYPE or ALTER DOMAIN: {name} should be {}", should.definition),
        _ => create(should, &[]),
    };
    in_schema(schema, &sql)
}

/// Drops an object that the migrations do not make.
pub(super) fn sql_to_drop(schema: &SchemaName, object: &SchemaObject) -> String {
    let (name, table) = (quoted(&object.name), object.of_table.as_deref().unwrap_or_default());
    let sql = match object.kind.as_str() {
        "index" => format!("DROP INDEX CONCURRENTLY {name};"),
        "column" => format!("ALTER TABLE {table} DROP COLUMN {name};"),
        "constraint" => format!("ALTER TABLE {table} DROP CONSTRAINT {name};"),
        // With its arguments.
        "function" => format!("DROP FUNCTION {};", object.name),
        kind => format!("DROP {} {name} ON {table};", kind.to_uppercase()),
    };
    in_schema(schema, &sql)
}

/// Whether the object is dropped and created again, which drops its grants.
pub(super) fn is_made_anew(is: &SchemaObject, should: &SchemaObject) -> bool {
    should.kind == "view" && columns(is) != columns(should)
}

/// A view's columns.
fn columns(view: &SchemaObject) -> &str {
    view.definition.split(" body ").next().unwrap_or_default()
}

fn is_unlogged(table: &SchemaObject) -> bool {
    table.definition.starts_with("UNLOGGED")
}

/// The statement that makes an object.
fn create(object: &SchemaObject, golden: &[SchemaObject]) -> String {
    let (name, table) = (&object.name, object.of_table.as_deref().unwrap_or_default());
    match object.kind.as_str() {
        "index" => {
            let text = object.definition.replacen(" INDEX ", " INDEX CONCURRENTLY ", 1);
            format!("{}{text};", if name == "job_unique_key" { RELEASE_DOUBLED_CLAIMS } else { "" })
        }
        "column" => format!("ALTER TABLE {table} ADD COLUMN {name} {};", object.definition),
        "constraint" => {
            let delete = key(object).map(|columns| delete_doubled_rows(table, columns)).unwrap_or_default();
            format!("{delete}ALTER TABLE {table} ADD CONSTRAINT {name} {};", object.definition)
        }
        "table" => {
            let parts = |kind: &'static str| {
                let of_kind = golden.iter().filter(move |o| o.kind == kind && o.of_table.as_deref() == Some(name));
                of_kind.map(move |o| match kind {
                    "column" => format!("    {} {}", o.name, o.definition),
                    _ => format!("    CONSTRAINT {} {}", o.name, o.definition),
                })
            };
            let parts: Vec<_> = parts("column").chain(parts("constraint")).collect();
            let indexes = golden.iter().filter(|o| o.kind == "index" && o.of_table.as_deref() == Some(name));
            let indexes: String = indexes.map(|o| format!("\n{};", o.definition)).collect();
            format!("CREATE {} {name} (\n{}\n);{indexes}", object.definition, parts.join(",\n"))
        }
        "type" if object.definition.starts_with("ENUM ") || object.definition.starts_with('(') => {
            format!("CREATE TYPE {name} AS {};", object.definition)
        }
        "type" => format!("CREATE DOMAIN {name} AS {};", object.definition),
        kind => {
            let text = source(kind, name.split('(').next().unwrap_or(name)).unwrap_or_default();
            format!("{text}{}", if kind == "function" { common(object) } else { String::new() })
        }
    }
}

/// The settings of a function, and the rights that the public has not, which `V45__function_settings.sql` makes.
fn common(function: &SchemaObject) -> String {
    let name = &function.name;
    let head = function.definition.rsplit_once(" body ").map_or("", |(head, _)| head);
    let settings = head.rsplit_once(") set ").into_iter().flat_map(|(_, settings)| settings.split("; "));
    let settings = settings.filter_map(|setting| setting.split_once('=')).map(|(setting, value)| match setting {
        "search_path" => format!("\nALTER FUNCTION {name} SET search_path FROM CURRENT;"),
        _ => format!("\nALTER FUNCTION {name} SET {setting} = '{value}';"),
    });
    let is_for_all = ["_note_duplicates(", "fold_duplicates("].iter().any(|of| name.starts_with(of));
    let revoked = (head.contains(" security definer") && !is_for_all)
        .then(|| format!("\nREVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC;"));
    settings.chain(revoked).collect()
}

/// Of several jobs that claim a key, the oldest keeps it.
const RELEASE_DOUBLED_CLAIMS: &str = "UPDATE job AS j SET unique_states = 0
WHERE j.claims AND EXISTS (SELECT FROM job AS o WHERE o.unique_key = j.unique_key AND o.claims AND o.id < j.id);
";

/// The columns of a primary key, such as `child, parent`.
pub(super) fn key(object: &SchemaObject) -> Option<&str> {
    object.definition.strip_prefix("PRIMARY KEY (")?.strip_suffix(')')
}

/// Of several rows with one key, keeps the one that says most: a queue's with its settings, not one that a runner entered.
fn delete_doubled_rows(table: &str, columns: &str) -> String {
    format!(
        "DELETE FROM {table} AS t USING (
    SELECT r.ctid, row_number() OVER (PARTITION BY {columns} ORDER BY length(jsonb_strip_nulls(to_jsonb(r))::text) DESC) AS place
    FROM {table} AS r WHERE ({columns}) IN (SELECT {columns} FROM {table} GROUP BY {columns} HAVING count(*) > 1)
) AS d WHERE t.ctid = d.ctid AND d.place > 1;
"
    )
}

fn alter_column(table: &str, column: &str, is: &str, should: &str) -> String {
    if should.contains("GENERATED") || is.contains("GENERATED") {
        return format!(
            "ALTER TABLE {table} DROP COLUMN {column};\nALTER TABLE {table} ADD COLUMN {column} {should};\n\
             -- The indexes that used it are gone as well: look again."
        );
    }
    let ((type_is, null_is, default_is), (data_type, is_required, default)) = (parts(is), parts(should));
    let mut changes = Vec::new();
    if type_is != data_type {
        changes.push(format!("TYPE {data_type}"));
    }
    if default_is != default {
        changes.push(default.map_or("DROP DEFAULT".to_owned(), |default| format!("SET DEFAULT {default}")));
    }
    if null_is != is_required {
        changes.push(if is_required { "SET NOT NULL" } else { "DROP NOT NULL" }.to_owned());
    }
    let changes: Vec<_> = changes.iter().map(|change| format!("    ALTER COLUMN {column} {change}")).collect();
    format!("ALTER TABLE {table}\n{};", changes.join(",\n"))
}

/// A column's type, whether it must have a value, and its default.
fn parts(definition: &str) -> (&str, bool, Option<&str>) {
    let (before, default) = match definition.split_once(" DEFAULT ") {
        Some((before, default)) => (before, Some(default)),
        None => (definition, None),
    };
    match before.strip_suffix(" NOT NULL") {
        Some(data_type) => (data_type, true, default),
        None => (before, false, default),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// SQL that names no schema. It needs the schema as the search path, as the migrations do.
fn in_schema(schema: &SchemaName, sql: &str) -> String {
    format!("SET search_path = {}, pg_temp;\n{sql}\nRESET search_path;", schema.quoted())
}

/// The statement that creates a function or a view, by its name without arguments, written so that it replaces an
/// object that exists. The migrations define each object once, followed by its comment.
fn source(kind: &str, name: &str) -> Option<String> {
    let head = format!("\nCREATE {} {name}", kind.to_uppercase());
    MIGRATIONS.iter().find_map(|(_, text)| {
        let mut places = text.match_indices(&head).map(|(place, _)| place);
        let place = places.find(|place| text[place + head.len()..].starts_with(['(', ' ', '\n']))?;
        let statement = &text[place + "\nCREATE ".len()..];
        let end = statement.find("\nCOMMENT ON ").unwrap_or(statement.len());
        Some(format!("CREATE OR REPLACE {}", &statement[..end]))
    })
}

#[cfg(test)]
mod tests {
    use crate::health::objects::golden_objects;

    use super::*;

    #[test]
    fn every_function_and_view_has_a_source() {
        let mut seen = 0;
        for object in golden_objects().unwrap() {
            if !matches!(object.kind.as_str(), "function" | "trigger" | "view") {
                continue;
            }
            let name = object.name.split('(').next().unwrap();
            let text = source(&object.kind, name).unwrap_or_else(|| panic!("{name} has no source"));
            assert!(text.ends_with(';') && text.matches("CREATE OR REPLACE").count() == 1, "{text}");
            assert_eq!(text.matches("$$").count() % 2, 0, "{text}");
            seen += 1;
        }
        assert!(seen > 30, "{seen}");
    }
}
