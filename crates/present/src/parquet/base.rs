//! Columns of the folder's own tables: the list and the values of each stand next to each other.

use super::names;
use super::{Column, ColumnKind, RowWriter, TableError, TableWriter};
use wakepath_model::clock::WallClock;
use wakepath_model::folder::Host;
use wakepath_model::ids::{MonoNs, StrId};
use wakepath_model::rows::{
    Event, NO_OFFSET, OPEN, Table, access, descriptor, exchange_row, failed, message_flag, role,
};

use ColumnKind::{Bool, I32, I64, Text, U16, U32, U64};

/// What the values of a host's rows need besides the row.
pub(super) struct Context<'a> {
    pub host: &'a Host,
    pub name: &'a str,
    pub clock: WallClock,
}

/// Columns that every table begins with.
fn common() -> Vec<Column> {
    vec![Column::new("host", Text), Column::new("at_ns", I64), Column::new("wall_time", ColumnKind::WallTime)]
}

/// The columns of a table.
pub(super) fn columns(table: Table) -> Vec<Column> {
    let must = Column::new;
    let may = Column::optional;
    let own = match table {
        Table::Op => vec![
            must("entry_ns", I64),
            may("arrived_ns", I64),
            must("flow", U64),
            must("start_byte", U64),
            must("end_byte", U64),
            must("task", U32),
            must("result", I32),
            must("kind", Text),
            must("range", Text),
            must("flags", U16),
            must("syscall", U16),
            must("cpu", U16),
        ],
        Table::Message => vec![
            must("flow", U64),
            must("start_byte", U64),
            may("end_byte", U64),
            may("witness_kind", Text),
            must("witness", U64),
            may("protocol", Text),
            may("verb", Text),
            may("target", Text),
            may("detail", Text),
            must("status", U16),
            must("role", Text),
            must("sent", Bool),
            may("failed", Bool),
            must("cut", Bool),
            must("no_reply", Bool),
            must("queued", Bool),
        ],
        Table::MessageEnd => vec![
            must("flow", U64),
            must("start_byte", U64),
            may("end_byte", U64),
            must("sent", Bool),
            must("how", Text),
            may("failed", Bool),
            may("detail", Text),
        ],
        Table::Endpoint => vec![
            must("flow", U64),
            may("peer", U64),
            must("snd_byte", U64),
            must("rcv_byte", U64),
            may("family", Text),
            may("protocol", Text),
            may("laddr", Text),
            must("lport", U16),
            may("raddr", Text),
            must("rport", U16),
            may("path", Text),
            must("netns", U32),
            must("task", U32),
            must("how", Text),
            may("state", Text),
            may("side", Text),
            must("ulp", Bool),
        ],
        Table::FlowState => vec![
            must("flow", U64),
            must("snd_byte", U64),
            must("rcv_byte", U64),
            must("task", U32),
            may("old_state", Text),
            may("new_state", Text),
            may("reset", Text),
            must("by_task", Bool),
        ],
        Table::Wait => vec![
            must("blocked_ns", I64),
            must("woken_ns", I64),
            must("duration_ns", I64),
            must("object", U64),
            must("arg0", U64),
            must("task", U32),
            must("woken_by", U32),
            must("rcv_seq", U32),
            must("state", Text),
            may("syscall", U16),
            must("cpu", U16),
            must("woken_cpu", U16),
            must("cause", Text),
        ],
        Table::Input => vec![
            may("flow", U64),
            must("task", U32),
            must("fd", I32),
            must("ready", U32),
            must("kind", Text),
            must("isolated", Bool),
        ],
        Table::Poll => {
            vec![must("entry_ns", I64), may("timeout_ns", I64), must("task", U32), must("ready", I32), must("fd", I32)]
        }
        Table::Task => vec![
            must("start_ns", I64),
            must("task", U32),
            must("parent", U32),
            must("tgid", U32),
            must("tid", U32),
            may("comm", Text),
            may("cmdline", Text),
            may("cgroup", Text),
            must("what", Text),
            must("class", Text),
        ],
        Table::Loss => vec![must("from_ns", I64), must("count", U64), must("what", Text)],
        Table::Anchor => vec![must("real_ns", I64), must("error_ns", I64)],
        Table::FlowNote => vec![must("flow", U64), may("protocol", Text), may("reason", Text)],
        Table::Packet => vec![
            must("packet", U64),
            must("key", U64),
            may("trigger", U64),
            may("flow", U64),
            must("sent", Bool),
            must("context", Text),
            may("ip_protocol", Text),
            may("saddr", Text),
            must("sport", U16),
            may("daddr", Text),
            must("dport", U16),
            must("seq", U32),
            must("ack", U32),
            must("tcp_flags", U16),
            may("payload_bytes", U32),
            must("task", U32),
            must("cpu", U16),
        ],
        Table::Stack => vec![
            must("blocked_ns", I64),
            must("duration_ns", I64),
            must("task", U32),
            may("syscall", U16),
            must("cause", Text),
            may("frames", Text),
        ],
        Table::Fault => vec![
            must("kind", Text),
            must("began_ns", I64),
            may("duration_ns", I64),
            must("task", U32),
            must("address", U64),
            must("ip", U64),
            may("access", Text),
            may("present", Bool),
            may("in_call", Bool),
            may("file", Text),
            may("device", Text),
            may("inode", U64),
            may("offset", U64),
            must("cpu", U16),
        ],
        Table::Mark => vec![
            must("kind", Text),
            must("machine", Text),
            must("key", U64),
            must("name", Text),
            must("name_key", U64),
            must("count", U64),
            may("task", U32),
            must("seq", U64),
        ],
        Table::Limit => vec![
            must("kind", Text),
            must("value", U64),
            must("beside", U64),
            may("task", U32),
            may("cgroup", Text),
            may("flow", U64),
            may("port", U16),
        ],
        Table::Descriptor => vec![
            must("task", U32),
            must("fd", U32),
            must("flow", U64),
            may("received_ns", I64),
            may("sent_ns", I64),
            must("unread", U32),
            must("unacked", U32),
            must("window", U32),
            may("state", Text),
            must("has_sent", Bool),
            must("has_received", Bool),
            must("watched", Bool),
            must("look", U16),
        ],
        Table::Resent => {
            vec![must("flow", U64), must("seq", U32), must("seq_end", U32), may("rtt_us", U32), must("state", Text)]
        }
        Table::SniffedFlow => vec![
            must("flow", U64),
            must("what", Text),
            may("ip_protocol", Text),
            must("client", Text),
            must("client_port", U16),
            must("server", Text),
            must("server_port", U16),
            must("side_by", Text),
            may("tunnel", U64),
            may("protocol", Text),
            may("reason", Text),
            may("syn_ns", I64),
            may("syn_ack_ns", I64),
            may("ack_ns", I64),
            must("origin_byte_to_server", U64),
            must("origin_byte_to_client", U64),
            must("packets_to_server", U64),
            must("packets_to_client", U64),
            must("wire_bytes_to_server", U64),
            must("wire_bytes_to_client", U64),
            must("stream_bytes_to_server", U64),
            must("stream_bytes_to_client", U64),
            must("missing_bytes_to_server", U64),
            must("missing_bytes_to_client", U64),
            must("retransmitted_to_server", U32),
            must("retransmitted_to_client", U32),
            must("reordered_to_server", U32),
            must("reordered_to_client", U32),
            must("zero_windows_to_server", U32),
            must("zero_windows_to_client", U32),
            may("reset_by", Text),
        ],
        Table::SniffedExchange => vec![
            must("flow", U64),
            must("what", Text),
            may("protocol", Text),
            may("verb", Text),
            may("target", Text),
            must("status", U16),
            may("failed", Bool),
            may("detail", Text),
            must("cut", Bool),
            may("request_first_ns", I64),
            may("request_head_ns", I64),
            may("request_last_ns", I64),
            may("reply_first_ns", I64),
            may("reply_head_ns", I64),
            may("reply_last_ns", I64),
            may("service_ns", I64),
            may("request_start_byte", U64),
            may("request_end_byte", U64),
            may("request_end_how", Text),
            may("reply_start_byte", U64),
            may("reply_end_byte", U64),
            may("reply_end_how", Text),
            must("request_packets", U32),
            must("reply_packets", U32),
            must("missing_bytes", U32),
            must("interim", U16),
            may("witness_kind", Text),
            must("witness", U64),
            may("trace", U64),
            may("span", U64),
            may("request_id", U64),
        ],
    };
    common().into_iter().chain(own).collect()
}

