//! Reading a workflow: its jobs, and which of them run after which. Workflows can stand in workflows, as steps and as jobs.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Value, json};
use uniqueue::{AfterCondition, NewJob};
use uuid::Uuid;

use super::state::{Part, Role};
use crate::envelope::{self, Envelope, OfWorkflow};
use crate::fields::{object, wrong};
use crate::jobs::documents;
use crate::problem::Problem;
use crate::shape::Shape;

/// The most jobs of a workflow, and the most pairs of a job and a job that it runs after.
const MOST: usize = 1_000;
const MOST_EDGES: usize = 10_000;

/// How many workflows can stand in each other, the outermost one included.
const MOST_NESTED: usize = 5;

/// The callbacks of a batch, with how its jobs must end.
const CALLBACKS: [(&str, Role, AfterCondition); 3] = [
    ("on_complete", Role::OnComplete, AfterCondition::Final),
    ("on_success", Role::OnSuccess, AfterCondition::Completed),
    ("on_failure", Role::OnFailure, AfterCondition::Failed),
];

/// The jobs that a job runs after, by their places, and how each must end.
type Edges = Vec<(usize, AfterCondition)>;

/// A workflow as it was asked for. The jobs come after all that they wait for.
pub(crate) struct Plan {
    pub(super) kind: &'static str,
    pub(super) name: Option<String>,
    envelopes: Vec<Envelope>,
    /// The edges of each job.
    edges: Vec<Edges>,
    /// Their jobs are in the order of the envelopes.
    pub(super) parts: Vec<Part>,
}

/// Reads a workflow.
pub(crate) fn read(body: &Map<String, Value>, id: Uuid) -> Result<Plan, Problem> {
    let name = body.get("name").and_then(Value::as_str).map(str::to_owned);
    let mut reader = Reader { id, envelopes: Vec::new(), edges: Vec::new() };
    let read = reader.workflow(body, Around { options: None, before: &Before::default(), depth: 1 })?;
    let Reader { envelopes, edges, .. } = reader;
    Ok(Plan { kind: read.kind, name, envelopes, edges, parts: read.parts })
}

/// The steps that a step waits for.
#[derive(Clone, Default)]
struct Before {
    edges: Edges,
    /// How the results of these jobs are nested.
    shapes: Vec<Shape>,
}

/// The end of a step.
#[derive(Clone)]
struct End {
    /// The jobs that end last. The step has completed where all of them have.
    jobs: Vec<usize>,
    shape: Shape,
    /// Whether the completion of these jobs is that of the step.
    is_exact: bool,
}

impl Before {
    /// Waits for one more step.
    fn add(&mut self, end: &End) -> Result<(), Problem> {
        end.check()?;
        self.edges.extend(end.jobs.iter().map(|job| (*job, AfterCondition::Completed)));
        self.shapes.push(end.shape.clone());
        Ok(())
    }

    /// Waits for the jobs of a batch, whose results are not nested. Where failed jobs are allowed, it waits also for the jobs
    /// that do not end last: a failed job cancels the jobs after it, while jobs beside it still run.
    fn add_batch(&mut self, mut batch: Range<usize>, end: &End, condition: AfterCondition) -> Result<(), Problem> {
        end.check()?;
        let shapes = match &end.shape {
            Shape::Workflow(jobs) => jobs,
            job => std::slice::from_ref(job),
        };
        if condition == AfterCondition::Completed {
            self.edges.extend(end.jobs.iter().map(|job| (*job, condition)));
            self.shapes.extend_from_slice(shapes);
        } else {
            let of = |job| if end.jobs.contains(&job) { condition } else { AfterCondition::Final };
            self.edges.extend(batch.clone().map(|job| (job, of(job))));
            self.shapes.extend(Shape::with_hidden(shapes, &mut batch, &mut end.jobs.iter().copied()));
            self.shapes.extend(batch.map(|_| Shape::HIDDEN));
        }
        Ok(())
    }

    fn of<'e>(ends: impl IntoIterator<Item = &'e End>) -> Result<Self, Problem> {
        let mut before = Self::default();
        for end in ends {
            before.add(end)?;
        }
        Ok(before)
    }
}

impl End {
    /// The end of steps that run beside each other.
    fn of_all(ends: Vec<Self>) -> Self {
        Self {
            is_exact: ends.iter().all(|end| end.is_exact),
            shape: Shape::Workflow(ends.iter().map(|end| end.shape.clone()).collect()),
            jobs: ends.into_iter().flat_map(|end| end.jobs).collect(),
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
    edges: Vec<Edges>,
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
            let (part, end) = self.step(step, step_name(step, place), Role::Step, around)?;
            parts.push(part);
            last = Some(end);
        }
        let end = last.ok_or_else(|| Problem::invalid("a chain needs steps"))?;
        Ok(Read { kind: "chain", parts, end })
    }

