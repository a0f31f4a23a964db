//! Names, numbers and paths that the library would refuse when the program runs.

#[job(kind = "", queue = "tab\there", priority = 32768, max_attempts = 0)]
struct Empty;

#[job(
    kind = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    queue = "",
    priority = -32769,
    max_attempts = 32768,
    crate = "not a path"
)]
struct Long;

#[job(kind = email, queue = 5, priority = "high", max_attempts = -1)]
struct WrongTypes;

#[job(kind, queue(), priority, max_attempts = 1.5, unique = "args")]
struct WrongForms;

#[job(kind = "nul\0", priority = 99999999999999999999)]
struct Huge;
