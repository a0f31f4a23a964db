//! Rust and SQL make the same text and the same key.

use super::random;
use super::{insert, told};
use support::prelude::*;

/// How many random documents are compared. Default: 10,000, or 100,000 with `UNIQUEUE_SOAK`.
const DOCUMENTS: &str = "UNIQUEUE_EQUAL_DOCUMENTS";

const BATCH: usize = 1000;

fn documents() -> usize {
    std::env::var(DOCUMENTS).ok().and_then(|count| count.parse().ok()).unwrap_or_else(|| soak(10_000, 100_000))
}

/// A job and a policy, and what Rust makes of them.
struct Case {
    kind: String,
    queue: String,
    args: String,
    meta: String,
    policy: Value,
    scheduled_at: Option<OffsetDateTime>,
    rust: Result<(Option<String>, String), String>,
}

impl Case {
    fn resolved(mut self) -> Self {
        self.rust = self.resolve().map_err(|error| error.to_string());
        self
    }

    fn resolve(&self) -> uniqueue::Result<(Option<String>, String)> {
        let policy = UniquePolicy::from_json_with_default(&self.policy, OnConflict::Ignore)?;
        let (args, meta) = (parse_json(&self.args)?, parse_json(&self.meta)?);
        let subject =
            Subject { kind: &self.kind, queue: &self.queue, args: &args, meta: &meta, window_at: self.scheduled_at };
        let claim = policy.resolve(&subject)?.expect("a policy that enforces something");
        let written = UniquePolicy::from_ojs(&policy.to_ojs()?)?;
        assert_eq!(written.resolve(&subject)?.as_ref(), Some(&claim), "{} as it is written", self.policy);
        Ok((policy.canonical(&subject)?, claim.key))
    }

    fn random(random: &mut Dice) -> Self {
        let args = if random.once_in(5) { random::json(random, 4) } else { random::object(random, 4) };
        let meta = random::object(random, 2);
        let policy = policy(random, &args, &meta);
        let scheduled_at = OffsetDateTime::from_unix_timestamp_nanos(
            i128::from(random.number() % 4_000_000_000_000_000 * 1000) - 1_000_000_000_000_000_000,
        );
        Self {
            kind: if random.once_in(4) { printable(random) } else { "email.send".to_owned() },
            queue: if random.once_in(4) { printable(random) } else { "default".to_owned() },
            args,
            meta,
            policy,
            scheduled_at: Some(scheduled_at.expect("a time near ours")),
            rust: Err(String::new()),
        }
        .resolved()
    }
}

/// A kind or queue, which holds no control characters.
fn printable(random: &mut Dice) -> String {
    let text: String = random::string(random).chars().filter(|character| !character.is_control()).collect();
    if text.is_empty() { "k".to_owned() } else { text }
}

/// A policy that fits the job, most of the time.
fn policy(random: &mut Dice, args: &str, meta: &str) -> Value {
    let mut keys = vec!["type"];
    let mut document = json!({});
    if random.once_in(6) {
        document = json!({"like": random.of(&["ojs", "zizq", "river"])});
    }
    if !random.once_in(8) {
        keys.push("args");
        if random.once_in(2) {
            document["args_keys"] = json!(parts(random, args));
        }
        if random.once_in(4) {
            document["optional_args_keys"] = json!(parts(random, args));
        }
    }
    if random.once_in(3) {
        keys.push("meta");
        document["meta_keys"] = json!(parts(random, meta));
    }
    if random.once_in(3) {
        keys.push("queue");
    }
    if random.once_in(6) {
        keys.remove(0);
        document["exclude_type"] = json!(true);
    }
    document["keys"] = json!(keys);
    if random.once_in(3) {
        document["window"] = json!(format!("PT{}S", 1 + random.number() % 3_000_000_000));
    }
    document
}

/// Names and pointers of parts, of which the value has most.
fn parts(random: &mut Dice, text: &str) -> Vec<String> {
    let value = parse_json(text).expect(text);
    (0..=random.index(3))
        .map(|_| {
            let mut here = match &value {
                Value::Array(items) => items.first().filter(|first| first.is_object()).unwrap_or(&value),
                _ => &value,
            };
            let mut pointer = String::new();
            loop {
                let (segment, inner) = match here {
                    Value::Object(members) if !members.is_empty() => {
                        let (name, member) = members.iter().nth(random.index(members.len())).expect("a member");
                        (name.clone(), member)
                    }
                    Value::Array(items) if !items.is_empty() => {
                        let at = random.index(items.len());
                        (at.to_string(), &items[at])
                    }
                    _ => break,
                };
                let is_first = pointer.is_empty();
                pointer += &format!("/{}", segment.replace('~', "~0").replace('/', "~1"));
                here = inner;
                if random.once_in(2) {
                    let is_plain = !segment.is_empty() && !segment.starts_with('/');
                    return if is_first && is_plain && random.once_in(2) { segment } else { pointer };
                }
            }
            if pointer.is_empty() || random.once_in(20) { random::name(random) } else { pointer }
        })
        .collect()
}

