//! What is chosen on the screen, and what keys do to it.

use super::snapshot::{Flight, Kind, Snapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Lines that a page moves.
const PAGE: usize = 10;

/// One of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    InFlight,
    Kinds,
}

/// What stands on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Both lists, why, and losses.
    Lists,
    /// The keys.
    Help,
    /// What a command printed.
    Answer {
        /// The command.
        command: String,
        /// Its lines; `None` while it runs.
        lines: Option<Vec<String>>,
        /// The first line that is shown.
        first: usize,
    },
}

/// What a key asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    Quit,
    /// A command's answer; [`FOLDERS`] stands for the folders.
    Ask(Vec<String>),
}

/// Stands in a command line for the folders.
pub const FOLDERS: &str = "\0folders";

/// The state of the screen.
pub struct Top {
    /// The folders, as they were given.
    pub dirs: String,
    /// What was read last.
    pub snapshot: Option<Snapshot>,
    /// Why the last attempt to read failed.
    pub failed: Option<String>,
    /// Nothing new is shown.
    pub paused: bool,
    /// The list that keys act on.
    pub list: List,
    /// Lines with this text are shown.
    pub filter: String,
    /// What is being typed into the filter.
    pub entry: Option<String>,
    pub shown: Shown,
    /// The chosen line of each list.
    chosen: [usize; 2],
}

impl Top {
    /// Before anything was read.
    pub fn new(dirs: String) -> Top {
        Top {
            dirs,
            snapshot: None,
            failed: None,
            paused: false,
            list: List::Kinds,
            filter: String::new(),
            entry: None,
            shown: Shown::Lists,
            chosen: [0; 2],
        }
    }

    /// A reading came.
    pub fn read(&mut self, read: Result<Snapshot, String>) {
        match read {
            Ok(snapshot) => {
                let is_first = self.snapshot.is_none();
                self.snapshot = Some(snapshot);
                self.failed = None;
                // of a system that hangs, what hangs comes first
                if is_first && !self.flights().is_empty() {
                    self.list = List::InFlight;
                }
            }
            Err(why) => self.failed = Some(why),
        }
        self.hold();
    }

    /// A command's answer came.
    pub fn answered(&mut self, of: &str, text: &str) {
        if let Shown::Answer { command, lines, .. } = &mut self.shown
            && command == of
        {
            *lines = Some(text.lines().map(str::to_owned).collect());
        }
    }

    /// Requests in flight that pass the filter.
    pub fn flights(&self) -> Vec<&Flight> {
        let all = self.snapshot.as_ref().and_then(|s| s.flights.as_ref().ok()).into_iter().flatten();
        all.filter(|f| self.passes(&[&f.kind, &f.waits_for, &f.request])).collect()
    }

    /// Kinds that pass the filter.
    pub fn kinds(&self) -> Vec<&Kind> {
        let all = self.snapshot.iter().flat_map(|s| &s.kinds);
        all.filter(|k| self.passes(&[&k.name()])).collect()
    }

    fn passes(&self, texts: &[&str]) -> bool {
        let wanted = self.entry.as_ref().unwrap_or(&self.filter).to_lowercase();
        texts.iter().any(|t| t.to_lowercase().contains(&wanted))
    }

    /// The chosen line of a list.
    pub fn chosen(&self, list: List) -> usize {
        self.chosen[list as usize]
    }

    fn length(&self) -> usize {
        match self.list {
            List::InFlight => self.flights().len(),
            List::Kinds => self.kinds().len(),
        }
    }

