//! Reading a workflow: its jobs, and which of them run after which.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use uniqueue::{AfterCondition, NewJob};
use uuid::Uuid;

use super::state::{Part, Role};
use crate::envelope::{self, Envelope};
use crate::fields::{object, wrong};
use crate::jobs::documents;
use crate::problem::Problem;

/// The most jobs of a workflow.
const MOST: usize = 1_000;

/// The callbacks of a batch, with how its jobs must end.
const CALLBACKS: [(&str, Role, AfterCondition); 3] = [
    ("on_complete", Role::OnComplete, AfterCondition::Final),
    ("on_success", Role::OnSuccess, AfterCondition::Completed),
    ("on_failure", Role::OnFailure, AfterCondition::Failed),
];

/// The jobs before a job, by their places, and how they must end.
pub(super) type Edges = Vec<(Vec<usize>, AfterCondition)>;

/// A workflow as it was asked for. The jobs come after all that they wait for.
pub(super) struct Plan {
    pub(super) kind: &'static str,
    pub(super) name: Option<String>,
    pub(super) envelopes: Vec<Envelope>,
    pub(super) edges: Edges,
    pub(super) parts: Vec<Part>,
}

/// Reads a workflow.
pub(super) fn read(body: &Map<String, Value>, id: Uuid) -> Result<Plan, Problem> {
    let name = body.get("name").and_then(Value::as_str).map(str::to_owned);
    let options = object(body, "options")?;
    let mut plan = Plan { kind: "graph", name, envelopes: Vec::new(), edges: Vec::new(), parts: Vec::new() };
    match body.get("type").and_then(Value::as_str) {
        Some("chain") => {
            plan.kind = "chain";
            for (place, step) in documents(body, "steps", MOST)?.into_iter().enumerate() {
                let before = place.checked_sub(1).into_iter().collect();
                plan.add(step, options, id, step_name(step, place), Role::Step, (before, AfterCondition::Completed))?;
            }
        }
        Some(kind @ ("group" | "batch")) => {
            plan.kind = if kind == "group" { "group" } else { "batch" };
            for (place, job) in documents(body, "jobs", MOST)?.into_iter().enumerate() {
                plan.add(job, options, id, step_name(job, place), Role::Job, (Vec::new(), AfterCondition::Completed))?;
            }
            if kind == "batch" {
                plan.add_callbacks(object(body, "callbacks")?, options, id)?;
            }
        }
        None if body.contains_key("steps") => plan.add_graph(&documents(body, "steps", MOST)?, options, id)?,
        _ => {
            let given = body.get("type").cloned().unwrap_or_default();
            return Err(wrong("type", "chain, group or batch, or absent beside steps with depends_on", &given));
        }
    }
    Ok(plan)
}

/// The name of a step: its own, else its place.
fn step_name(step: &Map<String, Value>, place: usize) -> String {
    step.get("id").and_then(Value::as_str).map_or_else(|| place.to_string(), str::to_owned)
}

impl Plan {
    fn add(
        &mut self,
        document: &Map<String, Value>,
        options: Option<&Map<String, Value>>,
        workflow: Uuid,
        name: String,
        role: Role,
        after: (Vec<usize>, AfterCondition),
    ) -> Result<(), Problem> {
        if ["steps", "jobs"].iter().any(|nested| document.contains_key(*nested)) {
            return Err(Problem::unsupported(format!("step {name:?} is a workflow: workflows cannot be nested")));
        }
        let mut document = document.clone();
        // The id of a step is its name in the workflow.
        document.remove("id");
        let place = self.parts.len();
        let envelope = envelope::read(&document, options, Some(workflow)).map_err(|problem| problem.at_index(place))?;
        self.parts.push(Part { name, role, job: envelope.id });
        self.envelopes.push(envelope);
        self.edges.push(after);
        Ok(())
    }

    fn add_callbacks(
        &mut self,
        callbacks: Option<&Map<String, Value>>,
        options: Option<&Map<String, Value>>,
        workflow: Uuid,
    ) -> Result<(), Problem> {
        let all: Vec<_> = (0..self.parts.len()).collect();
        let none = || Problem::invalid("a batch needs callbacks: on_complete, on_success or on_failure");
        let callbacks = callbacks.ok_or_else(none)?;
        for (name, role, condition) in CALLBACKS {
            if let Some(callback) = object(callbacks, name)? {
                self.add(callback, options, workflow, name.to_owned(), role, (all.clone(), condition))?;
            }
        }
        if self.parts.len() == all.len() { Err(none()) } else { Ok(()) }
    }

    /// Adds steps that name those they depend on, in an order in which each comes after all of those.
    fn add_graph(
        &mut self,
        steps: &[&Map<String, Value>],
        options: Option<&Map<String, Value>>,
        workflow: Uuid,
    ) -> Result<(), Problem> {
        let mut left = Vec::with_capacity(steps.len());
        for (place, step) in steps.iter().enumerate() {
            let given = step.get("depends_on").cloned().unwrap_or_else(|| json!([]));
            let before: Vec<String> = serde_json::from_value(given.clone())
                .map_err(|_| wrong("depends_on", "an array of the ids of other steps", &given))?;
            left.push((step_name(step, place), before, *step));
        }
        let mut places: HashMap<String, usize> = HashMap::new();
        while !left.is_empty() {
            let is_ready = |(_, before, _): &(String, Vec<String>, &Map<String, Value>)| {
                before.iter().all(|name| places.contains_key(name))
            };
            let (ready, waiting): (Vec<_>, Vec<_>) = left.into_iter().partition(is_ready);
            let Some((_, before, _)) = ready.first().or(waiting.first()) else { break };
            if ready.is_empty() {
                return Err(Problem::invalid(format!(
                    "steps wait for each other, or for one that is missing: {before:?}"
                )));
            }
            for (name, before, step) in ready {
                let after = before.iter().filter_map(|name| places.get(name).copied()).collect();
                if places.insert(name.clone(), self.parts.len()).is_some() {
                    return Err(Problem::invalid(format!("two steps have one id: {name:?}")));
                }
                self.add(step, options, workflow, name, Role::Step, (after, AfterCondition::Completed))?;
            }
            left = waiting;
        }
        Ok(())
    }
}

/// Lets jobs wait for the jobs before them.
pub(super) fn connect(jobs: Vec<NewJob>, edges: &Edges) -> Vec<NewJob> {
    let mut connected: Vec<NewJob> = Vec::with_capacity(jobs.len());
    for (mut job, (before, condition)) in jobs.into_iter().zip(edges) {
        for parent in before.iter().filter_map(|place| connected.get(*place)) {
            job = match condition {
                AfterCondition::Final => job.after_final(parent),
                AfterCondition::Failed => job.after_failed(parent),
                _ => job.after(parent),
            };
        }
        connected.push(job);
    }
    connected
}
