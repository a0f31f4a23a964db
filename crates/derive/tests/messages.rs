//! What `#[derive(Job)]` says when it is used wrongly.
//!
//! The expected messages are rustc's for the toolchain that CI pins. After a change, look at them with
//! `TRYBUILD=overwrite cargo test -p uniqueue-derive --test messages`. What is right is in the library's
//! `tests/derive.rs`. This test is here and not there because it checks all dependencies of its package anew, and this
//! package has few.

#[test]
fn derive_errors_point_at_the_culprit_and_name_the_remedy() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/*.rs");
}
