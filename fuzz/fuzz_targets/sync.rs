//! Any bytes as `sync.json`: no panic, and the clocks that it makes never go back and invert.
//!
//! `cargo +nightly fuzz run sync`, from the root of the repository.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutations, within};
use wakepath_model::clock::{Timeline, WallClock};
use wakepath_model::folder::SyncFile;
use wakepath_model::ids::{HostId, MonoNs};

fn one(data: &[u8]) {
    let Some(file) = SyncFile::parse(data) else { return };
    // every host is taken for one of four
    let Some(groups) = file.groups(|hash| Some(HostId((hash % 4) as u16))) else { return };
    for (_, clock) in groups.iter().flat_map(|g| &g.clocks) {
        let mut last = i64::MIN;
        for t in (0..64).map(|i| u64::MAX >> (63 - i)).chain([u64::MAX]) {
            let x = clock.at(t);
            assert!(x >= last);
            last = x;
            if x > i64::MIN && x < i64::MAX {
                let back = clock.inverse(x);
                assert!(back <= t && t - back <= 1);
            }
        }
    }
    let line = Timeline::new(&vec![WallClock::default(); 4], groups);
    for h in 0..5 {
        let at = line.common(HostId(h), MonoNs(1 << 60));
        line.local(HostId(h), at);
        line.uncertainty_ns(HostId(0), HostId(h));
    }
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(vec![EXAMPLE.to_vec()]);

const EXAMPLE: &[u8] = br#"{"format":"wakepath-sync","version":1,"groups":[{"hosts":[
{"hostname":"a","boot_id":"1","points":[[0,0],[1000,1000]]},
{"hostname":"b","boot_id":"2","points":[[5,0],[2000,1990],[9000000000,9000000100]]}],
"pairs":[{"a":0,"b":1,"uncertainty_ns":20}]}]}"#;
