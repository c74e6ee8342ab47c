//! What analysis found, as it is shown.

use super::text::short;
use super::*;

pub(super) fn kind_view(
    name: &KindName,
    requests: u64,
    c: &Comparison,
    words: &Words<'_>,
    show: &dyn Fn(u64) -> String,
) -> KindView {
    let (slow_label, typical_label) = match words.mode {
        Mode::Slowest => (
            slowest(c.slow.found, requests, words.slowest),
            "the typical ones (the middle half by duration)".to_owned(),
        ),
        Mode::Selected => ("the selected ones".to_owned(), "the others".to_owned()),
        _ => (format!("those of {}", words.after), format!("those of {}", words.before)),
    };
    let differences: Vec<DifferenceView> =
        c.differences.iter().zip(1..).map(|(d, rank)| difference_view(d, rank, c.more_ns, show)).collect();
    let example = differences.first().and_then(|d| d.examples.first());
    let next = example.map(|e| match words.mode {
        Mode::Tasks => format!("wakepath waits {} --task {e}", words.folder),
        _ => format!("wakepath waits {} --request {}", words.folder, short(e)),
    });
    let slow = group_view(&c.slow, slow_label);
    let typical = group_view(&c.typical, typical_label);
    let mut view = KindView {
        kind: name.1.clone(),
        service: name.0.clone(),
        requests,
        sentence: String::new(),
        slow,
        typical,
        more_ns: c.more_ns,
        differences,
        rest_ns: c.rest_ns,
        calls: c.calls.iter().map(calls_view).collect(),
        usual: c.usual.as_ref().map(|d| UsualView {
            cause: d.what.cause.name(),
            text: words::text(d, d.parts.first().map(|p| &p.detail)),
            mean_ns: d.slow_ns,
        }),
        next,
    };
    view.sentence = sentence(&view, words);
    view
}

/// Those that were asked for, as a share; where so few requests have no such share, as a number.
pub(super) fn slowest(found: u64, requests: u64, asked: f64) -> String {
    let real = found as f64 / requests.max(1) as f64;
    if (real - asked).abs() / asked > 0.1 {
        return if found == 1 { "the slowest one".into() } else { format!("the slowest {}", units::count(found)) };
    }
    let text = format!("{:.2}", asked * 100.0);
    format!("the slowest {} %", text.trim_end_matches('0').trim_end_matches('.'))
}

pub(super) fn group_view(g: &Group, label: String) -> GroupView {
    GroupView {
        label,
        found: g.found,
        count: g.count(),
        is_sample: g.count() + g.left_out.incomplete + g.left_out.unanswered < g.found,
        mean_ns: g.mean_ns(),
        p50_ns: g.durations.quantile(0.5),
        max_ns: g.durations.max(),
        all_mean_ns: (g.answered.count() > 0).then(|| g.answered.mean()),
        failed: g.failed,
        abandoned: g.abandoned,
        incomplete: g.left_out.incomplete,
        unanswered: g.left_out.unanswered,
    }
}

pub(super) fn call(syscall: Option<u16>) -> Option<String> {
    syscall.map(|nr| syscalls::name(nr).map_or_else(|| format!("syscall {nr}"), str::to_owned))
}

pub(super) fn difference_view(d: &Difference, rank: u32, whole: i64, show: &dyn Fn(u64) -> String) -> DifferenceView {
    let main = d.parts.first().map(|p| &p.detail);
    DifferenceView {
        rank,
        cause: d.what.cause.name(),
        text: words::text(d, main),
        service: d.what.service.clone(),
        host: d.what.host.clone(),
        main: main.map_or_else(MainView::default, |m| MainView {
            state: Some(m.state.name()),
            syscall: call(m.syscall),
            by: m.by.clone(),
            object: m.object.clone(),
            serving: m.serving.clone(),
        }),
        more_ns: d.more_ns,
        share: if whole == 0 { 0.0 } else { d.more_ns as f64 / whole as f64 },
        slow_ns: d.slow_ns,
        typical_ns: d.typical_ns,
        requests_with: d.with,
        examples: d.examples.iter().map(|&id| show(id)).collect(),
        parts: d.parts.iter().map(part_view).collect(),
    }
}

fn calls_view(d: &CallDifference) -> CallCountView {
    CallCountView {
        service: d.to.0.clone(),
        kind: d.to.1.clone(),
        slow: d.slow,
        typical: d.typical,
        requests_with: d.with,
    }
}

pub(super) fn part_view(p: &Part) -> PartView {
    let d = &p.detail;
    PartView {
        more_ns: p.more_ns,
        state: d.state.name(),
        syscall: call(d.syscall),
        by: d.by.clone(),
        object: d.object.clone(),
        meanwhile: d.meanwhile.clone(),
        is_own_thread: d.is_own_thread,
        serving: d.serving.clone(),
        reason: d.reason,
    }
}

#[cfg(test)]
mod tests {
    use super::slowest;

    #[test]
    fn few_requests_are_counted_instead_of_given_a_share() {
        assert_eq!(slowest(3, 13, 0.01), "the slowest 3");
        assert_eq!(slowest(1, 40, 0.01), "the slowest one");
        assert_eq!(slowest(17, 1_668, 0.01), "the slowest 1 %");
        assert_eq!(slowest(3, 60, 0.05), "the slowest 5 %");
    }
}
