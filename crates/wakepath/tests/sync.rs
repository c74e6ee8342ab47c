//! `wakepath sync` as scripts and people meet it.

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use support::{Tested, check, host, run, stderr, stdout, widest, write_small};
use wakepath_model::folder::{Folder, FolderWriter, Options, Overwrite};
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::{AnchorRow, PacketContext, PacketRow};
use wakepath_testkit::data;

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

/// Hosts that exchange packets, 40 µs on the way: each with what its clock is ahead (ns) and its partner.
fn write_hosts(dir: &Path, hosts: &[(&str, u64)], pairs: &[(usize, usize)]) -> Tested {
    write_hosts_with(dir, hosts, pairs, 0)
}

/// The same; with `early_ns`, one packet of the first pair is taken for one that came so long before it was sent.
fn write_hosts_with(dir: &Path, hosts: &[(&str, u64)], pairs: &[(usize, usize)], early_ns: u64) -> Tested {
    for (index, (name, ahead)) in hosts.iter().enumerate() {
        let options = Options { overwrite: Overwrite::Append, ..Options::default() };
        let mut w = FolderWriter::create(dir, host(name, &format!("boot-of-{name}")), options)?;
        let mut rows = Vec::new();
        for (number, pair) in pairs.iter().enumerate() {
            if index != pair.0 && index != pair.1 {
                continue;
            }
            for i in 0..500u64 {
                let forth = i % 2 == 0;
                let sent = (index == pair.0) == forth;
                let mut t = 1_000_000_000 + i * 1_000_000 + if sent { 0 } else { 40_000 + i * 7 % 5_000 };
                if (number, i, sent) == (0, 250, false) {
                    t -= early_ns;
                }
                rows.push((t + ahead, (number as u64) << 32 | i, sent));
            }
        }
        rows.sort_unstable();
        w.push(&AnchorRow {
            at: MonoNs(ahead + 500),
            real_ns: 1_700_000_000_000_000_000,
            error_ns: 50,
            ..Default::default()
        });
        for (id, (at, key, sent)) in rows.into_iter().enumerate() {
            w.push(&PacketRow {
                at: MonoNs(at),
                id: id as u64 + 1,
                key: key.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                trigger: 0,
                flow: 1,
                saddr: [0; 16],
                daddr: [0; 16],
                seq: 0,
                ack: 0,
                payload: 0,
                task: TaskId(0),
                sport: 1,
                dport: 2,
                cpu: 0,
                flags: 16,
                sent: u8::from(sent),
                context: PacketContext::Task,
                protocol: 6,
                ip: 4,
                ..Default::default()
            });
        }
        w.close()?;
    }
    Ok(())
}

