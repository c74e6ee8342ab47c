//! Who is recorded: what was asked for, which processes fit it now, and which come to fit it while the recording goes on.

use crate::cli::RecordArgs;
use crate::output::tell;
use crate::sink::Sink;
use anyhow::{Result, bail};
use std::collections::HashSet;
use wakepath_capture::{KernelSource, SelectionRules, Watch, monotonic_ns, procfs};
use wakepath_decode::KernelDecoder;
use wakepath_model::ids::MonoNs;
use wakepath_wire::{self as w, Frame};

/// Most processes that wait to be looked at.
const WAITING_MAX: usize = 4096;
/// The first process of the host: it holds sockets for services that it starts, and is everybody's ancestor.
const INIT: u32 = 1;

/// Whose doings are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Everybody's.
    All,
    /// Those of the processes that selectors name.
    Selected,
    /// Those of the command alone.
    Command,
}

/// What selectors ask for. Each is a rule that holds as long as the recording does.
#[derive(Clone, Debug, Default)]
pub struct Selectors {
    pids: Vec<u32>,
    rules: SelectionRules,
}

impl Selectors {
    /// As the command line has them.
    pub fn of(args: &RecordArgs) -> Selectors {
        let mounts = if args.cgroup.is_empty() { None } else { std::fs::read_to_string("/proc/self/mountinfo").ok() };
        let cgroups = args.cgroup.iter().map(|c| in_hierarchy(c, mounts.as_deref().unwrap_or_default()));
        let rules = SelectionRules { comms: args.comm.clone(), ports: args.port.clone(), cgroups: cgroups.collect() };
        Selectors { pids: args.pid.clone(), rules }
    }

    /// Whose doings are recorded with them.
    pub fn watched(&self, args: &RecordArgs) -> Watched {
        let is_empty = self.pids.is_empty() && self.rules == SelectionRules::default();
        match (is_empty, args.command.is_empty()) {
            _ if args.all => Watched::All,
            (false, _) => Watched::Selected,
            (true, false) => Watched::Command,
            (true, true) => Watched::All,
        }
    }

    /// What the kernel programs go by from their first moment on.
    pub fn for_kernel(&self, watched: Watched) -> (Watch, SelectionRules) {
        match watched {
            Watched::All => (Watch::All, SelectionRules::default()),
            // which processes fit now is looked up when the programs are there, so that none comes in between
            Watched::Selected => (Watch::Processes(self.pids.clone()), self.rules.clone()),
            // its own process is added when it starts
            Watched::Command => (Watch::Processes(Vec::new()), SelectionRules::default()),
        }
    }

    /// Whether processes that do not exist yet may fit.
    fn may_fit_later(&self) -> bool {
        self.rules != SelectionRules::default()
    }

    /// Processes that fit by their number, name or cgroup.
    fn found(&self) -> Vec<u32> {
        let SelectionRules { comms, cgroups, .. } = &self.rules;
        let mut chosen = self.pids.clone();
        if comms.is_empty() && cgroups.is_empty() {
            return chosen;
        }
        let fits = |tgid: &u32| {
            comms.iter().any(|c| procfs::comm(*tgid).is_some_and(|comm| comm == c.as_bytes())) || self.has_cgroup(*tgid)
        };
        chosen.extend(procfs::processes().into_iter().filter(fits));
        chosen
    }

    /// Whether a process is in one of the cgroups, or below one.
    fn has_cgroup(&self, tgid: u32) -> bool {
        let cgroups = &self.rules.cgroups;
        if cgroups.is_empty() {
            return false;
        }
        let text = procfs::cgroups(tgid).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut paths = text.lines().filter_map(|l| l.splitn(3, ':').nth(2));
        paths.any(|path| cgroups.iter().any(|c| is_below(path, c)))
    }
}

/// The processes that are recorded. Of what they make, the rows tell.
pub struct Selection {
    selectors: Selectors,
    pids: Vec<u32>,
    /// The command that is watched and was not met yet.
    command: Option<u32>,
    /// Processes of which the kernel programs said that they fit now.
    selected: Vec<u32>,
    /// Processes that were made into another cgroup than their parent's.
    placed: Vec<u32>,
}

