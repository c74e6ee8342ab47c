//! One sniffer that sends: its frames in whatever order they come, its strings, its host in the folder.

use crate::cli::IntoFolder;
use crate::outlets::{Figures, Outlets, Totals};
use anyhow::{Result, bail};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use wakepath_capture::monotonic_ns;
use wakepath_model::defects::id as defect;
use wakepath_model::folder::HostInfo;
use wakepath_model::forward::{Bad, Frame, FrameKind, Gaps, Lost};
use wakepath_model::intern::Interner;
use wakepath_model::rows::{Event, LossRow};
use wakepath_present::losses::Loss;
use wakepath_present::sniff::SenderView;

/// How long a frame may come after those behind it.
const LATE_NS: u64 = 1_000_000_000;
/// Bytes of frames that are kept until their sender says who it is.
const HELD_BYTES_MAX: usize = 4 << 20;

/// A sniffer that sends.
pub struct Sender {
    session: u64,
    gaps: Gaps,
    texts: Interner,
    host: Option<HostInfo>,
    outlets: Outlets,
    has_folder: bool,
    /// Frames that came before their sender said who it is.
    held: Vec<Vec<u8>>,
    held_bytes: usize,
    events: Vec<Event>,
    view: SenderView,
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
    /// A sender of which nothing is known yet.
    pub fn new(session: u64, number: u16, figures: Option<Figures>) -> Sender {
        let mut outlets = Outlets::default();
        if let Some(figures) = figures {
            outlets.figures(figures, number);
        }
        Sender {
            session,
            gaps: Gaps::default(),
            texts: Interner::new(),
            host: None,
            outlets,
            has_folder: false,
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
        self.has_folder
    }

    /// What came of it.
    pub fn totals(&self) -> &Totals {
        self.outlets.totals()
    }

    /// The number of the first frame that was not written.
    pub fn next(&self) -> u64 {
        if self.host.is_some() { self.gaps.next() } else { 0 }
    }

    /// Takes a frame; gives why it is bad, where it is. Errors: the folder cannot be made.
    pub fn take(
        &mut self,
        frame: &Frame<'_>,
        bytes: &[u8],
        from: SocketAddr,
        (by, is_first): (&'static str, bool),
        into: &IntoFolder,
        append: bool,
    ) -> Result<Option<Bad>> {
        self.view.address = from.to_string();
        self.view.by = by;
        if frame.kind == FrameKind::Rows {
            if self.host.is_none() && self.held_bytes + bytes.len() <= HELD_BYTES_MAX {
                self.held_bytes += bytes.len();
                self.held.push(bytes.to_vec());
                return Ok(None);
            }
            return Ok(self.rows(frame, bytes.len()).err());
        }
        let hello = match frame.hello() {
            Ok(hello) => hello,
            Err(e) => return Ok(Some(e)),
        };
        let mut bad = None;
        if self.host.is_none() {
            self.outlets.write_folder(into, hello.host.clone(), append)?;
            self.has_folder = into.output.is_some();
            (self.view.host, self.view.boot_id) = (hello.host.hostname.clone(), hello.host.boot_id.clone());
            self.host = Some(hello.host);
            for bytes in std::mem::take(&mut self.held) {
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
        let row = LossRow { at: lost.at, from: lost.from, count: lost.rows, what, pad: 0 };
        self.outlets.take(&[Event::Loss(row)], &self.texts);
    }

    /// Writes what waits.
    pub fn flush(&mut self) -> Result<()> {
        self.outlets.flush()
    }

    /// Ends it: what is to be told of it, what was lost, and whether the disk took all.
    pub fn close(mut self) -> (SenderView, Vec<Loss>, Result<()>) {
        if self.host.is_none() {
            // nobody said whose rows these are: with no clock and no host they are of no use
            for bytes in std::mem::take(&mut self.held) {
                self.view.rows_lost += Frame::read(&bytes).map_or(0, |f| f.rows);
            }
        }
        let losses = self.outlets.totals().losses((!self.view.host.is_empty()).then_some(&self.view.host));
        let closed = self.outlets.close(&AtomicBool::new(false)).map(drop);
        (self.view, losses, closed)
    }
}
