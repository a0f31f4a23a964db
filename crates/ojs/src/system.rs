//! The health check, and the manifest.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use serde_json::json;

use crate::answer::{Answer, Answered};
use crate::door::Door;

/// No two jobs claim one key, under any race.
const UNIQUE_STRENGTH: &str = "strong";

/// The mechanism behind the strength.
const UNIQUE_MECHANISM: &str = "PostgreSQL partial unique index over each job's own unique states, met with INSERT … ON \
     CONFLICT DO NOTHING";

/// How long an answer of the database counts: probes cost it no more than one statement in this time.
const FRESH: Duration = Duration::from_secs(1);

/// How long the database may take.
const PATIENT: Duration = Duration::from_secs(2);

/// `GET /health`
pub(crate) async fn health(State(door): State<Arc<Door>>) -> Answered {
    let known = *door.health.lock().unwrap_or_else(PoisonError::into_inner);
    let latency = match known.filter(|(at, _)| at.elapsed() < FRESH) {
        Some((_, latency)) => latency,
        None => {
            let asked_at = Instant::now();
            let answer = tokio::time::timeout(PATIENT, door.client.database_time()).await;
            let latency = matches!(answer, Ok(Ok(_))).then(|| asked_at.elapsed());
            *door.health.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), latency));
            latency
        }
    };
    let (status, backend) = match latency {
        Some(latency) => {
            let millis = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
            ("ok", json!({ "type": "postgres", "status": "connected", "latency_ms": millis }))
        }
        // The reason may name hosts and users. Probes need no credentials.
        None => {
            let error = "the database does not answer";
            ("degraded", json!({ "type": "postgres", "status": "disconnected", "error": error }))
        }
    };
    let body = json!({
        "status": status, "version": "1.0", "server_version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": door.started_at.elapsed().as_secs(), "backend": backend,
    });
    Ok(if latency.is_some() { Answer::ok(body) } else { Answer::unavailable(body) })
}

/// `GET /ojs/manifest`
pub(crate) async fn manifest() -> Answered {
    Ok(Answer::ok(json!({
        "specversion": "1.0",
        "ojs_version": "1.0",
        "implementation": { "name": "uniqueue", "version": env!("CARGO_PKG_VERSION"), "language": "rust" },
        "conformance_level": 4,
        "conformance_tier": "full",
        "protocols": ["http"],
        "backend": "postgres",
        "unique_job_strength": UNIQUE_STRENGTH,
        "schema_validation": false,
        "capabilities": {
            "unique_jobs": { "strength": UNIQUE_STRENGTH, "mechanism": UNIQUE_MECHANISM },
            "batch_enqueue": true, "cron_jobs": true, "dead_letter": true, "delayed_jobs": true, "job_ttl": true,
            "priority_queues": true, "rate_limiting": true, "schema_validation": false, "workflows": true, "pause_resume": true,
        },
        "extensions": [],
        "endpoints": { "base_url": "/ojs/v1", "manifest": "/ojs/manifest", "health": "/ojs/v1/health" },
    })))
}
