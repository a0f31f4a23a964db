//! The twenty questions, each asked of a database in which there is something to answer.

use sqlx::ConnectOptions;
use support::prelude::*;
use uniqueue::testing;
use uniqueue::testing::Database;

use super::blocks;

/// What the answer to each question must hold, as rows of text.
const ANSWERS: [(usize, &[&str]); 20] = [
    (1, &["(mail,working,", "(old,paused,1,", "(later,\"no runner\","]),
    (2, &["invoice.send,mail,1,", ",runner-1,t,"]),
    (3, &[",old,available,queue_paused,", "(queue_paused,\"Queue \"\"old\"\" has been paused since 2"]),
    (4, &["(invoice.send,{mail},0,1,", "\"no such address\")"]),
    (5, &["(invoice.send,discarded,25,2026-02-03T04:05:06Z,\"no such address\")"]),
    (6, &["(duplicate,", ",available,", "{pending,scheduled,available,running,retryable}"]),
    (7, &["invoice.send,mail,available,", "when it is "]),
    (8, &["(once,", ",import,completed,", "when it is deleted"]),
    (9, &["\"a key\",,", ",blocker,\"idle in transaction\","]),
    (10, &["(job,", ",blocker,\"idle in transaction\","]),
    (11, &["(job,", "(runner,", " kB\","]),
    (12, &["(default,completed,\"1 day\",1,", "(mail,completed,\"1 day\",0,,f)"]),
    (13, &["(runner-1,\"{mail,old}\",", ",t)"]),
    (14, &["(promoter,runner-1,t,)"]),
    (15, &[",3)"]),
    (16, &["(invoice.send,3,00:00:01,00:00:01,00:00:02,00:00:02)"]),
    (17, &[",scheduled,1)"]),
    (18, &[",invoice.send,available,"]),
    (19, &["(digest,invoice.send,PT15M,UTC,", "no such zone"]),
    (20, &["(1)", "(mail,\"", "(mail,)", "(mail,5,10)"]),
];

async fn populated() -> Database {
    let database = Database::new().await.unwrap();
    let fill = "
        INSERT INTO uniqueue.runner (id, name, queues, leased_until, knows_groups)
            VALUES (md5('runner-1')::uuid, 'runner-1', '{mail,old}', now() + interval '1 hour', true);
        SELECT uniqueue.insert_job('invoice.send', '{\"order\": 7}', 'mail', unique_policy => '{\"keys\": [\"args\"]}');
        SELECT uniqueue.insert_job('report', queue => 'later', scheduled_at => now() + interval '2 hours');
        SELECT uniqueue.insert_job('report', queue => 'old');
        SELECT uniqueue.pause_queue('old');
        UPDATE uniqueue.queue SET paused_at = now() - interval '2 hours' WHERE name = 'old';
        UPDATE uniqueue.job SET created_at = now() - interval '3 hours', scheduled_at = now() - interval '3 hours'
            WHERE queue = 'old';
        INSERT INTO uniqueue.job (id, kind, queue, state, attempt, worker, scheduled_at, attempted_at, finalized_at, errors)
        SELECT uniqueue.new_job_id(), 'invoice.send', 'mail', s.state::uniqueue.job_state, s.attempt, md5('runner-1')::uuid,
            now() - interval '5 s', now() - interval '4 s',
            CASE WHEN s.state <> 'running' THEN now() - interval '2 s' END, s.errors::jsonb
        FROM (VALUES ('running', 1, '[]'), ('completed', 1, '[]'), ('completed', 1, '[]'), ('completed', 1, '[]'),
            ('discarded', 25, '[{\"at\": \"2026-02-03T04:05:06Z\", \"error\": \"no such address\", \"attempt\": 25}]')
        ) AS s (state, attempt, errors);
        INSERT INTO uniqueue.job (id, kind, state, created_at, finalized_at, unique_key, unique_states)
            VALUES (uniqueue.id_at(now() - interval '2 days'), 'import', 'completed',
                now() - interval '2 days', now() - interval '2 days', 'once', 255);
        INSERT INTO uniqueue.periodic (name, kind, schedule, problem) VALUES ('digest', 'invoice.send', 'PT15M', 'no such zone');
        INSERT INTO uniqueue.maintenance (service, holder, runner, leased_until)
            VALUES ('promoter', md5('runner-1')::uuid, 'runner-1', now() + interval '1 hour');
        ANALYZE uniqueue.job;
    ";
    sqlx::raw_sql(fill).execute(database.pool()).await.unwrap();
    database
}

