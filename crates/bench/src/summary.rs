//! The rounds of a comparison, added up.

use serde::Serialize;

use crate::delays::Delays;
use crate::meter::Measure;
use crate::rounded::rounded;

/// The medians of one side, to thousandths: more digits would be noise.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Summary {
    #[serde(skip)]
    pub(crate) jobs: f64,
    pub(crate) seconds: f64,
    pub(crate) jobs_per_second: f64,
    pub(crate) wal_bytes_per_job: f64,
    /// Microseconds.
    pub(crate) client_cpu_per_job: Option<f64>,
    pub(crate) server_cpu_per_job: Option<f64>,
    /// Processors that client and server kept busy.
    pub(crate) cores: Option<f64>,
    #[serde(flatten)]
    pub(crate) delays: Option<Delays>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delays_from_call: Option<Delays>,
    /// Jobs a second in the first and in the last tenth of the jobs.
    pub(crate) tenths: Option<[f64; 2]>,
}

impl Summary {
    /// `None`: the side had no run.
    pub(crate) fn of(measures: &[Measure]) -> Option<Self> {
        let of = |value: fn(&Measure) -> f64| median(measures.iter().map(value).collect()).map(rounded);
        let of_some = |value: &dyn Fn(&Measure) -> Option<f64>| {
            measures.iter().map(value).collect::<Option<Vec<_>>>().and_then(median).map(rounded)
        };
        let delays = |delays: fn(&Measure) -> Option<Delays>| {
            Some(Delays {
                p50_ms: of_some(&|measure| Some(delays(measure)?.p50_ms))?,
                p99_ms: of_some(&|measure| Some(delays(measure)?.p99_ms))?,
                // The worst of all rounds: a median would hide it.
                max_ms: measures
                    .iter()
                    .filter_map(|measure| Some(delays(measure)?.max_ms))
                    .reduce(f64::max)
                    .map(rounded)?,
            })
        };
        let tenth = |place: usize| of_some(&|measure| Some(measure.tenths?[place]));
        Some(Self {
            jobs: of(|measure| measure.jobs as f64)?,
            seconds: of(|measure| measure.seconds)?,
            jobs_per_second: of(Measure::rate)?,
            wal_bytes_per_job: of(|measure| measure.per_job(measure.wal))?,
            client_cpu_per_job: of_some(&|measure| Some(measure.per_job(measure.client_cpu? * 1e6))),
            server_cpu_per_job: of_some(&Measure::server_cpu_per_job),
            cores: of_some(&|measure| Some((measure.client_cpu? + measure.server_cpu?) / measure.seconds)),
            delays: delays(|measure| measure.delays),
            delays_from_call: delays(|measure| measure.delays_from_call),
            tenths: tenth(0).zip(tenth(1)).map(|(first, last)| [first, last]),
        })
    }
}

/// How our side compares with another: above 1, ours is better.
///
/// Each round has a ratio of its own, because what drifts between rounds drifts for both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

impl Ratio {
    /// Our jobs a second over theirs. None where a clock sets the rate.
    pub(crate) fn of_rates(ours: &[Measure], theirs: &[Measure]) -> Option<Self> {
        Self::of(ours, theirs, |ours, theirs| ours.delays.is_none().then(|| ours.rate() / theirs.rate()))
    }

    /// Their server's processor time a job over ours. None where it is too short for the clock of the system.
    pub(crate) fn of_server_cpu(ours: &[Measure], theirs: &[Measure]) -> Option<Self> {
        Self::of(ours, theirs, |ours, theirs| {
            let (ours, theirs) = (ours.server_cpu_per_job()?, theirs.server_cpu_per_job()?);
            (ours > 0.0 && theirs > 0.0).then(|| theirs / ours)
        })
    }

    fn of(ours: &[Measure], theirs: &[Measure], ratio: fn(&Measure, &Measure) -> Option<f64>) -> Option<Self> {
        let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| ratio(ours, theirs));
        let ratios = ratios.collect::<Option<Vec<f64>>>()?;
        let least = ratios.iter().copied().reduce(f64::min)?;
        let greatest = ratios.iter().copied().reduce(f64::max)?;
        Some(Self { median: rounded(median(ratios)?), least: rounded(least), greatest: rounded(greatest) })
    }

    pub(crate) const fn range(self) -> [f64; 2] {
        [self.least, self.greatest]
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

    fn side(seconds: [f64; 3], server_cpu: f64) -> Vec<Measure> {
        seconds
            .map(|seconds| Measure { jobs: 10, seconds, server_cpu: Some(server_cpu), ..Measure::default() })
            .to_vec()
    }

    #[test]
    fn each_round_has_a_ratio_of_its_own() {
        let (ours, theirs) = (side([1.0, 2.0, 10.0], 2.0), side([1.0, 4.0, 5.0], 1.0));
        assert_eq!(Ratio::of_rates(&ours, &theirs), Some(Ratio { median: 1.0, least: 0.5, greatest: 2.0 }));
        assert_eq!(Ratio::of_rates(&[], &[]), None);
    }

    #[test]
    fn every_ratio_is_above_one_where_ours_is_better() {
        let (slow, quick) = (side([2.0; 3], 4.0), side([1.0; 3], 1.0));
        assert_eq!(Ratio::of_rates(&quick, &slow).unwrap().median, 2.0);
        assert_eq!(Ratio::of_server_cpu(&quick, &slow).unwrap().median, 4.0);
        assert_eq!(Ratio::of_server_cpu(&quick, &side([1.0; 3], 0.0)), None, "too short to be measured");
    }

    #[test]
    fn medians_stand_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
        let measure = |seconds| Measure { jobs: 10, seconds, wal: 500.0, client_cpu: Some(1e-5), ..Measure::default() };
        let summary = Summary::of(&[measure(1.0), measure(5.0), measure(2.0)]).unwrap();
        assert_eq!((summary.jobs_per_second, summary.wal_bytes_per_job), (5.0, 50.0));
        assert_eq!((summary.client_cpu_per_job, summary.server_cpu_per_job), (Some(1.0), None));
    }
}