/// The canonical texts and keys of many jobs, in one statement: from `unique_key` itself, or from
/// the function behind it that makes both at once.
async fn in_sql(
    database: &Database,
    cases: &[&Case],
    is_through_the_door: bool,
) -> Result<Vec<(Option<String>, String)>, sqlx::Error> {
    let key = if is_through_the_door {
        "{schema}.unique_key(i.kind, i.args::jsonb, i.queue, i.meta::jsonb, i.policy, i.scheduled_at)"
    } else {
        "c.unique_key"
    };
    let text = format!(
        "SELECT c.canonical, {key} AS key
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $6::timestamptz[]) WITH ORDINALITY
             AS i (kind, queue, args, meta, policy, scheduled_at, place)
         CROSS JOIN LATERAL {{schema}}._job_claim(
             i.kind, i.args::jsonb, i.queue, i.meta::jsonb, 0, NULL, i.scheduled_at, i.policy
         ) AS c
         ORDER BY i.place"
    );
    let column = |of: fn(&Case) -> String| cases.iter().map(|case| of(case)).collect::<Vec<_>>();
    let rows = sqlx::query(database.sql(&text))
        .bind(column(|case| case.kind.clone()))
        .bind(column(|case| case.queue.clone()))
        .bind(column(|case| case.args.clone()))
        .bind(column(|case| case.meta.clone()))
        .bind(cases.iter().map(|case| case.policy.clone()).collect::<Vec<_>>())
        .bind(cases.iter().map(|case| case.scheduled_at).collect::<Vec<_>>())
        .fetch_all(database.pool())
        .await?;
    Ok(rows.iter().map(|row| (row.get("canonical"), row.get("key"))).collect())
}

#[tokio::test]
async fn every_public_vector_has_its_canonical_text_and_key_in_sql() {
    vectors_hold(&Database::new().await).await;
}

pub(super) async fn vectors_hold(database: &Database) {
    let vectors = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/unique_keys.json"));
    let vectors: Value = serde_json::from_str(vectors).unwrap();
    let vectors = vectors["fingerprints"].as_array().unwrap();
    for vector in vectors {
        let text = |name: &str| vector[name].as_str().unwrap().to_owned();
        let case = Case {
            kind: text("kind"),
            queue: text("queue"),
            args: text("args_json"),
            meta: vector["meta"].to_string(),
            policy: vector["policy"].clone(),
            scheduled_at: vector["scheduled_at"].as_str().map(|at| OffsetDateTime::parse(at, &Rfc3339).unwrap()),
            rust: Err(String::new()),
        };
        let found = in_sql(database, &[&case], true).await.unwrap();
        assert_eq!(found, [(Some(text("canonical")), text("key"))], "{}", text("name"));
    }
    println!("{} vectors equal", vectors.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn keys_of_random_jobs_and_policies_are_equal() {
    let database = Arc::new(Database::new().await);
    let batches = documents().div_ceil(BATCH) as u64;
    let next = Arc::new(AtomicU64::new(1));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let (database, next) = (database.clone(), next.clone());
        tasks.spawn(async move {
            let mut refused = 0;
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed > batches {
                    return refused;
                }
                refused += compare_batch(&database, seed).await;
            }
        });
    }
    let refused: usize = tasks.join_all().await.into_iter().sum();
    println!(
        "{} keys equal, {refused} jobs refused by Rust and, of each {BATCH}, a few by SQL",
        batches as usize * BATCH
    );
}

/// Compares as many jobs as a batch has, and tells how many more Rust refused.
pub(super) async fn compare_batch(database: &Database, seed: u64) -> usize {
    let mut random = Dice::new(seed, 0);
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    while good.len() < BATCH {
        let case = Case::random(&mut random);
        if case.rust.is_ok() {
            good.push(case);
        } else {
            bad.push(case);
        }
    }
    let found = in_sql(database, &good.iter().collect::<Vec<_>>(), seed % 10 == 1).await.unwrap();
    for (case, found) in good.iter().zip(found) {
        assert_eq!(case.rust.as_ref(), Ok(&found), "seed {seed}: {} of {}", case.policy, case.args);
    }
    // Each of these is a statement of its own.
    for case in bad.iter().take(3) {
        let error = in_sql(database, &[case], true).await.expect_err(&format!("{:?}: {}", case.rust, case.args));
        let (code, message, _) = told(&error);
        assert_eq!(code, "22023", "{message}");
        let rust = case.rust.as_ref().unwrap_err();
        let problem = |text: &str| text.split_once(": ").map(|(_, problem)| problem.to_owned());
        // Of several flaws each names its first; Rust quotes names in its own way.
        let is_plain = rust.is_ascii() && !rust.contains('\\');
        if is_plain && UniquePolicy::from_ojs(&case.policy).is_ok() {
            assert_eq!(problem(&message), problem(rust), "{} of {}", case.policy, case.args);
        }
    }
    bad.len()
}

