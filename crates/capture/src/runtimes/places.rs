//! Places probes in programs of runtimes, and says so.

use super::{Allowed, Say, name};
use crate::KernelSource;
use wakepath_runtimes::{Point, Probing};
use wakepath_wire as w;

/// Whether the process's runtime has its probes now. What was done is said: a probe is an instruction in the memory of somebody
/// else's program.
pub(super) fn place(source: &mut KernelSource, tgid: u32, layout: &w::Runtime, allowed: &Allowed, say: Say) -> bool {
    if layout.is_marked == 0 || !allowed.allows(tgid) {
        return false;
    }
    let name = name(tgid);
    let kind = layout.kind as u8;
    let files = wakepath_runtimes::probing(tgid, kind);
    if files.is_empty() {
        let lacks = match kind {
            w::RUNTIME_GO => "not the functions that make and end goroutines, as Go builds them",
            w::RUNTIME_TOKIO => "no symbols (it is stripped) of the functions that wake Tokio's tasks",
            _ => "none of CPython's functions that make contexts",
        };
        say(&format!("{name} ({tgid}) has {lacks}: no probes, nothing is changed in it"));
    }
    let whom = format!("{name} ({tgid})");
    let lacks_greenlets = wakepath_runtimes::has_unread_greenlets(tgid, layout);
    let but =
        if lacks_greenlets { " (greenlets are not told apart: the library greenlet must be 2.0 or later)" } else { "" };
    !files.is_empty() && files.iter().all(|at| place_in(source, at, (&whom, but), layout.is_marked, say))
}

/// Places those of one of its files. `whom`: who has it; `but`: what is not read of it; `marks`: bits of `MARKED_…`, which were asked for.
fn place_in(source: &mut KernelSource, at: &Probing, (whom, but): (&str, &str), marks: u32, say: Say) -> bool {
    let (has_channels, has_waits) = (marks & w::MARKED_CHANNELS != 0, marks & w::MARKED_WAITS != 0);
    let is_asked = |point: Point| (has_channels || !point.is_of_channels()) && (has_waits || !point.is_of_waits());
    let asked = at.places.iter().filter(|&&(point, _)| is_asked(point));
    let places: Vec<_> = asked.copied().collect();
    if has_channels && !at.places.iter().any(|(point, _)| point.is_of_channels()) {
        say(&format!("{whom} does not have Go's usual functions of channels: no probes there"));
    }
    if has_waits && !at.places.iter().any(|(point, _)| point.is_of_waits()) {
        say(&format!("{whom} does not have Go's usual functions for parking goroutines: their waits are not recorded"));
    }
    let what = match at.places.first() {
        Some((Point::PythonCopies, _)) => "where CPython makes contexts".to_owned(),
        Some((Point::GreenletMakes, _)) => "where greenlets are made".to_owned(),
        Some((Point::TokioWakes, _)) => "where Tokio's tasks are made and woken".to_owned(),
        Some((Point::UvloopQueues, _)) => "where uvloop puts off what tasks write, and leaves contexts".to_owned(),
        _ => {
            let made = if has_waits { "are made, end and wait" } else { "are made and end" };
            let channels = if has_channels { ", at channels" } else { "" };
            let has_streams = at.places.iter().any(|(point, _)| point.is_of_streams());
            let streams = if has_streams { ", at streams of HTTP/2 and gRPC" } else { "" };
            format!("where goroutines {made}, at net/http's client{channels}{streams}")
        }
    };
    match source.probe_runtime(&at.file, &places) {
        Ok(true) => say(&format!(
            "{} probes are in {whom} and all that run the same program or library, until the recording ends: {what}{but}",
            places.len()
        )),
        Ok(false) => {}
        Err(e) => {
            say(&format!("no probes in {whom}, whose calls may stay open: {e}"));
            return false;
        }
    }
    true
}
