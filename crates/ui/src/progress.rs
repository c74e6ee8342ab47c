//! How far answers are that are being made.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// What is read for an answer: a counter of bytes, where it stood at the beginning, and how many it will count.
struct Pass {
    read: Arc<AtomicU64>,
    before: u64,
    bytes: u64,
}

/// How far an answer is.
#[derive(Default)]
pub struct Progress(Mutex<Option<Pass>>);

impl Progress {
    /// From here on `read` counts what is read, of `bytes` in all, about. What was followed before is over.
    pub fn follow(&self, read: Arc<AtomicU64>, bytes: u64) {
        let before = read.load(Relaxed);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Pass { read, before, bytes });
    }

    /// The share that was read, 0 to 1; `None` where it is not known how much there is.
    pub fn share(&self) -> Option<f64> {
        let pass = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pass = pass.as_ref().filter(|p| p.bytes > 0)?;
        let read = pass.read.load(Relaxed).saturating_sub(pass.before);
        Some((read as f64 / pass.bytes as f64).min(1.0))
    }
}

/// The answers that are being made, by the question.
#[derive(Default)]
pub struct Made(Mutex<Vec<(String, Arc<Progress>)>>);

impl Made {
    /// Adds one, until what is given back is dropped.
    pub fn begin(self: &Arc<Made>, question: String) -> Making {
        let progress = Arc::new(Progress::default());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((question, Arc::clone(&progress)));
        Making { all: Arc::clone(self), progress }
    }

    /// The question and share of each of which that is known.
    pub fn shares(&self) -> Vec<(String, f64)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(|(question, progress)| Some((question.clone(), progress.share()?))).collect()
    }
}

/// An answer that is being made.
pub struct Making {
    all: Arc<Made>,
    /// How far it is.
    pub progress: Arc<Progress>,
}

impl Drop for Making {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, progress)| !Arc::ptr_eq(progress, &self.progress));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_what_was_read_since() {
        let made = Arc::new(Made::default());
        let making = made.begin("/api/each".into());
        assert!(made.shares().is_empty(), "it is not known how much there is");
        let read = Arc::new(AtomicU64::new(100));
        making.progress.follow(Arc::clone(&read), 400);
        read.store(200, Relaxed);
        assert_eq!(made.shares(), [("/api/each".to_owned(), 0.25)]);
        read.store(9000, Relaxed);
        assert_eq!(making.progress.share(), Some(1.0), "how much there is was an estimate");
        drop(making);
        assert!(made.shares().is_empty());
    }
}
