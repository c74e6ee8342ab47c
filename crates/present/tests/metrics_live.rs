//! The live view fits any terminal, and says first what was lost.

use wakepath_analysis::metrics::{Metrics, MetricsOptions, Window};
use wakepath_present::metrics::live::{Size, Status, render};
use wakepath_present::text::{Style, columns};
use wakepath_testkit::sniffed::{Script, Step, common};

/// Two seconds of three services with many kinds; the second is over.
fn window() -> (Metrics, Vec<Window>) {
    let mut text = String::new();
    for flow in 1..4 {
        text += &format!("flow {flow} begin 0 10.0.0.9:4000{flow} 10.0.0.{flow}:80\n");
    }
    for i in 0..300 {
        let (at, flow) = (i * 5000, i % 3 + 1);
        let status = if i % 7 == 0 { 503 } else { 200 };
        text += &format!(
            "exchange {flow} answered {at} proto.http1 GET /a/rather/long/path/number/{} status={status} head={at} rhead={}\n",
            i % 40,
            at + 900
        );
    }
    let script = Script::read(&text);
    let mut metrics = Metrics::new(MetricsOptions { window_ns: 1_000_000_000, ..MetricsOptions::default() });
    for step in &script.steps {
        match step {
            Step::Flow(source, r) => metrics.flow(*source, common(r.at), r, &script.texts),
            Step::Exchange(source, r) => metrics.exchange(*source, common(r.at), r, &script.texts),
            Step::Lost(_) | Step::Tick(_) => {}
        }
    }
    let windows = metrics.take_windows();
    (metrics, windows)
}

#[test]
fn it_fits_every_terminal() {
    let (metrics, windows) = window();
    let window = windows.last().expect("one is over");
    let status = Status { packets: 990, lost: 10, running_ns: 2_000_000_000 };
    for columns_ in [1, 20, 40, 80, 100, 300] {
        for lines in [0, 1, 5, 24, 200] {
            for window in [None, Some(window)] {
                let size = Size { columns: columns_, lines };
                let text = render(&metrics, window, status, size, Style::default());
                assert!(text.lines().count() <= lines, "{size:?}\n{text}");
                let widest = text.lines().map(columns).max().unwrap_or(0);
                assert!(widest <= columns_.clamp(40, 100), "{size:?}: {widest}\n{text}");
            }
        }
    }
}

#[test]
fn losses_come_first_then_services_then_kinds() {
    let (metrics, windows) = window();
    let status = Status { packets: 990, lost: 10, running_ns: 2_000_000_000 };
    let size = Size { columns: 100, lines: 60 };
    let text = render(&metrics, windows.last(), status, size, Style::default());
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is missing:\n{text}"));
    let order =
        ["990 packets", "LOST 10 packets (1.0 %)", "service", "10.0.0.1:80 http1", "kind of request", "GET /a/"];
    assert!(order.windows(2).all(|w| at(w[0]) < at(w[1])), "{text}");
    assert!(text.contains("22:13:20 to 22:13:21 UTC"), "{text}");
    assert!(!text.contains('\x1b'));
    let coloured = render(&metrics, windows.last(), status, size, Style { colour: true, ..Style::default() });
    assert!(coloured.contains("\x1b[31mLOST"), "{coloured}");
}
