//! The terminal: it is taken over when the screen opens, and restored when the screen is dropped and on a panic.

use std::io::{self, IsTerminal};

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::prelude::*;

/// How often the thread that reads keys checks whether the screen has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Whether there is a terminal to read keys from and to draw on.
    pub(super) fn is_possible() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Takes over the terminal. A panic restores it before its message is printed.
    pub(super) fn open() -> Result<Self, Failure> {
        let terminal = ratatui::try_init().map_err(|error| {
            let _ = ratatui::try_restore();
            Failure::environment("cannot use the terminal", "check the variable TERM", error)
        })?;
        Ok(Self { terminal })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        let drawn = self.terminal.draw(draw);
        drawn
            .map(|_| ())
            .map_err(|error| Failure::environment("cannot draw on the terminal", "check that it still exists", error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = ratatui::try_restore();
    }
}

/// An event from the terminal.
#[derive(Debug)]
pub(super) enum TerminalEvent {
    Key(KeyEvent),
    Resize,
}

/// Reads events on a thread of its own, because reading blocks. The thread ends with the screen.
pub(super) fn read_events(events: mpsc::Sender<TerminalEvent>, ended: CancellationToken) {
    std::thread::spawn(move || {
        while !ended.is_cancelled() && !events.is_closed() {
            let read = match event::poll(CHECK_INTERVAL) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let event = match read {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => TerminalEvent::Key(key),
                Ok(Event::Resize(..)) => TerminalEvent::Resize,
                Ok(_) => continue,
                // The terminal is gone. Dropping the sender ends the loop.
                Err(_) => return,
            };
            if events.blocking_send(event).is_err() {
                return;
            }
        }
    });
}
