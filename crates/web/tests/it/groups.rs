//! Groups: the page that lists them, and the other pages that name them.

use axum::Router;
use test_support::prelude::*;

use crate::support::{get, pages};

fn job(queue: &str, group: &str) -> NewJob {
    NewJob::new("sync", &json!({ "group": group })).queue(queue).group(group).group_limit(3)
}

async fn page(router: &Router, path: &str) -> String {
    get(router, path).await.body
}

#[test_support::test]
async fn groups_are_listed_with_what_holds_them_up(database: Database) {
    let (client, router) = (&database.client, uniqueue_web::router(database.client.clone()));
    assert!(page(&router, "/groups").await.contains("No job of a group"));
    let head = client.insert(job("imports", "customer:1")).await.unwrap().id();
    client.insert(job("imports", "customer:1")).await.unwrap();
    client.insert(job("emails", "customer:2&3")).await.unwrap();
    client.queue("imports").pause().await.unwrap();

    let all = page(&router, "/groups?queue=imports").await;
    assert!(all.contains("has been paused since"), "{all}");
    assert!(all.contains(&format!("/jobs/{head}")), "the first job: {all}");
    assert!(all.contains("/jobs?queue=imports&amp;group=customer%3A1&amp;state=available&amp;since=all"), "{all}");
    assert!(all.contains("/group?queue=imports&amp;group=customer%3A1\""), "{all}");
    assert!(!all.contains("customer:2"), "another queue: {all}");
    let ids = |page: &str| page.split("<tr id=\"group-").skip(1).map(|row| row[..16].to_owned()).collect::<Vec<_>>();
    let both = ids(&page(&router, "/groups?order=name").await);
    assert!(both.len() == 2 && both[0] != both[1] && ids(&all) == both[1..], "rows keep their ids: {both:?}");
    let other = page(&router, "/groups?queue=emails").await;
    assert!(other.contains("queue=emails&amp;group=customer%3A2%263"), "{other}");
    assert!(other.contains("uniqueue queue groups emails"), "{other}");
    assert!(page(&router, "/groups?queue=none").await.contains("All groups"));
}

#[test_support::test]
async fn the_pages_of_a_job_its_group_and_its_queue_say_why_it_waits(database: Database) {
    let (client, router) = (&database.client, uniqueue_web::router(database.client.clone()));
    let head = client.insert(job("imports", "customer:1")).await.unwrap().id();
    let last = client.insert(job("imports", "customer:1")).await.unwrap().id();
    client.queue("imports").hold_group("customer:1", std::time::Duration::from_secs(600)).await.unwrap();
    let pages =
        [format!("/jobs/{head}"), "/group?queue=imports&group=customer:1".into(), "/queue?queue=imports".into()];
    for path in pages {
        let page = page(&router, &path).await;
        let (_, why) = page.split_once("Why it waits").expect(&path);
        let held = why.find("Group &quot;customer:1&quot; is held until 2").expect(&path);
        assert!(
            why.find("No live runner works queue &quot;imports&quot;.").is_some_and(|at| at < held),
            "{path}: {why}"
        );
        assert!(why.contains("resume_group"), "{path}: {why}");
    }
    assert!(page(&router, &format!("/jobs/{last}")).await.contains("is behind 1 job of group"));
    client.cancel([head]).await.unwrap();
    assert!(!page(&router, &format!("/jobs/{head}")).await.contains("Why it waits"));
}

/// The target of the link whose tag has this text.
fn link(page: &str, text: &str) -> Option<String> {
    let tag = page.split("<a ").skip(1).find(|tag| tag.split("</a>").next().is_some_and(|tag| tag.contains(text)))?;
    Some(tag.split("href=\"").nth(1)?.split('"').next()?.replace("&amp;", "&"))
}

#[test_support::test]
async fn pages_of_groups_meet_every_group_once(database: Database) {
    let (client, router) = (&database.client, uniqueue_web::router(database.client.clone()));
    let jobs = (0..120).map(|n| job(["imports", "emails & more"][n % 2], &format!("customer:{n}/ä")));
    client.insert_many(jobs).await.unwrap();
    let first = page(&router, "/groups").await;
    assert!(first.contains("There are more groups."), "{first}");
    let pages = pages(&router, &link(&first, "All groups by name").unwrap()).await;
    let mut seen: Vec<usize> = Vec::new();
    for list in &pages {
        assert!(list.len() < 100_000, "{} bytes", list.len());
        assert!(list.contains("uniqueue queue groups --by-name"), "{list}");
        let names = list
            .split("/group?queue=")
            .skip(1)
            .map(|rest| rest.split("customer%3A").nth(1).unwrap().split('%').next().unwrap());
        seen.extend(names.map(|n| n.parse::<usize>().unwrap()));
    }
    assert_eq!(pages.len(), 3);
    let queues: Vec<_> = seen.iter().map(|n| n % 2).collect();
    assert!(queues.is_sorted_by(|a, b| a >= b), "the queue emails comes first: {queues:?}");
    seen.sort_unstable();
    assert_eq!(seen, (0..120).collect::<Vec<_>>());
    let one = page(&router, "/groups?queue=imports&order=name").await;
    assert!(link(&one, "Next page").unwrap().contains("queue=imports&order=name&after_queue=imports&after="), "{one}");
    assert!(page(&router, "/groups?after_queue=z&after=z").await.contains("There are no more groups"));
}

#[test_support::test]
async fn jobs_are_found_by_their_group(database: Database) {
    let (client, router) = (&database.client, uniqueue_web::router(database.client.clone()));
    let inside = client.insert(job("imports", "customer:1").group_limit(1).in_order()).await.unwrap().id();
    let outside = client.insert(job("imports", "customer:2")).await.unwrap().id();
    let list = page(&router, "/jobs?queue=imports&group=customer%3A1").await;
    assert!(list.contains(&inside.to_string()) && !list.contains(&outside.to_string()), "{list}");
    assert!(list.contains("uniqueue job list --queue imports --group customer:1"), "{list}");
    assert!(list.contains("Remove the condition on group"), "{list}");

    let one = page(&router, &format!("/jobs/{inside}")).await;
    assert!(one.contains("/group?queue=imports&amp;group=customer%3A1"), "{one}");
    assert!(one.contains("in order"), "{one}");
    let other = page(&router, &format!("/jobs/{outside}")).await;
    assert!(other.contains("at most 3 at once"), "{other}");
}

#[test_support::test]
async fn a_queue_shows_how_it_treats_its_groups(database: Database) {
    let (client, router) = (&database.client, uniqueue_web::router(database.client.clone()));
    client.queue("imports").set(QueueChanges::new().group_limit(Some(7))).await.unwrap();
    client.queue("imports").set(QueueChanges::new().fair(true)).await.unwrap();
    let list = page(&router, "/queues").await;
    assert!(list.contains("fair") && list.contains("7 a group"), "{list}");
    let one = page(&router, "/queue?queue=imports").await;
    assert!(one.contains("7 at once") && one.contains("groups take turns"), "{one}");
    assert!(one.contains("/groups?queue=imports"), "{one}");
}
