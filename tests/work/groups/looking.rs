//! What the view of groups shows of a line.

use uniqueue_admin::GroupInfo;

use support::prelude::*;

#[support::test]
async fn the_view_shows_for_each_group_its_limit_its_line_and_what_holds_it_up(database: Database) {
    let job = |n| NewJob::from(Task { n });
    database.client.queue("narrow").set(QueueChanges::new().group_limit(Some(1))).await.unwrap();
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
            regexp_replace(regexp_replace(g.held_by, '[0-9a-f-]{36}', 'ID'), '2[0-9: -]+ UTC', 'TIME')
        ), E'\\n' ORDER BY g.queue, g.group_key)
        FROM {schema}.group_status AS g LEFT JOIN {schema}.job AS j ON j.id = g.head";
    let seen = "default began 0 1 1 6 Group \"began\" waits for job ID, which began and is retryable until TIME.
default free 0 - 2 2
narrow full 1 1 1 4 Group \"full\" waits for job ID, which runs.";
    assert_eq!(database.text(view).await, seen);
    let groups = Admin::new(&database.client).groups().await.unwrap();
    let held: Vec<_> = groups.iter().map(|group| (group.group.as_str(), group.held_by.is_some())).collect();
    assert_eq!(held, [("began", true), ("full", true), ("free", false)]);
    assert_eq!((groups[1].running, groups[1].limit, groups[1].waiting), (1, Some(1), 1));
    assert_eq!(Admin::new(&database.client).groups().queue("narrow").await.unwrap().len(), 1);
    for group in &groups {
        let found = Admin::new(&database.client).groups().of(group.queue.as_str(), &group.group).await.unwrap();
        assert_eq!(found, std::slice::from_ref(group));
    }
    assert_eq!(Admin::new(&database.client).groups().of("narrow", "free").await.unwrap(), []);
    assert_eq!(database.text("SELECT string_agg(group_key, ' ') FROM {schema}.groups('narrow')").await, "full");
}

/// The names of all groups, by pages of this length.
async fn pages(database: &Database, queue: Option<&str>, length: u32) -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut after = (String::new(), String::new());
    loop {
        let mut page = Admin::new(&database.client).groups().after(&after.0, &after.1).limit(length);
        if let Some(queue) = queue {
            page = page.queue(queue);
        }
        let page: Vec<GroupInfo> = page.await.unwrap();
        names.extend(page.iter().map(|group| (group.queue.to_string(), group.group.clone())));
        match names.last() {
            Some(last) if page.len() == length as usize => after = last.clone(),
            _ => return names,
        }
    }
}

#[support::test]
async fn pages_of_groups_meet_every_group_once_in_the_order_of_names(database: Database) {
    let queues = ["a", "b b", "c", "d", "e"];
    // Each queue has other priorities, groups of several of them, and groups that only run.
    let mut jobs = Vec::new();
    for (place, queue) in queues.iter().enumerate() {
        let groups = if *queue == "e" { 1 } else { 23 };
        for n in 0..groups * (place + 1) {
            let group = format!("{}:\u{e4}{}", ["Z", "a", "\u{1f600}"][n % 3], n * 7 % groups);
            let priority = i16::try_from(n % (place + 1)).unwrap() - 1;
            jobs.push(
                NewJob::from(Task { n: u32::try_from(n).unwrap() }).queue(*queue).group(group).priority(priority),
            );
        }
    }
    database.client.insert_many(jobs).await.unwrap();
    let start = "UPDATE {schema}.job SET state = 'running', worker = gen_random_uuid()
        WHERE (args ->> 'n')::integer % 5 = 0 OR queue = 'd'";
    database.execute(start).await;
    let query = "SELECT string_agg(queue || '/' || group_key, E'\n' ORDER BY queue, group_key COLLATE \"C\")
        FROM (SELECT DISTINCT queue, group_key FROM {schema}.job) AS j";
    let all = database.text(query).await;
    for length in [1, 7, 50, 1_000] {
        let names: Vec<_> =
            pages(&database, None, length).await.iter().map(|(queue, group)| format!("{queue}/{group}")).collect();
        assert_eq!(names.join("\n"), all, "pages of {length}");
        for queue in queues {
            let names = pages(&database, Some(queue), length).await;
            let expected: Vec<_> = all.lines().filter_map(|line| line.strip_prefix(&format!("{queue}/"))).collect();
            assert!(names.iter().all(|name| name.0 == queue));
            assert_eq!(names.iter().map(|name| name.1.as_str()).collect::<Vec<_>>(), expected, "{queue}, {length}");
        }
    }
    // A page shows of a group what the whole list shows.
    let mut listed = Admin::new(&database.client).groups().limit(1_000).await.unwrap();
    listed.sort_by(|a, b| (a.queue.as_str(), &a.group).cmp(&(b.queue.as_str(), &b.group)));
    let mut paged = Vec::new();
    while paged.len() < listed.len() {
        let after = paged.last().map(|last: &GroupInfo| (last.queue.to_string(), last.group.clone()));
        let (queue, group) = after.unwrap_or_default();
        paged.extend(Admin::new(&database.client).groups().after(queue, group).limit(9).await.unwrap());
    }
    assert_eq!(format!("{paged:?}"), format!("{listed:?}"));
}
