//! Lines of a connection, within limits of length and time.

use std::future::pending;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// The longest line that is read without a permit.
const SMALL: usize = 64 * 1024;

/// How long the rest of a refused command is read.
const DRAIN: Duration = Duration::from_secs(1);

/// The limits of one line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineLimits {
    /// The most bytes.
    pub(crate) bytes: usize,
    /// How long until its first byte.
    pub(crate) idle: Duration,
    /// How long from its first byte to its last.
    pub(crate) whole: Duration,
}

/// The end of a read.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    /// A line without its end. The permit of a long one is for as long as it is worked on.
    Read(Vec<u8>, Option<SemaphorePermit<'a>>),
    /// The client has closed the connection.
    Closed,
    TooLong,
    TooSlow,
    /// No byte came.
    Idle,
}

/// Reads lines.
pub(crate) struct Lines<R>(BufReader<R>);

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self(BufReader::new(reader))
    }

    /// Reads the next line. `large`: permits of long lines.
    pub(crate) async fn next<'a>(&mut self, limits: LineLimits, large: &'a Semaphore) -> io::Result<Line<'a>> {
        let (mut line, mut permit) = (Vec::new(), None);
        let mut until = Instant::now() + limits.idle;
        loop {
            let Ok(filled) = timeout_at(until, self.0.fill_buf()).await else {
                return Ok(if line.is_empty() { Line::Idle } else { Line::TooSlow });
            };
            let bytes = filled?;
            if bytes.is_empty() {
                return Ok(Line::Closed);
            }
            if line.is_empty() {
                until = Instant::now() + limits.whole;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            if line.len() + taken > limits.bytes {
                return Ok(Line::TooLong);
            }
            line.extend_from_slice(&bytes[..taken]);
            self.0.consume(taken);
            if end.is_some() {
                while line.last().is_some_and(u8::is_ascii_whitespace) {
                    line.pop();
                }
                return Ok(Line::Read(line, permit));
            }
            if line.len() > SMALL && permit.is_none() {
                // Other connections have the permits: this one is read on when one of them has ended.
                permit = large.acquire().await.ok();
                until = Instant::now() + limits.whole;
            }
        }
    }

    /// Reads on for a second at most, and forgets what comes. A connection that is closed with unread bytes is reset, and the
    /// client could lose the last reply.
    pub(crate) async fn drain(&mut self) {
        let until = Instant::now() + DRAIN;
        while let Ok(Ok(bytes)) = timeout_at(until, self.0.fill_buf()).await
            && !bytes.is_empty()
        {
            let read = bytes.len();
            self.0.consume(read);
        }
    }

    /// Completes when the client has closed the connection. Bytes that arrive meanwhile stay in the buffer.
    pub(crate) async fn closed(&mut self) {
        match self.0.fill_buf().await {
            Ok(bytes) if !bytes.is_empty() => pending().await,
            Ok(_) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit that is reached at once.
    const SHORT: Duration = Duration::from_millis(20);

    const LIMITS: LineLimits =
        LineLimits { bytes: 100_000, idle: Duration::from_secs(600), whole: Duration::from_secs(60) };

    #[tokio::test]
    async fn a_line_ends_by_its_end_its_length_or_its_time() {
        let large = Semaphore::new(1);
        let (near, far) = tokio::io::duplex(1_000_000);
        let (mut writer, mut lines) = (near, Lines::new(far));
        use tokio::io::AsyncWriteExt;
        writer.write_all(b"INFO\r\nEND \n").await.unwrap();
        for wanted in ["INFO", "END"] {
            let read = lines.next(LIMITS, &large).await.unwrap();
            assert!(matches!(&read, Line::Read(line, None) if line == wanted.as_bytes()), "{read:?}");
        }
        let short = LineLimits { idle: SHORT, whole: SHORT, ..LIMITS };
        assert!(matches!(lines.next(short, &large).await.unwrap(), Line::Idle));
        writer.write_all(&[b'a'; 80_000]).await.unwrap();
        writer.write_all(b"\n").await.unwrap();
        let long = lines.next(LIMITS, &large).await.unwrap();
        assert!(matches!(&long, Line::Read(line, Some(_)) if line.len() == 80_000));
        assert_eq!(large.available_permits(), 0);
        drop(long);
        writer.write_all(b"PUSH {").await.unwrap();
        assert!(matches!(lines.next(short, &large).await.unwrap(), Line::TooSlow));
        writer.write_all(&[b'a'; 100_001]).await.unwrap();
        assert!(matches!(lines.next(LIMITS, &large).await.unwrap(), Line::TooLong));
        drop(writer);
        assert!(matches!(Lines::new(tokio::io::empty()).next(LIMITS, &large).await.unwrap(), Line::Closed));
    }
}