/// The answer to a query, a row a line.
async fn ask(database: &Database, query: &str) -> String {
    let text = format!("SELECT coalesce(string_agg(q::text, E'\\n'), '') FROM ({query}) AS q");
    sqlx::query_scalar(AssertSqlSafe(text))
        .fetch_one(database.pool())
        .await
        .unwrap_or_else(|error| panic!("{query}: {error}"))
}

#[tokio::test]
async fn twenty_questions_have_sensible_answers() {
    let database = populated().await;
    // One transaction holds a key and a snapshot, and another waits for it.
    let options: PgConnectOptions = database.url().parse().unwrap();
    let mut blocker = options.clone().application_name("blocker").connect().await.unwrap();
    let mut open = blocker.begin().await.unwrap();
    let insert = "SELECT id FROM uniqueue.insert_job('wait', unique_policy => '{}')";
    sqlx::query(insert).execute(&mut *open).await.unwrap();
    // A transaction of another database that began before makes the snapshot of the waiting session the older of the two,
    // and the answer to question 10 another one. Then the session begins anew.
    let began = Instant::now();
    let waiting = loop {
        assert!(began.elapsed() < WAIT, "transactions of other databases stay open");
        let mut waiter = options.clone().application_name("waiter").connect().await.unwrap();
        let waiting = tokio::spawn(async move { sqlx::query(insert).execute(&mut waiter).await.is_ok() });
        eventually!(!ask(&database, "SELECT pid FROM uniqueue.waiting_insert").await.is_empty(), "no session waits");
        let is_older =
            "SELECT age(w.backend_xmin) > age(b.backend_xid) FROM pg_stat_activity AS w, pg_stat_activity AS b
            WHERE w.application_name = 'waiter' AND b.application_name = 'blocker' AND w.datname = current_database()
                AND b.datname = current_database()";
        if ask(&database, is_older).await != "(t)" {
            break waiting;
        }
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'waiter' AND datname = current_database()";
        ask(&database, end).await;
        assert!(!waiting.await.unwrap(), "it was ended while it waited");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };

    let mut asked = 0;
    for block in blocks() {
        let Some((number, _)) = block.heading.split_once(". ") else { continue };
        let (expected, answers) = ANSWERS[asked];
        assert_eq!(number, expected.to_string(), "{}", block.heading);
        let mut answer = String::new();
        for statement in block.text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
            answer.push_str(&ask(&database, statement).await);
            answer.push('\n');
        }
        for part in answers {
            assert!(answer.contains(part), "{}\nlacks {part}\n{answer}", block.heading);
        }
        asked += 1;
    }
    assert_eq!(asked, 20);
    open.rollback().await.unwrap();
    assert!(waiting.await.unwrap(), "the waiting insert went in");
    let retried: String = sqlx::query_scalar("SELECT state::text FROM uniqueue.job WHERE attempt = 25")
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!(retried, "available");
    let holders: i64 = sqlx::query_scalar("SELECT count(*) FROM uniqueue.unique_claim WHERE kind = 'invoice.send'")
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!(holders, 0);
}

#[support::test]
async fn query_for_a_result_answers_once_the_job_is_final_or_gone(database: testing::Database) {
    let block = blocks().into_iter().find(|block| block.heading == "Waiting for a result").unwrap();
    let query = block.text.trim_end().trim_end_matches(';');
    let id = "019abc12-3456-7def-8a12-3456789abcde";
    assert_eq!(ask(&database, query).await, format!("({id},,,,)"), "no such job");
    let insert = format!("SELECT FROM uniqueue.insert_job('report', id => '{id}')");
    sqlx::query(AssertSqlSafe(insert)).execute(database.pool()).await.unwrap();
    assert_eq!(ask(&database, query).await, "", "it waits");
    let complete = "UPDATE uniqueue.job SET state = 'completed', finalized_at = now(), output = '7'";
    sqlx::query(complete).execute(database.pool()).await.unwrap();
    assert_eq!(ask(&database, query).await, format!("({id},completed,7,,)"));
}
