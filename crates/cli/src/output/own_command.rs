//! This command, for commands that are printed to be pasted.

use super::shell::shell_word;

/// This command's name, or its path where it was called by one, as `cargo run` does.
pub(crate) fn own_command() -> String {
    called_by(&std::env::args().next().unwrap_or_default())
}

/// The command for the first word of a command line.
pub(super) fn called_by(word: &str) -> String {
    if word.contains('/') { shell_word(word) } else { "uniqueue".to_owned() }
}
