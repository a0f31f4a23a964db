//! The name of the person at the terminal, in which the command makes its changes.

/// Where the name is looked for. A root shell of sudo has the name of the user who opened it.
const VARIABLES: [&str; 5] = ["UNIQUEUE_ACTOR", "SUDO_USER", "USER", "LOGNAME", "USERNAME"];

/// The most bytes of a name.
const MAX_BYTES: usize = 200;

/// The name of the person. `None`: the environment has none, as in a container.
pub(crate) fn own_name() -> Option<String> {
    first_name(|variable| std::env::var(variable).ok())
}

fn first_name(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut name = VARIABLES.into_iter().filter_map(variable).find(|name| !name.trim().is_empty())?;
    name.truncate(name.floor_char_boundary(MAX_BYTES));
    Some(name)
}

/// A change in that name. The changes of the library share the method, and no trait.
macro_rules! in_own_name {
    ($change:expr) => {
        match $crate::own_name::own_name() {
            Some(name) => $change.actor(name),
            None => $change,
        }
    };
}
pub(crate) use in_own_name;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_name_comes_before_that_of_the_system() {
        let of = |set: &'static [(&'static str, &'static str)]| {
            first_name(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(of(&[("USER", "root"), ("SUDO_USER", "ada")]).as_deref(), Some("ada"));
        assert_eq!(of(&[("USER", "root"), ("UNIQUEUE_ACTOR", "release bot")]).as_deref(), Some("release bot"));
        assert_eq!(of(&[("UNIQUEUE_ACTOR", " "), ("LOGNAME", "ben")]).as_deref(), Some("ben"));
        assert_eq!(of(&[]), None);
    }
}
