//! No bytes make the reader of Faktory's commands panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| uniqueue_faktory::fuzz(line));
