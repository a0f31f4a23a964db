//! Damaged commands, without a special compiler: see `fuzz/fuzz_targets/faktory.rs`.

use std::path::Path;

#[test]
fn no_damaged_command_panics() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/faktory");
    test_support::mutations::feed(&seeds, uniqueue_faktory::fuzz);
}
