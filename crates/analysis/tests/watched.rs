//! Servers that are recorded keep their name where one call to them was not taken, or by whom was not seen.

use wakepath_analysis::names::Names;
use wakepath_analysis::open::{Unended, open};
use wakepath_analysis::requests::Kinds;
use wakepath_analysis::selection::Selection;
use wakepath_analysis::service_map::{ServiceMap, service_map};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{EndpointRow, Event, SeenHow, TcpState};
use wakepath_testkit::recording::{Cuts, Recording};
use wakepath_testkit::script::play;

/// What `requests`, its map, and `open` say of a recording.
fn told(recording: &Recording) -> (Kinds, ServiceMap, Unended) {
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let index = Index::open(&folder, &dirs).expect("an index");
    let names = Names::read(&folder);
    let mut kinds = Kinds::default();
    wakepath_causality::reconstruct(&folder, |r| kinds.add(&r, &names), |_, _, _, _| {});
    (kinds, service_map(&folder, &names, None, &Selection::default()), open(&folder, &index, &names))
}

/// A database takes a call and ends; the next connection to it comes to nothing, and the app answers all the same.
fn stopped(second: &str) -> Recording {
    play(&format!(
        "
task A app
task D db
flow c - A
flow d A D ports 40001 5432
flow e A - ports 40002 {second}
100 A takes r1 c
110 A asks q1 d for r1
120 D takes q1
130 D answers q1
140 A hears q1
150 A answers r1
160 D ends
200 A takes r2 c
210 A asks q2 e for r2
240 A resets e
250 A answers r2
"
    ))
    .expect("the script")
}

#[test]
fn a_server_that_took_other_calls_is_watched() {
    for (second, is_watched) in [("5432", true), ("5433", false)] {
        let mut recording = stopped(second);
        for row in &mut recording.hosts[0].rows {
            // both connections go to one address
            if let Event::Endpoint(e) = row
                && matches!(e.rport, 5432 | 5433)
            {
                e.raddr[..4].copy_from_slice(&[10, 0, 0, 1]);
            }
        }
        let (kinds, map, _) = told(&recording);
        let leaving: u64 = kinds.kinds.values().map(|k| k.leaving).sum();
        let unwatched = kinds.kinds.values().flat_map(|k| &k.tiers).filter(|(_, t)| t.unwatched).count();
        let in_map = map.services.values().filter(|s| s.unwatched).count();
        let expected = usize::from(!is_watched);
        assert_eq!((leaving as usize, unwatched, in_map), (expected, expected, expected), "{second}: {map:#?}");
        // what its caller waited for is not known to be its own time
        let place = format!("10.0.0.1:{second}");
        let tier = kinds.kinds.values().find_map(|k| k.tiers.get(&place)).expect("it was asked");
        assert!(tier.self_ns > 0, "{tier:#?}");
        assert_eq!(tier.self_unsure_ns, if is_watched { tier.self_ns } else { 0 }, "{tier:#?}");
        let service = map.services.get(&place).expect("it is on the map");
        assert_eq!(service.self_unsure_ns, u128::from(tier.self_unsure_ns), "{service:#?}");
    }
}

/// Which thread read one of the requests is not known: the server is that which the others have.
#[test]
fn who_serves_is_known_by_the_port_where_its_thread_is_not() {
    let script = "
task A python3
flow c - A ports 40001 29050
flow e - A ports 40002 29050
100 A takes r1 c
150 A answers r1
200 A takes r2 e
250 A loses client e reset
";
    let services = |is_listed: bool| {
        let mut recording = play(script).expect("the script");
        for row in &mut recording.hosts[0].rows {
            match row {
                Event::Op(o) if o.at >= MonoNs(200_000) => o.task = TaskId::UNKNOWN,
                Event::Endpoint(e) if !is_listed => e.task = TaskId::UNKNOWN,
                _ => {}
            }
        }
        let (kinds, map, _) = told(&recording);
        let services: Vec<_> = kinds.kinds.keys().map(|k| k.0.clone()).collect();
        assert_eq!(services.len(), 2, "one kind for each path: {services:?}");
        let mut named: Vec<_> = map.services.into_keys().collect();
        named.extend(services);
        named.sort();
        named.dedup();
        named
    };
    assert_eq!(services(true), ["python3:29050"]);
    // of a port that nobody is known to have, that is not made up
    assert_eq!(services(false), ["?:29050", "python3:29050"]);
}