    fn group(&mut self, kind: &'static str, body: &Map<String, Value>, around: Around<'_>) -> Result<Read, Problem> {
        let (mut parts, mut ends) = (Vec::new(), Vec::new());
        for (place, job) in documents(body, "jobs", MOST)?.into_iter().enumerate() {
            let (part, end) = self.step(job, step_name(job, place), Role::Job, around)?;
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
        let edges = around.before.edges.clone();
        let before = Before { shapes: vec![Shape::HIDDEN; edges.len()], edges };
        let mut last = None;
        for (name, role, condition) in CALLBACKS {
            if let Some(callback) = object(callbacks, name)? {
                let mut awaited = before.clone();
                awaited.add_batch(inner.clone(), &end, condition)?;
                let (part, end) = self.job(callback, name.to_owned(), role, Around { before: &awaited, ..around })?;
                parts.push(part);
                // Of two callbacks one is cancelled, and the batch completes all the same.
                let is_exact = role == Role::OnComplete && !callbacks.keys().any(|other| other != name);
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
                        awaited.sort_by(|one, other| one.jobs.cmp(&other.jobs));
                        awaited.dedup_by(|one, other| one.jobs == other.jobs);
                        Before::of(awaited)?
                    }
                };
                let (part, end) = self.step(step, name.clone(), Role::Step, Around { before: &before, ..around })?;
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
        last.sort_by(|one, other| one.jobs.cmp(&other.jobs));
        Ok(Read { kind: "graph", parts, end: End::of_all(last) })
    }

    /// Reads a step: a job, or a workflow.
    fn step(
        &mut self,
        document: &Map<String, Value>,
        name: String,
        role: Role,
        around: Around<'_>,
    ) -> Result<(Part, End), Problem> {
        if !["steps", "jobs"].iter().any(|nested| document.contains_key(*nested)) {
            return self.job(document, name, role, around);
        }
        let Read { kind, parts, end } = self.workflow(document, Around { depth: around.depth + 1, ..around })?;
        Ok((Part::Workflow { name, role, kind: kind.to_owned(), parts }, end))
    }

    fn job(
        &mut self,
        document: &Map<String, Value>,
        name: String,
        role: Role,
        Around { options, before, .. }: Around<'_>,
    ) -> Result<(Part, End), Problem> {
        let place = self.envelopes.len();
        let edges = self.edges.iter().map(Vec::len).sum::<usize>() + before.edges.len();
        if place == MOST || edges > MOST_EDGES {
            return Err(Problem::invalid(format!(
                "the workflow is too large: at most {MOST} jobs, and {MOST_EDGES} pairs of a job and a job that it runs after"
            )));
        }
        let mut document = document.clone();
        // The id of a step is its name in the workflow.
        document.remove("id");
        let is_nested = before.shapes.iter().any(|shape| *shape != Shape::JOB);
        let parents = is_nested.then(|| before.shapes.clone());
        let envelope = envelope::read_of(&document, Some(OfWorkflow { id: self.id, options, parents }))
            .map_err(|problem| problem.at_index(place))?;
        let part = Part::Job { name, role, job: envelope.id };
        self.envelopes.push(envelope);
        self.edges.push(before.edges.clone());
        Ok((part, End { jobs: vec![place], shape: Shape::JOB, is_exact: true }))
    }
}

impl Plan {
    /// Takes the jobs, which are not connected yet.
    pub(super) fn take_envelopes(&mut self) -> Vec<Envelope> {
        std::mem::take(&mut self.envelopes)
    }

    /// For each job the places of the jobs that it runs after.
    pub(super) fn after(&self) -> Vec<Vec<usize>> {
        self.edges.iter().map(|edges| edges.iter().map(|(place, _)| *place).collect()).collect()
    }

    /// Lets its jobs wait for the jobs before them.
    pub(super) fn connect(&self, jobs: Vec<NewJob>) -> Vec<NewJob> {
        let mut connected: Vec<NewJob> = Vec::with_capacity(jobs.len());
        for (mut job, edges) in jobs.into_iter().zip(&self.edges) {
            for (place, condition) in edges {
                let Some(parent) = connected.get(*place) else { continue };
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
}