    /// The chosen line is one of those that are there.
    fn hold(&mut self) {
        for list in [List::InFlight, List::Kinds] {
            let before = std::mem::replace(&mut self.list, list);
            let last = self.length().saturating_sub(1);
            self.chosen[list as usize] = self.chosen[list as usize].min(last);
            self.list = before;
        }
    }

    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Nothing;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Quit;
        }
        if self.entry.is_some() {
            self.typing(key.code);
            return Wish::Nothing;
        }
        match (&mut self.shown, key.code) {
            (_, KeyCode::Char('q')) => return Wish::Quit,
            (Shown::Lists, code) => return self.on_lists(code),
            (_, KeyCode::Esc | KeyCode::Backspace | KeyCode::Left) => self.shown = Shown::Lists,
            (Shown::Help, _) => self.shown = Shown::Lists,
            (Shown::Answer { lines, first, .. }, code) => {
                let last = lines.as_ref().map_or(0, |l| l.len().saturating_sub(1));
                *first = moved(*first, code).unwrap_or(*first).min(last);
            }
        }
        Wish::Nothing
    }

    fn typing(&mut self, code: KeyCode) {
        let Some(typed) = &mut self.entry else { return };
        match code {
            KeyCode::Enter => self.filter = self.entry.take().unwrap_or_default(),
            KeyCode::Esc => self.entry = None,
            KeyCode::Backspace => {
                typed.pop();
            }
            KeyCode::Char(c) => typed.push(c),
            _ => {}
        }
        self.hold();
    }

    fn on_lists(&mut self, code: KeyCode) -> Wish {
        match code {
            KeyCode::Char('?' | 'h') => self.shown = Shown::Help,
            KeyCode::Char('/') => self.entry = Some(self.filter.clone()),
            KeyCode::Esc => {
                self.filter.clear();
                self.hold();
            }
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Tab | KeyCode::BackTab | KeyCode::Left | KeyCode::Right => {
                self.list = if self.list == List::Kinds { List::InFlight } else { List::Kinds };
            }
            KeyCode::Enter => return self.ask(&["show"], &["--kind"]),
            KeyCode::Char('w') => return self.ask(&["waits", "--request"], &["--kind"]),
            KeyCode::Char('y') => return self.ask_why(),
            code => {
                let at = self.chosen(self.list);
                if let Some(to) = moved(at, code) {
                    self.chosen[self.list as usize] = to;
                    self.hold();
                }
            }
        }
        Wish::Nothing
    }

    /// Asks a command about the chosen request, or about the slowest of the chosen kind.
    fn ask(&mut self, command: &[&str], of_kind: &[&str]) -> Wish {
        let request = match self.list {
            List::InFlight => self.flights().get(self.chosen(self.list)).map(|f| (f.request.clone(), None)),
            List::Kinds => self.kinds().get(self.chosen(self.list)).map(|k| ("slowest".to_owned(), Some(k.name()))),
        };
        let Some((request, kind)) = request else { return Wish::Nothing };
        // `show DIR REQUEST`, and `waits DIR --request REQUEST`
        let mut words = vec![command[0].to_owned(), FOLDERS.to_owned()];
        words.extend(command[1..].iter().map(|w| (*w).to_owned()));
        words.push(request);
        if let Some(kind) = kind {
            words.extend(of_kind.iter().map(|w| (*w).to_owned()));
            words.push(kind);
        }
        self.asks(words)
    }

    fn ask_why(&mut self) -> Wish {
        let mut words = vec!["why".to_owned(), FOLDERS.to_owned()];
        if let (List::Kinds, Some(kind)) = (self.list, self.kinds().get(self.chosen(List::Kinds))) {
            words.extend(["--kind".to_owned(), kind.name()]);
        }
        self.asks(words)
    }

    fn asks(&mut self, words: Vec<String>) -> Wish {
        self.shown = Shown::Answer { command: self.typed(&words), lines: None, first: 0 };
        Wish::Ask(words)
    }

    /// A command as it is typed.
    pub fn typed(&self, words: &[String]) -> String {
        let word = |w: &String| if w == FOLDERS { self.dirs.clone() } else { crate::asked::typed_word(w) };
        std::iter::once("wakepath".to_owned()).chain(words.iter().map(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Where a key moves to from a line.
fn moved(at: usize, code: KeyCode) -> Option<usize> {
    Some(match code {
        KeyCode::Down | KeyCode::Char('j') => at + 1,
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::PageDown | KeyCode::Char(' ') => at + PAGE,
        KeyCode::PageUp => at.saturating_sub(PAGE),
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => usize::MAX / 2,
        _ => return None,
    })
}
