//! One sniffer that sends: its frames in whatever order they come, its strings, its host in the folder.

use crate::cli::IntoFolder;
use crate::outlets::{Figures, Outlets, Totals};
use anyhow::{Result, bail};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use wakepath_capture::monotonic_ns;
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{HostInfo, Options};
use wakepath_model::forward::{Bad, Frame, FrameKind, Gaps, Lost};
use wakepath_model::intern::Interner;
use wakepath_model::rows::{Event, LossRow};
use wakepath_present::losses::Loss;
use wakepath_present::sniff::SenderView;

/// How long a frame may come after those after it.
const LATE_NS: u64 = 1_000_000_000;
/// Bytes of frames that are kept until their sender says who it is: a second's, which is how often it does.
const HELD_BYTES_MAX: usize = 512 << 10;
/// A sender that says that it ended is listened to for so long, for what was overtaken.
const OVER_NS: u64 = 2 * LATE_NS;
/// A sender that says nothing for so long has ended; a sniffer speaks every second.
const SILENCE_NS: u64 = 60_000_000_000;
/// The same before it sent any row.
const NEWCOMER_SILENCE_NS: u64 = 10_000_000_000;

/// A sniffer that sends.
pub struct Sender {
    session: u64,
    gaps: Gaps,
    texts: Interner,
    host: Option<HostInfo>,
    outlets: Outlets,
    /// Rows of it go into the folder; its list of segments.
    list: Option<PathBuf>,
    from: IpAddr,
    heard_ns: u64,
    /// Frames that came before their sender said who it is.
    held: Vec<Vec<u8>>,
    held_bytes: usize,
    events: Vec<Event>,
    view: SenderView,
}

/// What is left of a sender that ended.
pub struct Closed {
    pub session: u64,
    /// Which of its frames came, in case that it comes back.
    pub gaps: Gaps,
    /// What is to be told of it.
    pub view: SenderView,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// The list of its segments, and their bytes.
    pub folder: Option<(PathBuf, u64)>,
    /// Whether the disk took all.
    pub closed: Result<()>,
}

/// Refuses an output that could not be made when the first sender comes.
pub fn check_output(into: &IntoFolder) -> Result<()> {
    match &into.output {
        Some(dir) if dir.symlink_metadata().is_ok() && !into.append && !into.force => {
            bail!("{}: exists already; choose another folder, or --append or --force", dir.display())
        }
        _ => Ok(()),
    }
}

impl Sender {
    /// A sender of which nothing is known yet, or, where it had ended and comes back, which of its frames came.
    pub fn new(session: u64, number: u16, figures: Option<Figures>, from: IpAddr, gaps: Option<Gaps>) -> Sender {
        let mut outlets = Outlets::default();
        if let Some(figures) = figures {
            outlets.figures(figures, number);
        }
        Sender {
            session,
            gaps: gaps.unwrap_or_default(),
            texts: Interner::new(),
            host: None,
            outlets,
            list: None,
            from,
            heard_ns: monotonic_ns(),
            held: Vec::new(),
            held_bytes: 0,
            events: Vec::new(),
            view: SenderView::default(),
        }
    }

    /// Its number among all senders that ever were.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// It has a place in the folder.
    pub fn has_folder(&self) -> bool {
        self.list.is_some()
    }

    /// The address that it sends from.
    pub fn from(&self) -> IpAddr {
        self.from
    }

    /// When something came of it last.
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// No row of it was taken yet: anybody may say anything.
    pub fn is_newcomer(&self) -> bool {
        self.view.frames == 0
    }

    /// It said that it ended, or has been silent for long.
    pub fn has_ended(&self, now: u64) -> bool {
        let silent = now.saturating_sub(self.heard_ns);
        let patience = match (self.view.is_over, self.is_newcomer()) {
            (true, _) => OVER_NS,
            (_, true) => NEWCOMER_SILENCE_NS,
            _ => SILENCE_NS,
        };
        silent > patience
    }

    /// It announced its end.
    pub fn is_over(&self) -> bool {
        self.view.is_over
    }

    /// Frames that wait for their sender to say who it is.
    pub fn held(&self) -> u64 {
        self.held.len() as u64
    }

    /// Bytes of it on the disk.
    pub fn kept_bytes(&mut self) -> u64 {
        self.outlets.writer().map_or(0, |w| w.kept_bytes())
    }

    /// Deletes its oldest segment, where it has more than one.
    pub fn delete_oldest(&mut self) -> Result<bool> {
        self.outlets.writer().map_or(Ok(false), |w| Ok(w.delete_oldest()?))
    }

    /// What came of it.
    pub fn totals(&self) -> &Totals {
        self.outlets.totals()
    }

    /// The number of the first frame that was not written.
    pub fn next(&self) -> u64 {
        if self.host.is_some() { self.gaps.next() } else { 0 }
    }

