//! Paths as text, without loss.
//!
//! A path consists of bytes, but JSON and PostgreSQL's `text` hold Unicode. A backslash is written `\\`. Every byte of a
//! control character, and every byte that is not UTF-8, is written `\xNN`. This also keeps file names from controlling the
//! terminal.
//!
//! Unique keys are made of NFC text, in which `é` and `e` + `´` are the same. As file names they are two files on most
//! systems, so a path that is not NFC has every byte outside ASCII written `\xNN`. Different paths then have texts that stay
//! different under NFC.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use unicode_normalization::is_nfc;

/// Writes a path as text.
pub(super) fn encode(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let text = escape(bytes, |character| character.is_control());
    if is_nfc(&text) { text } else { escape(bytes, |character| character.is_control() || !character.is_ascii()) }
}

/// Reads a text that [`encode`] wrote. Returns `None` for any other text.
pub(super) fn decode(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => (b'\\', after),
            (b'\\', [b'x', high, low, after @ ..]) => (digit(*high)? << 4 | digit(*low)?, after),
            (b'\\', _) => return None,
            (plain, after) => (plain, after),
        };
        bytes.push(byte);
        rest = after;
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

fn digit(hexadecimal: u8) -> Option<u8> {
    let value = char::from(hexadecimal).to_digit(16)?;
    u8::try_from(value).ok()
}

fn escape(bytes: &[u8], is_escaped: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    let escape =
        |text: &mut String, bytes: &[u8]| bytes.iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                _ if is_escaped(character) => escape(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes()),
                _ => text.push(character),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ffi::OsStr;

    use unicode_normalization::UnicodeNormalization;

    use super::*;

    fn path(bytes: &[u8]) -> &Path {
        Path::new(OsStr::from_bytes(bytes))
    }

    #[test]
    fn paths_come_back_and_stay_different_under_nfc() {
        let paths: [&[u8]; 12] = [
            b"/plain",
            b"",
            b"/back\\slash",
            b"/back\\x5c",
            b"/new\nline",
            b"/bad \xff\xfe end",
            b"/\xc3",
            "/caf\u{e9}".as_bytes(),
            "/cafe\u{301}".as_bytes(),
            "/\u{212b}".as_bytes(),
            "/\u{c5}".as_bytes(),
            b"/caf\\xc3\\xa9",
        ];
        let mut normalized = HashSet::new();
        for bytes in paths {
            let text = encode(path(bytes));
            assert_eq!(decode(&text).as_deref(), Some(path(bytes)), "{text}");
            assert!(!text.chars().any(char::is_control), "{text:?}");
            assert!(normalized.insert(text.nfc().collect::<String>()), "{text}");
        }
    }

    #[test]
    fn plain_paths_stay_as_they_are() {
        assert_eq!(encode(Path::new("/srv/café/日本.txt")), "/srv/café/日本.txt");
        assert_eq!(encode(path(b"/a\xff\\\n")), "/a\\xff\\\\\\x0a");
    }

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (1..=255).collect();
        assert_eq!(decode(&encode(path(&all))).as_deref(), Some(path(&all)));
    }

    #[test]
    fn text_that_encode_never_writes_is_an_error() {
        for text in ["\\", "\\x", "\\xf", "\\xzz", "\\n", "\\x+1"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
