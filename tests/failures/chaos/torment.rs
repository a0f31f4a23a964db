//! The faults: in the runners, in the database, and in the connections between them.

use std::fmt;

use support::prelude::*;

#[derive(Clone, Copy)]
enum Torment {
    /// SIGKILL for a runner, and another in its place.
    Kill,
    /// SIGSTOP for longer than a lease, then SIGCONT.
    Stop,
    /// The database stops on the spot and starts again.
    Restart,
    /// Some of the server's sessions are ended.
    Terminate,
    /// Some connections break in the middle of an answer.
    Cut,
    /// Every open connection falls silent.
    Freeze,
}

/// What happens in a round, in an order that the dice decide.
const ROUND: [Torment; 10] = [
    Torment::Kill,
    Torment::Kill,
    Torment::Stop,
    Torment::Restart,
    Torment::Terminate,
    Torment::Terminate,
    Torment::Cut,
    Torment::Cut,
    Torment::Cut,
    Torment::Freeze,
];

#[derive(Default)]
pub struct Tormented {
    kills: usize,
    poisoned: usize,
    stops: usize,
    restarts: usize,
    terminated: u64,
    cut: usize,
    frozen: usize,
    jumps: usize,
}

impl fmt::Display for Tormented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, poisoned, stops, restarts, terminated, cut, frozen, jumps } = self;
        writeln!(f, "  runners killed              {kills:>9}")?;
        writeln!(f, "  runners poisoned            {poisoned:>9}")?;
        writeln!(f, "  runners stopped, continued  {stops:>9}")?;
        writeln!(f, "  database restarts           {restarts:>9}")?;
        writeln!(f, "  sessions terminated         {terminated:>9}")?;
        writeln!(f, "  answers cut off             {cut:>9}")?;
        writeln!(f, "  connections frozen          {frozen:>9}")?;
        writeln!(f, "  jumps of the clock          {jumps:>9}")
    }
}

/// The runners, and the tasks that inject faults.
pub struct Tormentor {
    pub cluster: Cluster,
    pub runners: Vec<RunnerProcess>,
    pub dice: Dice,
    max_crashes: u16,
    started: usize,
    done: Tormented,
}

impl Tormentor {
    pub fn new(cluster: Cluster, runners: usize, dice: Dice, max_crashes: u16) -> Self {
        let done = Tormented::default();
        let mut tormentor = Self { cluster, runners: Vec::new(), dice, max_crashes, started: 0, done };
        for _ in 0..runners {
            let runner = tormentor.start();
            tormentor.runners.push(runner);
        }
        tormentor
    }

    /// Torments for some rounds and tells the inserters how far it is, in thousandths.
    pub async fn torment(&mut self, rounds: usize, pace: &watch::Sender<u64>) {
        let steps = rounds * ROUND.len();
        let mut round = ROUND;
        for step in 0..steps {
            if step % ROUND.len() == 0 {
                self.dice.shuffle(&mut round);
            }
            pace.send_replace((step as u64 + 1) * 1_000 / steps as u64);
            tokio::time::sleep(self.dice.millis(150, 450)).await;
            self.inflict(round[step % ROUND.len()]).await;
            self.start_again();
            if let Some(clock) = self.cluster.clock.as_ref().filter(|_| self.dice.percent(40)) {
                clock.jump(&mut self.dice);
                self.done.jumps += 1;
            }
        }
        if let Some(clock) = &self.cluster.clock {
            clock.jump_ahead_of_all();
        }
    }

    /// Lets all runners stop in order, and answers what was done to them.
    pub async fn finish(mut self) -> (Cluster, Tormented) {
        for runner in &self.runners {
            runner.signal("TERM");
        }
        for runner in &mut self.runners {
            let status = runner.ended().await;
            assert!(status.success(), "a runner stopped with {status}");
        }
        (self.cluster, self.done)
    }

    async fn inflict(&mut self, torment: Torment) {
        match torment {
            Torment::Kill => {
                let victim = self.dice.below(self.runners.len() as u64) as usize;
                self.runners[victim].kill();
                self.runners[victim] = self.start();
                self.done.kills += 1;
            }
            Torment::Stop => {
                let victim = self.dice.below(self.runners.len() as u64) as usize;
                self.runners[victim].signal("STOP");
                // A lease of 2 s, a rescuer's look each half second, and time for others to work.
                tokio::time::sleep(self.dice.millis(2_700, 3_500)).await;
                self.runners[victim].signal("CONT");
                self.done.stops += 1;
            }
            Torment::Restart => {
                self.cluster.restart().await;
                self.done.restarts += 1;
            }
            Torment::Terminate => {
                let some = "SELECT count(pg_terminate_backend(a.pid)) FROM (
                        SELECT pid FROM pg_stat_activity
                        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
                            AND application_name <> 'verdict'
                        ORDER BY random() LIMIT $1
                    ) AS a";
                let limit = self.dice.below(6) as i64 + 1;
                let ended: i64 =
                    sqlx::query_scalar(some).bind(limit).fetch_one(&self.cluster.direct).await.expect("a termination");
                self.done.terminated += ended as u64;
            }
            Torment::Freeze => self.done.frozen += self.cluster.proxy.freeze(),
            Torment::Cut => self.done.cut += self.cluster.proxy.cut(&mut self.dice, 6),
        }
    }

    /// Starts runners in the place of those that poison has killed.
    pub fn start_again(&mut self) {
        for place in 0..self.runners.len() {
            if self.runners[place].has_ended() {
                self.runners[place] = self.start();
                self.done.poisoned += 1;
            }
        }
    }

    fn start(&mut self) -> RunnerProcess {
        self.started += 1;
        let name = format!("chaos {}", self.started);
        let seed = self.dice.number();
        RunnerProcess::start(&Order {
            seed,
            timeout: JOB_TIMEOUT,
            max_crashes: self.max_crashes,
            ..Order::new(&self.cluster.proxy.url(), "uniqueue", &name)
        })
    }
}

/// Ends jobs that wait for an answer over a connection that fell silent. The longest of the others take 2.5 s.
const JOB_TIMEOUT: Duration = Duration::from_secs(8);

/// How long after the torment everything must be done: leases and retries run out meanwhile.
pub const CALM: Duration = MINUTE;
