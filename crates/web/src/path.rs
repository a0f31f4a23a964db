//! Paths of the dashboard.

use uniqueue::PlaceName;

/// The path of the pages of a place. It ends with the name, percent-encoded.
pub(crate) fn place_path(name: &PlaceName) -> String {
    let mut path = "/place:".to_owned();
    for byte in name.as_str().bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => path.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => path.push(char::from(byte)),
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// The part of the path that the application's router took away.
pub(crate) fn prefix_of<'p>(original: &'p str, inner: &str) -> &'p str {
    original.strip_suffix(inner).or_else(|| original.strip_suffix('/')).unwrap_or(original)
}

/// Whether a browser reads this as a path of the same host: `//host` and `/\host` are other hosts.
pub(crate) fn is_local(path: &str) -> bool {
    let mut characters = path.chars();
    characters.next() == Some('/')
        && !matches!(characters.next(), Some('/' | '\\'))
        && !path.contains(|character: char| character.is_control() || character == '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_what_the_application_took_away() {
        assert_eq!(prefix_of("/queue/jobs", "/jobs"), "/queue");
        assert_eq!(prefix_of("/queue", "/"), "/queue");
        assert_eq!(prefix_of("/queue/", "/"), "/queue");
        assert_eq!(prefix_of("/", "/"), "");
        assert_eq!(prefix_of("/jobs", "/jobs"), "");
    }

    #[test]
    fn a_place_of_any_name_has_a_path_of_its_own() {
        let path = |name| place_path(&PlaceName::new(name).unwrap());
        assert_eq!(path("eu-1"), "/place:eu-1");
        assert_eq!(path("../ä {x}"), "/place:..%2F%C3%A4%20%7Bx%7D");
    }

    #[test]
    fn another_host_is_not_local() {
        for path in
            ["//evil.example", "/\\evil.example", "https://evil.example", "", "evil", "/a\r\nb", "/\t/evil.example"]
        {
            assert!(!is_local(path), "{path:?}");
        }
        assert!(is_local("/jobs?state=running"));
    }
}
