//! The last line that a program has written so far.

use serde_json::Value;

/// The longest line that is kept. A longer one is no answer.
pub(super) const LONGEST: usize = 16 << 20;

/// Takes text in pieces and keeps its last line that is not blank.
#[derive(Debug, Default)]
pub(super) struct LastLine {
    last: Vec<u8>,
    current: Vec<u8>,
}

impl LastLine {
    pub(super) fn push(&mut self, mut piece: &[u8]) {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.extend(&piece[..end]);
            piece = &piece[end + 1..];
            if !self.current.trim_ascii().is_empty() {
                std::mem::swap(&mut self.last, &mut self.current);
            }
            self.current.clear();
        }
        self.extend(piece);
    }

    fn extend(&mut self, piece: &[u8]) {
        // One byte more than the longest tells that it was cut.
        let room = (LONGEST + 1).saturating_sub(self.current.len());
        self.current.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// The line as JSON. `None`: it is something else, or there is none.
    pub(super) fn json(&self) -> Option<Value> {
        let line = if self.current.trim_ascii().is_empty() { &self.last } else { &self.current };
        if line.len() > LONGEST { None } else { serde_json::from_slice(line).ok() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_line_that_is_not_blank_counts_however_it_arrives() {
        for (pieces, expected) in [
            (&["1\n2\n"][..], Some(json!(2))),
            (&["1\n{\"a\"", ":3}"][..], Some(json!({"a": 3}))),
            (&["4", "\n\n \n"][..], Some(json!(4))),
            (&["5\nsome text\n"][..], None),
            (&[""][..], None),
        ] {
            let mut last = LastLine::default();
            pieces.iter().for_each(|piece| last.push(piece.as_bytes()));
            assert_eq!(last.json(), expected, "{pieces:?}");
        }
    }
}
