use serde_json::json;
use time::macros::datetime;

use super::*;

#[test]
fn a_filter_without_conditions_is_an_error() {
    let error = JobFilter::new().limit(5).check().unwrap_err().to_string();
    assert!(error.contains("JobFilter::all()"), "{error}");
    JobFilter::all().check().unwrap();
    JobFilter::new().states(JobState::Available).check().unwrap();
}

#[test]
fn a_filter_is_a_document() {
    let filter = JobFilter::new().states(JobState::Discarded).kind("a").args(json!({"a": null}));
    let filter = filter.failed_after(datetime!(2026-01-15 09:30 UTC)).limit(5);
    let document = json!({
        "states": ["discarded"], "kinds": ["a"], "args": {"a": null}, "failed_after": "2026-01-15T09:30:00Z", "limit": 5,
    });
    assert_eq!(serde_json::to_value(&filter).unwrap(), document);
    assert_eq!(serde_json::from_value::<JobFilter>(document).unwrap(), filter);
    assert!(serde_json::from_value::<JobFilter>(json!({"kind": "a"})).is_err());
}

#[test]
fn an_invalid_condition_is_named() {
    for (filter, name) in [
        (JobFilter::new().states([]), "states"),
        (JobFilter::new().queue(""), "queue"),
        (JobFilter::new().queues(["a", ""]), "queue"),
        (JobFilter::new().queues([""; 0]), "queues"),
        (JobFilter::new().kinds([""; 0]), "kinds"),
        (JobFilter::new().kind("a\0"), "kind"),
        (JobFilter::new().unique_key("a\0b"), "key"),
        (JobFilter::new().args(json!({"a": "\0"})), "args"),
        (JobFilter::new().meta(json!({"\0": 1})), "meta"),
        (JobFilter::new().created_before(datetime!(9999-01-01 0:00 UTC)), "created"),
    ] {
        let error = filter.check().unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}
