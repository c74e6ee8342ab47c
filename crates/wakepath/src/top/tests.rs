//! The screen on both sizes, and what keys do.

#[path = "../../tests/support/gateway.rs"]
mod gateway;

use super::snapshot::Snapshot;
use super::state::{FOLDERS, List, Shown, Top, Wish};
use super::{answer, draw, newest};
use crate::{folders, requests};
use gateway::{REQUESTS, folder, folder_with, script};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use wakepath_model::folder::Part;
use wakepath_model::rows::Event;
use wakepath_present::units;

/// Sixty requests of one kind, and one that nobody has answered.
fn hanging() -> String {
    let t = 1_000 + REQUESTS as u64 * 10_000;
    let (asked, woken) = (t + 20, t - 500);
    format!(
        "{}{t} A woken by c since {woken}\n{} A takes r99 c\n{asked} A asks q99 d for r99\n{} D takes q99\n",
        script(5_000, 0),
        t + 10,
        asked + 30
    )
}

fn read(dir: &str) -> Top {
    let mut top = Top::new("shop".into());
    top.read(Snapshot::read(&[PathBuf::from(dir)], Part::All).map_err(|e| e.to_string()));
    top
}

fn drawn(top: &Top, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("no terminal is touched");
    terminal.draw(|frame| draw::draw(top, true, frame)).expect("drawn");
    let cells = terminal.backend().buffer().content().chunks(width.into());
    cells.map(|line| line.iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned()).collect()
}

fn press(top: &mut Top, code: KeyCode) -> Wish {
    top.key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn both_sizes_show_what_the_commands_say() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = folder(dir.path(), "t", &hanging());
    let top = read(&folder);
    let wanted = requests::view(&folders::open(&[PathBuf::from(&folder)]).expect("open"));
    let kind = &wanted.kinds[0];
    for (width, height) in [(80, 24), (200, 50)] {
        let lines = drawn(&top, width, height);
        let text = lines.join("\n");
        assert!(lines[0].starts_with("wakepath top shop"), "{text}");
        assert!(lines[1].contains("No data lost"), "{text}");
        assert!(text.contains("In flight: 1 request, oldest first") && text.contains("waits for"), "{text}");
        let flight = lines.iter().find(|l| l.contains("/vote at ")).expect("it is in flight");
        assert!(flight.contains("store"), "where it is: {flight}");
        let row = lines.iter().find(|l| l.starts_with("GET /vote ")).expect("the kind");
        let figures = [units::duration(kind.p50_ns), units::duration(kind.p99_ns)];
        for figure in [&kind.rate(), &figures[0], &figures[1]] {
            assert!(row.contains(figure.as_str()), "{figure} is missing: {row}");
        }
        assert!(row.contains('█'), "{row}");
        assert!(text.contains("Why the slowest are slow") && text.contains("store:81 sleeping"), "{text}");
        assert!(lines[usize::from(height) - 1].contains("q quit"), "{text}");
    }
    // and whatever the size, it draws
    for (width, height) in [(1, 1), (20, 3), (79, 7), (400, 120)] {
        drawn(&top, width, height);
    }
}

#[test]
fn what_is_lost_is_said_and_names_are_shown_as_text() {
    let dir = tempfile::tempdir().expect("a folder");
    let script = format!("{}lost 500000 500100\n", hanging());
    let hostile = folder_with(dir.path(), "t", &script, &|row| {
        if let Event::Loss(l) = row {
            l.count = 41;
        }
    });
    let mut top = read(&hostile);
    let lines = drawn(&top, 80, 24);
    assert!(lines[1].starts_with("LOST: ") && lines[1].contains("x 41"), "{lines:#?}");
    top.answered("nothing was asked", "text");
    assert_eq!(top.shown, Shown::Lists);
    top.shown = Shown::Answer { command: "wakepath \u{1b}[2J\u{202e}".into(), lines: None, first: 0 };
    assert!(!drawn(&top, 80, 24).join("").contains(['\u{1b}', '\u{202e}']));
    top.read(Err("it is\u{1b}[2J gone".into()));
    top.shown = Shown::Lists;
    assert_eq!(drawn(&top, 80, 24)[1], "Not read again: it is?[2J gone", "and what was read is still there");
    assert!(drawn(&top, 80, 24).join("\n").contains("In flight: 1 request"));
}

