//! Go: the goroutine that a thread runs.
//!
//! The version is in the section `.go.buildinfo`, stripped or not. A thread-local word leads to the goroutine (`g`), that to
//! the thread (`m`). Verified by `m.procid`, the thread's number.

mod channels;
mod table;
mod tls;
mod waits;

use crate::offsets;
use crate::program::Program;
use crate::{Point, Probing, Process, Runtime, Unread};
use table::Functions;
pub(crate) use tls::places as tls_places;
use wakepath_wire::{self as w, Runtime as Layout};

const OFFSETS: &str = include_str!("../offsets/go.csv");
/// How many of its columns are offsets, and numbers of reasons.
const COLUMNS: usize = 24;
/// Most bytes of the build's note, which names every module.
const NOTE_MAX: u64 = 16 << 20;
/// Where the thread-local word is if the program has no other: directly below the thread pointer.
const ALONE: i32 = -8;

pub(crate) fn recognise(process: &Process) -> Option<Runtime> {
    let program = &process.program;
    let version = version(&program.section(".go.buildinfo", NOTE_MAX)?)?;
    let layout = match (offsets::of::<COLUMNS>(OFFSETS, &version), thread_local(program)) {
        (None, _) => Err(Unread::Version),
        (_, None) => Err(Unread::ThreadLocal),
        (
            Some(
                [
                    g_m,
                    m_g0,
                    m_curg,
                    m_procid,
                    g_goid,
                    g_parent,
                    g_sched,
                    conn_writes,
                    chan_waiters,
                    waiter_g,
                    chan_room,
                    chan_items,
                    chan_of,
                    chan_next,
                    waiter_next,
                    waiter_item,
                    reasons @ ..,
                ],
            ),
            Some(tls),
        ) => {
            let kind = u32::from(w::RUNTIME_GO);
            Ok(Layout {
                tls,
                kind,
                g_m,
                m_g0,
                m_curg,
                m_procid,
                g_goid,
                g_parent,
                g_sched,
                conn_writes,
                chan_waiters,
                waiter_g,
                chan_room,
                chan_items,
                chan_of,
                chan_next,
                waiter_next,
                waiter_item,
                park_reasons: packed(reasons),
                ..crate::EMPTY
            })
        }
    };
    Some(Runtime { name: "Go", tasks: "goroutines", version, asked_by: "", layout })
}

/// The numbers of the reasons for which goroutines are parked, a byte each, the first lowest.
fn packed(reasons: [u32; 8]) -> u64 {
    reasons.iter().rev().fold(0, |all, &reason| all << 8 | u64::from(reason as u8))
}

/// Where goroutines are made and end. The first is called where one is made, and nowhere else.
const LIVES: [(Point, &str); 2] = [(Point::GoMakes, "runtime.gostartcallfn"), (Point::GoEnds, "runtime.goexit1")];
/// Of each, half would tell nothing.
const CLIENTS_AND_SERVERS: [&[(Point, &str)]; 7] = [
    &[(Point::GoTakes, "net/http.(*persistConn).roundTrip"), (Point::GoWrites, "net/http.(*persistConn).writeLoop")],
    &[(Point::GoServesHttp2, "net/http.(*http2serverConn).runHandler")],
    &[(Point::GoServesHttp2, "golang.org/x/net/http2.(*serverConn).runHandler")],
    &[(Point::GoServesGrpc, "google.golang.org/grpc.(*Server).handleStream")],
    &[(Point::GoAsksForMaker, "net/http.(*http2clientStream).doRequest")],
    &[(Point::GoAsksForMaker, "golang.org/x/net/http2.(*clientStream).doRequest")],
    &[
        (Point::GoPutsFrame, "google.golang.org/grpc/internal/transport.(*controlBuffer).executeAndPut"),
        (Point::GoWritesHeaders, "google.golang.org/grpc/internal/transport.(*loopyWriter).headerHandler"),
    ],
];
/// Where channels hand items over, besides places amid functions.
const CHANNELS: [(Point, &str); 3] =
    [(Point::GoGives, "runtime.send"), (Point::GoTakesUp, "runtime.recv"), (Point::GoCloses, "runtime.closechan")];

/// Each where its function first changes the stack: arguments are still in registers there.
pub(crate) fn probing(process: &Process) -> Option<Probing> {
    let program = &process.program;
    let functions = Functions::read(program)?;
    let probe = |name: &str| {
        let place = program.place(functions.find(name)?.address)?;
        Some(place + first_step(&program.bytes_at(place)?)?)
    };
    let all_of = |points: &[(Point, &str)]| {
        points.iter().map(|&(point, name)| Some((point, probe(name)?))).collect::<Option<Vec<_>>>()
    };
    let mut places = all_of(&LIVES)?;
    places.extend(CLIENTS_AND_SERVERS.iter().filter_map(|points| all_of(points)).flatten());
    // where one is missing, an item may go by unseen
    if let (Some(found), Some(rooms)) = (all_of(&CHANNELS), channels::rooms(program, &functions)) {
        places.extend(found.into_iter().chain(rooms));
    }
    // where a lock is no reason of its own, what a goroutine waits for cannot be told
    let locks_are_told = known(program).is_some_and(|numbers| numbers[COLUMNS - 1] != 0);
    if let (true, Some(ready), Some(parks)) =
        (locks_are_told, probe("runtime.ready"), waits::parks(program, &functions))
    {
        places.push((Point::GoReadies, ready));
        places.extend(parks);
    }
    Some(Probing { file: format!("/proc/{}/exe", process.tgid).into(), places })
}

