//! An Open vSwitch of the test's own, in user space, in a network namespace of the test's thread: three hosts on one bridge,
//! each the other end of a virtual cable, and a host that is reached through a bridge of its own, for tunnels.

use crate::support::wakepath;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Address of the analysis host at the end of a tunnel.
pub const REMOTE: &str = "10.77.1.2";

/// A switch with bridge `br0` and ports `pa`, `pb` and `pm`, whose other ends are `ha`, `hb` and `hm`.
pub struct Bed {
    folder: tempfile::TempDir,
    servers: Vec<Child>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        for server in self.servers.iter_mut().rev() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Bed {
    /// Starts it; none, and says so, where something for it is missing.
    pub fn start() -> Option<Bed> {
        let mut bed = Bed::without_switch()?;
        const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
        let has = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
        if !["ovsdb-server", "ovs-vswitchd", "ovs-vsctl"].into_iter().all(has) || !PathBuf::from(SCHEMA).exists() {
            println!("skipped: Open vSwitch is missing (apt-get install openvswitch-switch)");
            return None;
        }
        let folder = bed.folder.path().to_owned();
        let path = |name: &str| folder.join(name).display().to_string();
        bed.tool("ovsdb-tool", &["create", &path("conf.db"), SCHEMA]);
        let remote = format!("--remote=punix:{}", path("db.sock"));
        let ctl = |name: &str| format!("--unixctl={}", path(name));
        let (database, log) = (path("conf.db"), "-vconsole:off");
        bed.serve("ovsdb-server", &[&database, &remote, &ctl("db.ctl"), log]);
        bed.wait_for("db.sock");
        bed.tool("ovs-vsctl", &["--no-wait", "init"]);
        bed.serve("ovs-vswitchd", &[&format!("unix:{}", path("db.sock")), &ctl("switch.ctl"), log, "--disable-system"]);
        bed.tool(
            "ovs-vsctl",
            &["--timeout=120", "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"],
        );
        for name in ["a", "b", "m"] {
            bed.cable(name);
            bed.tool("ovs-vsctl", &["--timeout=120", "add-port", "br0", &format!("p{name}")]);
        }
        Some(bed)
    }

    /// Only the namespace.
    pub fn without_switch() -> Option<Bed> {
        // SAFETY: moves this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            println!("skipped: a network namespace needs root: {}", std::io::Error::last_os_error());
            return None;
        }
        let bed = Bed { folder: tempfile::tempdir().expect("a folder"), servers: Vec::new() };
        bed.tool("ip", &["link", "set", "lo", "up"]);
        Some(bed)
    }

