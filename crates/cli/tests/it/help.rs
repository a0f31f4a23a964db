//! Help, completions and manual pages: of every command that there is.

use test_support::prelude::*;

use crate::support::{directory, run, uniqueue};

/// The commands that `--help` of this one lists, and so on below them.
fn commands(above: &[String]) -> Vec<Vec<String>> {
    let help = help(above);
    let listed = help.split_once("\nCommands:\n").map(|(_, list)| list).unwrap_or_default();
    let names = listed.lines().take_while(|line| !line.trim().is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?.split_whitespace().next()?;
        (name != "help").then(|| name.to_owned())
    });
    let mut found = vec![above.to_vec()];
    for name in names {
        found.extend(commands(&[above, &[name]].concat()));
    }
    found
}

fn help(command: &[String]) -> String {
    let arguments: Vec<_> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{command:?}");
    assert!(output.stderr.is_empty(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_has_examples_and_says_how_it_ends() {
    let commands = commands(&[]);
    assert!(commands.len() > 8, "{commands:?}");
    for command in &commands {
        let help = help(command);
        assert!(help.contains("\nExamples:\n") && help.contains("\nExit codes:\n"), "{command:?}: {help}");
        assert!(!help.contains('\u{1b}'), "{command:?} is coloured in a pipe");
        // An example is of this command: it can be copied.
        let name = format!("uniqueue {}", command.join(" "));
        let examples = help.split_once("\nExamples:\n").unwrap().1.split_once("\nExit codes:").unwrap().0;
        assert!(examples.contains(name.trim()), "{command:?}: {examples}");
        // No line runs off a terminal of ordinary width.
        let widest = examples.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 120, "{command:?}: {widest}");
    }
}

#[test]
fn help_fills_the_lines_of_a_terminal_and_names_no_file_of_the_repository() {
    for command in commands(&[]) {
        let output = uniqueue().args(&command).arg("--help").env("COLUMNS", "80").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(!help.contains("docs/") && !help.contains("crates/"), "{command:?}: {help}");
        let lines: Vec<_> = help.lines().collect();
        for pair in lines.windows(2) {
            let is_text = |line: &str| !line.is_empty() && !line.starts_with([' ', '-']) && !line.ends_with(':');
            let next = pair[1].split(' ').next().unwrap_or_default();
            let has_room = pair[0].chars().count() + 1 + next.chars().count() <= 80;
            assert!(!(is_text(pair[0]) && is_text(pair[1]) && has_room), "{command:?}: {pair:?}");
        }
    }
}

#[test]
fn help_explains_a_command_before_its_usage() {
    for (command, known) in [
        ("job retry", "A filter selects retryable and discarded jobs."),
        ("job delete", "A filter selects jobs in every state but running"),
        ("queue retention", "A state that is not given keeps its retention"),
        ("unique release", "two jobs with the same key may run at once"),
        ("top", "Press ? for the list of keys"),
        ("periodic pause", "Jobs that were inserted before are worked."),
        ("doctor", "It changes nothing."),
        ("demo", "It does not follow symbolic links."),
    ] {
        let help = help(&command.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>());
        let before = help.split_once("\nUsage: ").unwrap().0.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(before.contains(known), "{command}: {help}");
        let mut options = help.lines().filter(|line| line.trim_start().starts_with("--color"));
        let color = options.next().unwrap();
        assert!(color.contains("When to colour"), "each option takes a line: {help}");
    }
}

#[test]
fn commands_on_a_database_take_its_url_schema_and_json() {
    let without = ["", "completions", "man", "db", "db start", "db stop"];
    for command in commands(&[]) {
        let (name, help) = (command.join(" "), help(&command));
        if without.contains(&name.as_str()) || name.starts_with("places ") || help.contains("\nCommands:\n") {
            continue;
        }
        for option in ["--database-url", "--schema", "--json"] {
            // psql prints what psql prints, and top draws.
            let is_silent = option == "--json" && ["db psql", "top"].contains(&name.as_str());
            let is_missing = !help.contains(option) && !is_silent;
            assert!(!is_missing, "{name} has no {option}");
        }
    }
}

#[test]
fn completions_and_help_know_the_states() {
    let states = "pending scheduled available running retryable completed cancelled discarded";
    let bash = String::from_utf8(run(&["completions", "bash"]).stdout).unwrap();
    assert!(bash.contains(&format!("compgen -W \"{states}\"")), "a shell completes the names of states");
    let help = help(&["job".to_owned(), "list".to_owned()]);
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("[possible values: {}]", states.replace(' ', ", "))), "{help}");
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && script.contains("migrate") && script.contains("schema"),
            "{shell}: {script}"
        );
    }
    assert_eq!(run(&["completions", "sh"]).status.code(), Some(2));
}

#[test]
fn a_manual_page_is_written_for_every_command() {
    let scratch = directory();
    let pages = scratch.path().join("man1");
    assert!(run(&["man", "--out", pages.to_str().unwrap()]).status.success());
    for command in commands(&[]) {
        let name = [vec!["uniqueue".to_owned()], command.clone()].concat().join("-");
        let page =
            fs::read_to_string(pages.join(format!("{name}.1"))).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains("Examples:") && page.contains("Exit codes:"), "{name}");
        if !command.is_empty() {
            let arguments: Vec<_> = ["man"].into_iter().chain(command.iter().map(String::as_str)).collect();
            assert_eq!(String::from_utf8(run(&arguments).stdout).unwrap(), page, "{name}");
        }
    }
    let output = run(&["man", "db", "dance"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.starts_with("error: no such command: \"dance\"\nhint: one of start, stop, psql"), "{stderr}");
    let output = run(&["man", "--out", "/dev/null/pages"]);
    assert_eq!(output.status.code(), Some(2));
}
