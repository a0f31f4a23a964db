//! Types that cannot be jobs.

#[job(kind = "a")]
struct Borrowed<'a> {
    name: &'a str,
}

struct Generic<T, const N: usize> {
    value: T,
}

#[job(kind = "a")]
union Union {
    a: u32,
    b: f32,
}
