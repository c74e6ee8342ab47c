//! Windows: what was counted in each is put away when the next one begins.

use super::{Counts, Metrics, Network, NetworkCounts, Spread, Tally, Times};
use wakepath_model::ids::CommonNs;

/// One service or kind in one window.
#[derive(Clone, Debug)]
pub struct WindowRow {
    /// The service: a number for [`Metrics::service`].
    pub service: u32,
    /// The kind: a number for [`Metrics::kind`]; none = the service as a whole.
    pub kind: Option<u32>,
    /// Counts.
    pub counts: Counts,
    /// Service time, time to the first byte, time to the last byte: see [`Times`].
    pub times: [Spread; 3],
    /// Times of all requests until their last byte, added, ns.
    pub busy_ns: u64,
    /// Requests in service when the window ended.
    pub open: u64,
    /// What the network did, with handshake times of the server's and of the client's side; only of a service.
    pub network: Option<(NetworkCounts, [Spread; 2])>,
}

/// A window that is over.
#[derive(Clone, Debug)]
pub struct Window {
    /// Its begin.
    pub from: CommonNs,
    /// Its end.
    pub to: CommonNs,
    /// How much of it lies in the time that was watched, ns.
    pub covered_ns: u64,
    /// Services in which something happened, and their kinds.
    pub rows: Vec<WindowRow>,
}

fn window_row(service: u32, kind: Option<u32>, tally: &Tally, open: u64, network: Option<&Network>) -> WindowRow {
    let Times { head, first, last } = &tally.times;
    WindowRow {
        service,
        kind,
        counts: tally.counts.clone(),
        times: [head.into(), first.into(), last.into()],
        busy_ns: u64::try_from(last.sum()).unwrap_or(u64::MAX),
        open,
        network: network.map(|n| (n.counts, [(&n.rtt_server).into(), (&n.rtt_client).into()])),
    }
}

impl Metrics {
    /// It is `now`: windows that are over are closed, though nothing came.
    pub fn tick(&mut self, now: CommonNs) {
        if now >= self.options.from && now < self.options.to {
            self.roll(now);
        }
    }

    /// Goes on to the window of a time; whether that one is over already.
    pub(super) fn roll(&mut self, at: CommonNs) -> bool {
        self.watched(at, at);
        let index = at.0.div_euclid(self.options.window_ns as i64);
        match self.window {
            Some(now) if index > now => {
                self.close();
                self.window = Some(index);
            }
            Some(now) => return index < now,
            None => self.window = Some(index),
        }
        false
    }

    pub(super) fn close(&mut self) {
        let Some(index) = self.window else { return };
        if !self.open.is_empty() {
            self.forget_stale();
        }
        let length = self.options.window_ns as i64;
        let from = CommonNs(index.saturating_mul(length));
        let to = CommonNs(from.0.saturating_add(length));
        let (first, last) = self.span.unwrap_or((from, to));
        let covered_ns = (to.min(last).0.saturating_sub(from.max(first).0)).max(0) as u64;
        let keeps = self.options.window_rows_max > 0;
        let mut rows = Vec::new();
        for k in std::mem::take(&mut self.touched_kinds) {
            let kind = &mut self.kinds[k as usize];
            kind.is_touched = false;
            self.services[kind.service as usize].counting.merge(&kind.counting);
            if keeps {
                rows.push(window_row(kind.service, Some(k), &kind.counting, kind.open, None));
            }
            kind.closed.merge(&kind.counting);
            kind.counting.clear();
        }
        for s in std::mem::take(&mut self.touched_services) {
            let open = self.open_of(s);
            let service = &mut self.services[s as usize];
            service.is_touched = false;
            if keeps {
                rows.push(window_row(s, None, &service.counting, open, Some(&service.network)));
            }
            service.closed.merge(&service.counting);
            service.counting.clear();
            service.network_closed.merge(&service.network);
            service.network.clear();
        }
        if rows.is_empty() {
            return;
        }
        rows.sort_by_key(|r| (r.service, r.kind.map_or(0, |k| k + 1)));
        self.window_rows += rows.len();
        self.windows.push_back(Window { from, to, covered_ns, rows });
        while self.window_rows > self.options.window_rows_max && self.windows.len() > 1 {
            self.window_rows -= self.windows.pop_front().map_or(0, |w| w.rows.len());
            self.limits.windows_dropped += 1;
        }
    }

    pub(super) fn forget_stale(&mut self) {
        let now = self.span.map_or(0, |s| s.1.0);
        let (kinds, stale) = (&mut self.kinds, self.options.open_stale_ns as i64);
        self.open.retain(|_, waits| {
            let keep = now.saturating_sub(waits.told.0) < stale;
            let open = &mut kinds[waits.kind as usize].open;
            *open = open.saturating_sub(u64::from(!keep));
            keep
        });
    }

    /// Windows that were closed since they were taken last, oldest first.
    pub fn take_windows(&mut self) -> Vec<Window> {
        self.window_rows = 0;
        self.windows.drain(..).collect()
    }
}
