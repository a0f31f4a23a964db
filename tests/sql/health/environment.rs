//! Poolers, the guide, and no finding in a healthy database.

use std::collections::BTreeSet;

use uniqueue::{Client, FindingCode, NewJob, Runner, RunningJob, Severity, UniqueKey};

use support::bouncer;
use support::{Database, WAIT, job};

#[derive(Debug, serde::Deserialize, serde::Serialize, uniqueue::Job)]
#[job(kind = "task")]
struct Task {
    n: u32,
}

#[tokio::test]
async fn nothing_is_found_in_a_healthy_busy_database() {
    let database = Database::new().await;
    let runner = Runner::new(database.client.clone()).queue("default", 20).queue("limited", 5);
    let runner = runner.worker(|_: RunningJob<Task>| async {}).start().await.unwrap();
    database.client.queue("limited").limit(Some(3)).await.unwrap();
    for round in 0..20_u32 {
        let jobs = (0..100).map(|n| {
            let queue = if n % 10 == 0 { "limited" } else { "default" };
            NewJob::from(Task { n }).queue(queue).unique_key(UniqueKey::raw(format!("{round} {}", n / 2)))
        });
        database.client.insert_many(jobs).await.unwrap();
        let diagnosis = database.client.diagnose().await.unwrap();
        assert!(diagnosis.findings.is_empty(), "{:#?}", diagnosis.findings);
        assert!(diagnosis.skipped.is_empty(), "{:#?}", diagnosis.skipped);
        assert!(diagnosis.is_healthy() && diagnosis.worst() == Severity::Ok);
        let said = diagnosis.to_string();
        assert!(said.starts_with("ok: nothing found; ") && said.ends_with(" checks"), "{said}");
    }
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn a_pooler_is_told_by_whether_statements_survive_it() {
    let database = Database::new().await;
    for (setting, severity) in
        [("max_prepared_statements = 200", Severity::Notice), ("max_prepared_statements = 0", Severity::Critical)]
    {
        let Some(pooler) = bouncer::Bouncer::start(setting).await else { return };
        let pool = sqlx::postgres::PgPoolOptions::new()
            .acquire_timeout(WAIT)
            .connect(&pooler.url(&database.url))
            .await
            .unwrap();
        let client = Client::builder().schema(database.client.schema().clone()).pool(pool);
        let diagnosis = client.diagnose().await;
        let Ok(diagnosis) = diagnosis else {
            assert_eq!(severity, Severity::Critical, "{diagnosis:?}");
            continue;
        };
        let found = diagnosis.findings.iter().find(|finding| finding.code == FindingCode::Pooler);
        assert_eq!(found.map(|finding| finding.severity), Some(severity), "{diagnosis:#?}");
    }
}

#[test]
fn the_guide_names_every_code_once_and_no_other() {
    let guide = include_str!("../../../docs/operate/doctor.md");
    let (_, table) = guide.split_once("## Findings").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let named: Vec<_> = rows.collect();
    let codes: BTreeSet<_> = FindingCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), codes);
    assert_eq!(named.len(), codes.len(), "each once");
}

#[tokio::test]
async fn a_diagnosis_is_an_object_for_machines() {
    let database = Database::new().await;
    database.client.insert(job("a")).await.unwrap();
    let diagnosis = serde_json::to_value(database.client.diagnose().await.unwrap()).unwrap();
    assert_eq!(diagnosis["schema"], database.schema.as_str());
    let finding = &diagnosis["findings"][0];
    assert_eq!((&finding["code"], &finding["severity"]), (&"queue_unworked".into(), &"notice".into()));
    assert_eq!((&finding["subject"], &finding["facts"]["runners"]), (&"queue default".into(), &0.into()));
    let command = format!("uniqueue job list --state available --queue default --schema {}", database.schema);
    assert_eq!(finding["remedy"]["command"], command);
}
