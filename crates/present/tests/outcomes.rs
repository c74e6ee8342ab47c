//! A reply that nobody could read is no success: `requests` and the tables say that its outcome is not known.

mod support;

use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::path::Path;
use support::{requests, told};
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::Kinds;
use wakepath_model::folder::Folder;
use wakepath_model::rows::Event;
use wakepath_present::parquet::write_derived;
use wakepath_present::requests::{OrphanView, RequestsView};
use wakepath_present::text::Style;
use wakepath_present::triage::{Part, Parts, Section, TriageView};
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

/// Two encrypted requests of a web service, the second of which meets an error of its database; one in plain text.
const SCRIPT: &str = "
task A app
task D db
flow c - A opaque
flow p - A
flow d A D
100 A takes r1 c
150 A answers r1
200 A takes r2 c
210 A asks q2 d for r2
220 D takes q2
230 D answers q2 500
240 A hears q2
250 A answers r2
300 A takes r3 p
350 A answers r3
";

fn recorded(dir: &Path) -> Folder {
    let dirs = play(SCRIPT).expect("the script").write(&dir.join("t"), Cuts::default()).expect("written");
    Folder::open(&dirs).expect("opened")
}

#[test]
fn requests_count_unreadable_replies_as_of_unknown_outcome() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = recorded(dir.path());
    let names = Names::read(&folder);
    let mut kinds = Kinds::default();
    let report = wakepath_causality::reconstruct(&folder, |r| kinds.add(&r, &names), |_, _, _, _| {});
    let view = RequestsView::new(&kinds, &report, &[(0, 1_000_000)]);
    let counts: Vec<(u64, u64, u64)> = view.kinds.iter().map(|k| (k.count, k.failed, k.outcome_unknown)).collect();
    assert_eq!(counts, [(2, 0, 2), (1, 0, 0)]);
    let errors: Vec<(u64, u64, u64)> =
        view.call_errors.iter().map(|e| (e.count, e.hidden, e.outcome_unknown)).collect();
    assert_eq!(errors, [(1, 0, 1)], "nobody knows whether the application hid it");
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("2 replies say neither success nor error, or could not be read"), "{text}");
}

/// Two messages of an unknown protocol, and a third before the end: a farewell like MQTT's DISCONNECT, or a request.
#[test]
fn what_an_unknown_protocol_leaves_without_a_reply_is_no_error() {
    const SCRIPT: &str = "
task A app
flow c - A opaque
flow p - A
100 A takes r1 c
150 A answers r1
200 A takes r2 c
250 A closes c
300 A takes r3 p
350 A closes p
";
    let view = requests(SCRIPT);
    let counts: Vec<_> = view.kinds.iter().map(|k| (k.count, k.cut, k.unreplied, k.outcome_unknown)).collect();
    assert_eq!(counts, [(2, 0, 1, 1), (1, 1, 0, 0)]);
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("1 request of no known protocol got no"), "{text}");
}

/// A service gives one call up, has another's connection reset under it, and tells its client nothing of either.
#[test]
fn calls_without_a_complete_answer_are_errors() {
    const SCRIPT: &str = "
task A app
task D db
flow p - A
flow d A D
flow e A D
100 A takes r1 p
110 A asks q1 d for r1
120 D takes q1
150 A closes d
160 A asks q2 e for r1
170 D takes q2
180 D resets e
190 A closes e
200 A answers r1
";
    let view = requests(SCRIPT);
    let mut errors: Vec<(&str, u64, u64)> =
        view.call_errors.iter().map(|e| (e.error.as_str(), e.count, e.hidden)).collect();
    errors.sort_unstable();
    assert_eq!(errors, [("connection reset", 1, 1), ("no complete answer", 1, 1)]);
}

/// A client that closes without reading what was answered (Celery's subscription to a result that nobody asks for).
#[test]
fn an_answer_that_nobody_read_is_not_called_missing() {
    const SCRIPT: &str = "
task A app
task D db
flow p - A
flow d A D
100 A takes r1 p
110 A asks q1 d for r1
120 D takes q1
130 D answers q1
150 A closes d
200 A answers r1
";
    let view = requests(SCRIPT);
    let errors: Vec<_> = view.call_errors.iter().map(|e| (e.error.as_str(), e.count)).collect();
    assert_eq!(errors, [("answer not read", 1)]);
}

