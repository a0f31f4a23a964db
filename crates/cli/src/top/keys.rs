//! The effect of each key.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::lists::Pane;
use super::state::{Action, Overlay, Retry, State};

/// How many rows or lines page up and page down move.
const PAGE: usize = 10;

/// The loop's next step after a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Effect {
    Redraw,
    Run(Action),
    Quit,
}

impl State {
    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Effect {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Effect::Quit;
        }
        match std::mem::replace(&mut self.overlay, Overlay::None) {
            Overlay::None => self.press_in_list(key.code),
            // Any key closes the help.
            Overlay::Help => Effect::Redraw,
            Overlay::Filter => {
                self.press_in_filter(key.code);
                Effect::Redraw
            }
            Overlay::Confirm(action) => self.press_in_question(key.code, action),
            Overlay::Text { title, lines, scroll } => {
                let last = lines.len().saturating_sub(1);
                let scroll = match key.code {
                    KeyCode::Down | KeyCode::Char('j') => Some((scroll + 1).min(last)),
                    KeyCode::Up | KeyCode::Char('k') => Some(scroll.saturating_sub(1)),
                    KeyCode::PageDown => Some((scroll + PAGE).min(last)),
                    KeyCode::PageUp => Some(scroll.saturating_sub(PAGE)),
                    _ => None,
                };
                if let Some(scroll) = scroll {
                    self.overlay = Overlay::Text { title, lines, scroll };
                }
                Effect::Redraw
            }
        }
    }

    fn press_in_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => {
                self.filter.clear();
                return;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.overlay = Overlay::Filter;
    }

    fn press_in_question(&mut self, code: KeyCode, action: Action) -> Effect {
        if !matches!(code, KeyCode::Char('y' | 'Y')) {
            self.notice = Some("nothing was changed".to_owned());
            return Effect::Redraw;
        }
        self.notice = None;
        if let Action::Retry(kind) = &action {
            self.retry = Some(Retry { kind: kind.clone(), retried: 0 });
        }
        Effect::Run(action)
    }

    fn press_in_list(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('?' | 'h') => self.overlay = Overlay::Help,
            KeyCode::Char('/') => self.overlay = Overlay::Filter,
            KeyCode::Esc => {
                self.filter.clear();
                self.notice = None;
            }
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected(self.pane).saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected(self.pane).saturating_sub(1)),
            KeyCode::PageDown => self.select(self.selected(self.pane).saturating_add(PAGE)),
            KeyCode::PageUp => self.select(self.selected(self.pane).saturating_sub(PAGE)),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Tab | KeyCode::Right => self.switch_to(self.pane as usize + 1),
            KeyCode::BackTab | KeyCode::Left => self.switch_to(self.pane as usize + Pane::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='6') => self.switch_to(digit as usize - '1' as usize),
            KeyCode::Enter | KeyCode::Char('i') => return self.request(Self::inspect),
            KeyCode::Char('p') => return self.request(Self::pause_or_resume),
            KeyCode::Char('c') => return self.request(Self::cancel),
            KeyCode::Char('r') => return self.request(Self::retry),
            _ => {}
        }
        Effect::Redraw
    }

    /// Requests an action on the selected row: it runs, asks for confirmation, or shows why it is not possible.
    fn request(&mut self, action: impl Fn(&Self) -> Result<Action, &'static str>) -> Effect {
        match action(self) {
            Ok(action) if action.question().is_some() => self.overlay = Overlay::Confirm(action),
            Ok(action) => return Effect::Run(action),
            Err(reason) => self.notice = Some(reason.to_owned()),
        }
        Effect::Redraw
    }
}