#[test]
fn clocks_are_put_on_one_line_and_kept() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    write_hosts(&folder, &[("web", 0), ("app", 5_000_000_000), ("db", 86_400_000_000_000)], &[(0, 1), (1, 2)])?;

    let trial = run(&["sync", "--dry-run", path(&folder)]);
    let text = stdout(&trial);
    assert_eq!(trial.status.code(), Some(0), "{}", stderr(&trial));
    assert!(widest(&text) <= 100, "{text}");
    for part in ["3 of 3 hosts synchronized", "0 inversions", "composed: db – app – web", "A trial", "Spanning tree"]
    {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert!(!folder.join("sync.json").exists());

    let output = run(&["sync", "--json", "--strict", "--reference", "db", path(&folder)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document = check("sync", &stdout(&output));
    assert_eq!((&document["complete"], &document["inversions"]), (&true.into(), &0.into()));
    assert_eq!(document["groups"][0]["reference"], "db");
    let pair = document["pairs"].as_array().and_then(|p| p.iter().find(|p| p["a"] == "app" && p["b"] == "web"));
    let pair = pair.ok_or("no such pair")?;
    assert_eq!((&pair["messages_there"], &pair["messages_back"]), (&250.into(), &250.into()));
    let offset = &pair["pieces"][0]["offset_begin_ns"];
    let bounds = (offset["min"].as_i64(), offset["value"].as_i64(), offset["max"].as_i64());
    let (Some(min), Some(value), Some(max)) = bounds else { return Err("not bounded".into()) };
    assert!(min <= -5_000_000_000 && -5_000_000_000 <= max && (value + 5_000_000_000).abs() < 20_000, "{offset}");

    let mode = std::fs::metadata(folder.join("sync.json"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let opened = Folder::open(&[&folder])?;
    let line = opened.timeline();
    let at = |name: &str, ns: u64| {
        let host = opened.hosts().iter().find(|h| h.info().hostname == name).map(|h| h.id());
        host.map(|h| line.common(h, MonoNs(ns)).0)
    };
    let (Some(web), Some(db)) = (at("web", 1_200_000_000), at("db", 86_401_200_000_000)) else {
        return Err("a host is missing".into());
    };
    assert!(web.abs_diff(db) < 20_000, "{web} {db}");
    let ids: Vec<_> = opened.hosts().iter().map(|h| h.id()).collect();
    assert!(line.uncertainty_ns(ids[0], ids[2]).is_some_and(|u| u > 0 && u < 1_000_000));

    // what is damaged is counted, and the wall clocks stand for it
    std::fs::write(folder.join("sync.json"), b"{\"format\": \"wakepath-sync\"")?;
    let broken = run(&["info", "--json", path(&folder)]);
    assert!(stdout(&broken).contains("folder.bad_sync"), "{}", stdout(&broken));
    let opened = Folder::open(&[&folder])?;
    assert_eq!(opened.timeline().uncertainty_ns(ids[0], ids[2]), None);
    Ok(())
}

#[test]
fn a_false_pairing_is_rejected_and_told() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    write_hosts_with(&folder, &[("web", 0), ("db", 5_000_000_000)], &[(0, 1)], 3_000_000)?;
    let document = check("sync", &stdout(&run(&["sync", "--json", "--dry-run", path(&folder)])));
    let pair = &document["pairs"][0];
    assert_eq!(
        (&pair["rejected"], &pair["synchronised"], &document["inversions"]),
        (&1.into(), &true.into(), &0.into())
    );
    assert!(is_bounded(pair), "{pair:#}");
    let text = stdout(&run(&["sync", "--dry-run", path(&folder)]));
    assert!(text.contains("1 REJECTED") && widest(&text) <= 100, "{text}");
    Ok(())
}

#[test]
fn what_cannot_be_synchronised_is_an_answer() -> Tested {
    let dir = tempfile::tempdir()?;
    let one = dir.path().join("one");
    write_small(&one, "web", "aaaaaaaa-1", false);
    let output = run(&["sync", path(&one)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("nothing to synchronize"));
    assert!(!one.join("sync.json").exists());

    let apart = dir.path().join("apart");
    write_hosts(&apart, &[("a", 0), ("b", 1_000), ("c", 2_000), ("d", 3_000)], &[(0, 1), (2, 3)])?;
    let output = run(&["sync", path(&apart)]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        text.contains("4 of 4 hosts synchronized in 2 groups") && text.contains("a – c: not synchronized"),
        "{text}"
    );
    assert!(text.contains("→ Record both at the same time") && widest(&text) <= 100, "{text}");
    assert_eq!(run(&["sync", "--strict", "--dry-run", path(&apart)]).status.code(), Some(3));
    let document = check("sync", &stdout(&run(&["sync", "--json", path(&apart)])));
    assert_eq!(document["groups"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["complete"], false);

    let output = run(&["sync", "--reference", "nobody", path(&apart)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there are a, b, c, d"), "{}", stderr(&output));
    Ok(())
}

/// Imports a recording and synchronises it.
fn imported(archive: &Path) -> serde_json::Value {
    let source = data::unpacked(archive);
    let out = source.path().join("out");
    let import = run(&["import", path(source.path()), "-o", path(&out)]);
    assert_eq!(import.status.code(), Some(0), "{}", stderr(&import));
    check("sync", &stdout(&run(&["sync", "--json", path(&out)])))
}

/// Every piece's chosen offset lies within its bounds, and extreme slopes around the chosen one.
fn is_bounded(pair: &serde_json::Value) -> bool {
    let within = |b: &serde_json::Value| {
        let of = |k: &str| b[k].as_f64();
        matches!((of("min"), of("value"), of("max")), (Some(min), Some(value), Some(max)) if min <= value && value <= max)
    };
    pair["pieces"].as_array().is_some_and(|pieces| {
        let all =
            |p: &serde_json::Value| ["offset_begin_ns", "offset_end_ns", "drift_ppm"].iter().all(|k| within(&p[k]));
        !pieces.is_empty() && pieces.iter().all(all)
    })
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn three_imported_hosts_two_of_which_never_talk() -> Tested {
    let document = imported(&data::others("lttng/django-vote.tar.gz"));
    assert_eq!((&document["inversions"], &document["complete"]), (&0.into(), &true.into()));
    let pairs = document["pairs"].as_array().ok_or("no pairs")?;
    assert!(pairs.len() == 3 && pairs.iter().all(is_bounded), "{document:#}");
    let composed: Vec<usize> =
        pairs.iter().filter_map(|p| Some(p["via"].as_array()?.len())).filter(|n| *n == 3).collect();
    assert_eq!(composed, [3], "one pair goes by the third host");
    Ok(())
}

/// Two guests, the second's wall clock ahead by at least so many days.
fn guests_are_synchronised(archive: &Path, days: u64) {
    let document = imported(archive);
    assert_eq!((&document["inversions"], &document["complete"]), (&0.into(), &true.into()));
    let pair = &document["pairs"][0];
    assert!(is_bounded(pair), "{document:#}");
    let (within, amid) = (pair["uncertainty_ns"].as_u64(), pair["uncertainty_amid_ns"].as_u64());
    assert!(amid.is_some_and(|amid| amid > 0) && amid <= within, "{amid:?} of {within:?}");
    let ahead = document["hosts"]
        .as_array()
        .and_then(|h| h.iter().find_map(|h| h["wall_ahead_ns"].as_i64().filter(|a| *a != 0)));
    assert!(ahead.is_some_and(|a| a.unsigned_abs() > days * 86_400_000_000_000), "a wall clock is wrong: {ahead:?}");
}

#[test]
fn two_imported_guests_with_clocks_of_their_own() {
    guests_are_synchronised(&data::own("lttng/guests.tar.gz"), 1);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn two_imported_guests_of_others() {
    guests_are_synchronised(&data::others("lttng/guests-wget.tar.gz"), 300);
}
