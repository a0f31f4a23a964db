//! The layout of every command's help, and its colour.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{Resettable, StyledStr};
use clap::{Args, ColorChoice, Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::{Failure, Verdict};
use crate::output;

/// Shows what is worth knowing about a command right after what it does. clap does this only in its long form, which
/// takes three lines for each option.
const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// The exit codes of every command. A command's own help says its other codes, and what is special about one of these.
const EXIT_CODES: [(u8, &str); 3] = [
    (0, "done"),
    (2, "a wrong command line, or something outside failed: the database, a file, a permission"),
    (130, "interrupted by Ctrl-C or SIGTERM before the end"),
];

/// The width of help in columns where there is no terminal.
const DEFAULT_WIDTH: usize = 120;

/// Lays out the help of a command and of all its subcommands.
pub(crate) fn lay_out(command: clap::Command) -> clap::Command {
    let details = command.get_long_about().map(ToString::to_string);
    let details = details.and_then(|about| about.split_once("\n\n").map(|(_, details)| details.to_owned()));
    let command = match details {
        Some(details) => command.long_about(None::<&str>).before_help(details),
        None => command,
    };
    let command = match command.get_after_help().map(|after| paragraphs(&after.to_string())) {
        Some(after) => command.after_help(after),
        None => command,
    };
    command.help_template(TEMPLATE).term_width(output::width().unwrap_or(DEFAULT_WIDTH)).mut_subcommands(lay_out)
}

/// Reads the doc comment of a command and of all its subcommands: the details, then after a line of `***` or from the examples
/// on the text below the options. Adds the exit codes that every command has.
pub(crate) fn read_docs(command: clap::Command) -> clap::Command {
    let whole = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let starts = ["\n\n***", "\n\nExamples:", "\n\nExit codes:"].into_iter().filter_map(|start| whole.find(start));
    let (details, below) = whole.split_at(starts.min().unwrap_or(whole.len()));
    let below = below.trim_start_matches(['\n', '*']).to_owned();
    // Arguments that several commands have may bring a help of their own.
    let below = command.get_after_help().map_or(below.clone(), |shared| format!("{below}\n\n{shared}"));
    let details = paragraphs(details);
    let first = details.split("\n\n").next().unwrap_or_default();
    let about = first.strip_suffix('.').unwrap_or(first).to_owned();
    let details = Resettable::from((first != details).then(|| StyledStr::from(&details)));
    command.about(about).long_about(details).after_help(exit_codes(&below)).mut_subcommands(read_docs)
}

/// A help text with the exit codes that it leaves out. A command that Ctrl-C ends in order has no code 130.
fn exit_codes(text: &str) -> String {
    let (text, own) = text.split_once("\n\nExit codes:\n").unwrap_or((text, ""));
    let mut codes = BTreeMap::from(EXIT_CODES.map(|(code, text)| (code, format!("\n  {code:<5}{text}"))));
    if own.contains("Ctrl-C") {
        codes.remove(&130);
    }
    let mut at = 0;
    for line in own.lines() {
        let code = line.strip_prefix("  ").and_then(|line| line.split(' ').next()?.parse().ok());
        match code {
            Some(code) => {
                at = code;
                codes.insert(code, format!("\n{line}"));
            }
            // A code's text goes on.
            None => codes.entry(at).or_default().push_str(&format!("\n{line}")),
        }
    }
    format!("{text}\n\nExit codes:{}", codes.into_values().collect::<String>())
}

/// Joins the lines of each paragraph, which clap then breaks at the width of the terminal. Indented lines stay.
fn paragraphs(text: &str) -> String {
    let mut joined = String::new();
    let mut is_open = false;
    for line in text.lines() {
        let continues = !line.is_empty() && !line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if is_open && continues { ' ' } else { '\n' });
        }
        joined.push_str(line);
        // A title of a list ends in a colon.
        is_open = continues && !line.ends_with(':');
    }
    joined
}

/// Finds --color before clap reads the command line, because clap's errors and help have colours too.
pub(crate) fn color_choice(arguments: impl IntoIterator<Item = OsString>) -> ColorChoice {
    let words = arguments.into_iter().filter_map(|argument| argument.into_string().ok());
    let (mut choice, mut is_next) = (ColorChoice::default(), false);
    for word in words.take_while(|word| word != "--") {
        let given = if is_next { Some(word.as_str()) } else { word.strip_prefix("--color=") };
        if let Some(given) = given.and_then(|given| ColorChoice::from_str(given, false).ok()) {
            choice = given;
        }
        is_next = word == "--color";
    }
    choice
}

