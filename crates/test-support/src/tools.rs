//! Programs that some tests need and that a machine may lack.

use std::io::Write;

/// Says that a test tests nothing, or not all, for want of a tool. libtest hides what `eprintln!` writes in a test that
/// passes, so this goes to standard error itself.
///
/// # Panics
///
/// Where `UNIQUEUE_TOOLS` names the tool, or is `all`: then the machine must have it.
pub fn lacks(tool: &str, remedy: &str) {
    let must = std::env::var("UNIQUEUE_TOOLS").unwrap_or_default();
    let must_have = must.split([' ', ',']).any(|named| named == tool || named == "all");
    assert!(!must_have, "no {tool}, though UNIQUEUE_TOOLS names it: {remedy}");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "WARNING: no {tool} ({remedy}): {test} did not test all");
}
