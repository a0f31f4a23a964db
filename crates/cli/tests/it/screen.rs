//! A terminal for what draws on one: `script` makes it, `vt100` reads it.
use std::io::{Read, Write};
use std::process::ChildStdin;
use std::thread::JoinHandle;

use test_support::prelude::*;
use test_support::process::Killed;

use crate::support::has_terminal;

/// The longest that a test waits for what should be there soon.
pub(crate) const WAIT: Duration = Duration::from_secs(30);

pub(crate) struct Screen {
    child: Killed,
    keys: ChildStdin,
    seen: Arc<Mutex<vt100::Parser>>,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    /// Runs `uniqueue` with these arguments on a terminal of 160 columns. `None`: there is no util-linux here to make
    /// one, and that was said.
    pub(crate) fn open(url: &str, arguments: &str) -> Option<Self> {
        if !has_terminal() {
            return None;
        }
        let line = format!("stty rows 40 cols 160; exec {} {arguments}", env!("CARGO_BIN_EXE_uniqueue"));
        let mut command = Command::new("script");
        command.args(["-qefc", &line, "/dev/null"]).env("DATABASE_URL", url).env("TERM", "xterm-256color");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script");
        let keys = child.stdin.take().expect("its input");
        let mut output = child.stdout.take().expect("its output");
        let seen =
            Arc::new(Mutex::new(vt100::Parser::new(40.try_into().expect("rows"), 160.try_into().expect("columns"), 0)));
        let parser = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                parser.lock().expect("the screen").process(&buffer[..read]);
            }
        });
        Some(Self { child: Killed(child), keys, seen, reader: Some(reader) })
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).expect("a key");
    }

    pub(crate) fn text(&self) -> String {
        self.seen.lock().expect("the screen").screen().contents()
    }

    /// Waits until the screen shows all of these.
    pub(crate) async fn until(&self, words: &[&str]) {
        eventually!(
            let text = self.text();
            words.iter().all(|word| text.contains(word)), "no {words:?} in:\n{text}"
        );
    }

    /// Waits until one line shows all of these.
    pub(crate) async fn until_line(&self, words: &[&str]) {
        eventually!(
            self.text().lines().any(|line| words.iter().all(|word| line.contains(word))),
            "no line with {words:?} in:\n{}",
            self.text()
        );
    }

    /// The process that draws.
    pub(crate) fn process(&self) -> u32 {
        let path = format!("/proc/{0}/task/{0}/children", self.child.id());
        std::fs::read_to_string(path).expect("its child").trim().parse().expect("a number")
    }

    /// Waits for the end. The terminal must be as it was: on its main screen, with a cursor.
    pub(crate) async fn end(self) -> Option<i32> {
        self.last_words().await.0
    }

    /// Waits for the end as well, and answers with what stands on the main screen then.
    pub(crate) async fn last_words(mut self) -> (Option<i32>, String) {
        let status = eventually!(
            let status = self.child.try_wait().expect("the child");
            status.is_some(), "it does not end:\n{}", self.text()
        );
        let status = status.expect("an end");
        eventually!(self.is_as_it_was(), "the terminal was not given back");
        self.reader.take().expect("its reader").join().expect("all that it read");
        (status.code(), self.text())
    }

    fn is_as_it_was(&self) -> bool {
        let parser = self.seen.lock().expect("the screen");
        !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
    }
}
