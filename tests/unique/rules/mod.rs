//! The rules of uniqueness, R1 to R14, each test named after what it holds; docs/learn/unique.md explains them.

mod batches;
mod claims;
mod conflicts;
mod ids;
mod new_jobs;
mod operators;
mod overdue;
mod rivals;
mod run_again;
mod time;
mod update_races;
mod updates;