/// A busy database has accepted a connection, and does not read what came on it.
#[test]
fn who_is_recorded_and_did_not_read_is_named() {
    let script = "
task A app
task D db
flow c - A
flow d A D ports 40001 5432
100 A takes r1 c
110 A asks q1 d for r1
900 D woken by timer since 20
";
    let sent_to = |listens: bool| {
        let mut recording = play(script).expect("the script");
        let host = &mut recording.hosts[0];
        if listens {
            let row = EndpointRow {
                at: MonoNs(1_000),
                flow: EndpointId(1 << 40),
                lport: 5432,
                family: 2,
                protocol: 6,
                netns: 1,
                how: SeenHow::Snapshot,
                state: TcpState::Listen,
                task: TaskId(2),
                ..EndpointRow::default()
            };
            host.rows.push(row.into());
        }
        host.rows.sort_by_key(Event::at);
        let (_, _, unended) = told(&recording);
        assert_eq!(unended.requests.len(), 1, "{unended:#?}");
        let r = &unended.requests[0];
        (r.where_.0.clone(), r.is_unread)
    };
    assert_eq!(sent_to(true), ("db:5432".into(), true));
    // nobody is known to listen there
    assert!(!sent_to(false).1, "{:?}", sent_to(false));
}

/// A name server has its socket since before the recording, and does not read what is sent there.
#[test]
fn who_has_a_bound_socket_and_did_not_read_is_named() {
    let script = "
task A app
task D named
flow c - A
flow d A - ports 40001 53
100 A takes r1 c
110 A asks q1 d for r1
900 D woken by timer since 20
";
    const ANY: [u8; 4] = [0; 4];
    const HERE: [u8; 4] = [127, 0, 0, 1];
    const THERE: [u8; 4] = [10, 0, 0, 7];
    let sent_to = |to: [u8; 4], bound: [u8; 4], netns: u32| {
        let mut recording = play(script).expect("the script");
        let host = &mut recording.hosts[0];
        let wide = |a: [u8; 4]| {
            let mut out = [0; 16];
            out[..4].copy_from_slice(&a);
            out
        };
        for row in &mut host.rows {
            if let Event::Endpoint(e) = row
                && e.rport == 53
            {
                (e.raddr, e.protocol) = (wide(to), 17);
            }
        }
        let row = EndpointRow {
            at: MonoNs(1_000),
            flow: EndpointId(1 << 40),
            laddr: wide(bound),
            lport: 53,
            family: 2,
            protocol: 17,
            netns,
            how: SeenHow::Snapshot,
            state: TcpState::Close,
            task: TaskId(2),
            ..EndpointRow::default()
        };
        host.rows.push(row.into());
        host.rows.sort_by_key(Event::at);
        let (_, _, unended) = told(&recording);
        assert_eq!(unended.requests.len(), 1, "{unended:#?}");
        let r = &unended.requests[0];
        r.is_unread.then(|| r.where_.0.clone())
    };
    let netns = 1;
    assert_eq!(sent_to(HERE, HERE, netns), Some("named:53".into()));
    assert_eq!(sent_to(HERE, ANY, netns), Some("named:53".into()));
    assert_eq!(sent_to(THERE, THERE, netns), Some("named:53".into()));
    // whose address it is, is not known; the socket is of another network namespace; it is bound to another address
    for (to, bound, netns) in [(THERE, ANY, netns), (HERE, HERE, netns + 1), (HERE, THERE, netns)] {
        assert_eq!(sent_to(to, bound, netns), None);
    }
}
