//! The statements in what a client sends: simple queries, and prepared ones as they are bound.

use std::collections::HashMap;

/// Reads the messages of one client.
#[derive(Default)]
pub(crate) struct Frames {
    /// The start of a message that has not come to its end.
    rest: Vec<u8>,
    is_started: bool,
    /// The texts of prepared statements, by name.
    prepared: HashMap<String, String>,
}

impl Frames {
    /// The texts of the statements that these bytes complete.
    pub(crate) fn sent(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let mut sent = Vec::new();
        loop {
            // The first message has no type.
            let head = usize::from(self.is_started);
            let Some(length) = self.rest.get(head..head + 4) else { return sent };
            let end = head + u32::from_be_bytes(length.try_into().unwrap()) as usize;
            if self.rest.len() < end {
                return sent;
            }
            let message: Vec<u8> = self.rest.drain(..end).collect();
            if std::mem::replace(&mut self.is_started, true) {
                let body = String::from_utf8_lossy(&message[5..]).into_owned();
                let mut parts = body.split('\0');
                let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                match message[0] {
                    b'Q' => sent.push(first.to_owned()),
                    b'P' => drop(self.prepared.insert(first.to_owned(), second.to_owned())),
                    b'B' => sent.extend(self.prepared.get(second).cloned()),
                    _ => {}
                }
            }
        }
    }
}
