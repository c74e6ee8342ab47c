//! The kernel vantage on the running kernel: the real binary records small real programs, and the folder must say what
//! they did. Where root or BPF is missing, each test prints `skipped:` and why.

#[path = "support/annotated.rs"]
mod annotated;
#[path = "kernel/bytes.rs"]
mod bytes;
#[path = "kernel/byways.rs"]
mod byways;
#[path = "kernel/calls.rs"]
mod calls;
#[path = "kernel/descriptors.rs"]
mod descriptors;
#[path = "kernel/duration.rs"]
mod duration;
#[path = "kernel/faults.rs"]
mod faults;
#[path = "kernel/flows.rs"]
mod flows;
#[path = "kernel/frozen.rs"]
mod frozen;
#[path = "kernel/harness.rs"]
mod harness;
#[path = "kernel/holders.rs"]
mod holders;
#[path = "kernel/limits.rs"]
mod limits;
#[path = "kernel/marks.rs"]
mod marks;
#[path = "kernel/neighbours.rs"]
mod neighbours;
#[path = "kernel/net.rs"]
mod net;
#[path = "kernel/offsets.rs"]
mod offsets;
#[path = "kernel/open.rs"]
mod open;
#[path = "kernel/past.rs"]
mod past;
#[path = "kernel/paths.rs"]
mod paths;
#[path = "kernel/placements.rs"]
mod placements;
#[path = "kernel/recorder.rs"]
mod recorder;
#[path = "kernel/runtimes.rs"]
mod runtimes;
#[path = "kernel/saturated.rs"]
mod saturated;
#[path = "kernel/selecting.rs"]
mod selecting;
#[path = "kernel/slots.rs"]
mod slots;
#[path = "kernel/stacks.rs"]
mod stacks;
#[path = "kernel/stalls.rs"]
mod stalls;
#[path = "kernel/streams.rs"]
mod streams;
#[path = "kernel/tasks.rs"]
mod tasks;
#[path = "kernel/tls.rs"]
mod tls;
#[path = "kernel/tls_older.rs"]
mod tls_older;
#[path = "kernel/tls_postgres.rs"]
mod tls_postgres;
#[path = "kernel/tunnel.rs"]
mod tunnel;
#[path = "kernel/uvloop.rs"]
mod uvloop;
#[path = "kernel/waits.rs"]
mod waits;