#[test]
fn tables_leave_the_outcome_of_unreadable_replies_empty() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = recorded(dir.path());
    let tables = dir.path().join("tables");
    std::fs::create_dir(&tables).expect("made");
    write_derived(&folder, &tables, |_| ()).expect("written");
    for (table, expected) in
        [("requests", ["false", "null", "null"].as_slice()), ("spans", &["false", "null", "null", "true"])]
    {
        let file = File::open(tables.join(format!("{table}.parquet"))).expect("there");
        let rows = SerializedFileReader::new(file).expect("a table");
        let mut failed: Vec<String> = rows
            .get_row_iter(None)
            .expect("rows")
            .filter_map(|row| row.ok()?.get_column_iter().find(|(n, _)| *n == "failed").map(|(_, v)| v.to_string()))
            .collect();
        failed.sort();
        assert_eq!(failed, expected, "{table}");
    }
}

/// A loop holds two requests, and makes a call for one of them: nothing says which.
#[test]
fn own_time_that_may_be_a_calls_is_an_upper_bound() {
    let script = "
task A app
task D db
flow c - A
flow e - A
flow d A D
100 A takes r1 c
110 A takes r2 e
120 A asks q1 d for r1
130 D takes q1
800 D answers q1
810 A hears q1
820 A answers r1
830 A answers r2
";
    let view = requests(script);
    let tier = &view.kinds[0].tiers[0];
    assert!(tier.self_ns > 0 && tier.self_unsure_ns == tier.self_ns, "{} of {}", tier.self_unsure_ns, tier.self_ns);
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("  ≤ 7") && text.contains("≤: some calls could not be assigned"), "{text}");
}

#[test]
fn shares_of_more_than_the_whole_are_explained() {
    const HEAD: &str = "task A app\ntask D db\ntask E db of D\nflow c - A\nflow d A D\nflow e A D\n100 A takes r1 c\n";
    let says = |calls: &str| {
        let text = requests(&format!("{HEAD}{calls}")).render(0, &[], Style::default());
        text.contains("The shares add up to more than 100 %")
    };
    assert!(says(
        "101 A asks q1 d for r1\n102 A asks q2 e for r1\n103 D takes q1\n104 E takes q2\n160 D answers q1\n161 E answers q2\n\
         170 A hears q1\n171 A hears q2\n172 A answers r1\n"
    ));
    assert!(!says(
        "101 A asks q1 d for r1\n103 D takes q1\n160 D answers q1\n170 A hears q1\n172 A asks q2 e for r1\n174 E takes q2\n\
         190 E answers q2\n200 A hears q2\n201 A answers r1\n"
    ));
}

#[test]
fn what_a_call_takes_behind_the_reply_is_told_apart() {
    const HEAD: &str =
        "task A app\ntask D db\nflow c - A\nflow d A D\n100 A takes r1 c\n101 A asks q1 d for r1\n103 D takes q1\n";
    let text_and_after = |rest: &str| {
        let view = requests(&format!("{HEAD}{rest}"));
        let after: Vec<u64> = view.kinds[0].tiers.iter().map(|t| t.after_ns / 1000).collect();
        (view.render(0, &[], Style::default()), after)
    };
    // it replied after 72 µs, and the call went on for 1.8 ms
    let (text, after) = text_and_after("172 A answers r1\n1960 D answers q1\n1970 A hears q1\n");
    assert_eq!(after, [0, 1798], "{text}");
    assert!(text.contains("went on for 1.80 ms after the reply to their request"), "{text}");
    assert!(!text.contains("under way at once"), "{text}");
    let (text, after) = text_and_after("160 D answers q1\n170 A hears q1\n172 A answers r1\n");
    assert!(after == [0, 0] && !text.contains("after the reply to their"), "{after:?} {text}");
}

#[test]
fn requests_that_were_seen_and_left_out_are_not_called_none() {
    let mut view = requests("task A app\n");
    assert!(view.render(0, &[], Style::default()).contains("No requests. Was there traffic"));
    view.messages = 400;
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("400 messages were seen and left out") && !text.contains("No requests"), "{text}");
    view.orphans.push(OrphanView { service: "db:5432".into(), count: 7, why: vec![("a reason".into(), 7)] });
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("7 messages were seen and left out") && text.contains("7 × a reason"), "{text}");
}

/// What `requests` says of a script whose requests are of one kind, which a script names one by one.
fn alike(script: &str) -> RequestsView {
    let mut recording = play(script).expect("the script");
    for host in &mut recording.hosts {
        let target = host.text("/vote");
        for row in &mut host.rows {
            if let Event::Message(m) = row {
                m.target = target;
            }
        }
    }
    told(recording)
}

