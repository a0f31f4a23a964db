//! Turns: ours, theirs, ours, theirs, and the medians of it.

use serde::Serialize;

use super::flow::{self, Flow};
use super::ground::Ground;
use super::insert::{self, Inserts};
use super::meter::{Latency, Measure};
use super::progress::Progress;
use super::work::{self, Works};
use super::{bare_insert, bare_latency, bare_work, latency, processes};
use crate::failure::Failure;

/// One side's part of a round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    Insert(Inserts),
    BareInsert(Inserts),
    Work(Works),
    BareWork(Works),
    /// With so many runners, each a process of its own.
    WorkInProcesses(Works, u32),
    Latency {
        n: u64,
        connections: u32,
    },
    BareLatency(u64),
    EndToEnd(Flow),
}

impl Turn {
    /// On an empty table, the same way for everybody.
    pub(super) async fn take(self, ground: &mut Ground) -> Result<Measure, Failure> {
        ground.empty().await?;
        self.take_as_it_is(ground).await
    }

    /// On the table as it is.
    pub(super) async fn take_as_it_is(self, ground: &mut Ground) -> Result<Measure, Failure> {
        match self {
            Self::Insert(inserts) => insert::ours(ground, inserts).await,
            Self::BareInsert(inserts) => bare_insert::theirs(ground, inserts).await,
            Self::Work(works) => work::ours(ground, works).await,
            Self::BareWork(works) => bare_work::theirs(ground, works).await,
            Self::WorkInProcesses(works, runners) => processes::ours(ground, works, runners).await,
            Self::Latency { n, connections } => latency::ours(ground, n, connections).await,
            Self::BareLatency(n) => bare_latency::theirs(ground, n).await,
            Self::EndToEnd(flow) => flow::ours(ground, flow).await,
        }
    }

    /// What it should have left behind.
    async fn check(self, ground: &mut Ground) -> Result<(), Failure> {
        match self {
            Self::Insert(inserts) | Self::BareInsert(inserts) => insert::check(ground, inserts).await,
            // Working checks itself, since it knows what was there before.
            Self::Work(_)
            | Self::BareWork(_)
            | Self::WorkInProcesses(..)
            | Self::Latency { .. }
            | Self::BareLatency(_)
            | Self::EndToEnd(_) => Ok(()),
        }
    }
}

/// Two that take turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) ours: Turn,
    pub(super) theirs: Option<Turn>,
}

impl Pair {
    /// Takes turns, on an empty table each time.
    pub(super) async fn run(self, ground: &mut Ground, rounds: u32, progress: &Progress) -> Result<Rounds, Failure> {
        let mut all = Rounds::default();
        for round in 1..=rounds {
            for is_ours in order(round) {
                let (turn, side) =
                    if is_ours { (Some(self.ours), &mut all.ours) } else { (self.theirs, &mut all.theirs) };
                let Some(turn) = turn else { continue };
                progress.round(round, rounds, if is_ours { "ours" } else { "theirs" });
                ground.profiler.is_ours = is_ours;
                let taken = turn.take(ground).await;
                ground.profiler.is_ours = false;
                side.push(taken?);
                turn.check(ground).await?;
            }
        }
        Ok(all)
    }
}

/// Whose turn it is: ours first in the first round, theirs in the next, so that who comes second gains nothing by it.
pub(super) const fn order(round: u32) -> [bool; 2] {
    if round % 2 == 1 { [true, false] } else { [false, true] }
}

/// What all rounds measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    pub(super) ours: Vec<Measure>,
    pub(super) theirs: Vec<Measure>,
}

impl Rounds {
    /// How many times their rate ours is: in the middle of all rounds, at the least and at the most. Of each round by
    /// itself, since what drifts between rounds drifts for both.
    pub(super) fn ratios(&self) -> Option<[f64; 3]> {
        let ratios: Vec<f64> =
            self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours.rate() / theirs.rate()).collect();
        let least = ratios.iter().copied().reduce(f64::min)?;
        let most = ratios.iter().copied().reduce(f64::max)?;
        Some([median(ratios)?, least, most])
    }
}

/// One side, added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Medians {
    pub(super) jobs: f64,
    pub(super) seconds: f64,
    pub(super) rate: f64,
    pub(super) wal_per_job: f64,
    /// Microseconds.
    pub(super) client_cpu_per_job: Option<f64>,
    pub(super) server_cpu_per_job: Option<f64>,
    /// Processors that client and server kept busy.
    pub(super) cores: Option<f64>,
    pub(super) latency: Option<Latency>,
    pub(super) tenths: Option<[f64; 2]>,
}

impl Medians {
    /// `None`: it had no turn.
    pub(super) fn of(measures: &[Measure]) -> Option<Self> {
        let of = |value: fn(&Measure) -> f64| median(measures.iter().map(value).collect());
        let of_some = |value: &dyn Fn(&Measure) -> Option<f64>| {
            measures.iter().map(value).collect::<Option<Vec<_>>>().and_then(median)
        };
        let per_job = |seconds: f64, measure: &Measure| seconds * 1e6 / measure.jobs.max(1) as f64;
        let latency = |value: fn(&Latency) -> f64| of_some(&|measure| measure.latency.as_ref().map(value));
        let tenth = |place: usize| of_some(&|measure| Some(measure.tenths?[place]));
        Some(Self {
            jobs: of(|measure| measure.jobs as f64)?,
            seconds: of(|measure| measure.seconds)?,
            rate: of(Measure::rate)?,
            wal_per_job: of(|measure| measure.wal / measure.jobs.max(1) as f64)?,
            client_cpu_per_job: of_some(&|measure| Some(per_job(measure.client_cpu?, measure))),
            server_cpu_per_job: of_some(&|measure| Some(per_job(measure.server_cpu?, measure))),
            cores: of_some(&|measure| Some((measure.client_cpu? + measure.server_cpu?) / measure.seconds)),
            latency: latency(|latency| latency.p50_ms).and_then(|p50_ms| {
                Some(Latency {
                    p50_ms,
                    p99_ms: latency(|latency| latency.p99_ms)?,
                    max_ms: measures.iter().filter_map(|measure| measure.latency).map(|l| l.max_ms).reduce(f64::max)?,
                    from_call_p50_ms: latency(|latency| latency.from_call_p50_ms)?,
                    from_call_p99_ms: latency(|latency| latency.from_call_p99_ms)?,
                })
            }),
            tenths: tenth(0).zip(tenth(1)).map(|(first, last)| [first, last]),
        })
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_a_ratio_of_its_own() {
        let side =
            |seconds: [f64; 3]| seconds.map(|seconds| Measure { jobs: 10, seconds, ..Measure::default() }).to_vec();
        let rounds = Rounds { ours: side([1.0, 2.0, 10.0]), theirs: side([1.0, 4.0, 5.0]) };
        assert_eq!(rounds.ratios(), Some([1.0, 0.5, 2.0]));
        assert_eq!(Rounds::default().ratios(), None);
        assert_eq!([order(1), order(2), order(3)], [[true, false], [false, true], [true, false]]);
    }

    #[test]
    fn medians_stand_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
        let measure = |seconds| Measure { jobs: 10, seconds, wal: 500.0, client_cpu: Some(1e-5), ..Measure::default() };
        let medians = Medians::of(&[measure(1.0), measure(5.0), measure(2.0)]).unwrap();
        assert_eq!((medians.rate, medians.wal_per_job), (5.0, 50.0));
        assert_eq!((medians.client_cpu_per_job, medians.server_cpu_per_job), (Some(1.0), None));
    }
}