/// Where a function's arguments are certain, and still in registers, after the check for room on the stack: at its `push`, which the kernel
/// carries out itself, or up to Go 1.20 at `sub N,%rsp`, through which it may have to step the program. Anything else is not that function as it
/// is known.
fn first_step(code: &[u8; 32]) -> Option<u64> {
    let at = after_check(code)?;
    let steps: [&[u8]; 3] = [&PUSH_MOV, &[0x48, 0x83, 0xec], &[0x48, 0x81, 0xec]];
    steps.iter().any(|step| code[at..].starts_with(step)).then_some(at as u64)
}

/// How functions go on after that check, from Go 1.21 on.
const PUSH_MOV: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];

/// What follows the check for room on the stack, with which functions begin: `lea -N(%rsp),%r12; cmp 0x10(%r14),%r12; jbe …`. A function
/// begins anew if there was no room.
fn after_check(code: &[u8; 32]) -> Option<usize> {
    let after_lea = match code[..4] {
        [0x4c, 0x8d, 0x64, 0x24] => 5,
        [0x4c, 0x8d, 0xa4, 0x24] => 8,
        _ => 0,
    };
    let compares: [u8; 4] = if after_lea == 0 { [0x49, 0x3b, 0x66, 0x10] } else { [0x4d, 0x3b, 0x66, 0x10] };
    if code[after_lea..after_lea + 4] != compares {
        return None;
    }
    let jump = after_lea + 4;
    match code[jump..jump + 2] {
        [0x76, _] => Some(jump + 2),
        [0x0f, 0x86] => Some(jump + 6),
        _ => None,
    }
}

/// What is known of a program's version.
fn known(program: &Program) -> Option<[u32; COLUMNS]> {
    offsets::of(OFFSETS, &version(&program.section(".go.buildinfo", NOTE_MAX)?)?)
}

/// `1.22.3`, out of the build's own note. Go 1.18 and later write it in one piece.
fn version(note: &[u8]) -> Option<String> {
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const IN_ONE_PIECE: u8 = 2;
    if !note.starts_with(MAGIC) || note.get(15)? & IN_ONE_PIECE == 0 {
        return None;
    }
    // a length of seven bits a byte: versions are shorter than 128 bytes
    let bytes = usize::from(*note.get(32)?);
    let text = note.get(33..33 + bytes).filter(|_| bytes < 128)?;
    // "go1.22.3 X:nocoverageredesign"
    std::str::from_utf8(text).ok()?.strip_prefix("go")?.split(' ').next().map(String::from)
}

/// From the thread pointer to the word of the goroutine.
fn thread_local(program: &Program) -> Option<i32> {
    let Some((bytes, align)) = program.thread_local() else { return Some(ALONE) };
    if let Some(word) = program.symbol("runtime.tlsg") {
        return i32::try_from(word as i64 - bytes.checked_next_multiple_of(align)? as i64).ok();
    }
    (bytes == 8).then_some(ALONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(flags: u8, version: &str) -> Vec<u8> {
        let mut n = b"\xff Go buildinf:".to_vec();
        n.extend([8, flags]);
        n.resize(32, 0);
        n.push(version.len() as u8);
        n.extend(version.as_bytes());
        n
    }

    #[test]
    fn the_version_stands_in_the_builds_note() {
        assert_eq!(version(&note(2, "go1.26.8")).as_deref(), Some("1.26.8"));
        assert_eq!(version(&note(2, "go1.23.4 X:aliastypeparams")).as_deref(), Some("1.23.4"));
        assert_eq!(version(&note(2, "devel +abc")), None);
        assert_eq!(version(&note(0, "go1.17")), None, "an older one points to it");
        let whole = note(2, "go1.26.8");
        for cut in 0..whole.len() {
            assert_eq!(version(&whole[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_probe_is_placed_at_the_first_step_of_a_known_beginning_alone() {
        let code = |begin: &[u8]| -> [u8; 32] { std::array::from_fn(|i| *begin.get(i).unwrap_or(&0x90)) };
        let short = [0x49, 0x3b, 0x66, 0x10, 0x76, 0x20, 0x55, 0x48, 0x89, 0xe5];
        let long = [
            0x4c, 0x8d, 0xa4, 0x24, 0x60, 0xfe, 0xff, 0xff, 0x4d, 0x3b, 0x66, 0x10, 0x0f, 0x86, 1, 2, 0, 0, 0x55, 0x48,
            0x89, 0xe5,
        ];
        // as Go 1.19 begins one with a large frame, and one with a small one
        let large = [0x49, 0x3b, 0x66, 0x10, 0x76, 0x20, 0x48, 0x81, 0xec, 0xd0, 0, 0, 0];
        let small = [0x49, 0x3b, 0x66, 0x10, 0x76, 0x20, 0x48, 0x83, 0xec, 0x50];
        assert_eq!(first_step(&code(&short)), Some(6));
        assert_eq!(first_step(&code(&long)), Some(18));
        assert_eq!((first_step(&code(&large)), first_step(&code(&small))), (Some(6), Some(6)));
        for (begin, spoilt) in [(&short[..], 4), (&short[..], 6), (&long[..], 9), (&long[..], 18), (&small[..], 8)] {
            let mut other = code(begin);
            other[spoilt] ^= 0x40;
            assert_eq!(first_step(&other), None, "byte {spoilt}");
        }
    }

    #[test]
    fn each_line_of_the_table_can_be_read() {
        for minor in 18..=27 {
            assert!(offsets::of::<COLUMNS>(OFFSETS, &format!("1.{minor}.0")).is_some(), "1.{minor}");
        }
    }
}
