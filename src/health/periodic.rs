//! Periodic jobs that live runners define differently, or not at all.

use super::finding::{Finding, FindingCode, Remedy, Severity};
use super::wording::{command, counted, plain};
use crate::ident::SchemaName;
use crate::store::{self, PeriodicDefinitions};

pub(super) fn definitions(schema: &SchemaName, found: &PeriodicDefinitions) -> Finding {
    let PeriodicDefinitions { name, definitions, runners } = found;
    let subject = format!("periodic job {}", plain(name));
    if *definitions == 0 {
        let seen = "it was defined in code, and no live runner defines it; its slots are still run";
        let remedy = Remedy::advice("Remove it if no code needs it any more, or start the runner that defines it")
            .sql(store::sql_to_remove_periodic(schema, name))
            .command(command(schema, "periodic remove", name));
        return Finding::new(FindingCode::PeriodicUndefined, Severity::Notice, subject, seen, remedy).with(found);
    }
    let names = runners.iter().map(|runner| plain(runner)).collect::<Vec<_>>().join(", ");
    let seen = format!(
        "live runners have {} of it, such as {names}; the one that started last counts",
        counted(definitions.unsigned_abs(), "definition", "definitions")
    );
    let remedy = Remedy::advice(
        "Give the schedules of different services different names. During a deployment that changes it, this passes",
    )
    .sql(store::sql_to_show(schema, "periodic", "name", name));
    Finding::new(FindingCode::PeriodicConflict, Severity::Warning, subject, seen, remedy).with(found)
}
