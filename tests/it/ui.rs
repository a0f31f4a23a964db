//! What `#[derive(Job)]` says when it is used wrongly.
//!
//! The expected messages are rustc's for the toolchain that CI pins. After a change, look at
//! them with `TRYBUILD=overwrite cargo test --test it derive_errors`. What is right is in
//! `tests/ui/pass.rs`, a test of its own: without it these are only checked, not built.

#[test]
fn derive_errors_point_at_the_culprit_and_name_the_remedy() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/fail/*.rs");
}
