//! Mirrors: copies of packets sent to where they can be captured, set up on Open vSwitch or with tc.
//!
//! ```text
//! request ─► plan: commands, and those that undo them ─► run one by one ─► marked rows, flows, filters
//! ```
//! Everything that is made carries a mark with the mirror's id: rows of the switch's database `external_ids:wakepath`, flows the
//! upper half of their cookie, interfaces with filters a second name. Marks are where the things are, so nothing is written
//! down elsewhere, and [`clean`] finds what a killed set-up left. A command makes its mark before, or in one transaction with,
//! what it marks.

mod command;
mod ovs;
mod plan;
mod selection;
mod tc;

pub use command::Command;
pub use plan::{Direction, Plan, Take, To, TunnelKind};
pub use selection::{Cut, Flags, Prefix, Selection};

use crate::CaptureError;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How long another set-up or clean-up is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(15);

/// Names a mirror, in the marks of all that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MirrorId(pub u32);

impl MirrorId {
    /// A new one.
    pub fn random() -> Result<MirrorId, CaptureError> {
        getrandom::u32().map(MirrorId).map_err(|e| CaptureError::Mirror(format!("no random number: {e}")))
    }
}

impl fmt::Display for MirrorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl FromStr for MirrorId {
    type Err = String;
    fn from_str(s: &str) -> Result<MirrorId, String> {
        match u32::from_str_radix(s, 16) {
            Ok(id) if s.len() == 8 => Ok(MirrorId(id)),
            _ => Err(format!("{s}: no mirror's id; `wakepath mirror show` names those that there are")),
        }
    }
}

/// Where the switch is to be found.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    /// Its database, as ovs-vsctl's `--db` takes it; none = the usual place in `run`.
    pub db: Option<String>,
    /// The folder of its sockets; none = the distribution's.
    pub run: Option<PathBuf>,
}

/// A mirror that is to be.
#[derive(Clone, Debug)]
pub enum Request {
    /// On a bridge of Open vSwitch.
    Bridge {
        /// The bridge; none = the only one that there is.
        bridge: Option<String>,
        /// Which packets.
        take: Take,
        /// Where copies go.
        to: To,
        /// How much of each; none = all.
        cut: Option<Cut>,
    },
    /// On an interface, by the kernel's traffic control.
    Interface {
        /// The interface.
        interface: String,
        /// The interface that copies leave by.
        to: String,
        /// Which way.
        direction: Direction,
        /// Which packets; none = all.
        selection: Option<Selection>,
    },
}

/// A thing that a mirror made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Of which mirror.
    pub id: MirrorId,
    /// `mirror`, `port`, `flow`, `filter`, `qdisc` or `mark`.
    pub kind: &'static str,
    /// The bridge or interface that it is on.
    pub on: String,
    /// What it is, in the words of the tool that made it.
    pub text: String,
    /// Packets copied so far, where that is counted.
    pub packets: Option<u64>,
    /// Their bytes.
    pub bytes: Option<u64>,
}

/// What there is, and what could not be looked at.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// All that carries a mark, by mirror.
    pub parts: Vec<Part>,
    /// Why something was not looked at, in sentences.
    pub notices: Vec<String>,
}

/// Plans a mirror, looking at what there is and changing nothing.
///
/// Errors say why it cannot be, or would change what is not ours, and what to do instead.
pub fn plan(switch: &Switch, id: MirrorId, request: &Request) -> Result<Plan, CaptureError> {
    match request {
        Request::Bridge { bridge, take, to, cut } => {
            let bridge = ovs::check(switch, bridge.as_deref(), take, to, *cut)?;
            plan::on_bridge(switch, id, &bridge, take, to, *cut)
        }
        Request::Interface { interface, to, direction, selection } => {
            let has_qdisc = tc::check(interface, to, *direction)?;
            plan::on_interface(id, interface, to, *direction, selection.as_ref(), has_qdisc)
        }
    }
}

