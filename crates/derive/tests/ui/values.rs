//! Names, numbers and paths that the library would refuse when the program runs.
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "", queue = "tab\there", priority = 32768, max_attempts = 0)]
struct Empty;

#[derive(Serialize, Deserialize, Job)]
#[job(
    kind = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    queue = "",
    priority = -32769,
    max_attempts = 32768,
    crate = "not a path"
)]
struct Long;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = email, queue = 5, priority = "high", max_attempts = -1)]
struct WrongTypes;

#[derive(Serialize, Deserialize, Job)]
#[job(kind, queue(), priority, max_attempts = 1.5, unique = "args")]
struct WrongForms;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "nul\0", priority = 99999999999999999999)]
struct Huge;

fn main() {}
