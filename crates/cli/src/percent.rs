//! Bytes as text with percent-encoding, as in URLs.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use unicode_normalization::is_nfc;

/// Writes a path as text: `%`, control characters and bytes that are not UTF-8 become `%NN`.
///
/// Unique keys are made of NFC text, in which `é` and `e` + `´` are the same. As file names they are two files on most
/// systems, so a path that is not NFC has every byte outside ASCII written `%NN`.
pub(crate) fn encode(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character.is_ascii() || character.is_control() {
                true => text.extend(percent_encode(character.encode_utf8(&mut [0; 4]).as_bytes(), ESCAPED)),
                false => text.push(character),
            }
        }
        text.extend(percent_encode(chunk.invalid(), ESCAPED));
    }
    if is_nfc(&text) { text } else { percent_encode(bytes, ESCAPED).to_string() }
}

/// The ASCII characters that are escaped.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Undoes percent-encoding. A `%` without two digits stays.
pub(crate) fn decode(text: &str) -> OsString {
    OsString::from_vec(percent_decode_str(text).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ffi::OsStr;

    use unicode_normalization::UnicodeNormalization;

    use super::*;

    #[test]
    fn paths_come_back_and_stay_different_under_nfc() {
        let all: Vec<u8> = (1..=255).collect();
        let paths: [&[u8]; 12] = [
            b"/plain",
            b"",
            b"/per%cent",
            b"/per%25cent",
            b"/new\nline",
            b"/bad \xff\xfe end",
            b"/\xc3",
            "/caf\u{e9}".as_bytes(),
            "/cafe\u{301}".as_bytes(),
            "/\u{212b}".as_bytes(),
            "/\u{c5}".as_bytes(),
            &all,
        ];
        let mut normalized = HashSet::new();
        for bytes in paths {
            let text = encode(Path::new(OsStr::from_bytes(bytes)));
            assert_eq!(decode(&text).as_bytes(), bytes, "{text}");
            assert!(!text.chars().any(char::is_control), "{text:?}");
            assert!(normalized.insert(text.nfc().collect::<String>()), "{text}");
        }
    }

    #[test]
    fn plain_paths_stay_as_they_are() {
        assert_eq!(encode(Path::new("/srv/a café/日本.txt")), "/srv/a café/日本.txt");
    }
}