    /// A cable from `pNAME` to `hNAME`. No IPv6, so that nobody sends of its own accord.
    pub fn cable(&self, name: &str) {
        let (p, h) = (format!("p{name}"), format!("h{name}"));
        self.tool("ip", &["link", "add", &p, "type", "veth", "peer", "name", &h]);
        for end in [&p, &h] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
            self.tool("ip", &["link", "set", end, "up"]);
        }
    }

    /// A way to [`REMOTE`]: a bridge with this host's address, whose only port is the cable `pt`.
    pub fn add_way(&self) {
        self.tool(
            "ovs-vsctl",
            &["--timeout=120", "add-br", "way", "--", "set", "bridge", "way", "datapath_type=netdev"],
        );
        self.cable("t");
        self.tool("ovs-vsctl", &["--timeout=120", "add-port", "way", "pt"]);
        // an address of IPv6 that is added a second later makes the switch forget its neighbours
        let _ = fs::write("/proc/sys/net/ipv6/conf/way/disable_ipv6", "1");
        self.tool("ip", &["addr", "add", "10.77.1.1/24", "dev", "way"]);
        self.tool("ip", &["link", "set", "way", "up"]);
        self.tool("ip", &["neigh", "add", REMOTE, "lladdr", "02:00:00:00:00:07", "dev", "way"]);
        self.introduce_remote();
    }

    /// Tells the switch where [`REMOTE`] is. It forgets that whenever the addresses or the state of `way` change, asks for it
    /// and drops what would go there: nobody answers.
    pub fn introduce_remote(&self) {
        self.appctl(&["tnl/arp/set", "way", REMOTE, "02:00:00:00:00:07"]);
    }

    /// Asks the switch itself for something.
    pub fn appctl(&self, args: &[&str]) {
        let target = format!("--target={}", self.folder.path().join("switch.ctl").display());
        self.tool("ovs-appctl", &[&[target.as_str()], args].concat());
    }

    fn serve(&mut self, program: &str, args: &[&str]) {
        let log = File::create(self.folder.path().join(format!("{program}.log"))).expect("a file");
        let child = self
            .command(program, args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it starts");
        self.servers.push(child);
    }

    /// Until a server answers on its socket. That the file is there is not enough: it appears when the server binds the
    /// socket, and a client is refused until the server also listens.
    fn wait_for(&self, name: &str) {
        let (socket, end) = (self.folder.path().join(name), Instant::now() + Duration::from_secs(120));
        while let Err(refused) = UnixStream::connect(&socket) {
            assert!(Instant::now() < end, "nobody listens on {name}: {refused}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, self.folder.path());
        }
        command
    }

    /// Runs a tool, which must succeed; its output.
    pub fn tool(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program, args).stdin(Stdio::null()).output().expect("it starts");
        assert!(output.status.success(), "{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// `wakepath mirror …` on this switch.
    pub fn mirror_command(&self, args: &[&str]) -> Command {
        let mut command = wakepath(&["mirror"]);
        command.args(args);
        if args.first() != Some(&"tc") {
            command.arg("--ovs-run").arg(self.folder.path());
        }
        command
    }

    /// The same, run.
    pub fn mirror(&self, args: &[&str]) -> Output {
        self.mirror_command(args).output().expect("it starts")
    }

    /// The same, which must succeed; its answer.
    pub fn mirrored(&self, args: &[&str]) -> String {
        let output = self.mirror(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Everything that a mirror could have changed, without what counts by itself.
    pub fn state(&self) -> String {
        let mut state = self.tc_state();
        if self.servers.is_empty() {
            return state;
        }
        for (table, columns) in [
            ("Bridge", "name,ports,mirrors,external_ids,other_config,fail_mode,controller"),
            ("Port", "_uuid,name,interfaces,external_ids,other_config,tag,trunks"),
            ("Interface", "_uuid,name,type,options,external_ids,other_config,ofport"),
            ("Mirror", "_uuid,name,external_ids"),
        ] {
            let columns = format!("--columns={columns}");
            let mut rows: Vec<String> = self
                .tool("ovs-vsctl", &["--timeout=120", "--format=csv", &columns, "list", table])
                .lines()
                .map(str::to_owned)
                .collect();
            rows.sort();
            let _ = writeln!(state, "{table}\n{}", rows.join("\n"));
        }
        for bridge in self.tool("ovs-vsctl", &["--timeout=120", "list-br"]).lines() {
            let mut flows: Vec<String> = self
                .tool("ovs-ofctl", &["--no-stats", "dump-flows", bridge])
                .lines()
                .filter(|l| l.contains("actions="))
                .map(str::to_owned)
                .collect();
            flows.sort();
            let _ = writeln!(state, "flows of {bridge}\n{}", flows.join("\n"));
        }
        state
    }

    fn tc_state(&self) -> String {
        // carriers come and go by themselves
        let mut state: String = self
            .tool("ip", &["-j", "-p", "link", "show"])
            .lines()
            .filter(|l| !l.contains("\"flags\"") && !l.contains("\"operstate\""))
            .map(|l| format!("{l}\n"))
            .collect();
        let names: Vec<String> = self
            .tool("ip", &["-br", "link", "show"])
            .lines()
            .filter_map(|l| l.split([' ', '@']).next().map(str::to_owned))
            .collect();
        for name in names {
            let _ = writeln!(state, "{name}\n{}", self.tool("tc", &["qdisc", "show", "dev", &name]));
            for hook in ["ingress", "egress"] {
                // without a qdisc for it, that is an error or nothing, as the version may be
                let output = self.command("tc", &["filter", "show", "dev", &name, hook]).output().expect("it starts");
                state.push_str(&String::from_utf8_lossy(&output.stdout));
            }
        }
        state
    }
}
