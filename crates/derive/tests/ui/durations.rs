//! Durations that are malformed, zero or endless, or too many.

#[job(kind = "a", unique(args, period = "1 hour"))]
struct Malformed;

#[job(kind = "a", unique(args, period = "PT0S"))]
struct Zero;

#[job(kind = "a", unique(args, window = "P1M"))]
struct Months;

#[job(kind = "a", unique(args, ttl = "P99999D"))]
struct Endless;

#[job(kind = "a", unique(args, window = "PT1.5S"))]
struct FractionalWindow;

#[job(kind = "a", unique(args, window = 3600))]
struct Number;

#[job(kind = "a", unique(args, period = "PT1H", ttl = "PT1H", window = "PT1H"))]
struct AllThree;
