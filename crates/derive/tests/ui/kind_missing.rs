//! A job without a kind gets one suggested.

struct SendEmail {
    user_id: u64,
}

#[job(queue = "checks")]
enum HTTPCheck {
    Get,
}

#[job]
struct Bare;

#[job = "assigned"]
struct Assigned;