/// Three requests, the last of which the recording's end cuts off.
const CUT_OFF: &str = "
task A app
flow c - A
100 A takes r1 c
200 A answers r1
300 A takes r2 c
450 A answers r2
500 A takes r3 c
600 A woken by timer since 510
";

#[test]
fn what_the_end_of_the_recording_cuts_off_has_no_duration_and_no_complete_path() {
    let view = alike(CUT_OFF);
    let kind = &view.kinds[0];
    assert_eq!((kind.count, kind.unfinished, kind.incomplete, kind.cut_off), (3, 1, 1, 1));
    assert!(kind.max_ns < 200_000, "the longest known takes 150 µs: {}", kind.max_ns);
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("Paths: 2 of 3 complete (1 lacks only what came after the recording ended)"), "{text}");
    assert!(view.is_complete(), "nothing is missing that was to be had");
}

/// A hundred requests in a tenth of a second, amid a recording of a minute.
#[test]
fn a_rate_is_over_the_time_in_which_requests_came() {
    let mut script = "task A app\nflow c - A\n".to_owned();
    for n in 0..100u32 {
        let at = 1_000 + n * 1_000;
        script += &format!("{at} A takes r{n} c\n{} A answers r{n}\n", at + 500);
    }
    let view = alike(&script);
    let rate = view.kinds[0].rate_per_s.expect("a rate");
    assert!((900.0..1_100.0).contains(&rate), "{rate}");
    let text = view.render(0, &[], Style::default());
    assert!(text.lines().any(|l| l.contains("1.01 k/s") && l.contains("99.5 ms")), "{text}");
}

/// Every one is answered with 404: that is no service without errors.
#[test]
fn refused_requests_are_among_the_errors() {
    let view = alike(
        "task A app\nflow c - A\n100 A takes r1 c\n150 A answers r1 404\n200 A takes r2 c\n250 A answers r2 404\n",
    );
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("all 2 refused (404 × 2)") && !text.contains("none seen"), "{text}");
    assert!(view.kinds[0].failed_example.is_some());
}

/// The same statement, again and again for one request.
#[test]
fn a_call_that_is_repeated_for_each_request_is_a_finding() {
    let mut script = "task A app\ntask D db\nflow c - A\nflow d A D\n100 A takes r1 c\n".to_owned();
    for n in 0..20u32 {
        let at = 110 + n * 40;
        script += &format!(
            "{at} A asks q{n} d for r1\n{} D takes q{n}\n{} D answers q{n}\n{} A hears q{n}\n",
            at + 5,
            at + 25,
            at + 30
        );
    }
    script += "1000 A answers r1\n";
    let view = alike(&script);
    let told = view.kinds[0].repeated().expect("it is repeated");
    assert!(told.contains("makes 20 calls of") && told.contains("at db:"), "{told}");
}

/// What triage says is slow of these requests.
fn slow(requests: RequestsView) -> String {
    let none = || "it is not asked here".to_owned();
    let parts = Parts {
        requests: Part::Answer(requests),
        why: Part::None(none()),
        open: Part::None(none()),
        forecast: Part::None(none()),
        info: Part::None(none()),
        losses: Vec::new(),
    };
    let findings = TriageView::new("t", &parts).findings;
    findings.into_iter().find(|f| f.section == Section::Slow).map(|f| f.sentence).expect("a sentence")
}

/// Of who left before the reply it is known how long that took, and no answer.
#[test]
fn requests_that_were_never_answered_are_not_called_answered() {
    assert!(slow(alike(CUT_OFF)).starts_with("100 % of the answered requests' time is "));
    let told = slow(alike(&CUT_OFF.replace("450 A answers r2", "400 A loses client c reset\n450 A fails c")));
    assert!(told.starts_with("100 % of the time of requests that ended is "), "{told}");
    assert!(told.contains("(1 without a complete reply)"), "{told}");
}

/// Waiting for clients that hardly lasts is not told.
#[test]
fn clients_that_hardly_read_slowly_are_not_said_to() {
    let mut view = alike(CUT_OFF);
    for (unread_ns, is_told) in [(400, false), (view.kinds[0].mean_ns / 2, true), (2_000_000, true)] {
        view.kinds[0].tiers[0].unread_ns = unread_ns;
        let text = view.render(0, &[], Style::default());
        assert_eq!(text.contains("for clients that read slowly"), is_told, "{text}");
    }
}
