//! What all targets have in common: how long an input may take, what valid inputs are made of, and what readers are held to.

pub mod mutate;

use wakepath_decode::raw::{Raw, RawSink};
use wakepath_model::defects;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wakepath_model::ids::MonoNs;

/// No input of a few kilobytes takes a thousandth of it, under a sanitizer neither.
const LIMIT_MS: u64 = 10_000;

/// The number of the input at hand; 0: there is none.
static INPUT: AtomicU64 = AtomicU64::new(0);

/// Processor time of this process so far, ms. A fuzzer that is stopped, or has to wait for others, is not slow.
fn computed_ms() -> u64 {
    const TICK_MS: u64 = 10;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    // utime and stime
    behind_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * TICK_MS
}

/// Runs one input, and aborts where it computes for longer than its limit: libFuzzer then keeps it as one that crashes. Its own
/// limit, `-timeout`, is 20 minutes if nobody says otherwise.
pub fn within(run: impl FnOnce()) {
    static WATCH: Once = Once::new();
    static INPUTS: AtomicU64 = AtomicU64::new(0);
    WATCH.call_once(|| {
        std::thread::spawn(|| {
            let mut seen = (0, 0);
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let (input, now) = (INPUT.load(Ordering::Relaxed), computed_ms());
                if input == 0 || input != seen.0 {
                    seen = (input, now);
                } else if now > seen.1 + LIMIT_MS {
                    eprintln!("an input takes longer than {LIMIT_MS} ms");
                    std::process::abort();
                }
            }
        });
    });
    INPUT.store(INPUTS.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    run();
    INPUT.store(0, Ordering::Relaxed);
}

/// Mutations of a target whose valid inputs are made of `$parts`, a `Vec<Vec<u8>>`.
#[macro_export]
macro_rules! mutations {
    ($parts:expr) => {
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            static PARTS: std::sync::LazyLock<Vec<Vec<u8>>> = std::sync::LazyLock::new(|| $parts);
            $crate::mutate::mutate(&PARTS, data, size, max_size, seed)
        });
    };
}

/// What a reader told, folded into numbers that differ where an event, its time or its order does.
#[derive(Default, PartialEq, Debug)]
pub struct Sum {
    /// How many events.
    pub events: u64,
    /// Their times and processors, in order.
    pub times: u64,
    /// How many events the trace says were lost.
    pub lost: u64,
    /// How many defects were counted.
    pub defects: u64,
}

impl RawSink for Sum {
    fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
        self.events += 1;
        self.times = self.times.wrapping_mul(31).wrapping_add(at.0 ^ u64::from(cpu));
        assert!(format!("{event:?}").len() > 2);
    }

    fn lost(&mut self, _: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
        assert!(from <= to, "a loss ends before it begins");
        self.lost = self.lost.saturating_add(count);
    }

    fn count(&mut self, defect: &'static str, _: MonoNs) {
        assert!(defects::find(defect).is_some(), "{defect} is in no list");
        self.defects += 1;
    }
}
