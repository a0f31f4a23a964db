//! Processor time, as Linux tells it. Elsewhere there is none to tell.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// What /proc counts in: 100 a second on every Linux that Rust's standard library runs on, whatever the kernel ticks at.
const TICK: Duration = Duration::from_millis(10);

/// Of this process.
pub(super) fn own() -> Option<Duration> {
    Some(Stat::read("self")?.own())
}

/// Of a server's postmaster and all its children, with those that have ended.
pub(super) fn server(data_dir: &Path) -> Option<Duration> {
    let status = fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
    let postmaster: u32 = status.lines().next()?.trim().parse().ok()?;
    let mut sum = Stat::read(&postmaster.to_string())?.with_ended_children();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) else { continue };
        // Processes come and go meanwhile. What one spent that goes is its parent's then.
        if let Some(stat) = Stat::read(name).filter(|stat| stat.parent == postmaster) {
            sum += stat.own();
        }
    }
    Some(sum)
}

/// The part of /proc/…/stat that counts.
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

    fn with_ended_children(&self) -> Duration {
        TICK * self.ticks.iter().sum()
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
