//! What all targets have in common: how long an input may take, what valid inputs are made of, and what readers are held to.

pub mod mutate;

use wakepath_decode::raw::{Raw, RawSink};
use wakepath_model::defects;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wakepath_model::ids::MonoNs;

/// No input of a few kilobytes takes a thousandth of it, under a sanitizer neither.
const LIMIT_MS: u64 = 10_000;

/// When the input at hand began, ms since the first; 0 = there is none.
static BEGAN: AtomicU64 = AtomicU64::new(0);

/// Runs one input, and aborts where it takes longer than its limit: libFuzzer then keeps it as one that crashes. Its own limit,
/// `-timeout`, is 20 minutes if nobody says otherwise.
pub fn within(run: impl FnOnce()) {
    static WATCH: Once = Once::new();
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let now = || FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1;
    WATCH.call_once(|| {
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let began = BEGAN.load(Ordering::Relaxed);
                if began > 0 && now() > began + LIMIT_MS {
                    eprintln!("an input takes longer than {LIMIT_MS} ms");
                    std::process::abort();
                }
            }
        });
    });
    BEGAN.store(now(), Ordering::Relaxed);
    run();
    BEGAN.store(0, Ordering::Relaxed);
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
