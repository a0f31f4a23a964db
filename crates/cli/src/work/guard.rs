//! The end of the program's processes after a death of this command that it cannot see coming, such as SIGKILL.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Pid;

/// A shell that ends process groups once its standard input closes. It has a group of its own, which no Ctrl-C reaches.
pub(super) struct Guard {
    /// `None`: there is no shell.
    shell: Option<Mutex<Child>>,
}

impl Guard {
    /// `grace`: the time between SIGTERM and SIGKILL.
    pub(super) fn start(grace: Duration) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", include_str!("guard.sh"), "guard", &grace.as_secs_f64().ceil().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        match command.spawn() {
            Ok(shell) => Self { shell: Some(Mutex::new(shell)) },
            Err(error) => {
                tracing::warn!(%error, "cannot start /bin/sh: if this command is killed, its program goes on");
                Self { shell: None }
            }
        }
    }

    /// Ends this group as well.
    pub(super) fn add(&self, group: Pid) {
        self.tell('+', group);
    }

    /// Leaves this group alone, which has ended.
    pub(super) fn remove(&self, group: Pid) {
        self.tell('-', group);
    }

    fn tell(&self, sign: char, group: Pid) {
        let Some(shell) = &self.shell else { return };
        // Nothing panics while it holds the lock.
        let mut shell = shell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(input) = &mut shell.stdin {
            // Where the shell was killed, the program still works.
            let _ = input.write_all(format!("{sign} {}\n", group.as_raw_nonzero()).as_bytes());
        }
    }
}
