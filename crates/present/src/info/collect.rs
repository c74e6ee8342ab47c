//! Counting. Rows are read a frame at a time; what is kept for each endpoint has a bound, and reaching it is said.

use super::{Files, FolderFacts, HostFacts, Info, ProtocolFacts, RunsIn, Service, Span, TableFacts};
use crate::losses;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use wakepath_model::folder::{Folder, Host, TableSet};
use wakepath_model::ids::{EndpointId, StrId, TaskId};
use wakepath_model::rows::{
    EndpointRow, Failed, FlowNoteRow, MessageRole, MessageRow, PlacementRow, Table, TaskRow, TcpState,
};

/// Endpoints told apart on one host: about 40 MB.
const ENDPOINTS_MAX: usize = 1 << 20;
/// Listeners told apart on one host.
const LISTENERS_MAX: usize = 1 << 14;
/// Kinds of flows told apart on one host.
const KINDS_MAX: usize = 1 << 12;

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const IPPROTO_TCP: u16 = 6;
const IPPROTO_UDP: u16 = 17;

/// Why an endpoint has no protocol where no note says it.
const UNTOLD: &str = "no message seen on it";

/// Looks at folders opened from `paths`. With `verify` every byte is read, so that all damage is found.
pub fn collect(folder: &Folder, paths: &[impl AsRef<Path>], verify: bool) -> Info {
    let mut incomplete = Vec::new();
    let names = crate::parquet::host_names(folder);
    let hosts = folder.hosts().iter().zip(names).map(|(host, name)| host_facts(host, name, &mut incomplete)).collect();
    if verify {
        for host in folder.hosts() {
            let mut batches = host.batches(TableSet::ALL, ..);
            while let Some(batch) = batches.next() {
                batches.recycle(batch);
            }
            host.heads(..).for_each(drop);
        }
    }
    Info {
        folders: paths
            .iter()
            .zip(folder.infos())
            .map(|(path, info)| FolderFacts {
                path: path.as_ref().display().to_string(),
                format_version: info.version,
                created_real_ns: info.created_real_ns,
                tool: info.tool.clone(),
                segments: files(&path.as_ref().join("hosts"), 2, Some("seg")),
                derived: {
                    let (a, b) =
                        (files(&path.as_ref().join("cache"), 4, None), files(&path.as_ref().join("tables"), 4, None));
                    Files { count: a.count + b.count, bytes: a.bytes + b.bytes }
                },
                kept: info.kept.clone(),
            })
            .collect(),
        hosts,
        incomplete,
        verified: verify,
        losses: losses::collect(folder),
    }
}

/// Files below a folder, as far as they can be looked at.
fn files(dir: &Path, depth: u8, extension: Option<&str>) -> Files {
    let mut sum = Files::default();
    let Ok(entries) = std::fs::read_dir(dir) else {
        return sum;
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            let below = files(&path, depth - 1, extension);
            sum.count += below.count;
            sum.bytes += below.bytes;
        } else if kind.is_file() && extension.is_none_or(|e| path.extension().is_some_and(|x| x == e)) {
            sum.count += 1;
            sum.bytes += entry.metadata().map_or(0, |m| m.len());
        }
    }
    sum
}

