//! Reading a workflow: its jobs, and which of them run after which. Workflows can stand in workflows, as steps and as jobs.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Value, json};
use uniqueue::AfterCondition;
use uuid::Uuid;

use super::state::{Part, Work};
use crate::details::Results;
use crate::envelope::{self, Envelope, OfWorkflow};
use crate::fields::{object, wrong};
use crate::jobs::documents;
use crate::problem::Problem;

/// The most jobs of a workflow, and the most pairs of a job and a job that it runs after.
const MOST: usize = 1_000;
const MOST_EDGES: usize = 10_000;

/// How many workflows can stand in each other, the outermost one included.
const MOST_NESTED: usize = 5;

/// The callbacks of a batch, with how its jobs must end.
const CALLBACKS: [(&str, AfterCondition); 3] = [
    ("on_complete", AfterCondition::Final),
    ("on_success", AfterCondition::Completed),
    ("on_failure", AfterCondition::Failed),
];

/// A workflow as it was asked for. The jobs come after all that they wait for.
pub(crate) struct Plan {
    pub(super) kind: &'static str,
    pub(super) name: Option<String>,
    pub(super) parts: Vec<Part>,
    /// Its jobs, by their places.
    pub(super) envelopes: Vec<Envelope>,
}

/// Reads a workflow.
pub(crate) fn read(body: &Map<String, Value>, id: Uuid) -> Result<Plan, Problem> {
    let name = body.get("name").and_then(Value::as_str).map(str::to_owned);
    let mut reader = Reader { id, envelopes: Vec::new(), edges: 0 };
    let Read { kind, parts, .. } =
        reader.workflow(body, Around { options: None, before: &Before::default(), depth: 1 })?;
    Ok(Plan { kind, name, parts, envelopes: reader.envelopes })
}

/// The steps that a step waits for.
#[derive(Clone, Default)]
struct Before {
    /// The jobs that it runs after, by their places, and how each must end.
    edges: Vec<(usize, AfterCondition)>,
    /// The results that it gets.
    results: Vec<Results>,
}

/// The end of a step.
#[derive(Clone)]
struct End {
    /// Of the jobs that end last. The step has completed where all of them have.
    results: Results,
    /// Whether the completion of these jobs is that of the step.
    is_exact: bool,
}

impl Before {
    /// Waits for the completion of steps.
    fn of<'e>(ends: impl IntoIterator<Item = &'e End>) -> Result<Self, Problem> {
        let mut before = Self::default();
        for end in ends {
            end.check()?;
            before.edges.extend(end.results.places().into_iter().map(|job| (job, AfterCondition::Completed)));
            before.results.push(end.results.clone());
        }
        Ok(before)
    }

    /// Waits for the jobs of a batch, whose results are not nested. Where failed jobs are allowed, it waits also for the jobs
    /// that do not end last: a failed job cancels the jobs after it, while jobs beside it still run.
    fn add_batch(&mut self, batch: Range<usize>, end: &End, condition: AfterCondition) -> Result<(), Problem> {
        end.check()?;
        let last = end.results.places();
        let of = |job| if last.contains(&job) { condition } else { AfterCondition::Final };
        let awaited = batch.filter(|job| condition != AfterCondition::Completed || last.contains(job));
        self.edges.extend(awaited.map(|job| (job, of(job))));
        match &end.results {
            Results::Workflow(jobs) => self.results.extend_from_slice(jobs),
            job => self.results.push(job.clone()),
        }
        Ok(())
    }
}

impl End {
    /// The end of steps that run beside each other.
    fn of_all(ends: Vec<Self>) -> Self {
        Self {
            is_exact: ends.iter().all(|end| end.is_exact),
            results: Results::Workflow(ends.into_iter().map(|end| end.results).collect()),
        }
    }

    /// Whether a step can run after it.
    fn check(&self) -> Result<(), Problem> {
        match self.is_exact {
            true => Ok(()),
            false => Err(Problem::unsupported(
                "no step can run after a batch with on_success or on_failure: give it on_complete alone",
            )),
        }
    }
}

/// A workflow that was read.
struct Read {
    kind: &'static str,
    parts: Vec<Part>,
    end: End,
}

