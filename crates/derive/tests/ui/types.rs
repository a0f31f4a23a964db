//! Types that cannot be jobs.
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a")]
struct Borrowed<'a> {
    name: &'a str,
}

#[derive(Serialize, Deserialize, Job)]
struct Generic<T, const N: usize> {
    value: T,
}

#[derive(Job)]
#[job(kind = "a")]
union Union {
    a: u32,
    b: f32,
}

fn main() {}
