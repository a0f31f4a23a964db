//! Rounds: each side runs once a round, in rotating order, on an emptied table.

use crate::failure::Failure;
use crate::insert::Insert;
use crate::meter::Measure;
use crate::progress::Progress;
use crate::run::Run;
use crate::test_database::TestDatabase;
use crate::work::Work;

/// One of the sides of a comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    /// The library.
    Ours,
    /// SQL on the library's table; in some workloads the library under other circumstances.
    Bare,
}

impl Side {
    pub(crate) const ALL: [Self; 2] = [Self::Ours, Self::Bare];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Bare => "the counterpart",
        }
    }

    /// The order of a round, counted from 1. It rotates, so that no side always runs on a warm machine.
    pub(crate) fn order(round: u32) -> [Self; 2] {
        let mut sides = Self::ALL;
        sides.rotate_left(round.saturating_sub(1) as usize % Self::ALL.len());
        sides
    }
}

/// The runs that are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    pub(crate) ours: Run,
    pub(crate) bare: Option<Run>,
}

impl Comparison {
    /// Inserts with the client, and with SQL.
    pub(crate) const fn of_inserts(insert: Insert) -> Self {
        Self { ours: Run::Insert(insert), bare: Some(Run::SqlInsert(insert)) }
    }

    /// Work of runners, and of SQL.
    pub(crate) const fn of_work(work: Work) -> Self {
        Self { ours: Run::Work(work), bare: Some(Run::SqlWork(work)) }
    }

    const fn run_of(&self, side: Side) -> Option<Run> {
        match side {
            Side::Ours => Some(self.ours),
            Side::Bare => self.bare,
        }
    }

    /// Runs every side in every round.
    pub(crate) async fn run(
        self,
        database: &mut TestDatabase,
        rounds: u32,
        progress: &Progress,
    ) -> Result<Rounds, Failure> {
        let mut all = Rounds::default();
        for round in 1..=rounds {
            for side in Side::order(round) {
                let Some(run) = self.run_of(side) else { continue };
                progress.round(round, rounds, side.name());
                database.profiler.is_ours = side == Side::Ours;
                let measured = run.run(database).await;
                database.profiler.is_ours = false;
                all.push(side, measured?);
                run.check(database).await?;
            }
        }
        Ok(all)
    }
}

/// The measurements of the runs of all rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) ours: Vec<Measure>,
    pub(crate) bare: Vec<Measure>,
}

impl Rounds {
    pub(crate) fn push(&mut self, side: Side, measure: Measure) {
        match side {
            Side::Ours => self.ours.push(measure),
            Side::Bare => self.bare.push(measure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_begin_one_after_the_other() {
        assert_eq!([1, 2].map(|round| Side::order(round)[0]), Side::ALL);
        assert_eq!(Side::order(3), Side::order(1));
        for round in 1..=3 {
            assert!(Side::ALL.iter().all(|side| Side::order(round).contains(side)));
        }
    }
}
