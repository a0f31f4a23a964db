//! The layout of every command's help, and its colour.

use std::ffi::OsString;

use clap::ValueEnum;

use crate::output::{self, ColorChoice};

/// Shows what is worth knowing about a command right after what it does. clap does this only in its long form, which
/// takes three lines for each option.
const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

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
    fn color_is_found_in_an_invalid_command_line() {
        let found = |line: &str| color_choice(line.split(' ').map(OsString::from));
        assert_eq!(found("uniqueue --color never dance"), ColorChoice::Never);
        assert_eq!(found("uniqueue demo --color=always"), ColorChoice::Always);
        assert_eq!(found("uniqueue demo --color"), ColorChoice::Auto);
        assert_eq!(found("uniqueue db psql -- --color=never"), ColorChoice::Auto);
    }
}
