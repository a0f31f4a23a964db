//! One JSON line a workload.

use serde::Serialize;

use crate::comparison::Rounds;
use crate::facts::Facts;
use crate::meter::Measure;
use crate::plan::{Plan, Variant};
use crate::rounded::rounded;
use crate::summary::{Ratio, Summary};
use crate::workload::{Target, Workload};

/// A workload, added up.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    #[serde(rename = "workload", serialize_with = "name")]
    pub(crate) workload: Workload,
    /// Jobs a round.
    n: u64,
    connections: u32,
    #[serde(flatten)]
    pub(crate) variant: Variant,
    #[serde(flatten)]
    pub(crate) ours: Summary,
    bare_per_second: Option<f64>,
    /// That of `bare`, which most readers look for.
    ratio: Option<f64>,
    #[serde(flatten)]
    pub(crate) check: TargetCheck,
    counterpart: &'static str,
    pub(crate) bare: Option<Counterpart>,
    rounds: Vec<Round>,
    #[serde(flatten)]
    facts: Facts,
}

/// A side that ours is compared with.
#[derive(Debug, Serialize)]
pub(crate) struct Counterpart {
    #[serde(flatten)]
    pub(crate) summary: Summary,
    /// Our jobs a second over this side's: the median of the rounds' ratios. None where a clock sets the rate.
    pub(crate) ratio: Option<f64>,
    pub(crate) ratio_range: Option<[f64; 2]>,
    /// This side's processor time of the server a job over ours.
    pub(crate) server_cpu_ratio: Option<f64>,
    pub(crate) server_cpu_ratio_range: Option<[f64; 2]>,
}

/// The target, and whether it is reached.
#[derive(Debug, Serialize)]
pub(crate) struct TargetCheck {
    #[serde(skip)]
    pub(crate) target: Option<Target>,
    target_ratio: Option<f64>,
    target_p99_ms: Option<f64>,
    pub(crate) met: Option<bool>,
}

/// The figures of each side in a round.
#[derive(Debug, Serialize)]
struct Round {
    ours: Figures,
    bare: Option<Figures>,
}

#[derive(Debug, Serialize)]
struct Figures {
    jobs_per_second: f64,
    server_cpu_per_job: Option<f64>,
}

impl Line {
    /// `None`: there was no round.
    pub(crate) fn new(plan: &Plan, rounds: &Rounds, facts: &Facts) -> Option<Self> {
        let ours = Summary::of(&rounds.ours)?;
        let bare = Counterpart::new(&rounds.ours, &rounds.bare);
        let ratio = bare.as_ref().and_then(|bare| bare.ratio);
        Some(Self {
            workload: plan.workload,
            // end_to_end is given a time, not a number.
            n: if plan.workload == Workload::EndToEnd { ours.jobs as u64 } else { plan.n },
            connections: plan.connections,
            variant: plan.variant,
            bare_per_second: bare.as_ref().filter(|_| ratio.is_some()).map(|bare| bare.summary.jobs_per_second),
            ratio,
            check: TargetCheck::new(plan.workload.target(plan.variant.tasks), ratio, &ours),
            counterpart: plan.workload.counterpart(),
            rounds: rounds.ours.iter().enumerate().map(|(at, ours)| Round::new(at, ours, rounds)).collect(),
            ours,
            bare,
            facts: facts.clone(),
        })
    }
}

impl Counterpart {
    fn new(ours: &[Measure], theirs: &[Measure]) -> Option<Self> {
        let summary = Summary::of(theirs)?;
        let (rates, server_cpu) = (Ratio::of_rates(ours, theirs), Ratio::of_server_cpu(ours, theirs));
        Some(Self {
            summary,
            ratio: rates.map(|ratio| ratio.median),
            ratio_range: rates.map(Ratio::range),
            server_cpu_ratio: server_cpu.map(|ratio| ratio.median),
            server_cpu_ratio_range: server_cpu.map(Ratio::range),
        })
    }
}

impl TargetCheck {
    fn new(target: Option<Target>, ratio: Option<f64>, ours: &Summary) -> Self {
        let (mut check, p99) = (Self { target, target_ratio: None, target_p99_ms: None, met: None }, ours.delays);
        match target {
            Some(Target::Ratio(wanted)) => {
                check.target_ratio = Some(wanted);
                check.met = ratio.map(|ratio| ratio >= wanted);
            }
            Some(Target::P99(wanted)) => {
                check.target_p99_ms = Some(wanted);
                check.met = p99.map(|delays| delays.p99_ms <= wanted);
            }
            None => {}
        }
        check
    }
}

impl Round {
    fn new(at: usize, ours: &Measure, rounds: &Rounds) -> Self {
        Self { ours: Figures::new(ours), bare: rounds.bare.get(at).map(Figures::new) }
    }
}

impl Figures {
    fn new(measure: &Measure) -> Self {
        let server_cpu_per_job = measure.server_cpu_per_job().map(rounded);
        Self { jobs_per_second: rounded(measure.rate()), server_cpu_per_job }
    }
}

fn name<S: serde::Serializer>(workload: &Workload, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(workload.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delays::Delays;

    #[test]
    fn target_is_met_from_its_very_value_on() {
        let met = |target, ratio| TargetCheck::new(Some(target), ratio, &Summary::default()).met;
        assert_eq!(met(Target::Ratio(0.9), Some(0.9)), Some(true));
        assert_eq!(met(Target::Ratio(0.9), Some(0.899)), Some(false));
        assert_eq!(met(Target::Ratio(0.9), None), None);
        assert_eq!(met(Target::P99(2.0), None), None);
        let delays = |p99_ms| Some(Delays { p50_ms: 0.5, p99_ms, max_ms: 9.0 });
        let late = |p99_ms| Summary { delays: delays(p99_ms), ..Summary::default() };
        assert_eq!(TargetCheck::new(Some(Target::P99(2.0)), None, &late(2.0)).met, Some(true));
        assert_eq!(TargetCheck::new(Some(Target::P99(2.0)), None, &late(2.1)).met, Some(false));
    }
}