fn host_facts(host: &Host, name: String, incomplete: &mut Vec<String>) -> HostFacts {
    let info = host.info();
    let span = host.span().map(|(begin, end)| {
        let clock = host.wall_clock();
        Span {
            begin_ns: begin.0,
            end_ns: end.0,
            begin_wall_ns: clock.wall_ns(begin),
            end_wall_ns: clock.wall_ns(end),
            duration_ns: end.0.saturating_sub(begin.0),
            paused_ns: host.pauses().iter().map(|(from, to)| to.0 - from.0).sum(),
        }
    });
    let tables = Table::ALL
        .iter()
        .map(|t| {
            let rows = host.row_count(*t);
            TableFacts {
                table: t.name(),
                rows,
                rows_per_s: span.filter(|s| s.duration_ns > 0).map(|s| rows as f64 * 1e9 / s.duration_ns as f64),
            }
        })
        .collect();
    let mut seen = Seen::default();
    seen.endpoints(host);
    seen.notes(host);
    let protocols = seen.protocols(host);
    let services = seen.services(host);
    let (sniffed, full) = super::sniffed::sniffed(host);
    incomplete.extend(full.map(|text| format!("{name}: {text}")));
    for (is_full, what, max) in [
        (seen.is_full, "endpoints", ENDPOINTS_MAX),
        (seen.is_full_of_listeners, "listeners", LISTENERS_MAX),
        (seen.is_full_of_kinds, "kinds of flows", KINDS_MAX),
    ] {
        if is_full {
            incomplete
                .push(format!("{name}: more than {max} {what}; the rest are not counted by protocol and service"));
        }
    }
    HostFacts {
        name,
        boot_id: info.boot_id.clone(),
        kernel_release: info.kernel_release.clone(),
        arch: info.arch.clone(),
        cpus: info.cpus,
        clock: info.clock.clone(),
        agent_version: info.agent_version.clone(),
        selection: info.selection.clone(),
        flags: info.flags.clone(),
        earlier_selections: info.earlier.iter().map(|e| e.selection.clone()).collect(),
        span,
        bytes: host.bytes(),
        tables,
        limits: super::bounds::limits(host),
        annotations: super::bounds::annotations(host),
        faults: super::bounds::faults(host),
        protocols,
        sniffed,
        services,
    }
}

/// What is known of an endpoint.
#[derive(Clone, Copy)]
struct Known {
    transport: &'static str,
    is_listener: bool,
    protocol: StrId,
    reason: StrId,
}

#[derive(Default)]
struct Seen {
    known: FxHashMap<EndpointId, Known>,
    is_full: bool,
    listeners: FxHashMap<EndpointId, EndpointRow>,
    is_full_of_listeners: bool,
    is_full_of_kinds: bool,
}

impl Seen {
    fn endpoints(&mut self, host: &Host) {
        for batch in host.batches(Table::Endpoint.into(), ..) {
            for row in batch.rows::<EndpointRow>() {
                let is_listener = row.state == TcpState::Listen;
                if is_listener {
                    if self.listeners.len() < LISTENERS_MAX || self.listeners.contains_key(&row.flow) {
                        self.listeners.insert(row.flow, *row);
                    } else {
                        self.is_full_of_listeners = true;
                    }
                }
                if let Some(k) = self.entry(row.flow) {
                    k.transport = transport(row);
                    k.is_listener = is_listener;
                }
            }
        }
    }

    fn notes(&mut self, host: &Host) {
        for batch in host.batches(Table::FlowNote.into(), ..) {
            for row in batch.rows::<FlowNoteRow>() {
                if let Some(k) = self.entry(row.flow) {
                    (k.protocol, k.reason) = (row.protocol, row.reason);
                }
            }
        }
    }

    fn entry(&mut self, flow: EndpointId) -> Option<&mut Known> {
        if self.known.len() >= ENDPOINTS_MAX && !self.known.contains_key(&flow) {
            self.is_full = true;
            return None;
        }
        Some(self.known.entry(flow).or_insert(Known {
            transport: if flow.is_pipe() { "pipe" } else { "other" },
            is_listener: false,
            protocol: StrId::EMPTY,
            reason: StrId::EMPTY,
        }))
    }

