//! The name of the person at the terminal, in which the command makes its changes.

/// Where the name is looked for. A root shell of sudo has the name of the user who opened it.
const VARIABLES: [&str; 5] = ["UNIQUEUE_ACTOR", "SUDO_USER", "USER", "LOGNAME", "USERNAME"];

/// The most bytes of a name.
const MAX_BYTES: usize = 200;

/// The name in the log where the environment has none, as in a container.
const ANONYMOUS: &str = "anonymous";

/// The name of the person.
pub(crate) fn own_name() -> String {
    first_name(|variable| std::env::var(variable).ok())
}

fn first_name(variable: impl Fn(&str) -> Option<String>) -> String {
    let mut names = VARIABLES.into_iter().filter_map(variable);
    let mut name = names.find(|name| !name.trim().is_empty()).unwrap_or_else(|| ANONYMOUS.to_owned());
    name.truncate(name.floor_char_boundary(MAX_BYTES));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_name_comes_before_that_of_the_system() {
        let of = |set: &'static [(&'static str, &'static str)]| {
            first_name(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(of(&[("USER", "root"), ("SUDO_USER", "ada")]), "ada");
        assert_eq!(of(&[("USER", "root"), ("UNIQUEUE_ACTOR", "release bot")]), "release bot");
        assert_eq!(of(&[("UNIQUEUE_ACTOR", " "), ("LOGNAME", "ben")]), "ben");
        assert_eq!(of(&[]), ANONYMOUS);
    }
}
