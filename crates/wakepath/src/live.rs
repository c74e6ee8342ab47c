//! The table that is shown while packets pass: drawn again in its place on a terminal, else one after the other.

use crate::cli::{Listen, Time};
use crate::outlets::Figures;
use crate::output::{self, tell};
use anyhow::{Context as _, Result};
use std::io::IsTerminal as _;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use terminal_size::{Height, Width};
use wakepath_analysis::metrics::{Metrics, MetricsOptions, Window};
use wakepath_capture::realtime_ns;
use wakepath_model::ids::CommonNs;
use wakepath_present::losses::Loss;
use wakepath_present::metrics::live::{self, Size, Status};
use wakepath_present::metrics::{CaptureView, MetricsView, Part, Seen, Wanted, prometheus};
use wakepath_present::text::{Style, WIDTH_MAX};

/// Kinds of a service in the last table.
const KINDS: usize = 20;
/// Services in it.
const SERVICES: usize = 20;

/// Figures for a view with windows of `every`, or by default of what suits standard output.
pub fn figures(every: Option<Time>) -> (Figures, Duration) {
    let by_default = if std::io::stdout().is_terminal() { 1 } else { 10 };
    let every = every.map_or(Duration::from_secs(by_default), |t| Duration::from_nanos(t.0.max(100_000_000)));
    let options = MetricsOptions { window_ns: every.as_nanos() as u64, ..MetricsOptions::default() };
    (Figures::new(Metrics::new(options)), every)
}

/// Figures that nobody takes windows of.
pub fn figures_over_all() -> Figures {
    Figures::new(Metrics::new(MetricsOptions { window_rows_max: 0, ..MetricsOptions::default() }))
}

/// Where Prometheus asks; without a host on 127.0.0.1, since the figures name what is asked of services.
pub fn listen(at: &Listen) -> Result<TcpListener> {
    let host = at.host.as_deref().unwrap_or("127.0.0.1");
    (host, at.port)
        .to_socket_addrs()
        .and_then(|a| TcpListener::bind(a.collect::<Vec<SocketAddr>>().as_slice()))
        .with_context(|| format!("--metrics {host}:{}: cannot listen there; choose another port", at.port))
}

/// Answers Prometheus until the process ends.
pub fn answer(listener: TcpListener, figures: Figures, packets: Option<Arc<AtomicU64>>) -> Result<()> {
    let address = listener.local_addr().context("the port of --metrics")?;
    tell!("metrics for Prometheus: http://{address}/metrics");
    let told = move || scraped(&figures, packets.as_ref().map(|n| n.load(Ordering::Relaxed)));
    wakepath_ui::figures::serve(listener, told).context("starting the metrics server")
}

/// What Prometheus is told.
fn scraped(figures: &Figures, packets: Option<u64>) -> String {
    let metrics = figures.lock();
    prometheus::render(&[Part { seen: Seen::Packets, metrics: &metrics, windows: &[] }], None, packets)
}

/// The last table: all that was seen.
pub fn over_all(figures: &Figures, capture: Option<CaptureView>, losses: &[Loss]) -> String {
    let mut metrics = figures.lock();
    metrics.finish();
    let wanted = Wanted { service: None, kinds: KINDS, rows: SERVICES, window_ns: None, map: false };
    let part = Part { seen: Seen::Packets, metrics: &metrics, windows: &[] };
    MetricsView::new(&[part], capture, wanted).render(losses, Style::for_stdout())
}

/// The view.
pub struct LiveView {
    figures: Figures,
    every: Duration,
    is_terminal: bool,
    begun: Instant,
    drawn: Instant,
    window: Option<Window>,
    /// Lines on the terminal that the next table takes the place of.
    lines: usize,
}

impl LiveView {
    /// Shows `figures` each `every`.
    pub fn new(figures: Figures, every: Duration) -> LiveView {
        let now = Instant::now();
        let is_terminal = std::io::stdout().is_terminal();
        LiveView { figures, every, is_terminal, begun: now, drawn: now, window: None, lines: 0 }
    }

    /// It is `now`: shows the table where that is due.
    pub fn tick(&mut self, now: Instant, packets: u64, lost: u64) -> Result<()> {
        if now.duration_since(self.drawn) < self.every {
            return Ok(());
        }
        self.drawn = now;
        let status = Status { packets, lost, running_ns: now.duration_since(self.begun).as_nanos() as u64 };
        let size = if self.is_terminal { terminal_size() } else { Size { columns: WIDTH_MAX, lines: 200 } };
        let text = {
            let mut metrics = self.figures.lock();
            metrics.tick(CommonNs(realtime_ns() as i64));
            let windows = metrics.take_windows();
            // on a terminal the last one stays until there is a newer one
            if !windows.is_empty() || !self.is_terminal {
                self.window = windows.into_iter().next_back();
            }
            live::render(&metrics, self.window.as_ref(), status, size, Style::for_stdout())
        };
        let place = self.back();
        self.lines = text.lines().count();
        output::print(format!("{place}{text}").as_bytes())
    }

    /// Ends the view; what follows stands in the place of its table.
    pub fn back(&mut self) -> String {
        match std::mem::take(&mut self.lines) {
            n if self.is_terminal && n > 0 => format!("\x1b[{n}F\x1b[J"),
            _ => String::new(),
        }
    }
}

/// The terminal's size; 80 by 24 where it does not say.
fn terminal_size() -> Size {
    match terminal_size::terminal_size_of(std::io::stdout()) {
        None | Some((Width(0), _) | (_, Height(0))) => Size { columns: 80, lines: 23 },
        // the cursor stands on a line of its own
        Some((Width(columns), Height(lines))) => Size { columns: columns.into(), lines: usize::from(lines) - 1 },
    }
}
