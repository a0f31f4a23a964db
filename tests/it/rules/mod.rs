//! DESIGN §2's rules, each test named after what it holds.

mod batches;
mod claims;
mod clock;
mod conflicts;
mod operators;
mod rivals;
mod time;