fn u32_or_none(row: &mut RowWriter<'_>, value: u32, none: u32) {
    if value == none {
        row.none()
    } else {
        row.u32(value)
    };
}

fn u64_or_none(row: &mut RowWriter<'_>, value: u64, none: u64) {
    if value == none {
        row.none()
    } else {
        row.u64(value)
    };
}

fn ns_or_none(row: &mut RowWriter<'_>, value: u64, none: u64) {
    if value == none {
        row.none()
    } else {
        row.ns(value)
    };
}

/// What a message says of failure, `None` where it says nothing or that part of it was not read. Requests and what has no
/// reply say `NO` as well.
fn has_failed(said: u8) -> Option<bool> {
    match said {
        failed::YES => Some(true),
        failed::NO => Some(false),
        _ => None,
    }
}

/// Writes one row.
pub(super) fn put(table: &mut TableWriter, context: &Context<'_>, event: &Event) -> Result<(), TableError> {
    let text = |id: StrId| context.host.text(id);
    let at: MonoNs = event.at();
    let mut row = table.row();
    let w = &mut row;
    w.text(context.name).ns(at.0).wall_time(context.clock.wall_ns(at));
    match event {
        Event::Op(r) => {
            w.ns(r.entry.0);
            ns_or_none(w, r.arrived.0, 0);
            w.u64(r.flow.0).u64(r.start).u64(r.end).u32(r.task.0).i32(r.result);
            w.text(names::op_kind(r.kind)).text(names::range_how(r.range));
            w.u32(r.flags.into()).u32(r.syscall.into()).u32(r.cpu.into());
        }
        Event::Message(r) => {
            w.u64(r.flow.0).u64(r.start);
            u64_or_none(w, r.end, OPEN);
            w.text_or_none(names::witness_kind(r.witness_kind)).u64(r.witness);
            w.text_or_none(text(r.protocol)).text_or_none(text(r.verb));
            w.text_or_none(text(r.target)).text_or_none(text(r.detail));
            w.u32(r.status.into()).text(names::message_role(r.role));
            w.bool(r.sent != 0)
                .bool_or_none(has_failed(r.failed).filter(|failed| *failed || r.role == role::REPLY))
                .bool(r.cut != 0);
            w.bool(r.flags & message_flag::NO_REPLY != 0).bool(r.flags & message_flag::QUEUED != 0);
        }
        Event::MessageEnd(r) => {
            w.u64(r.flow.0).u64(r.start);
            u64_or_none(w, r.end, OPEN);
            w.bool(r.sent != 0)
                .text(names::message_end(r.how))
                .bool_or_none(has_failed(r.failed).filter(|_| r.how == 0)) // of an end, the row says nothing of it
                .text_or_none(text(r.detail));
        }
        Event::Endpoint(r) => {
            w.u64(r.flow.0);
            u64_or_none(w, r.peer.0, 0);
            w.u64(r.snd).u64(r.rcv);
            w.text_or_none(names::family(r.family)).text_or_none(names::ip_protocol(r.protocol));
            w.text_or_none(names::address(r.family, r.laddr)).u32(r.lport.into());
            w.text_or_none(names::address(r.family, r.raddr)).u32(r.rport.into());
            w.text_or_none(text(r.path)).u32(r.netns).u32(r.task.0).text(names::endpoint_how(r.how));
            w.text_or_none(names::tcp_state(r.state)).text_or_none(names::side(r.side)).bool(r.ulp != 0);
        }
        Event::FlowState(r) => {
            w.u64(r.flow.0).u64(r.snd).u64(r.rcv).u32(r.task.0);
            w.text_or_none(names::tcp_state(r.old)).text_or_none(names::tcp_state(r.new));
            w.text_or_none(names::reset(r.reset)).bool(r.by_task != 0);
        }
        Event::Wait(r) => {
            w.ns(r.blocked.0).ns(r.woken.0).ns(r.at.0.saturating_sub(r.blocked.0)).u64(r.object).u64(r.arg0);
            w.u32(r.task.0).u32(r.by.0).u32(r.rcv_seq).text(names::task_state(r.state));
            if r.syscall == u16::MAX {
                w.none()
            } else {
                w.u32(r.syscall.into())
            };
            w.u32(r.cpu.into()).u32(r.woken_cpu.into()).text(names::wait_cause(r.cause));
        }
        Event::Poll(r) => {
            w.ns(r.entry.0);
            ns_or_none(w, r.timeout_ns, u64::MAX);
            w.u32(r.task.0).i32(r.ready).i32(r.fd);
        }
        Event::Task(r) => {
            w.ns(r.start.0).u32(r.task.0).u32(r.parent.0).u32(r.tgid).u32(r.tid);
            w.text_or_none(text(r.comm)).text_or_none(text(r.cmdline)).text_or_none(text(r.cgroup));
            w.text(names::task_what(r.what)).text(names::task_class(r.class));
        }
        Event::Loss(r) => {
            w.ns(r.from.0).u64(r.count).text(text(r.what));
        }
        Event::Anchor(r) => {
            w.ns(r.real_ns).ns(r.error_ns);
        }
        Event::FlowNote(r) => {
            w.u64(r.flow.0).text_or_none(text(r.protocol)).text_or_none(text(r.reason));
        }
        Event::Packet(r) => {
            let family = if r.ip == 6 { 10 } else { 2 };
            let address = |a: [u8; 16]| if r.ip == 0 { String::new() } else { names::address(family, a) };
            w.u64(r.id).u64(r.key);
            u64_or_none(w, r.trigger, 0);
            u64_or_none(w, r.flow, 0);
            w.bool(r.sent != 0)
                .text(names::packet_context(r.context))
                .text_or_none(names::ip_protocol(r.protocol.into()));
            w.text_or_none(address(r.saddr)).u32(r.sport.into());
            w.text_or_none(address(r.daddr)).u32(r.dport.into());
            w.u32(r.seq).u32(r.ack).u32(r.flags.into());
            if r.payload == u32::MAX {
                w.none()
            } else {
                w.u32(r.payload)
            };
            w.u32(r.task.0).u32(r.cpu.into());
        }
        Event::Stack(r) => {
            w.ns(r.blocked.0).ns(r.at.0.saturating_sub(r.blocked.0)).u32(r.task.0);
            if r.syscall == u16::MAX {
                w.none()
            } else {
                w.u32(r.syscall.into())
            };
            w.text(names::wait_cause(r.cause)).text_or_none(text(r.frames));
        }
        Event::Input(r) => {
            u64_or_none(w, r.flow.0, 0);
            w.u32(r.task.0).i32(r.fd).u32(r.ready).text(names::input_kind(r.kind)).bool(r.isolated != 0);
        }
        Event::Fault(r) => {
            w.text(names::fault_kind(r.kind)).ns(r.began.0);
            match r.duration_ns() {
                Some(ns) => w.ns(ns),
                None => w.none(),
            };
            w.u32(r.task.0).u64(r.address).u64(r.ip);
            if r.access & access::UNSEEN != 0 {
                w.none().none().none();
            } else {
                w.text(names::fault_access(r.access));
                w.bool(r.access & access::PRESENT != 0).bool(r.access & access::USER == 0);
            }
            w.text_or_none(text(r.file));
            w.text_or_none(if r.inode != 0 { names::device(r.device) } else { String::new() });
            u64_or_none(w, r.inode, 0);
            u64_or_none(w, r.offset, NO_OFFSET);
            w.u32(r.cpu.into());
        }
        Event::Mark(r) => {
            w.text(names::mark_kind(r.kind)).text(text(r.machine)).u64(r.key).text(text(r.name));
            w.u64(r.name_key).u64(r.count);
            u32_or_none(w, r.task.0, 0);
            w.u64(r.seq);
        }
        Event::Descriptor(r) => {
            w.u32(r.task.0).u32(r.fd).u64(r.flow.0);
            ns_or_none(w, r.received.0, 0);
            ns_or_none(w, r.sent.0, 0);
            w.u32(r.unread).u32(r.unacked).u32(r.window);
            w.text_or_none(names::tcp_state(r.state));
            w.bool(r.marks & descriptor::SENT != 0).bool(r.marks & descriptor::RECEIVED != 0);
            w.bool(r.marks & descriptor::WATCHED != 0).u32(r.look.into());
        }
        Event::Resent(r) => {
            w.u64(r.flow.0).u32(r.seq).u32(r.seq_end);
            u32_or_none(w, r.rtt_us, u32::MAX);
            w.text(names::tcp_state(r.state));
        }
        Event::Limit(r) => {
            w.text(names::limit_kind(r.kind)).u64(r.value).u64(r.beside);
            u32_or_none(w, r.task.0, 0);
            w.text_or_none(text(r.cgroup));
            u64_or_none(w, r.flow.0, 0);
            u32_or_none(w, r.port.into(), 0);
        }
        Event::SniffedFlow(r) => {
            w.u64(r.flow.0).text(names::flow_row(r.what)).text_or_none(names::ip_protocol(r.ip_protocol.into()));
            w.text(names::address(r.family, r.client)).u32(r.client_port.into());
            w.text(names::address(r.family, r.server)).u32(r.server_port.into()).text(names::side_how(r.side));
            u64_or_none(w, r.tunnel, 0);
            w.text_or_none(text(r.protocol)).text_or_none(text(r.reason));
            [r.syn, r.syn_ack, r.ack].iter().for_each(|t| ns_or_none(w, t.0, 0));
            for pair in [r.origin, r.packets, r.wire_bytes, r.stream_bytes, r.missing_bytes] {
                w.u64(pair[0]).u64(pair[1]);
            }
            for pair in [r.retransmitted, r.reordered, r.zero_windows] {
                w.u32(pair[0]).u32(pair[1]);
            }
            w.text_or_none(names::reset_by(r.reset_by));
        }
        Event::SniffedExchange(r) => {
            w.u64(r.flow.0).text(names::exchange_row(r.what));
            w.text_or_none(text(r.protocol)).text_or_none(text(r.verb)).text_or_none(text(r.target));
            let failed = has_failed(r.failed).filter(|failed| *failed || r.what == exchange_row::ANSWERED);
            w.u32(r.status.into()).bool_or_none(failed).text_or_none(text(r.detail)).bool(r.cut != 0);
            for t in [r.request_first, r.request_head, r.request_last, r.reply_first, r.reply_head, r.reply_last] {
                ns_or_none(w, t.0, 0);
            }
            match r.reply_head.0.checked_sub(r.request_head.0) {
                Some(service) if r.request_head.0 != 0 => w.ns(service),
                _ => w.none(),
            };
            u64_or_none(w, r.request_start, OPEN);
            u64_or_none(w, r.request_end, OPEN);
            w.text_or_none(names::end_or_none(r.request_how));
            u64_or_none(w, r.reply_start, OPEN);
            u64_or_none(w, r.reply_end, OPEN);
            w.text_or_none(names::end_or_none(r.reply_how));
            w.u32(r.request_packets).u32(r.reply_packets).u32(r.missing_bytes).u32(r.interim.into());
            w.text_or_none(names::witness_kind(r.witness_kind)).u64(r.witness);
            [r.trace, r.span, r.request_id].iter().for_each(|id| u64_or_none(w, *id, 0));
        }
    }
    w.end()
}
