//! Where Go parks goroutines that wait for something inside their program, and runs them again.

use super::channels::{CALL_BYTES, calls_in};
use super::table::Functions;
use crate::Point;
use crate::program::Program;

/// The functions in which a goroutine waits for something other than a connection. What a program never calls, the linker leaves out; the
/// names are as it writes them.
const WAITING: [&str; 6] = [
    "runtime.semacquire1",
    "runtime.chansend",
    "runtime.chanrecv",
    "runtime.selectgo",
    "sync.runtime_notifyListWait",
    "time.Sleep",
];

/// Each call of `gopark` in them, and the instruction after it, to which the goroutine returns when it runs again. `None` where there is
/// none: older versions and others may park in another way.
pub(super) fn parks(program: &Program, functions: &Functions) -> Option<Vec<(Point, u64)>> {
    let parks = functions.find("runtime.gopark")?.address;
    let mut places = Vec::new();
    for of in WAITING.iter().filter_map(|name| functions.find(name)) {
        for call in calls_in(program, of, parks)? {
            places.push((Point::GoParks, program.place(call)?));
            places.push((Point::GoResumes, program.place(call + CALL_BYTES)?));
        }
    }
    (!places.is_empty()).then_some(places)
}
