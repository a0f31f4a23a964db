//! The commands to try after a demo. Each works as it is printed.

use crate::database::{self, DatabaseArguments};
use crate::output::{own_command, shell_word};

use super::args::DemoArguments;

/// The parts of the commands to try next.
pub(super) struct Next {
    command: String,
    /// The directory or file, if one was given.
    path: Option<String>,
    /// The options that lead to the database.
    database: String,
    /// Whether the URL is left out, because it has a password.
    needs_url: bool,
}

impl Next {
    pub(super) fn new(arguments: &DemoArguments) -> Self {
        let path = arguments.path.to_str().filter(|path| *path != ".").map(shell_word);
        let (database, needs_url) = options(&arguments.database, |name| std::env::var(name).ok());
        Self { command: own_command(), path, database, needs_url }
    }

    /// The lines below the report. `is_kept`: a throw-away server keeps running. `has_tables`: the tables were printed.
    pub(super) fn text(&self, is_embedded: bool, is_kept: bool, has_tables: bool) -> String {
        let Self { command, path, database, needs_url } = self;
        let path = path.as_ref().map(|path| format!(" {path}")).unwrap_or_default();
        let mut lines = Vec::new();
        if *needs_url {
            lines.push(("export DATABASE_URL=URL".to_owned(), "the URL that you gave"));
        }
        if !has_tables {
            lines.push((format!("{command} demo --tables{path}{database}"), "tables, and the SQL of each"));
        }
        if is_embedded && !is_kept {
            lines.push((format!("{command} demo --keep{path}{database}"), "keep the database to look around"));
        } else if !is_embedded {
            lines.push((format!("{command} job list --queue demo{database}"), "the jobs"));
            lines.push((format!("{command} top{database}"), "watch the next demo"));
        }
        lines.push((format!("{command} --help"), "all commands"));
        let widest = lines.iter().map(|(command, _)| command.chars().count()).max().unwrap_or_default();
        let lines = lines.iter().map(|(command, purpose)| format!("  {command:<widest$}  {purpose}\n"));
        format!("\nNext:\n{}", lines.collect::<String>())
    }
}

/// The options that the environment does not give already, and whether the URL is left out.
fn options(arguments: &DatabaseArguments, variable: impl Fn(&str) -> Option<String>) -> (String, bool) {
    let is_set = |name, value: &str| variable(name).is_some_and(|set| set == value);
    let (mut options, mut needs_url) = (String::new(), false);
    if let Some(url) = database::url(arguments).filter(|url| !is_set("DATABASE_URL", url)) {
        match has_password(url) {
            true => needs_url = true,
            false => options.push_str(&format!(" --database-url {}", shell_word(url))),
        }
    }
    let schema = arguments.schema.as_str();
    if arguments.schema != uniqueue::SchemaName::default() && !is_set("UNIQUEUE_SCHEMA", schema) {
        options.push_str(&format!(" --schema {schema}"));
    }
    (options, needs_url)
}

/// Whether a URL may have a password, as of a user or as a parameter.
fn has_password(url: &str) -> bool {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || rest.contains("password")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        demo: DemoArguments,
    }

    #[test]
    fn options_are_those_that_the_environment_lacks_and_no_password() {
        let options_of = |words: &[&str], set: Option<(&str, &str)>| {
            let line = Line::parse_from([&["demo"], words].concat());
            let variable = |name: &str| set.filter(|(set, _)| *set == name).map(|(_, value)| value.to_owned());
            options(&line.demo.database, variable)
        };
        let given = ["--database-url", "postgres://ada@db/app", "--schema", "jobs"];
        let printed = " --database-url postgres://ada@db/app --schema jobs";
        assert_eq!(options_of(&given, None), (printed.to_owned(), false));
        let set = Some(("DATABASE_URL", "postgres://ada@db/app"));
        assert_eq!(options_of(&given, set), (" --schema jobs".to_owned(), false));
        assert_eq!(options_of(&given[..2], set), (String::new(), false));
        for secret in ["postgres://ada:secret@db/app", "postgres://db/app?user=ada&password=secret"] {
            assert_eq!(options_of(&["--database-url", secret], None), (String::new(), true));
        }
    }
}
