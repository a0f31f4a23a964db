//! Problems that slow the database down: dead rows, vacuum, indexes, and holders of old snapshots.

use super::finding::{Finding, FindingCode, Remedy, Severity};
use super::thresholds::Thresholds;
use super::wording::{age, bytes, counted, percent, plain, thousands};
use crate::ident::SchemaName;
use crate::store::{
    self, BloatedIndex, HeldFromOutside, InvalidIndex, OpenTransaction, PreparedTransaction, TableSeen,
};

/// Whether a finding names a holder of an old snapshot, which keeps dead rows from being cleaned up.
pub(super) const fn holds_snapshot(code: FindingCode) -> bool {
    matches!(
        code,
        FindingCode::BlockingTransaction
            | FindingCode::OldSnapshot
            | FindingCode::PreparedTransaction
            | FindingCode::ReplicationSlot
            | FindingCode::StandbyFeedback
    )
}

/// A transaction matters when others wait for it, when it sits idle on changed rows of the queue, or when it has a
/// snapshot.
pub(super) fn open_transaction(open: &OpenTransaction, limits: &Thresholds) -> Option<Finding> {
    let severity = limits.transaction.judge_age(open.open_for)?;
    if open.waits && open.blocks == 0 {
        // It goes on when the transaction that it waits for ends, which is a finding of its own.
        return None;
    }
    let is_in_the_way = open.blocks > 0 || (open.is_idle && !open.changes.is_empty());
    let code = match (is_in_the_way, open.snapshot_transactions) {
        (true, _) => FindingCode::BlockingTransaction,
        (false, Some(_)) => FindingCode::OldSnapshot,
        (false, None) => return None,
    };
    let known = |text: &Option<String>, none: &str| match text.as_deref() {
        None | Some("") => none.to_owned(),
        Some(text) => plain(text),
    };
    let mut subject = format!("session {} ({}", open.pid, known(&open.application, "no application name"));
    if let Some(role) = &open.role {
        subject = format!("{subject}, role {}", plain(role));
    }
    subject.push(')');
    let mut seen = format!("{}, its transaction open for {}", known(&open.state, "state unknown"), age(open.open_for));
    if !open.changes.is_empty() {
        seen = format!("{seen}, has changed or locked rows of {}", open.changes.join(", "));
    }
    if open.blocks > 0 {
        let waiting = counted(open.blocks.unsigned_abs(), "session waits", "sessions wait");
        seen = format!("{seen}, {waiting} for it");
    }
    if let Some(behind) = open.snapshot_transactions {
        let behind = counted(behind.unsigned_abs(), "transaction", "transactions");
        seen = format!("{seen}, holds a snapshot {behind} old, which keeps dead rows from being cleaned up");
    }
    seen = format!(
        "{seen}; its {} statement: {}",
        if open.is_idle { "last" } else { "running" },
        known(&open.query, "unknown")
    );
    let advice = match open.is_idle {
        true => {
            "Commit or roll back there, or end the session, which rolls back; \
                 idle_in_transaction_session_timeout keeps it from coming back"
        }
        false => "Wait for it, or end the session, which rolls back",
    };
    let remedy = Remedy::advice(advice).sql(store::sql_to_end_session(open.pid));
    Some(Finding::new(code, severity, subject, seen, remedy).with(open))
}

pub(super) fn prepared_transaction(open: &PreparedTransaction, limits: &Thresholds) -> Option<Finding> {
    let severity = limits.transaction.judge_age(open.open_for)?;
    let seen = format!(
        "prepared {} ago by role {} and neither committed nor rolled back: it holds its locks and a snapshot, which \
         keeps dead rows from being cleaned up",
        age(open.open_for),
        plain(&open.role)
    );
    let remedy = Remedy::advice("Ask the transaction manager that prepared it; else roll it back, as its role")
        .sql(store::sql_to_roll_back_prepared(&open.gid));
    let subject = format!("prepared transaction {}", plain(&open.gid));
    Some(Finding::new(FindingCode::PreparedTransaction, severity, subject, seen, remedy).with(open))
}

pub(super) fn held_from_outside(held: &HeldFromOutside, limits: &Thresholds) -> Option<Finding> {
    let (behind, what_of) = match (held.snapshot_transactions, held.catalog_transactions) {
        (Some(behind), _) => (behind, "dead rows"),
        (None, Some(behind)) => (behind, "dead rows of the catalogs"),
        (None, None) => return None,
    };
    let severity = limits.transactions_behind.judge(&behind.unsigned_abs())?;
    let behind = counted(behind.unsigned_abs(), "transaction", "transactions");
    let name = plain(&held.name);
    if held.what == "slot" {
        let activity = if held.is_active { "its consumer is connected" } else { "no consumer is connected" };
        let seen = format!("{activity}; its snapshot is {behind} old, which keeps {what_of} from being cleaned up");
        let remedy = Remedy::advice("See why its consumer is behind; drop the slot if it is no longer needed")
            .sql(store::sql_to_drop_slot(&held.name));
        let subject = format!("replication slot {name}");
        return Some(Finding::new(FindingCode::ReplicationSlot, severity, subject, seen, remedy).with(held));
    }
    let seen = format!(
        "a query there has a snapshot {behind} old, and hot_standby_feedback keeps dead rows from being cleaned up here"
    );
    let remedy = Remedy::advice(
        "On the standby, end its longest query, or bound them with max_standby_streaming_delay and without feedback",
    )
    .sql(format!("-- On the standby:\n{}", store::OLDEST_TRANSACTIONS));
    Some(Finding::new(FindingCode::StandbyFeedback, severity, format!("standby {name}"), seen, remedy).with(held))
}