/// The name of a step: its own, else its place.
fn step_name(step: &Map<String, Value>, place: usize) -> String {
    step.get("id").and_then(Value::as_str).map_or_else(|| place.to_string(), str::to_owned)
}

struct Reader {
    /// The id of the workflow.
    id: Uuid,
    envelopes: Vec<Envelope>,
    /// The number of pairs of a job and a job that it runs after.
    edges: usize,
}

/// The surroundings of a workflow or a step.
#[derive(Clone, Copy)]
struct Around<'a> {
    /// The options of the innermost workflow around it that has any.
    options: Option<&'a Map<String, Value>>,
    /// The steps before it.
    before: &'a Before,
    /// The number of workflows that it stands in. A workflow counts itself.
    depth: usize,
}

impl Reader {
    /// Reads a workflow. Its own options come before the options of the workflow around it.
    fn workflow(&mut self, body: &Map<String, Value>, around: Around<'_>) -> Result<Read, Problem> {
        if around.depth > MOST_NESTED {
            return Err(Problem::invalid(format!("workflows are nested deeper than {MOST_NESTED} levels")));
        }
        let around = Around { options: object(body, "options")?.or(around.options), ..around };
        match body.get("type").and_then(Value::as_str) {
            Some("chain") => self.chain(body, around),
            Some("group") => self.group("group", body, around),
            Some("batch") => self.batch(body, around),
            None if body.contains_key("steps") => self.graph(body, around),
            _ => {
                let given = body.get("type").cloned().unwrap_or_default();
                Err(wrong("type", "chain, group or batch, or absent beside steps with depends_on", &given))
            }
        }
    }

    fn chain(&mut self, body: &Map<String, Value>, around: Around<'_>) -> Result<Read, Problem> {
        let (mut parts, mut last) = (Vec::new(), None);
        for (place, step) in documents(body, "steps", MOST)?.into_iter().enumerate() {
            let before = match &last {
                Some(end) => Before::of([end])?,
                None => around.before.clone(),
            };
            let around = Around { before: &before, ..around };
            let (part, end) = self.step(step, step_name(step, place), "step", around)?;
            parts.push(part);
            last = Some(end);
        }
        let end = last.ok_or_else(|| Problem::invalid("a chain needs steps"))?;
        Ok(Read { kind: "chain", parts, end })
    }

    fn group(&mut self, kind: &'static str, body: &Map<String, Value>, around: Around<'_>) -> Result<Read, Problem> {
        let (mut parts, mut ends) = (Vec::new(), Vec::new());
        for (place, job) in documents(body, "jobs", MOST)?.into_iter().enumerate() {
            let (part, end) = self.step(job, step_name(job, place), "job", around)?;
            parts.push(part);
            ends.push(end);
        }
        Ok(Read { kind, parts, end: End::of_all(ends) })
    }

    fn batch(&mut self, body: &Map<String, Value>, around: Around<'_>) -> Result<Read, Problem> {
        let first = self.envelopes.len();
        let Read { kind, mut parts, end } = self.group("batch", body, around)?;
        let inner = first..self.envelopes.len();
        let none = || Problem::invalid("a batch needs callbacks: on_complete, on_success or on_failure");
        let callbacks = object(body, "callbacks")?.ok_or_else(none)?;
        // Where a step before the batch fails, its jobs are cancelled, and so are its callbacks.
        let before = Before { edges: around.before.edges.clone(), results: Vec::new() };
        let mut last = None;
        for (name, condition) in CALLBACKS {
            if let Some(callback) = object(callbacks, name)? {
                let mut awaited = before.clone();
                awaited.add_batch(inner.clone(), &end, condition)?;
                let (part, end) = self.job(callback, name.to_owned(), name, Around { before: &awaited, ..around })?;
                parts.push(part);
                // Of two callbacks one is cancelled, and the batch completes all the same.
                let is_exact = name == "on_complete" && !callbacks.keys().any(|other| other != name);
                last = Some(End { is_exact, ..end });
            }
        }
        Ok(Read { kind, parts, end: last.ok_or_else(none)? })
    }

