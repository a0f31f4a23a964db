//! `uniqueue completions` and `uniqueue man`, which are generated from the command line's definition.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::{Failure, Verdict};
use crate::output;

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
