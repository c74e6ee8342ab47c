//! Numbers of system calls mean the same to the recorder and to who reads folders.

use wakepath_model::syscalls;
use wakepath_wire::calls;

#[test]
fn each_call_of_aarch64_is_recorded_by_the_number_that_its_name_has_here() {
    for (number, name, recorded) in calls::of_aarch64() {
        assert_eq!(syscalls::name(recorded), Some(name), "call {number} of aarch64");
    }
}
