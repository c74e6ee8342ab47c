//! What handshakes tell of the way between two hosts, and of connections that found no room.

use std::path::PathBuf;
use wakepath_forecast::derive::links::{Connect, Links, SYN_RETRY_NS, Way};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{EndpointId, HostId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{self, Event, LimitKind, LimitRow, OpKind, SeenHow};
use wakepath_testkit::recording::{Announced, Cuts, HostRows};

const HOST: HostId = HostId(0);
const THERE_NS: u64 = 3_000_000;
const BACK_NS: u64 = 5_000_000;

/// A connection: what was added to its SYN's way, and to the client's last packet of the handshake.
struct Made {
    number: u64,
    at: u64,
    before_ns: u64,
    behind_ns: u64,
    /// The client's call was recorded.
    is_called: bool,
}

fn client(number: u64) -> EndpointId {
    EndpointId(100 + 2 * number)
}

fn server(number: u64) -> EndpointId {
    EndpointId(101 + 2 * number)
}

fn connect(h: &mut HostRows, made: &Made) {
    let (a, b) = (([10, 0, 0, 1], 5000 + made.number as u16), ([10, 0, 0, 2], 80));
    let end = |flow: EndpointId, local, remote, netns, how, side| Announced {
        flow: flow.0,
        local,
        remote,
        netns,
        snd: 1 << 32,
        rcv: 1 << 32,
        task: 1,
        how,
        side,
    };
    let connected = made.at + made.before_ns + THERE_NS + BACK_NS;
    h.endpoint(connected, &end(client(made.number), a, b, 1, SeenHow::Connected, rows::Side::Client));
    h.endpoint(
        connected + THERE_NS + made.behind_ns,
        &end(server(made.number), b, a, 2, SeenHow::Accepted, rows::Side::Server),
    );
    if made.is_called {
        h.op(made.at, connected + 50_000, 1, client(made.number).0, OpKind::Connect, 0);
    }
}

fn read<T>(all: &[Made], ask: impl Fn(&Links, &Index) -> T) -> Result<T, Box<dyn std::error::Error>> {
    read_with(all, &[], ask)
}

fn read_with<T>(
    all: &[Made],
    said: &[LimitRow],
    ask: impl Fn(&Links, &Index) -> T,
) -> Result<T, Box<dyn std::error::Error>> {
    let mut h = HostRows::new("one", 77);
    h.task(1, 1, 1, 0, "client");
    all.iter().for_each(|m| connect(&mut h, m));
    h.rows.extend(said.iter().map(|row| Event::Limit(*row)));
    let dir = tempfile::tempdir()?;
    let path: PathBuf = dir.path().join("trace");
    h.write(&path, Cuts::default())?;
    let dirs = [path];
    let folder = Folder::open(&dirs)?;
    let index = Index::open(&folder, &dirs)?;
    Ok(ask(&Links::read(&folder, &index), &index))
}

fn way(links: &Links, index: &Index, number: u64) -> Option<Way> {
    links.way(index, (HOST, client(number)), (HOST, server(number)))
}

fn made(number: u64) -> Made {
    Made { number, at: 1_000_000_000 * (number + 1), before_ns: 0, behind_ns: 0, is_called: true }
}

#[test]
fn the_least_of_all_handshakes_is_the_way() -> Result<(), Box<dyn std::error::Error>> {
    let all = [
        Made { before_ns: 40_000_000, ..made(0) },
        Made { behind_ns: 9_000_000, ..made(1) },
        Made { before_ns: SYN_RETRY_NS, behind_ns: 1_000, ..made(2) },
    ];
    let found = read(&all, |l, i| [way(l, i, 0), way(l, i, 1), way(l, i, 2)])?;
    assert_eq!(found, [Some(Way { there_ns: THERE_NS, back_ns: BACK_NS }); 3]);
    Ok(())
}

/// The first packet between two hosts waits until their hardware addresses are known.
#[test]
fn one_handshake_alone_is_not_believed_beyond_twice_one_way() -> Result<(), Box<dyn std::error::Error>> {
    let found = read(&[Made { before_ns: 40_000_000, ..made(0) }], |l, i| way(l, i, 0))?;
    assert_eq!(found, Some(Way { there_ns: THERE_NS, back_ns: THERE_NS }));
    let found = read(&[Made { is_called: false, ..made(0) }], |l, i| way(l, i, 0))?;
    assert_eq!(found, Some(Way { there_ns: THERE_NS, back_ns: THERE_NS }));
    assert_eq!(read(&[], |l, i| way(l, i, 0))?, None);
    Ok(())
}

#[test]
fn who_found_no_room_asked_again() -> Result<(), Box<dyn std::error::Error>> {
    let all = [made(0), Made { before_ns: SYN_RETRY_NS, ..made(1) }, Made { before_ns: 3 * SYN_RETRY_NS, ..made(2) }];
    let ask = |l: &Links, _: &Index| [0, 1, 2, 3].map(|n| l.connect((HOST, client(n))));
    let [at_once, once, later, unknown] = read(&all, ask)?;
    let took = |c: Option<Connect>| c.map(|c| (c.took_ns, c.retries));
    assert_eq!(took(at_once), Some((THERE_NS + BACK_NS, 0)));
    assert_eq!(took(once), Some((SYN_RETRY_NS + THERE_NS + BACK_NS, 1)));
    // after 1 s, and after twice as long
    assert_eq!(later.map(|c| c.retries), Some(2));
    assert_eq!(unknown, None);
    assert_eq!(read(&all, |l, _| (l.retried(), l.syn_linear()))?, ((2, 3), 0));
    Ok(())
}

#[test]
fn what_the_host_says_of_its_retries_holds() -> Result<(), Box<dyn std::error::Error>> {
    let three = [Made { before_ns: 3 * SYN_RETRY_NS, ..made(0) }];
    let row = |kind, value| LimitRow {
        at: MonoNs(5),
        flow: EndpointId(0),
        value,
        beside: 0,
        task: TaskId::UNKNOWN,
        cgroup: StrId::EMPTY,
        port: 0,
        kind,
        ..Default::default()
    };
    for (value, retries) in [(0, 2), (1, 2), (2, 3), (4, 3)] {
        let said = [row(LimitKind::Processors, 9), row(LimitKind::SynLinear, value)];
        let ask = |l: &Links, _: &Index| (l.connect((HOST, client(0))).map(|c| c.retries), l.syn_linear());
        assert_eq!(read_with(&three, &said, ask)?, (Some(retries), value as u8));
    }
    Ok(())
}
