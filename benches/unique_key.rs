//! What a key costs, against `serde_json` writing the same value.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use serde::Serialize;
use serde_json::{Value, json};
use uniqueue::json::canonical_json;
use uniqueue::{Subject, UniqueKey, UniquePolicy};

#[derive(Serialize)]
struct SendEmail<'a> {
    user_id: u64,
    template: &'a str,
    locale: &'a str,
    retry: bool,
}

fn keys(criterion: &mut Criterion) {
    let email = SendEmail { user_id: 42, template: "welcome", locale: "en-US", retry: false };
    let small = json!(email);
    let unicode = json!({"name": "Zoe\u{308} Ångström", "city": "東京", "é": 1, "～": 2, "😀": 3});
    let large: Value = (0..100)
        .map(|id| json!({"id": id, "price": f64::from(id) / 7.0, "name": "thing", "tags": ["a", "b"]}))
        .collect();

    let mut group = criterion.benchmark_group("unique_key");
    for (name, args) in [("small", &small), ("unicode", &unicode), ("large", &large)] {
        group.bench_function(format!("{name}/serde_json alone"), |bench| {
            bench.iter(|| serde_json::to_string(black_box(args)));
        });
        group.bench_function(format!("{name}/canonical text"), |bench| {
            bench.iter(|| canonical_json(black_box(args)));
        });
        let policy = UniquePolicy::new().by_args();
        group.bench_function(format!("{name}/policy"), |bench| {
            bench.iter(|| policy.resolve(&subject(black_box(args))));
        });
    }
    let policy = UniquePolicy::new().by_arg_fields(["user_id", "template"]);
    group.bench_function("small/policy of two args", |bench| {
        bench.iter(|| policy.resolve(&subject(black_box(&small))));
    });
    group.bench_function("small/hash_of struct", |bench| {
        bench.iter(|| UniqueKey::hash_of(black_box(&email)));
    });
    group.finish();
}

fn subject(args: &Value) -> Subject<'_> {
    Subject { kind: "email.send", queue: "default", args, meta: &Value::Null, window_at: None }
}

criterion_group!(benches, keys);
criterion_main!(benches);