#[support::test]
async fn args_nest_as_deep_as_rust_reads_and_no_deeper(database: Database) {
    for (levels, is_fine) in [(127, true), (128, false), (5000, false)] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let args = format!("{}1{}", open.repeat(levels), close.repeat(levels));
            let found = sqlx::query(
                database
                    .sql("SELECT {schema}.unique_key('k', $1::text::jsonb, unique_policy => '{\"keys\": [\"args\"]}')"),
            )
            .bind(&args)
            .fetch_one(database.pool())
            .await;
            match found {
                Ok(_) => assert!(is_fine, "{levels}"),
                Err(error) => {
                    let (code, message, _) = told(&error);
                    assert_eq!(code, "22023");
                    assert!(message.contains("127 levels") && !is_fine, "{levels}: {message}");
                }
            }
            assert_eq!(parse_json(&args).is_ok(), is_fine);
        }
    }
}

#[support::test]
async fn every_character_and_pair_of_jamo_is_composed_as_in_rust(database: Database) {
    let assigned = "SELECT string_agg(chr(c), '' ORDER BY c) FROM generate_series(1, 1114111) AS c
        WHERE c NOT BETWEEN 55296 AND 57343 AND (chr(c) IS NFC NORMALIZED) IS NOT TRUE";
    let changing = database.text(assigned).await;
    let mut texts: Vec<String> = changing.chars().map(|character| format!("a{character}b\u{301}")).collect();
    let jamo: Vec<char> =
        "가각\u{1100}\u{1112}\u{1113}\u{1160}\u{1161}\u{1175}\u{1176}\u{11a7}\u{11a8}\u{11c2}\u{11c3}\u{301}"
            .chars()
            .collect();
    for first in &jamo {
        for second in &jamo {
            texts.extend(jamo.iter().map(|third| String::from_iter([*first, *second, *third])));
        }
    }
    let found: String = sqlx::query(database.sql("SELECT {schema}.canonical_json(to_jsonb($1::text[]))"))
        .bind(&texts)
        .fetch_one(database.pool())
        .await
        .unwrap()
        .get(0);
    let found: Vec<String> = serde_json::from_str(&found).unwrap();
    for (text, found) in texts.iter().zip(&found) {
        let wanted: String = serde_json::from_str(&canonical_json(&json!(text)).unwrap()).unwrap();
        assert_eq!(&wanted, found, "{text:?}");
    }
    println!("{} characters and sequences equal", texts.len());
}

/// Each orders letters in a way of its own; in Turkish `i` and `I` are no pair.
const LOCALES: [&str; 4] = ["en-US", "tr", "sv", "da"];

#[tokio::test]
async fn rust_and_sql_make_one_key_in_a_database_of_each_locale() {
    for locale in LOCALES {
        let Some(database) = Database::of_locale(locale).await else { return };
        // A text that the locale orders in another way than its bytes.
        let odd = database.number("SELECT ('a' < 'B')::integer::bigint").await;
        assert_eq!(odd, 1, "{locale}");
        vectors_hold(&database).await;
        for seed in 1..=2 {
            compare_batch(&database, seed).await;
        }
        let args = r#"{"userId":1,"user_id":2,"B":3,"a":4,"é":5,"I":6,"ı":7,"å":8,"z":9}"#;
        let policy = r#"{"keys": ["args"]}"#;
        let by_sql = insert(&database, &format!("'user.sync', '{args}', unique_policy => '{policy}'")).await.unwrap();
        let value: Value = serde_json::from_str(args).unwrap();
        let job = NewJob::new("user.sync", &value).unique(UniquePolicy::new().by_args());
        let by_rust = database.client.insert(job).await.unwrap();
        assert!(by_rust.duplicate && by_rust.id().to_string() == by_sql.id.to_string(), "{locale}");
    }
}

#[tokio::test]
async fn lists_and_cursors_follow_bytes_in_every_locale() {
    let Some(database) = Database::of_locale("en-US").await else { return };
    for queue in ["a", "B", "é", "_", "Z"] {
        for group in ["b", "A", "ä", "z"] {
            let job = NewJob::new("k", &json!({})).queue(queue).group(group);
            database.client.insert(job).await.unwrap();
        }
    }
    let names: Vec<String> = Admin::new(&database.client)
        .queues()
        .await
        .unwrap()
        .into_iter()
        .map(|queue| queue.settings.name.to_string())
        .collect();
    assert_eq!(names, ["B", "Z", "_", "a", "é"]);
}
