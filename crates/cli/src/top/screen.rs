//! The terminal: taken when the screen is opened, given back when it is dropped, and on a panic.

use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// How long the thread of keys waits before it looks whether anybody still wants them.
const WAIT: Duration = Duration::from_millis(200);

pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Whether there is a terminal to read keys from and to draw on.
    pub(super) fn is_possible() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Takes the terminal. A panic gives it back as well, before its message is printed.
    pub(super) fn open() -> Result<Self, Failure> {
        let terminal = ratatui::try_init().map_err(|error| {
            let _ = ratatui::try_restore();
            Failure::environment("cannot take the terminal", "see whether TERM is right", error)
        })?;
        Ok(Self { terminal })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        let drawn = self.terminal.draw(draw);
        drawn.map(|_| ()).map_err(|error| {
            Failure::environment("cannot draw on the terminal", "see whether it is still there", error)
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = ratatui::try_restore();
    }
}

/// What the terminal says.
#[derive(Debug)]
pub(super) enum Heard {
    Key(KeyEvent),
    Resize,
}

/// Reads keys on a thread of their own, since reading waits; until nobody wants them.
pub(super) fn listen(keys: mpsc::Sender<Heard>, ended: CancellationToken) {
    std::thread::spawn(move || {
        while !ended.is_cancelled() && !keys.is_closed() {
            let heard = match event::poll(WAIT) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let heard = match heard {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Heard::Key(key),
                Ok(Event::Resize(..)) => Heard::Resize,
                Ok(_) => continue,
                // The terminal is gone; dropping the sender says so.
                Err(_) => return,
            };
            if keys.blocking_send(heard).is_err() {
                return;
            }
        }
    });
}
