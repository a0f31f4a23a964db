//! What the view of groups shows of a line.

use uniqueue::NewJob;

use super::Task;
use crate::support::Database;

#[tokio::test]
async fn the_view_shows_for_each_group_its_limit_its_line_and_what_holds_it_up() {
    let database = Database::new().await;
    let job = |n| NewJob::from(Task { n });
    database.client.queue("narrow").group_limit(Some(1)).await.unwrap();
    let jobs = [
        job(1).group("free").group_limit(2),
        job(2).group("free").priority(3),
        job(3).group("full").queue("narrow"),
        job(4).group("full").queue("narrow"),
        job(5).group("began").in_order(),
        job(6).group("began").in_order(),
        job(7),
    ];
    database.client.insert_many(jobs).await.unwrap();
    let start = "UPDATE {schema}.job SET state = 'running', worker = gen_random_uuid() WHERE args @> '{\"n\": 3}'";
    database.execute(start).await;
    let began = "UPDATE {schema}.job SET state = 'retryable', began = 1 WHERE args @> '{\"n\": 5}'";
    database.execute(began).await;
    let view = "SELECT string_agg(concat_ws(
            ' ', g.queue, g.group_key, g.running, coalesce(g.group_limit::text, '-'), g.waiting, j.args ->> 'n',
            regexp_replace(g.held_by, '[0-9a-f-]{36}', 'ID')
        ), E'\\n' ORDER BY g.queue, g.group_key)
        FROM {schema}.group_status AS g LEFT JOIN {schema}.job AS j ON j.id = g.head";
    let seen = "default began 0 1 1 6 job ID, which began and is retryable
default free 0 - 2 2
narrow full 1 1 1 4 job ID, which runs";
    assert_eq!(database.text(view).await, seen);
    let groups = database.client.groups().await.unwrap();
    let held: Vec<_> = groups.iter().map(|group| (group.group.as_str(), group.held_by.is_some())).collect();
    assert_eq!(held, [("began", true), ("full", true), ("free", false)]);
    assert_eq!((groups[1].running, groups[1].limit, groups[1].waiting), (1, Some(1), 1));
    assert_eq!(database.client.groups().queue("narrow").await.unwrap().len(), 1);
    let one_queue = "SELECT string_agg(group_key, ' ') FROM {schema}.groups('narrow')";
    assert_eq!(database.text(one_queue).await, "full");
}