/// Print the script that completes this command's words in a shell.
///
/// Examples:
///   uniqueue completions bash > ~/.local/share/bash-completion/completions/uniqueue
///   uniqueue completions zsh > "${fpath[1]}/_uniqueue"
///   uniqueue completions fish > ~/.config/fish/completions/uniqueue.fish
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print a manual page, or write all of them.
///
/// Without --out it prints the page of the given command, else that of uniqueue.
///
/// Examples:
///   uniqueue man migrate | man -l -
///   uniqueue man --out ~/.local/share/man/man1
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ManArguments {
    /// The command, such as: job list
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,

    /// Write a page for each command into this directory, which is created if it is missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints a shell's completion script for a command line.
pub(crate) fn completions(arguments: &CompletionsArguments, mut whole: Command) -> Result<Verdict, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut whole, "uniqueue", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::Fine)
}

/// Prints one manual page of a command line, or writes all of them.
pub(crate) fn man(arguments: &ManArguments, whole: Command) -> Result<Verdict, Failure> {
    if let Some(directory) = &arguments.out {
        let shown = directory.display();
        let hint = "choose a directory that you can write to";
        std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(whole, directory))
            .map_err(|error| Failure::environment(format!("cannot write manual pages: {shown}"), hint, error))?;
        return Ok(Verdict::Fine);
    }
    let mut whole = whole.disable_help_subcommand(true);
    whole.build();
    let mut command = &whole;
    for name in &arguments.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            let known = command.get_subcommands().filter(|known| !known.is_hide_set()).map(Command::get_name);
            let known = known.collect::<Vec<_>>().join(", ");
            let hint = if known.is_empty() {
                format!("{} has no commands of its own", command.get_name())
            } else {
                format!("one of {known}")
            };
            Failure::refused(format!("no such command: {name:?}"), hint)
        })?;
    }
    let mut page = Vec::new();
    Man::new(command.clone())
        .render(&mut page)
        .map_err(|error| Failure::environment("cannot write the manual page", "report this", error))?;
    output::print(&String::from_utf8_lossy(&page))?;
    Ok(Verdict::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_paragraph_are_joined_and_lists_stay() {
        let text = "One fact.\nAnother\nfact.\n\nExamples:\n  a  first\n  b\n\nExit codes:\n  0";
        let joined = "One fact. Another fact.\n\nExamples:\n  a  first\n  b\n\nExit codes:\n  0";
        assert_eq!(paragraphs(text), joined);
    }

    #[test]
    fn a_doc_comment_says_what_stands_above_the_options_and_below() {
        let read = |doc: &str| {
            let command = read_docs(clap::Command::new("a").about("Do it.").long_about(doc.to_owned()));
            let text = |of: Option<&StyledStr>| of.map(ToString::to_string).unwrap_or_default();
            (text(command.get_about()), text(command.get_long_about()), text(command.get_after_help()))
        };
        let (about, details, below) = read("Do it\nnow.\n\nWith\ncare.\n\n***\n\nOne\nline.\n\nExamples:\n  a");
        assert_eq!((about.as_str(), details.as_str()), ("Do it now", "Do it now.\n\nWith care."));
        assert!(below.starts_with("One\nline.\n\nExamples:\n  a\n\nExit codes:"), "{below}");
        let (_, details, below) = read("Do it.\n\nExamples:\n  a");
        assert!(details.is_empty() && below.starts_with("Examples:\n  a\n\nExit codes:"), "{below}");
    }

    #[test]
    fn a_command_has_the_codes_of_all_and_its_own() {
        let own = "Examples:\n  a\n\nExit codes:\n  1    worse\n       than that\n  130  stopped by Ctrl-C";
        let whole = "Examples:\n  a\n\nExit codes:\n  0    done\n  1    worse\n       than that\n  2    a wrong command line, or \
                     something outside failed: the database, a file, a permission\n  130  stopped by Ctrl-C";
        assert_eq!(exit_codes(own), whole);
        assert!(!exit_codes("\n\nExit codes:\n  0    stopped by Ctrl-C").contains("130"));
    }

    #[test]
    fn color_is_found_in_an_invalid_command_line() {
        let found = |line: &str| color_choice(line.split(' ').map(OsString::from));
        assert_eq!(found("uniqueue --color never dance"), ColorChoice::Never);
        assert_eq!(found("uniqueue demo --color=always"), ColorChoice::Always);
        assert_eq!(found("uniqueue demo --color"), ColorChoice::Auto);
        assert_eq!(found("uniqueue db psql -- --color=never"), ColorChoice::Auto);
    }
}
