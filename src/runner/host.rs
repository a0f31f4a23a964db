//! The machine that a runner runs on, as its row names it.

use std::fs;

/// The most bytes of the name that are stored.
const MAX_BYTES: usize = 253;

/// The name of the machine, or of the container. `None` where it is unknown.
pub(super) fn host_name() -> Option<String> {
    let from_kernel = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let names = from_kernel
        .into_iter()
        .chain(["HOSTNAME", "COMPUTERNAME"].into_iter().filter_map(|name| std::env::var(name).ok()));
    names.map(|name| beginning(name.trim(), MAX_BYTES).replace('\0', "")).find(|name| !name.is_empty())
}

/// The beginning of a text of at most this many bytes.
pub(super) fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(beginning("aä", 2), "a");
        assert_eq!(beginning("aä", 3), "aä");
    }
}
