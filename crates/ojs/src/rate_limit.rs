//! The rate that a job asks for its queue.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use uniqueue::{Client, QueueChanges, Rate, Result};

use crate::fields::{whole, wrong};
use crate::problem::Problem;
use crate::times;

/// How many queues are remembered.
const REMEMBERED: usize = 10_000;

/// A rate for a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueRate {
    pub(crate) queue: String,
    rate: Rate,
}

impl QueueRate {
    /// Reads `{"max_per_second": 5}` or `{"limit": 100, "period": "PT1M"}`.
    pub(crate) fn read(queue: &str, document: &Map<String, Value>) -> std::result::Result<Self, Problem> {
        let count = |name: &str| {
            let given = document.get(name).filter(|given| !given.is_null());
            given.map(|given| whole(&format!("rate_limit.{name}"), 1_000_000, given)).transpose()
        };
        if let Some(name) = document.keys().find(|name| !["max_per_second", "limit", "period"].contains(&name.as_str()))
        {
            return Err(Problem::unsupported(format!(
                "unsupported member of rate_limit: {name:?}; a queue has one rate: max_per_second, or limit and period"
            )));
        }
        let (count, period) = match (count("max_per_second")?, count("limit")?) {
            (Some(count), None) => (count, Duration::from_secs(1)),
            (None, Some(count)) => {
                let given = document.get("period").cloned().unwrap_or_default();
                let period = given.as_str().and_then(times::read_length).filter(|period| !period.is_zero());
                (count, period.ok_or_else(|| wrong("rate_limit.period", "an ISO 8601 duration such as PT1M", &given))?)
            }
            _ => return Err(Problem::invalid("invalid rate_limit: needs max_per_second, or limit and period")),
        };
        Ok(Self { queue: queue.to_owned(), rate: Rate::per(count, period) })
    }
}

/// The rates that this door has set.
#[derive(Default)]
pub(crate) struct SetRates(Mutex<HashMap<String, Rate>>);

impl SetRates {
    /// Gives a queue its rate, unless this door did so already.
    pub(crate) async fn set(&self, client: &Client, wanted: &QueueRate) -> Result<()> {
        let QueueRate { queue, rate } = wanted;
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).get(queue) == Some(rate) {
            return Ok(());
        }
        client.queue(queue).set(QueueChanges::new().rate(Some(*rate))).await?;
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if set.len() >= REMEMBERED {
            set.clear();
        }
        set.insert(queue.clone(), *rate);
        Ok(())
    }
}