impl Selection {
    /// Watches the processes that fit now, and their descendants. `sockets`: a snapshot that was taken since the programs are there;
    /// `first`: what is to be done of each before it is watched.
    pub fn begin(
        args: &RecordArgs,
        source: &mut KernelSource,
        sockets: &[Vec<u8>],
        mut first: impl FnMut(&mut KernelSource, u32),
    ) -> Result<Selection> {
        let selectors = Selectors::of(args);
        let mut chosen = selectors.found();
        let mut unheld: Vec<u16> = Vec::new();
        for port in &selectors.rules.ports {
            let holders = holders_of(sockets, *port);
            if holders.is_empty() {
                unheld.push(*port);
            }
            chosen.extend(holders);
        }
        chosen.retain(|&tgid| tgid != std::process::id());
        let mut processes: Vec<u32> = Vec::new();
        // until none is new: one that was made before its maker was watched is nobody's descendant yet
        loop {
            let found = with_descendants(chosen.clone());
            let new: Vec<u32> = found.into_iter().filter(|tgid| !processes.contains(tgid)).collect();
            if new.is_empty() {
                break;
            }
            for tgid in &new {
                first(source, *tgid);
                source.watch(*tgid)?;
            }
            processes.extend(new);
        }
        for port in unheld {
            tell!("--port {port}: no process listens there yet; one that does later is recorded from then on");
        }
        if processes.is_empty() && !selectors.may_fit_later() {
            bail!(
                "no process matches {}: nothing was recorded; start it first, or record everything with --all",
                args.selection()
            );
        }
        if processes.is_empty() {
            tell!("no process matches {} yet: recording begins with the first that does", args.selection());
        }
        Ok(Selection { selectors, pids: processes, command: None, selected: Vec::new(), placed: Vec::new() })
    }

    /// Where no selector chooses.
    pub fn none() -> Selection {
        let selectors = Selectors::default();
        Selection { selectors, pids: Vec::new(), command: None, selected: Vec::new(), placed: Vec::new() }
    }

    /// The processes that were found, each with its descendants then.
    pub fn processes(&self) -> &[u32] {
        &self.pids
    }

    /// A command is watched, which was just started.
    pub fn has_command(&mut self, pid: u32) {
        self.command = Some(pid);
    }

    /// Takes note of a record that says that a process fits now, or may.
    pub fn note(&mut self, f: &Frame<'_>) {
        if f.head().is_none_or(|h| h.kind != w::KIND_TASK || !matches!(h.sub, w::TASK_SELECTED | w::TASK_PLACED)) {
            return;
        }
        let Some(r) = f.read::<w::TaskEvent>() else { return };
        let list = if r.head.sub == w::TASK_SELECTED { &mut self.selected } else { &mut self.placed };
        if list.len() < WAITING_MAX {
            list.push(r.tgid);
        }
    }

    /// Gives the processes that came to fit since. Their records say it, but for those that were made into a cgroup: they are watched
    /// from here on, and it is written down.
    pub fn meet(
        &mut self,
        source: &mut KernelSource,
        decoder: &mut KernelDecoder,
        sink: &mut Sink,
    ) -> Result<Vec<u32>> {
        let mut met = std::mem::take(&mut self.selected);
        let at = MonoNs(monotonic_ns());
        for tgid in std::mem::take(&mut self.placed) {
            if !self.pids.contains(&tgid) && self.selectors.has_cgroup(tgid) {
                source.watch(tgid)?;
                decoder.watched(tgid, at, sink);
                met.push(tgid);
            }
        }
        if let Some(pid) = self.command.filter(|pid| decoder.watched(*pid, at, sink)) {
            self.pids.push(pid);
            self.command = None;
        }
        self.pids.extend(&met);
        Ok(met)
    }

    /// Writes down who is selected: at the begin, and in each segment that must stand alone.
    pub fn write(&self, decoder: &mut KernelDecoder, sink: &mut Sink) {
        let at = MonoNs(monotonic_ns());
        for pid in &self.pids {
            decoder.watched(*pid, at, sink);
        }
    }

    /// Forgets processes that ended, so that the list does not grow with the recording.
    pub fn forget_ended(&mut self) {
        let living: HashSet<u32> = procfs::processes().into_iter().collect();
        self.pids.retain(|pid| living.contains(pid));
    }
}

/// Refuses numbers that no process has.
pub fn check_pids(pids: &[u32]) -> Result<()> {
    match pids.iter().find(|&&pid| procfs::comm(pid).is_none()) {
        None => Ok(()),
        Some(pid) => {
            bail!("--pid {pid}: there is no such process; `pgrep -l NAME` finds processes, --comm NAME takes names")
        }
    }
}

