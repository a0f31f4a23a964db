//! Durations that are malformed, zero or endless, or too many.
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, period = "1 hour"))]
struct Malformed;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, period = "PT0S"))]
struct Zero;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, window = "P1Y"))]
struct Years;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, window = "P1M"))]
struct Months;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, ttl = "P99999D"))]
struct Endless;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, window = "PT1.5S"))]
struct FractionalWindow;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, window = 3600))]
struct Number;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, period = "PT1H", ttl = "PT1H", window = "PT1H"))]
struct AllThree;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, period = "1mo"))]
struct ShortMonth;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, window = "1500ms"))]
struct ShortFraction;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, ttl = "0s"))]
struct ShortZero;

fn main() {}
