//! Damaged bodies, without a special compiler: see `fuzz/fuzz_targets/ojs.rs`.

use std::path::Path;

#[test]
fn no_damaged_body_panics() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/ojs");
    test_support::mutations::feed(&seeds, uniqueue_ojs::fuzz);
}