    /// Endpoints by transport and protocol, the most first; listeners are services, not flows.
    fn protocols(&mut self, host: &Host) -> Vec<ProtocolFacts> {
        let mut by_kind: FxHashMap<(&'static str, StrId, StrId), [u64; 4]> = FxHashMap::default();
        let mut is_full = false;
        let mut add = |key, counts: [u64; 4]| {
            if by_kind.len() >= KINDS_MAX && !by_kind.contains_key(&key) {
                is_full = true;
                return;
            }
            for (sum, n) in by_kind.entry(key).or_default().iter_mut().zip(counts) {
                *sum += n;
            }
        };
        for k in self.known.values().filter(|k| !k.is_listener) {
            add((k.transport, k.protocol, k.reason), [1, 0, 0, 0]);
        }
        for batch in host.batches(Table::Message.into(), ..) {
            for m in batch.rows::<MessageRow>() {
                let key = match self.known.get(&m.flow) {
                    Some(k) => (k.transport, k.protocol, k.reason),
                    None => ("other", m.protocol, StrId::EMPTY),
                };
                let is_request = u64::from(m.role == MessageRole::Request);
                add(key, [0, 1, is_request, u64::from(m.failed == Failed::Yes)]);
            }
        }
        self.is_full_of_kinds |= is_full;
        let mut out: Vec<ProtocolFacts> = by_kind
            .into_iter()
            .map(|((transport, protocol, reason), [endpoints, messages, requests, failed])| {
                let is_known = protocol != StrId::EMPTY;
                let reason = match host.text(reason) {
                    "" => UNTOLD,
                    told => told,
                };
                ProtocolFacts {
                    transport,
                    protocol: is_known.then(|| host.text(protocol).to_owned()),
                    reason: (!is_known).then(|| reason.to_owned()),
                    endpoints,
                    messages,
                    requests,
                    failed,
                }
            })
            .collect();
        let key =
            |p: &ProtocolFacts| (p.protocol.is_none(), u64::MAX - p.messages, u64::MAX - p.endpoints, p.transport);
        out.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| (&a.protocol, &a.reason).cmp(&(&b.protocol, &b.reason))));
        out
    }

    fn services(&self, host: &Host) -> Vec<Service> {
        let holders: FxHashSet<TaskId> = self.listeners.values().map(|l| l.task).collect();
        let mut names: FxHashMap<TaskId, (StrId, StrId)> = FxHashMap::default();
        if !holders.is_empty() {
            for batch in host.batches(Table::Task.into(), ..) {
                for t in batch.rows::<TaskRow>().iter().filter(|t| holders.contains(&t.task)) {
                    names.insert(t.task, (t.comm, t.cgroup));
                }
            }
        }
        let placements = placements(host);
        let mut services: BTreeMap<Service, u64> = BTreeMap::new();
        for l in self.listeners.values() {
            let (comm, of) = names.get(&l.task).copied().unwrap_or_default();
            let service = Service {
                command: host.text(comm).to_owned(),
                transport: transport(l),
                address: address(l, host),
                port: (l.family != AF_UNIX).then_some(l.lport),
                netns: l.netns,
                cgroup: host.text(of).to_owned(),
                runs_in: placements.get(&of).cloned().unwrap_or_default(),
                listeners: 0,
            };
            *services.entry(service).or_default() += 1;
        }
        services.into_iter().map(|(s, listeners)| Service { listeners, ..s }).collect()
    }
}

/// Who runs in which cgroup.
fn placements(host: &Host) -> FxHashMap<StrId, RunsIn> {
    let text = |id| host.text(id).to_owned();
    let mut out = FxHashMap::default();
    for batch in host.batches(Table::Placement.into(), ..) {
        for row in batch.rows::<PlacementRow>() {
            let runs_in = RunsIn {
                runtime: text(row.runtime),
                container: text(row.container),
                name: text(row.name),
                image: text(row.image),
                pod: text(row.pod),
                namespace: text(row.namespace),
                pod_uid: text(row.pod_uid),
                deployment: text(row.deployment),
                unit: text(row.unit),
            };
            out.insert(row.cgroup, runs_in);
        }
    }
    out
}

fn transport(row: &EndpointRow) -> &'static str {
    match (row.family, row.protocol) {
        _ if row.flow.is_pipe() && row.family == 0 => "pipe",
        (AF_UNIX, _) => "unix",
        (AF_INET | AF_INET6, IPPROTO_TCP) => "tcp",
        (AF_INET | AF_INET6, IPPROTO_UDP) => "udp",
        _ => "other",
    }
}

fn address(row: &EndpointRow, host: &Host) -> String {
    match row.family {
        AF_INET => Ipv4Addr::new(row.laddr[0], row.laddr[1], row.laddr[2], row.laddr[3]).to_string(),
        AF_INET6 => Ipv6Addr::from(row.laddr).to_string(),
        AF_UNIX => host.text(row.path).to_owned(),
        _ => String::new(),
    }
}
