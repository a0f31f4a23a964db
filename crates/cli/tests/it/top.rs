//! `uniqueue top`, on a terminal.

use test_support::prelude::*;
use test_support::process::signal;

use crate::screen::Screen;
use crate::support::Migrated;

/// Waits until a query answers so.
async fn until(top: &Migrated, sql: &str, expected: &str) {
    eventually!(let found = top.texts(sql).await; found == [expected], "{sql}: {found:?}, not {expected}");
}

#[test_support::test]
async fn keys_pause_a_queue_and_cancel_a_running_job_in_the_database(top: Migrated) {
    let client = top.client().await;
    client.insert(NewJob::new("email.send", &json!({"to": "a"})).queue("emails")).await.unwrap();
    let running =
        client.insert(NewJob::new("report.build", &json!({"month": 11})).queue("reports")).await.unwrap().id();
    let start =
        "UPDATE uniqueue.job SET state = 'running', attempt = 1, attempted_at = now(), worker = gen_random_uuid()
        WHERE kind = 'report.build'";
    top.execute(start).await;
    let Some(mut screen) = Screen::open(&top.url, "top --interval 100ms") else { return };
    screen.until(&["1 queues 2", "emails", "reports", "report.build", "dead: unknown"]).await;
    screen.until_line(&["reports", "no runner"]).await;

    // The first queue is selected.
    screen.press("p");
    screen.until(&["Pause queue emails? Running jobs are finished."]).await;
    screen.press("n");
    screen.until(&["nothing was changed"]).await;
    assert_eq!(top.texts("SELECT count(*)::text FROM uniqueue.queue").await, ["0"]);
    screen.press("py");
    until(&top, "SELECT (paused_at IS NOT NULL)::text FROM uniqueue.queue WHERE name = 'emails'", "true").await;
    screen.until(&["queue emails is paused"]).await;
    screen.until_line(&["emails", "paused", "█"]).await;
    screen.press("py");
    until(&top, "SELECT (paused_at IS NOT NULL)::text FROM uniqueue.queue WHERE name = 'emails'", "false").await;

    // The one running job, in full, and cancelled.
    screen.press("2\r");
    screen.until(&[&format!("job {running}"), "\"month\": 11"]).await;
    screen.press("x");
    screen.press("c");
    screen.until(&[&format!("Cancel job {running}?")]).await;
    screen.press("y");
    until(&top, "SELECT state::text FROM uniqueue.job WHERE kind = 'report.build'", "cancelled").await;
    screen.until(&["no job is running"]).await;

    // What failed comes back.
    top.execute("UPDATE uniqueue.job SET state = 'discarded', finalized_at = now() WHERE kind = 'email.send'").await;
    screen.press("3");
    screen.until(&["3 failing 1"]).await;
    screen.press("ry");
    until(&top, "SELECT state::text FROM uniqueue.job WHERE kind = 'email.send'", "available").await;
    screen.press("/rep");
    screen.until(&["1 queues 1"]).await;
    screen.press("\r?");
    screen.until(&["another list: queues, running jobs"]).await;
    screen.press(" q");
    assert_eq!(screen.end().await, Some(0));
}

/// Two and a half batches of discarded jobs, and a transaction that has locked one of them.
async fn held_up_retry(top: &Migrated) -> PgConnection {
    let insert = "INSERT INTO uniqueue.job (id, kind, state, finalized_at)
        SELECT uniqueue.new_job_id(), 'it''s', 'discarded', now() FROM generate_series(1, 2500);
        CREATE TABLE held AS SELECT id FROM uniqueue.job ORDER BY id OFFSET 1200 LIMIT 1";
    top.execute(insert).await;
    top.session("BEGIN; SELECT FROM uniqueue.job WHERE id = (SELECT id FROM held) FOR UPDATE").await
}

#[test_support::test]
async fn long_retry_tells_how_far_it_is_and_ends_when_all_is_done(top: Migrated) {
    let holder = held_up_retry(&top).await;
    let Some(mut screen) = Screen::open(&top.url, "top --interval 100ms") else { return };
    screen.until(&["3 failing 1"]).await;
    screen.press("3ry");
    screen.until(&["retrying kind it's: 2,499 so far"]).await;
    screen.press("r");
    screen.until(&["2,499 so far; retry: another retry is running"]).await;
    // Longer than anything else is waited for.
    tokio::time::sleep(Duration::from_secs(11)).await;
    holder.close().await.unwrap();
    screen.until(&["made 2,500 jobs of kind it's available again"]).await;
    assert_eq!(top.texts("SELECT DISTINCT state::text FROM uniqueue.job").await, ["available"]);
    screen.press("q");
    assert_eq!(screen.end().await, Some(0));
}

