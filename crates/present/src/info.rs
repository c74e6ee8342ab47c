//! `wakepath info`: what a folder holds, and what it lost. Counted in bounded memory, whatever the folder's size.

mod bounds;
mod brief;
mod collect;
mod sniffed;
mod view;

pub use bounds::{AnnotationFacts, FaultFacts, LimitFacts};
pub use brief::{BRIEF_SCHEMA, Brief, BriefHost, BriefTable};
pub use collect::collect;
pub use view::render;

use crate::losses::Loss;
use serde::Serialize;
use wakepath_model::folder::Kept;

/// The document's schema.
pub const SCHEMA: &str = "wakepath.info/1";

/// What a folder holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// The folders that were given.
    pub folders: Vec<FolderFacts>,
    /// Their hosts.
    pub hosts: Vec<HostFacts>,
    /// Where a bound was reached and something was left uncounted, in words.
    pub incomplete: Vec<String>,
    /// Every byte was read, not only what the counts need.
    pub verified: bool,
    /// What was lost, and what is wrong with the folders; the envelope carries them.
    #[serde(skip)]
    pub losses: Vec<Loss>,
}

/// A folder as files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FolderFacts {
    /// Where.
    pub path: String,
    /// Version of its format.
    pub format_version: u32,
    /// When it was made, ns since 1970.
    pub created_real_ns: u64,
    /// What made it.
    pub tool: String,
    /// Segments, and their bytes: the recording itself.
    pub segments: Files,
    /// What can be made again from them.
    pub derived: Files,
    /// Why an agent kept it, and what came of each host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// Files of one sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Files {
    /// How many.
    pub count: u64,
    /// Bytes in all.
    pub bytes: u64,
}

/// A host and what was recorded of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostFacts {
    /// Its name, told apart from others of the same name.
    pub name: String,
    /// Boot id.
    pub boot_id: String,
    /// Kernel release.
    pub kernel_release: String,
    /// Architecture.
    pub arch: String,
    /// Processors.
    pub cpus: u32,
    /// The clock that its times are of.
    pub clock: String,
    /// Version of the agent or importer.
    pub agent_version: String,
    /// What was selected.
    pub selection: String,
    /// Other flags of the recording.
    pub flags: Vec<String>,
    /// Selections of recordings made into the same host before.
    pub earlier_selections: Vec<String>,
    /// First and last row; none where there are no rows.
    pub span: Option<Span>,
    /// Bytes of its frames.
    pub bytes: u64,
    /// Rows by table.
    pub tables: Vec<TableFacts>,
    /// What bounds it, as far as it was written down; none where nothing was.
    pub limits: Option<LimitFacts>,
    /// Who annotated what; none where nobody did.
    pub annotations: Option<AnnotationFacts>,
    /// Page faults by how they ended; none where none were recorded.
    pub faults: Option<FaultFacts>,
    /// Endpoints by protocol.
    pub protocols: Vec<ProtocolFacts>,
    /// Flows that a sniffer saw, by protocol.
    pub sniffed: Vec<SniffedFacts>,
    /// What listens.
    pub services: Vec<Service>,
}

/// A span of a host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Begin, on the host's monotonic clock.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Begin in ns since 1970; none where no anchor was recorded.
    pub begin_wall_ns: Option<i64>,
    /// End in ns since 1970.
    pub end_wall_ns: Option<i64>,
    /// Length.
    pub duration_ns: u64,
    /// Of that, time in which nobody recorded: between the end of one recorder and the start of the next.
    pub paused_ns: u64,
}

/// Rows of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableFacts {
    /// The table.
    pub table: &'static str,
    /// Rows.
    pub rows: u64,
    /// Rows a second of the span; none without a span.
    pub rows_per_s: Option<f64>,
}

/// Endpoints of one transport that speak one protocol, or that are opaque for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProtocolFacts {
    /// `tcp`, `udp`, `unix`, `pipe`, `other`.
    pub transport: &'static str,
    /// Protocol id (`proto.http1`); none where opaque.
    pub protocol: Option<String>,
    /// Why it is opaque; none where the protocol is known.
    pub reason: Option<String>,
    /// Endpoints.
    pub endpoints: u64,
    /// Messages seen at them.
    pub messages: u64,
    /// Messages among these that ask for a reply.
    pub requests: u64,
    /// Messages that say that a request failed.
    pub failed: u64,
}

/// Flows that a sniffer saw, of one transport, that speak one protocol, or are opaque for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SniffedFacts {
    /// `tcp`, `udp`, `other`.
    pub transport: &'static str,
    /// Protocol id (`proto.http1`); none where opaque.
    pub protocol: Option<String>,
    /// Why it is opaque; none where the protocol is known.
    pub reason: Option<String>,
    /// Flows.
    pub flows: u64,
    /// Their packets.
    pub packets: u64,
    /// Bytes of these on the wire, without the tunnels around them.
    pub wire_bytes: u64,
    /// Bytes of the streams that were never captured.
    pub missing_bytes: u64,
    /// Requests and other exchanges that are over.
    pub exchanges: u64,
    /// Of them, those whose reply says that the request failed.
    pub failed: u64,
    /// Of them, those whose flow ended before a reply.
    pub unanswered: u64,
}

/// What a service runs in: container, pod, systemd unit. What is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RunsIn {
    /// What runs the container: `docker`, `containerd`, `cri-o`, `podman`, `lxc` …
    pub runtime: String,
    /// The container's id.
    pub container: String,
    /// The container's name; of a pod's container, the name that the pod gives it.
    pub name: String,
    /// The image that it was made of.
    pub image: String,
    /// The pod.
    pub pod: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// The deployment, by the form of the pod's name.
    pub deployment: String,
    /// The systemd unit.
    pub unit: String,
}

/// A listening service: what serves, and where. Never a pid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Service {
    /// Name of the task that holds the listener; empty where not known.
    pub command: String,
    /// `tcp`, `udp`, `unix`, `other`.
    pub transport: &'static str,
    /// Local address; the path of a UNIX socket.
    pub address: String,
    /// Port; none for UNIX sockets.
    pub port: Option<u16>,
    /// Network namespace.
    pub netns: u32,
    /// cgroup of that task.
    pub cgroup: String,
    /// What it runs in.
    pub runs_in: RunsIn,
    /// Listening sockets.
    pub listeners: u64,
}