    /// Takes a frame; gives why it is bad, where it is. Its first rows make its place in the folder. Errors: that cannot be made.
    pub fn take(
        &mut self,
        frame: &Frame<'_>,
        bytes: &[u8],
        from: SocketAddr,
        (by, is_first): (&'static str, bool),
        into: (&Option<PathBuf>, &Options),
    ) -> Result<Option<Bad>> {
        self.view.address = from.to_string();
        (self.view.by, self.heard_ns) = (by, monotonic_ns());
        if frame.kind == FrameKind::Rows {
            if self.host.is_none() {
                // what finds no room is missed by its number, should its sender say who it is
                if self.held_bytes + bytes.len() <= HELD_BYTES_MAX {
                    self.held_bytes += bytes.len();
                    self.held.push(bytes.to_vec());
                }
                return Ok(None);
            }
            self.open_folder(into)?;
            return Ok(self.rows(frame, bytes.len()).err());
        }
        let hello = match frame.hello() {
            Ok(hello) => hello,
            Err(e) => return Ok(Some(e)),
        };
        let mut bad = None;
        if self.host.is_none() {
            (self.view.host, self.view.boot_id) = (hello.host.hostname.clone(), hello.host.boot_id.clone());
            self.host = Some(hello.host);
            for bytes in std::mem::take(&mut self.held) {
                self.open_folder(into)?;
                // it was read when it came
                let held = Frame::read(&bytes).and_then(|f| self.rows(&f, bytes.len()));
                bad = bad.or(held.err());
            }
        }
        // what a connection begins with tells of frames that are still to come on it
        if !is_first {
            self.gaps.total(frame.sequence, frame.rows_before, frame.base, monotonic_ns());
        }
        self.view.is_over |= frame.kind == FrameKind::Last;
        Ok(bad)
    }

    fn open_folder(&mut self, (dir, options): (&Option<PathBuf>, &Options)) -> Result<()> {
        if let (Some(dir), Some(host), None) = (dir, &self.host, &self.list) {
            self.outlets.write_folder(dir, host.clone(), options.clone())?;
            self.list = self.outlets.writer().map(|w| w.list_path().to_owned());
        }
        Ok(())
    }

    fn rows(&mut self, frame: &Frame<'_>, bytes: usize) -> Result<(), Bad> {
        if !self.gaps.frame(frame.sequence, frame.rows_before, frame.rows, frame.base, monotonic_ns()) {
            self.view.frames_again += 1;
            return Ok(());
        }
        self.view.frames += 1;
        self.view.bytes += bytes as u64;
        self.events.clear();
        let texts = &mut self.texts;
        if let Err(e) = frame.rows(&mut |text| texts.intern(text), &mut self.events) {
            self.lost(
                defect::FORWARD_LOST,
                Lost { rows: frame.rows, from: frame.base, at: frame.base, is_before: false },
            );
            return Err(e);
        }
        self.view.rows += self.events.len() as u64;
        self.outlets.take(&self.events, &self.texts);
        Ok(())
    }

    /// Counts as lost what was missed before `now` less the time in which it may still come.
    pub fn settle(&mut self, now: u64) {
        if self.host.is_none() && now != u64::MAX {
            return;
        }
        while let Some(lost) = self.gaps.settle(if now == u64::MAX { now } else { now.saturating_sub(LATE_NS) }) {
            let id = match (lost.is_before, self.view.by) {
                (true, _) => defect::FORWARD_BEFORE,
                // a connection loses nothing: what it does not bring the sender had no room for
                (false, "tcp") => defect::FORWARD_ROOM,
                (false, _) => defect::FORWARD_LOST,
            };
            self.lost(id, lost);
        }
    }

    fn lost(&mut self, id: &str, lost: Lost) {
        let sum = if lost.is_before { &mut self.view.rows_before } else { &mut self.view.rows_lost };
        *sum += lost.rows;
        let what = self.texts.intern(id);
        let row = LossRow { at: lost.at, from: lost.from, count: lost.rows, what, ..Default::default() };
        self.outlets.take(&[Event::Loss(row)], &self.texts);
    }

    /// Writes what waits.
    pub fn flush(&mut self) -> Result<()> {
        self.outlets.flush()
    }

    /// Ends it.
    pub fn close(mut self) -> Closed {
        let bytes = self.kept_bytes();
        if self.host.is_none() {
            // nobody said whose rows these are: with no clock and no host they are of no use
            for bytes in std::mem::take(&mut self.held) {
                self.view.rows_lost += Frame::read(&bytes).map_or(0, |f| f.rows);
            }
        }
        let losses = self.outlets.totals().losses((!self.view.host.is_empty()).then_some(&self.view.host));
        let closed = self.outlets.close(&AtomicBool::new(false)).map(drop);
        let folder = self.list.map(|list| (list, bytes));
        Closed { session: self.session, gaps: self.gaps, view: self.view, losses, folder, closed }
    }
}
