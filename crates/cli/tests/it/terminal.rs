//! Colour, widths and readers that go away.

use std::process::{Command, Stdio};

use crate::support::uniqueue;

fn stderr_of(command: &mut Command) -> String {
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn colour_is_for_terminals_and_for_who_asks() {
    let bad = |arguments: &[&str]| {
        let mut command = uniqueue();
        command.args(arguments).args(["migrate", "--database-url", "mysql://x"]).env_remove("NO_COLOR");
        command
    };
    assert!(!stderr_of(&mut bad(&[])).contains('\u{1b}'));
    assert!(stderr_of(&mut bad(&["--color", "always"])).starts_with("\u{1b}[31merror:\u{1b}[0m invalid database URL"));
    assert!(stderr_of(bad(&["--color=always"]).env("NO_COLOR", "1")).contains('\u{1b}'), "who asks, gets");
    assert!(!stderr_of(&mut bad(&["--color", "never"])).contains('\u{1b}'));
    let wrong = stderr_of(uniqueue().args(["--color", "sometimes", "migrate"]));
    assert!(wrong.contains("'sometimes'") && wrong.contains("auto, always, never"), "{wrong}");
    // The parser's own errors as well.
    assert!(stderr_of(uniqueue().args(["dance", "--color=always"])).contains('\u{1b}'));
    assert!(!stderr_of(uniqueue().arg("dance")).contains('\u{1b}'));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child =
        uniqueue().args(["completions", "zsh"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}