    /// Reads steps that name the steps that they depend on. Each step is read after all steps that it depends on.
    fn graph(&mut self, body: &Map<String, Value>, around: Around<'_>) -> Result<Read, Problem> {
        let mut left = Vec::new();
        for (place, step) in documents(body, "steps", MOST)?.into_iter().enumerate() {
            let given = step.get("depends_on").filter(|names| !names.is_null()).cloned().unwrap_or_else(|| json!([]));
            let names: Vec<String> = serde_json::from_value(given.clone())
                .map_err(|_| wrong("depends_on", "an array of the ids of other steps", &given))?;
            left.push((step_name(step, place), names, step));
        }
        let (mut parts, mut ends, mut awaited) = (Vec::new(), HashMap::<String, End>::new(), Vec::new());
        while !left.is_empty() {
            let is_ready = |(_, names, _): &(String, Vec<String>, _)| names.iter().all(|name| ends.contains_key(name));
            let (ready, waiting): (Vec<_>, Vec<_>) = left.into_iter().partition(is_ready);
            if ready.is_empty() {
                let names = waiting.first().map(|(_, names, _)| names.clone()).unwrap_or_default();
                return Err(Problem::invalid(format!(
                    "steps wait for each other, or for one that is missing: {names:?}"
                )));
            }
            for (name, names, step) in ready {
                let before = match names.is_empty() {
                    true => around.before.clone(),
                    false => {
                        // In the order of the workflow, as their results are, and each once.
                        let mut awaited: Vec<_> = names.iter().filter_map(|name| ends.get(name)).collect();
                        awaited.sort_by_key(|end| end.results.places());
                        awaited.dedup_by(|one, other| one.results == other.results);
                        Before::of(awaited)?
                    }
                };
                let (part, end) = self.step(step, name.clone(), "step", Around { before: &before, ..around })?;
                parts.push(part);
                if ends.insert(name.clone(), end).is_some() {
                    return Err(Problem::invalid(format!("two steps have one id: {name:?}")));
                }
                awaited.extend(names);
            }
            left = waiting;
        }
        awaited.iter().for_each(|name| drop(ends.remove(name)));
        let mut last: Vec<_> = ends.into_values().collect();
        last.sort_by_key(|end| end.results.places());
        Ok(Read { kind: "graph", parts, end: End::of_all(last) })
    }

    /// Reads a step: a job, or a workflow.
    fn step(
        &mut self,
        document: &Map<String, Value>,
        name: String,
        role: &str,
        around: Around<'_>,
    ) -> Result<(Part, End), Problem> {
        if !["steps", "jobs"].iter().any(|nested| document.contains_key(*nested)) {
            return self.job(document, name, role, around);
        }
        let Read { kind, parts, end } = self.workflow(document, Around { depth: around.depth + 1, ..around })?;
        let work = Work::Workflow { kind: kind.to_owned(), parts };
        Ok((Part { name, role: role.to_owned(), work }, end))
    }

    fn job(
        &mut self,
        document: &Map<String, Value>,
        name: String,
        role: &str,
        Around { options, before, .. }: Around<'_>,
    ) -> Result<(Part, End), Problem> {
        let place = self.envelopes.len();
        self.edges += before.edges.len();
        if place == MOST || self.edges > MOST_EDGES {
            return Err(Problem::invalid(format!(
                "the workflow is too large: at most {MOST} jobs, and {MOST_EDGES} pairs of a job and a job that it runs after"
            )));
        }
        let mut document = document.clone();
        // The id of a step is its name in the workflow.
        document.remove("id");
        let of = OfWorkflow { id: Some(self.id), options, parents: before.results.clone() };
        let mut envelope = envelope::read_of(&document, of).map_err(|problem| problem.at_index(place))?;
        for (parent, condition) in &before.edges {
            let parent = &self.envelopes[*parent].job;
            envelope.job = match condition {
                AfterCondition::Final => envelope.job.after_final(parent),
                AfterCondition::Failed => envelope.job.after_failed(parent),
                _ => envelope.job.after(parent),
            };
        }
        self.envelopes.push(envelope);
        let part = Part { name, role: role.to_owned(), work: Work::Job { job: place } };
        Ok((part, End { results: Results::Job(place), is_exact: true }))
    }
}