/// A cgroup as the kernel names it, of one that may be given by its folder. `mounts`: as `/proc/self/mountinfo` has them.
fn in_hierarchy(cgroup: &str, mounts: &str) -> String {
    let within = mounts.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut words = mount.split(' ');
        let (root, place) = (words.nth(3)?, words.next()?);
        let rest = cgroup.strip_prefix(place).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        kind.starts_with("cgroup").then_some((root, rest))
    });
    match within.min_by_key(|(_, rest)| rest.len()) {
        Some(("/", "")) => "/".to_owned(),
        Some((root, rest)) => format!("{}{rest}", root.trim_end_matches('/')),
        None => cgroup.to_owned(),
    }
}

/// Whether a cgroup is this one or below it: `/shop` is not above `/shop2`.
fn is_below(cgroup: &str, top: &str) -> bool {
    cgroup.strip_prefix(top.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// These processes and those that they made, directly or not.
fn with_descendants(chosen: Vec<u32>) -> Vec<u32> {
    let mut seen: HashSet<u32> = chosen.iter().copied().collect();
    if seen.is_empty() {
        return chosen;
    }
    let parents = procfs::parents();
    let mut out: Vec<u32> = seen.iter().copied().collect();
    let mut from = 0;
    while from < out.len() {
        let above = from..out.len();
        from = above.end;
        let level: HashSet<u32> = out[above].iter().copied().collect();
        out.extend(parents.iter().filter(|(child, parent)| level.contains(parent) && seen.insert(*child)).map(|p| p.0));
    }
    out.sort_unstable();
    out
}

/// Who holds a socket of this port. Where others do, init is left out: it holds it for them.
fn holders_of(snapshot: &[Vec<u8>], port: u16) -> Vec<u32> {
    let flows = snapshot.iter().filter_map(|b| {
        let f = Frame { origin: 0, bytes: b };
        (f.head()?.kind == w::KIND_FLOW).then(|| f.read::<w::FlowSeen>()).flatten()
    });
    let mut out: Vec<u32> =
        flows.filter(|r| r.lport == port && r.family != 1 && r.tgid != INIT).map(|r| r.tgid).collect();
    out.sort_unstable();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_may_be_given_by_its_folder() {
        let mounts = "30 1 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      31 30 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw\n\
                      32 30 0:27 /docker/0123 /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n";
        assert_eq!(in_hierarchy("/sys/fs/cgroup/unified/shop/web", mounts), "/shop/web");
        assert_eq!(in_hierarchy("/sys/fs/cgroup/unified", mounts), "/");
        assert_eq!(in_hierarchy("/sys/fs/cgroup/cpu/shop", mounts), "/docker/0123/shop");
        assert_eq!(in_hierarchy("/shop", mounts), "/shop");
        let one = "31 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(in_hierarchy("/sys/fs/cgroup/system.slice/nginx.service", one), "/system.slice/nginx.service");
    }

    #[test]
    fn a_cgroup_is_above_what_is_in_it_and_not_above_its_namesakes() {
        for inside in ["/shop", "/shop/web", "/shop/web/1"] {
            assert!(is_below(inside, "/shop") && is_below(inside, "/shop/") && is_below(inside, "/"), "{inside}");
        }
        for outside in ["/shop2", "/shop2/web", "/", ""] {
            assert!(!is_below(outside, "/shop"), "{outside}");
        }
    }

    #[test]
    fn descendants_come_with_who_made_them() {
        let me = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let found = with_descendants(vec![me]);
        child.kill().expect("it is ours");
        child.wait().expect("it ended");
        assert!(found.contains(&me) && found.contains(&child.id()) && !found.contains(&INIT), "{found:?}");
        assert_eq!(with_descendants(Vec::new()), Vec::<u32>::new());
    }

    #[test]
    fn init_does_not_count_as_the_holder_of_a_port() {
        let flow = |tgid: u32, lport: u16, family: u16| {
            let mut r: w::FlowSeen = w::view(&[0; size_of::<w::FlowSeen>()]).expect("long enough");
            r.head =
                w::Head { tag: 0, bytes: size_of::<w::FlowSeen>() as u16, kind: w::KIND_FLOW, sub: w::FLOW_SNAPSHOT };
            (r.tgid, r.lport, r.family) = (tgid, lport, family as _);
            w::bytes_of(&r).to_vec()
        };
        let all = [flow(INIT, 80, 2), flow(9, 80, 10), flow(7, 80, 2), flow(9, 80, 2), flow(5, 81, 2), flow(6, 80, 1)];
        assert_eq!(holders_of(&all, 80), [7, 9]);
        assert_eq!(holders_of(&all, 82), Vec::<u32>::new());
    }
}