#[test_support::test]
async fn retry_that_was_quit_says_how_far_it_came(top: Migrated) {
    let _holder = held_up_retry(&top).await;
    let Some(mut screen) = Screen::open(&top.url, "top --interval 100ms") else { return };
    screen.until(&["3 failing 1"]).await;
    screen.press("3ry");
    screen.until(&["2,499 so far"]).await;
    screen.press("\u{3}");
    let said = "quit during a retry that made 2,499 jobs of kind it's available again: `uniqueue job retry --kind='it'\\''s' --schema=uniqueue`";
    let (code, last_words) = screen.last_words().await;
    // Wide as it is, the terminal breaks the line.
    assert!(code == Some(0) && last_words.replace('\n', "").contains(said), "{code:?}: {last_words}");
}

#[test_support::test]
async fn slow_database_holds_up_no_key_and_its_age_is_shown(top: Migrated) {
    let client = top.client().await;
    client.insert(NewJob::new("a", &json!({}))).await.unwrap();
    let Some(mut screen) = Screen::open(&top.url, "top --interval 100ms") else { return };
    screen.until(&["1 queues 1"]).await;
    let holder = top.session("BEGIN; LOCK TABLE uniqueue.job").await;
    screen.until(&["s old  "]).await;
    screen.press("?");
    screen.until(&["help: any key closes it"]).await;
    screen.press(" ");
    // When the server answers again the numbers are fresh again.
    holder.close().await.unwrap();
    eventually!(!screen.text().lines().next().is_some_and(|head| head.contains(" old")), "{}", screen.text());
    screen.press("q");
    assert_eq!(screen.end().await, Some(0));
}

#[test_support::test]
async fn terminal_is_given_back_after_a_signal(top: Migrated) {
    for (name, key, code) in [(Some("TERM"), "", 130), (None, "\u{3}", 0)] {
        let Some(mut screen) = Screen::open(&top.url, "top") else { return };
        screen.until(&["there is no queue yet"]).await;
        match name {
            Some(name) => signal(screen.process(), name),
            None => screen.press(key),
        }
        let (ended, said) = screen.last_words().await;
        // A queue may have been paused before, so the message must not say that nothing was changed.
        let expected = if code == 0 { "" } else { "error: interrupted: the change may have been made" };
        assert_eq!((ended, said.trim()), (Some(code), expected));
    }
}

#[test_support::test]
async fn without_a_terminal_it_names_what_works_there(top: Migrated) {
    for line in ["top", "top --json"] {
        let stderr = top.refused(line);
        assert!(
            stderr.starts_with("error: top draws on a terminal") && stderr.contains("`uniqueue stats --watch"),
            "{stderr}"
        );
    }
}

#[test_support::test]
async fn groups_that_are_held_up_are_counted_by_queue_and_listed(top: Migrated) {
    let client = top.client().await;
    let job = |n: u32| NewJob::new("order.step", &json!({"n": n})).queue("orders");
    client.insert_many([job(1).group("a").in_order(), job(2).group("a").in_order(), job(3).group("b")]).await.unwrap();
    let start = "UPDATE uniqueue.job SET state = 'running', attempt = 1, attempted_at = now(), began = 1,
        worker = gen_random_uuid() WHERE args @> '{\"n\": 1}'";
    top.execute(start).await;
    let Some(mut screen) = Screen::open(&top.url, "top --interval 100ms") else { return };
    screen.until(&["held up"]).await;
    screen.until_line(&["orders", "no runner", " 1 "]).await;
    // The list has those alone, with the job that holds each up.
    screen.press("6");
    screen.until(&["6 groups 1", "held up by"]).await;
    screen.until_line(&["a ", "orders", "1/1", " 1 ", "job "]).await;
    screen.press("\r");
    screen.until(&["\"n\": 2"]).await;
    screen.press("xq");
}
