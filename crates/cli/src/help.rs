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
    command.help_template(TEMPLATE).term_width(output::width().unwrap_or(DEFAULT_WIDTH)).mut_subcommands(lay_out)
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
    fn color_is_found_in_an_invalid_command_line() {
        let found = |line: &str| color_choice(line.split(' ').map(OsString::from));
        assert_eq!(found("uniqueue --color never dance"), ColorChoice::Never);
        assert_eq!(found("uniqueue demo --color=always"), ColorChoice::Always);
        assert_eq!(found("uniqueue demo --color"), ColorChoice::Auto);
        assert_eq!(found("uniqueue db psql -- --color=never"), ColorChoice::Auto);
    }
}
