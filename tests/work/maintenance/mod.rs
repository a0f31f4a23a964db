//! Maintenance, against a real database: its leases, and each service.

mod clock;
mod leases;
mod periodic;
mod pruning;
mod refusing;
mod reindexing;
mod rescuing;
mod schedules;
mod slow;

use support::prelude::*;

/// A runner that does maintenance, and finds nothing to work in its queue.
fn caretaker(database: &Database) -> Runner {
    Runner::new(database.client.clone()).queue("other", 1).worker(at_once)
}

/// The name of the runner that has a service; empty: none.
async fn holder(database: &Database, service: &str) -> String {
    let query = "SELECT coalesce((SELECT runner FROM {schema}.maintenance
        WHERE service = '?' AND leased_until > now()), '')";
    database.text(&query.replace('?', service)).await
}

#[support::test]
async fn what_the_guide_says_of_maintenance_can_be_done(database: Database) {
    let guide = include_str!("../../../docs/operate/operations.md");
    let (_, rest) = guide.split_once("\n## Maintenance\n").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let mut ran = 0;
    for block in section.split("```sql\n").skip(1) {
        let (statements, _) = block.split_once("```").unwrap();
        for statement in statements.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            database.execute(&statement.replace("uniqueue.", "{schema}.")).await;
            ran += 1;
        }
    }
    assert_eq!(ran, 12);
}