#[test]
fn keys_choose_ask_filter_and_quit() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = folder(dir.path(), "t", &hanging());
    let mut top = read(&folder);
    assert_eq!(top.list, List::InFlight, "of what hangs, that comes first");
    let id = top.flights()[0].request.clone();
    let words = |words: &[&str]| Wish::Ask(words.iter().map(|w| (*w).to_owned()).collect());
    assert_eq!(press(&mut top, KeyCode::Enter), words(&["show", FOLDERS, &id]));
    // until the answer is there, that is said; then it is the command's own
    assert!(drawn(&top, 80, 24)[0].starts_with(&format!("$ wakepath show shop {id}")));
    let text = answer(&[PathBuf::from(&folder)], &["show".into(), FOLDERS.into(), id.clone()]);
    assert!(text.contains(&id) && text.contains("/vote"), "{text}");
    top.answered(&format!("wakepath show shop {id}"), &text);
    assert!(drawn(&top, 100, 24).join("\n").contains("/vote"));
    press(&mut top, KeyCode::End);
    assert!(matches!(&top.shown, Shown::Answer { first, lines: Some(l), .. } if *first + 1 == l.len()));
    press(&mut top, KeyCode::Esc);
    assert_eq!(press(&mut top, KeyCode::Char('w')), words(&["waits", FOLDERS, "--request", &id]));
    press(&mut top, KeyCode::Esc);
    assert_eq!(press(&mut top, KeyCode::Tab), Wish::Nothing);
    assert_eq!(press(&mut top, KeyCode::Enter), words(&["show", FOLDERS, "slowest", "--kind", "front:80 GET /vote"]));
    press(&mut top, KeyCode::Esc);
    assert_eq!(press(&mut top, KeyCode::Char('y')), words(&["why", FOLDERS, "--kind", "front:80 GET /vote"]));
    press(&mut top, KeyCode::Backspace);
    // a filter, while it is typed, kept, and taken back
    for c in "/nothing".chars() {
        press(&mut top, KeyCode::Char(c));
    }
    assert!(top.kinds().is_empty() && drawn(&top, 80, 24)[23].starts_with("/nothing_"));
    press(&mut top, KeyCode::Enter);
    assert_eq!(press(&mut top, KeyCode::Enter), Wish::Nothing, "nothing is chosen");
    press(&mut top, KeyCode::Esc);
    assert_eq!((top.kinds().len(), top.flights().len()), (1, 1));
    for _ in 0..3 {
        press(&mut top, KeyCode::Down);
    }
    assert_eq!(top.chosen(List::Kinds), 0, "there is but one");
    press(&mut top, KeyCode::Char('?'));
    assert!(drawn(&top, 80, 24).join("\n").contains("why the slow ones are slow"));
    press(&mut top, KeyCode::Char('x'));
    press(&mut top, KeyCode::Char('p'));
    assert!(drawn(&top, 100, 24)[0].contains("PAUSED"));
    assert_eq!(press(&mut top, KeyCode::Char('q')), Wish::Quit);
    assert_eq!(top.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Wish::Quit);
}

#[test]
fn without_a_folder_the_one_written_to_last_is_taken() {
    let dir = tempfile::tempdir().expect("a folder");
    assert!(newest(dir.path()).is_err_and(|e| e.to_string().contains("wakepath top DIR")));
    let both = ["first", "second"].map(|name| {
        let made = folder(dir.path(), &format!("{name} recording"), &script(0, 0));
        let at = dir.path().join(name);
        std::fs::rename(made, &at).expect("moved");
        at
    });
    let touch = |folder: &Path, seconds: u64| {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut below = vec![folder.join("hosts")];
        while let Some(path) = below.pop() {
            std::fs::File::open(&path).and_then(|f| f.set_modified(at)).expect("its time is set");
            below.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.path()));
        }
    };
    for (older, newer) in [(0, 1), (1, 0)] {
        touch(&both[older], 1_000_000);
        touch(&both[newer], 2_000_000);
        let found = newest(dir.path()).expect("there are two");
        assert_eq!(Some(found.as_os_str()), both[newer].file_name());
    }
}
