//! No bytes make the readers of Open Job Spec's bodies panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| uniqueue_ojs::fuzz(body));
