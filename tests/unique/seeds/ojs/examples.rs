//! The examples of the page.

use super::insert;
use support::prelude::*;

#[support::test]
async fn example_one_report_at_a_time(database: Database) {
    let report = |date: &str| {
        json!({
            "type": "report.daily", "args": {"date": date},
            "unique": {"keys": ["type"], "on_conflict": "ignore"}
        })
    };
    let first = insert(&database, &report("2026-02-12")).await.unwrap();
    let second = insert(&database, &report("2026-02-13")).await.unwrap();
    assert!(second.duplicate, "another date, and still one at a time");
    assert_eq!(second.id(), first.id());
}

/// One welcome email a user, whatever the locale.
#[support::test]
async fn example_one_welcome_email_a_user(database: Database) {
    let welcome = |user: u64, locale: &str| {
        json!({
            "type": "email.send_welcome", "args": {"user_id": user, "locale": locale},
            "unique": {"keys": ["type", "args"], "args_keys": ["user_id"], "on_conflict": "reject"}
        })
    };
    assert!(insert(&database, &welcome(42, "en-US")).await.is_ok());
    assert!(insert(&database, &welcome(42, "de-DE")).await.unwrap_err().is_duplicate());
    assert!(insert(&database, &welcome(43, "en-US")).await.is_ok());
}

/// At most one notification an hour. With the default states that is while the first is not over;
/// with `completed` among them it is the whole hour.
#[support::test]
async fn example_one_notification_an_hour(database: Database) {
    let push = |event: &str| {
        json!({
            "type": "notification.push", "args": {"user_id": 42, "event": event},
            "unique": {
                "keys": ["type", "args"], "args_keys": ["user_id", "event"], "period": "PT1H", "on_conflict": "ignore"
            }
        })
    };
    assert!(!insert(&database, &push("new_comment")).await.unwrap().duplicate);
    assert!(!insert(&database, &push("new_follower")).await.unwrap().duplicate);
    database.pass(59 * MINUTE).await;
    assert!(insert(&database, &push("new_comment")).await.unwrap().duplicate);
    database.pass(MINUTE).await;
    let second = insert(&database, &push("new_comment")).await.unwrap();
    assert!(!second.duplicate);
    database.set_state(second.id(), "completed").await;
    assert!(!insert(&database, &push("new_comment")).await.unwrap().duplicate, "state and period, joined by and");
    let mut whole_hour = push("new_like");
    whole_hour["unique"]["states"] = json!(["available", "active", "scheduled", "retryable", "pending", "completed"]);
    let first = insert(&database, &whole_hour).await.unwrap();
    database.set_state(first.id(), "completed").await;
    assert!(insert(&database, &whole_hour).await.unwrap().duplicate);
}

/// One resize an image and queue, the latest wins.
#[support::test]
async fn example_one_resize_an_image_and_queue(database: Database) {
    let resize = |queue: &str| {
        json!({
            "type": "image.resize", "queue": queue, "args": {"image_id": "img_abc123"},
            "unique": {"keys": ["type", "queue", "args"], "args_keys": ["image_id"], "on_conflict": "replace"}
        })
    };
    let first = insert(&database, &resize("thumbnails")).await.unwrap();
    assert_eq!(insert(&database, &resize("previews")).await.unwrap().replaced, None);
    assert_eq!(insert(&database, &resize("thumbnails")).await.unwrap().replaced, Some(first.id()));
}

#[support::test]
async fn example_one_cache_warm_a_tenant(database: Database) {
    let warm = |tenant: &str, resource: &str| {
        json!({
            "type": "cache.warm", "args": {"resource": resource}, "meta": {"tenant_id": tenant},
            "unique": {"keys": ["type", "args", "meta"], "meta_keys": ["tenant_id"], "on_conflict": "ignore"}
        })
    };
    for (tenant, resource, is_duplicate) in [
        ("acme", "products", false),
        ("acme", "products", true),
        ("other", "products", false),
        ("acme", "orders", false),
    ] {
        assert_eq!(insert(&database, &warm(tenant, resource)).await.unwrap().duplicate, is_duplicate);
    }
}
