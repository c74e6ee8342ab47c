//! What is left of senders that ended: bounded, however many there were.

use super::sender::Closed;
use anyhow::Result;
use std::collections::VecDeque;
use std::path::PathBuf;
use wakepath_model::folder;
use wakepath_model::forward::Gaps;
use wakepath_present::losses::Loss;
use wakepath_present::sniff::SenderView;

/// Senders that are told one by one; of more, their sum is.
const VIEWS_MAX: usize = 1000;
/// Sessions of which is known what came, should they come back.
const GAPS_MAX: usize = 4096;
/// What the sum of others is called.
const OTHERS: &str = "(others)";

/// All that ended.
#[derive(Default)]
pub struct Ended {
    pub views: Vec<SenderView>,
    pub losses: Vec<Loss>,
    gaps: VecDeque<(u64, Gaps)>,
    /// Lists of segments on the disk, and their bytes.
    folders: Vec<(PathBuf, u64)>,
}

impl Ended {
    /// Takes one that ended; whether the disk took all of it.
    pub fn add(&mut self, of: Closed) -> Result<()> {
        self.folders.extend(of.folder);
        if self.gaps.len() >= GAPS_MAX {
            self.gaps.pop_front();
        }
        self.gaps.push_back((of.session, of.gaps));
        if self.views.len() < VIEWS_MAX {
            self.views.push(of.view);
            self.losses.extend(of.losses);
            return of.closed;
        }
        if self.views.len() == VIEWS_MAX {
            self.views.push(SenderView { host: OTHERS.into(), by: of.view.by, is_over: true, ..SenderView::default() });
        }
        if let Some(others) = self.views.last_mut() {
            add_view(others, &of.view);
        }
        for loss in of.losses {
            match self.losses.iter_mut().find(|l| l.id == loss.id && l.host.as_deref() == Some(OTHERS)) {
                Some(sum) => sum.count = sum.count.saturating_add(loss.count),
                None => self.losses.push(Loss { host: Some(OTHERS.into()), from_ns: None, to_ns: None, ..loss }),
            }
        }
        of.closed
    }

    /// Which frames came of a session that comes back.
    pub fn take_gaps(&mut self, session: u64) -> Option<Gaps> {
        let i = self.gaps.iter().position(|g| g.0 == session)?;
        self.gaps.remove(i).map(|g| g.1)
    }

    /// Whether a session had ended.
    pub fn knows(&self, session: u64) -> bool {
        self.gaps.iter().any(|g| g.0 == session)
    }

    /// How many folders of hosts they left.
    pub fn folder_count(&self) -> usize {
        self.folders.len()
    }

    /// Bytes on the disk: of all, and of the one that has most.
    pub fn kept_bytes(&self) -> (u64, u64) {
        (self.folders.iter().map(|f| f.1).sum(), self.folders.iter().map(|f| f.1).max().unwrap_or(0))
    }

    /// Deletes the oldest segment of the one that has most.
    pub fn delete_oldest(&mut self) -> Result<()> {
        let Some(most) = self.folders.iter_mut().max_by_key(|f| f.1) else { return Ok(()) };
        most.1 = match folder::delete_oldest(&most.0)? {
            Some(bytes) => most.1.saturating_sub(bytes),
            None => 0,
        };
        Ok(())
    }
}

fn add_view(sum: &mut SenderView, of: &SenderView) {
    for (sum, n) in [
        (&mut sum.frames, of.frames),
        (&mut sum.frames_again, of.frames_again),
        (&mut sum.bytes, of.bytes),
        (&mut sum.rows, of.rows),
        (&mut sum.rows_lost, of.rows_lost),
        (&mut sum.rows_before, of.rows_before),
    ] {
        *sum = sum.saturating_add(n);
    }
    sum.is_over &= of.is_over;
}
