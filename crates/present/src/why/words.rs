//! A difference as a colleague would name it.

use super::views::call;
use std::fmt::Write as _;
use wakepath_analysis::reasons;
use wakepath_analysis::why::{Cause, Detail, Difference};

/// What a difference is, with where and by whom; `main` is what its largest part says.
pub(super) fn text(d: &Difference, main: Option<&Detail>) -> String {
    let service = if d.what.service.is_empty() { "?" } else { &d.what.service };
    let object = main.and_then(|m| m.object.as_deref());
    let mut out = match d.what.cause {
        Cause::Cpu | Cause::Preempted | Cause::Quota | Cause::Lock | Cause::Stopped | Cause::Isolation => {
            held_up(d, service, main)
        }
        Cause::Network | Cause::Loss | Cause::DelayedAck | Cause::AcceptQueue | Cause::SlowReader => {
            on_its_way(d, service, main)
        }
        _ => awaited(d, service, main),
    };
    let is_waiting = matches!(d.what.cause, Cause::Lock | Cause::Disk | Cause::Timer | Cause::Task);
    if let Some(name) = call(main.and_then(|m| m.syscall)).filter(|_| is_waiting) {
        let _ = write!(out, ", in {name}");
    }
    if let Some(object) = object.filter(|_| d.what.cause == Cause::Lock) {
        let _ = write!(out, " ({object})");
    }
    if let Some(asked) = main.and_then(|m| m.serving.as_deref()) {
        let _ = write!(out, ", for {asked}");
    }
    out
}

/// What bytes or a connection met on their way.
fn on_its_way(d: &Difference, service: &str, main: Option<&Detail>) -> String {
    let by = main.and_then(|m| m.by.as_deref());
    let object = main.and_then(|m| m.object.as_deref());
    match d.what.cause {
        Cause::Network => match object {
            Some(object) => format!("on the network {object}"),
            None => format!("on the network to or from {service}"),
        },
        Cause::Loss => match object {
            Some(object) => format!("lost on the network {object}, until TCP sent it again"),
            None => format!("lost on the network to or from {service}, until TCP sent it again"),
        },
        Cause::DelayedAck => {
            let way = object.map_or_else(|| format!("to or from {service}"), str::to_owned);
            format!("held back {way} for a delayed acknowledgement (Nagle's algorithm; TCP_NODELAY ends it)")
        }
        Cause::AcceptQueue => {
            let length = object.and_then(|o| o.split_once(" (")).map_or("", |o| o.1.trim_end_matches(')'));
            let length = if length.is_empty() { String::new() } else { format!(", {length}") };
            format!("the accept queue of {service} was full{length}")
        }
        _ => {
            let what = object.unwrap_or("a connection");
            let who = by.map_or_else(|| "the client".to_owned(), str::to_owned);
            format!("{service} waiting for room in {what} that {who} reads slowly")
        }
    }
}

/// What it did itself, and what kept it from that.
fn held_up(d: &Difference, service: &str, main: Option<&Detail>) -> String {
    let process = service.split(':').next().unwrap_or(service);
    let by = main.and_then(|m| m.by.as_deref());
    match d.what.cause {
        Cause::Cpu if main.and_then(|m| m.reason) == Some(reasons::BUSY) => {
            format!("{service} polling without a rest (busy waiting)")
        }
        Cause::Cpu => format!("{service} computing"),
        // of many, none is to blame
        Cause::Preempted if d.parts.first().is_some_and(|p| p.more_ns.abs() * 2 < d.more_ns.abs()) => {
            format!("{service} ready to run while others had the processor")
        }
        Cause::Preempted => match by {
            Some(by) if by == process => format!("{service} ready to run while another {by} had the processor"),
            Some(by) => format!("{service} ready to run while {by} had the processor"),
            None => format!("{service} ready to run and not yet on a processor"),
        },
        Cause::Quota => format!("{service} held back by the CPU quota of its cgroup"),
        Cause::Isolation => {
            format!("{service} held back by the recording, which handed it one input at a time (isolation)")
        }
        Cause::Stopped => {
            let by = by.map(|by| format!(" from {by}")).unwrap_or_default();
            format!("{service} stopped by {}{by}", main.and_then(|m| m.object.as_deref()).unwrap_or("a signal"))
        }
        _ if main.is_some_and(|m| m.is_own_thread) => {
            format!("{service} waiting for a lock that another of its threads holds")
        }
        _ => match by {
            Some(by) if by == process => format!("{service} waiting for another {by} that holds a lock"),
            Some(by) => format!("{service} waiting for a lock that {by} holds"),
            None => format!("{service} waiting for a lock"),
        },
    }
}

/// What it waited for.
fn awaited(d: &Difference, service: &str, main: Option<&Detail>) -> String {
    let process = service.split(':').next().unwrap_or(service);
    let by = main.and_then(|m| m.by.as_deref());
    let object = main.and_then(|m| m.object.as_deref());
    let reason = main.and_then(|m| m.reason);
    match d.what.cause {
        Cause::Dns => {
            let server = object.map(|o| format!(", {o}")).unwrap_or_default();
            let silent =
                if reason == Some(reasons::NO_ANSWER) { ", which did not answer before the time-out" } else { "" };
            format!("{service} waiting for the DNS name server{server}{silent}")
        }
        Cause::Disk => match by {
            Some(by) if by != process => format!("{service} waiting for the disk (through {by})"),
            _ => format!("{service} waiting for the disk"),
        },
        Cause::Timer => format!("{service} sleeping until a time of its own (timer)"),
        Cause::Futex => format!(
            "{service} waiting until a time-out on a futex where nobody woke it: a lock, a condition, or a sleep of its runtime"
        ),
        Cause::Unanswered => {
            format!("{service} waiting for {}, which did not answer before the time-out", object.unwrap_or("a peer"))
        }
        Cause::Queue => format!("queued before a task of {service} took it"),
        Cause::PageFault => match object.filter(|o| !o.starts_with("device ")) {
            Some(file) => format!("{service} reading pages of {file} from the disk (page faults)"),
            None => format!("{service} reading pages from the disk (page faults)"),
        },
        Cause::Task => match by {
            Some(by) => format!("{service} waiting for {by}"),
            None => format!("{service} waiting for another task"),
        },
        Cause::Unwatched => match by {
            Some(by) => format!("{by} waiting for {service}, where nobody watches"),
            None => format!("waiting for {service}, where nobody watches"),
        },
        Cause::Input => format!("{service} waiting for a person"),
        Cause::Interrupt => format!("{service}: interrupts"),
        _ => match reason {
            Some(reason) => format!("{service}, not known: {reason}"),
            None => format!("{service}, not known"),
        },
    }
}