pub(super) fn table(schema: &SchemaName, table: &TableSeen, has_holder: bool, limits: &Thresholds) -> Vec<Finding> {
    let subject = format!("table {}", table.table_name);
    let dead = table.dead_rows.unsigned_abs();
    let vacuumed = match (table.is_being_vacuumed, table.vacuumed_ago) {
        (true, _) => "a vacuum is running".to_owned(),
        (false, Some(ago)) => format!("the last vacuum ended {} ago", age(ago)),
        (false, None) => "no vacuum is known".to_owned(),
    };
    let share = format!(
        "{} of {} rows are dead ({})",
        thousands(dead),
        thousands(dead.saturating_add(table.live_rows.unsigned_abs())),
        percent(table.dead_part)
    );
    let mut findings = Vec::new();
    if !table.autovacuum_is_on {
        // The small tables of a queue change all the time, and all of them grow without vacuum.
        let remedy = Remedy::advice("Switch it on for the table, and for the server: autovacuum and track_counts")
            .sql(store::sql_to_let_autovacuum(schema, &table.table_name));
        findings.push(Finding::new(
            FindingCode::AutovacuumOff,
            Severity::Warning,
            &subject,
            format!("autovacuum is off for it; {share}, {vacuumed}"),
            remedy,
        ));
    }
    let is_many = dead >= limits.dead_rows;
    // Autovacuum wakes up once a minute by default, so it is late only after some minutes.
    let is_late = table.autovacuum_is_on
        && is_many
        && dead > 2 * table.vacuum_at_dead_rows.unsigned_abs()
        && !table.is_being_vacuumed
        && table.vacuumed_ago.is_none_or(|ago| ago > 600.0);
    if is_late {
        let remedy = Remedy::advice(
            "See that autovacuum's workers are not all at other tables (autovacuum_max_workers) and not slowed down \
             (autovacuum_vacuum_cost_limit); a vacuum by hand helps at once",
        )
        .sql(store::sql_to_vacuum(schema, &table.table_name));
        let seen = format!(
            "{share}, autovacuum is due from {} on, and {vacuumed}",
            thousands(table.vacuum_at_dead_rows.unsigned_abs())
        );
        findings.push(Finding::new(FindingCode::AutovacuumLate, Severity::Warning, &subject, seen, remedy));
    }
    if let Some(severity) = limits.dead_part.judge(&table.dead_part).filter(|_| is_many && !is_late) {
        let remedy = match has_holder {
            true => {
                Remedy::advice("End the session that holds the old snapshot, named in another finding; then vacuum")
            }
            false => Remedy::advice("Vacuum it"),
        };
        let remedy = remedy.sql(store::sql_to_vacuum(schema, &table.table_name));
        findings.push(Finding::new(
            FindingCode::DeadRows,
            severity,
            &subject,
            format!("{share}, {vacuumed}: fetches read them"),
            remedy,
        ));
    }
    findings.into_iter().map(|finding| finding.with(table)).collect()
}

pub(super) fn invalid_index(schema: &SchemaName, index: &InvalidIndex) -> Finding {
    let cost = if index.is_written { "every write maintains it" } else { "it is empty" };
    let severity = match (index.may_be_building, index.is_leftover) {
        (true, _) => Severity::Notice,
        (false, true) => Severity::Warning,
        (false, false) => Severity::Critical,
    };
    let state = match index.may_be_building {
        true => "it is being built, or building it failed",
        false => "building it failed",
    };
    let seen = format!("no query uses it, since {state}; {cost}");
    let remedy = match index.is_leftover {
        true => Remedy::advice("A failed rebuild left it behind: drop it, as the owner of the tables")
            .sql(store::sql_to_drop_index(schema, &index.name)),
        false => Remedy::advice("Rebuild it without blocking writes, as the owner of the tables")
            .sql(store::sql_to_rebuild_index(schema, &index.name)),
    };
    let subject = format!("index {} of {}", plain(&index.name), plain(&index.of_table));
    Finding::new(FindingCode::IndexInvalid, severity, subject, seen, remedy).with(index)
}

pub(super) fn bloated_index(schema: &SchemaName, index: &BloatedIndex) -> Finding {
    let size = |pages: i64| bytes(pages.unsigned_abs().saturating_mul(8_192));
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    let factor = index.pages as f64 / index.needed.max(1) as f64;
    let seen =
        format!("it has {} and needs about {}: {factor:.1} times as much", size(index.pages), size(index.needed));
    let remedy = Remedy::advice(
        "A runner that owns the tables rebuilds it within a day (Runner::reindex_interval); or rebuild it by hand, \
         as the owner, without blocking writes",
    )
    .sql(store::sql_to_rebuild_index(schema, &index.name));
    let facts = serde_json::json!({ "name": index.name, "pages": index.pages, "needed": index.needed });
    let subject = format!("index {}", plain(&index.name));
    Finding::new(FindingCode::IndexBloated, Severity::Warning, subject, seen, remedy).with(&facts)
}
