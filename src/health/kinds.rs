//! Kinds that live processes register differently.

use super::finding::{Finding, FindingCode, Remedy, Severity};
use super::wording::{command, counted, plain};
use crate::ident::SchemaName;
use crate::store::{self, KindDefinitions};

pub(super) fn definitions(schema: &SchemaName, found: &KindDefinitions) -> Finding {
    let KindDefinitions { name, definitions, processes, counts } = found;
    let names = processes.iter().map(|process| plain(process)).collect::<Vec<_>>().join(", ");
    let seen = format!(
        "{} are registered, by {names}; that of {} counts, since it is the newest",
        counted(definitions.unsigned_abs(), "definition", "definitions"),
        plain(counts)
    );
    let remedy = Remedy::advice(
        "Inserts by SQL, by the command and in other languages may make other keys than the code does. Give the options of the \
         kind to all services, or give each service a kind of its own. During a deployment that changes the kind this passes. \
         If it stays, restart a runner of the newest version",
    )
    .sql(store::sql_to_show(schema, "kind", "name", name))
    .command(command(schema, "kind show", name));
    let subject = format!("kind {}", plain(name));
    Finding::new(FindingCode::KindConflict, Severity::Warning, subject, seen, remedy).with(found)
}
