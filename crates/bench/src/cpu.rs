//! Processor time, from the accounts of Linux. Other systems give none.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// The unit of /proc: USER_HZ is 100 on every architecture that Rust's standard library supports.
const TICK: Duration = Duration::from_millis(10);

/// How often the children are read, until none ends meanwhile.
const READINGS: u32 = 100;

/// Of this process.
pub(crate) fn own() -> Option<Duration> {
    Some(Stat::read("self")?.own())
}

/// Of a server's postmaster and all its children, with those that have ended.
pub(crate) fn server(data_dir: &Path) -> Option<Duration> {
    let status = fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
    let postmaster: u32 = status.lines().next()?.trim().parse().ok()?;
    // A child that ends while the others are read is in neither sum. Then all are read again.
    (0..READINGS).find_map(|_| {
        let before = Stat::read(&postmaster.to_string())?;
        let children = children(postmaster)?;
        let after = Stat::read(&postmaster.to_string())?;
        (before.of_ended_children() == after.of_ended_children()).then(|| before.with_ended_children() + children)
    })
}

/// The sum over all processes with this parent.
fn children(parent: u32) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) else { continue };
        if let Some(stat) = Stat::read(name).filter(|stat| stat.parent == parent) {
            sum += stat.own();
        }
    }
    Some(sum)
}

/// The fields of /proc/…/stat that this module reads.
struct Stat {
    parent: u32,
    /// In user and system mode, itself and its children that ended.
    ticks: [u32; 4],
}

impl Stat {
    fn read(process: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The second field is the name, in parentheses; it can hold anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        Some(Self { parent: number(1)?, ticks: [number(11)?, number(12)?, number(13)?, number(14)?] })
    }

    fn own(&self) -> Duration {
        TICK * (self.ticks[0] + self.ticks[1])
    }

    fn of_ended_children(&self) -> Duration {
        TICK * (self.ticks[2] + self.ticks[3])
    }

    fn with_ended_children(&self) -> Duration {
        self.own() + self.of_ended_children()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processes_can_hold_anything() {
        let stat = Stat::parse("12 (a) (b 7) S 3 12 12 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 5").unwrap();
        assert_eq!((stat.parent, stat.ticks), (3, [100, 20, 3, 4]));
        assert_eq!(stat.own(), Duration::from_millis(1_200));
        assert_eq!(stat.with_ended_children(), Duration::from_millis(1_270));
    }
}
