//! Answers that were given lately: going back in the page asks nothing twice.

use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of answers that are kept, about.
const BYTES_MAX: usize = 64 << 20;

/// Of which folder state, and which command.
type Key = (u64, Vec<String>);

/// Answers, the one used last in front.
#[derive(Default)]
pub struct Cache {
    kept: VecDeque<(Key, Arc<[u8]>)>,
    bytes: usize,
}

impl Cache {
    /// An answer that is kept.
    pub fn get(&mut self, stamp: u64, arguments: &[String]) -> Option<Arc<[u8]>> {
        let at = self.kept.iter().position(|(key, _)| key.0 == stamp && key.1 == arguments)?;
        let found = self.kept.remove(at)?;
        let answer = Arc::clone(&found.1);
        self.kept.push_front(found);
        Some(answer)
    }

    /// Keeps an answer, unless it alone takes all room. Those of folders as they were before go.
    pub fn put(&mut self, stamp: u64, arguments: &[String], answer: &Arc<[u8]>) {
        self.kept.retain(|(key, _)| key.0 == stamp && key.1 != arguments);
        self.bytes = self.kept.iter().map(|(_, a)| a.len()).sum();
        if answer.len() > BYTES_MAX {
            return;
        }
        self.kept.push_front(((stamp, arguments.to_vec()), Arc::clone(answer)));
        self.bytes += answer.len();
        while self.bytes > BYTES_MAX {
            self.bytes -= self.kept.pop_back().map_or(self.bytes, |(_, a)| a.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ones_used_last_are_kept() {
        let mut cache = Cache::default();
        let words = |n: usize| vec![n.to_string()];
        let large: Arc<[u8]> = vec![0; BYTES_MAX / 4].into();
        for n in 0..4 {
            cache.put(1, &words(n), &large);
        }
        assert!(cache.get(1, &words(0)).is_some());
        cache.put(1, &words(4), &large);
        assert!(cache.get(1, &words(0)).is_some(), "used since");
        assert!(cache.get(1, &words(1)).is_none(), "the one not used for longest");
        assert!(cache.get(2, &words(0)).is_none(), "the folders changed");
        cache.put(2, &words(0), &large);
        assert!(cache.get(1, &words(4)).is_none() && cache.bytes == large.len());
    }
}