/// Carries a plan out. Where a command fails, what was made before it is undone.
pub fn set_up(switch: &Switch, id: MirrorId, request: &Request) -> Result<Plan, CaptureError> {
    let lock = Lock::take()?;
    let mut plan = plan(switch, id, request)?;
    for command in &plan.commands {
        if let Err(e) = command.run() {
            let mut words = e;
            if let Err(e) = clean_locked(switch, &[id]) {
                words = format!("{words}; and undoing it failed: {e}. `wakepath mirror clean {id}` tries again");
            }
            return Err(CaptureError::Mirror(words));
        }
    }
    if matches!(request, Request::Bridge { take: Take::Ports(..), .. }) {
        plan.notices.extend(ovs::look_anew(switch).err());
    }
    drop(lock);
    Ok(plan)
}

/// Looks for everything that carries a mark.
pub fn show(switch: &Switch) -> Result<Found, CaptureError> {
    let mut found = Found::default();
    ovs::find(switch, &mut found)?;
    tc::find(&mut found)?;
    found.parts.sort_by(|a, b| (a.id, a.kind, &a.on, &a.text).cmp(&(b.id, b.kind, &b.on, &b.text)));
    Ok(found)
}

/// The commands that would undo these mirrors; all of them where none is named.
pub fn plan_clean(switch: &Switch, ids: &[MirrorId]) -> Result<Vec<Command>, CaptureError> {
    let found = show(switch)?;
    let parts: Vec<&Part> = found.parts.iter().filter(|p| ids.is_empty() || ids.contains(&p.id)).collect();
    let mut commands = ovs::undo(switch, &parts);
    commands.extend(tc::undo(&parts));
    Ok(commands)
}

/// What there is of Open vSwitch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Its tools are not on this host.
    Missing,
    /// It does not answer; in its tool's words.
    Silent(String),
    /// It has these bridges.
    There(Vec<String>),
}

/// Looks for a switch.
pub fn look(switch: &Switch) -> Looked {
    ovs::look(switch)
}

/// Undoes these mirrors, or all; what was removed.
pub fn clean(switch: &Switch, ids: &[MirrorId]) -> Result<Found, CaptureError> {
    let _lock = Lock::take()?;
    clean_locked(switch, ids)
}

fn clean_locked(switch: &Switch, ids: &[MirrorId]) -> Result<Found, CaptureError> {
    let before = show(switch)?;
    let mut error = None;
    // what a killed set-up had sent may arrive after the first look
    for _ in 0..4 {
        let commands = plan_clean(switch, ids)?;
        if commands.is_empty() {
            let mut removed = before;
            removed.parts.retain(|p| ids.is_empty() || ids.contains(&p.id));
            if removed.parts.iter().any(|p| p.kind == "mirror") {
                removed.notices.extend(ovs::look_anew(switch).err());
            }
            return Ok(removed);
        }
        // one that fails leaves the others to be done
        for command in commands {
            if let Err(e) = command.run() {
                error = Some(e);
            }
        }
    }
    let words = error.unwrap_or_else(|| "something makes them again".into());
    Err(CaptureError::Mirror(format!("not all of it could be undone: {words}")))
}

/// Held while something is changed. It is a name of the network namespace and no file: the kernel takes it back when the
/// last process that has it is gone, and commands that were started have it too, so that a killed one's are waited for.
struct Lock(#[expect(dead_code, reason = "held")] std::os::fd::OwnedFd);

impl Lock {
    fn take() -> Result<Lock, CaptureError> {
        use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
        // SAFETY: zero is a valid value of every field.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as u16;
        // a name that begins with a zero byte is no file
        let name = b"wakepath-mirror";
        for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
        // SAFETY: plain values. No CLOEXEC: see above.
        let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0) };
        if fd < 0 {
            return Err(CaptureError::Mirror(format!("a socket: {}", std::io::Error::last_os_error())));
        }
        // SAFETY: just made, and owned by nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let begin = Instant::now();
        loop {
            // SAFETY: the address is live and at least as long as given.
            let r = unsafe {
                libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length as libc::socklen_t)
            };
            if r == 0 {
                return Ok(Lock(socket));
            }
            let e = std::io::Error::last_os_error();
            if e.raw_os_error() != Some(libc::EADDRINUSE) || begin.elapsed() > LOCK_WAIT {
                return Err(CaptureError::Mirror(format!(
                    "another `wakepath mirror` is at work here and does not end ({e}); `ss -xa | grep wakepath-mirror` \
                     names its socket"
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
