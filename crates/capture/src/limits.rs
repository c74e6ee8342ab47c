//! What bounds processes: processors of the host, quotas of cgroups, affinity.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the hierarchies that may bound processor time are mounted.
#[derive(Clone, Debug, Default)]
pub struct Cgroups {
    v1: Option<Mount>,
    v2: Option<Mount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// Where.
    point: PathBuf,
    /// The cgroup that is mounted there.
    root: String,
}

/// How much processor time the tasks of a cgroup get together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The cgroup that bounds, from the root of its hierarchy as far as it can be seen from here.
    pub cgroup: String,
    /// So much (ns) …
    pub quota_ns: u64,
    /// … in each such period (ns).
    pub period_ns: u64,
}

impl Quota {
    /// Whether it gives less than another.
    fn is_less(&self, than: &Quota) -> bool {
        u128::from(self.quota_ns) * u128::from(than.period_ns) < u128::from(than.quota_ns) * u128::from(self.period_ns)
    }
}

impl Cgroups {
    /// The hierarchies of this mount namespace.
    pub fn find() -> Cgroups {
        Cgroups::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Those that there are, with their versions and where they are mounted.
    pub fn hierarchies(&self) -> impl Iterator<Item = (u8, &Path)> {
        [(1, &self.v1), (2, &self.v2)].into_iter().filter_map(|(n, m)| Some((n, m.as_ref()?.point.as_path())))
    }

    fn parse(mountinfo: &str) -> Cgroups {
        let mut found = Cgroups::default();
        for line in mountinfo.lines() {
            let Some((own, file_system)) = line.split_once(" - ") else { continue };
            let mut own = own.split(' ').skip(3);
            let (Some(root), Some(point)) = (own.next(), own.next()) else { continue };
            let mount = || Some(Mount { point: unescaped(point).into(), root: unescaped(root) });
            let mut about = file_system.split(' ');
            match about.next() {
                Some("cgroup") if about.nth(1).is_some_and(|o| o.split(',').any(|o| o == "cpu")) => found.v1 = mount(),
                Some("cgroup2") => found.v2 = mount(),
                _ => {}
            }
        }
        found
    }

    /// The least quota of a process whose `/proc/PID/cgroup` this is, of its cgroup and those above; `None` where it has
    /// none. Threads of one process in several cgroups (version 1 allows it) are not told apart: the leader's is taken.
    pub fn quota(&self, cgroups: &[u8]) -> Option<Quota> {
        let cgroups = std::str::from_utf8(cgroups).ok()?;
        let paths = cgroups.lines().filter_map(|l| {
            let mut parts = l.splitn(3, ':');
            Some((parts.next()?, parts.next()?, parts.next()?))
        });
        let (mut v1, mut v2) = (None, None);
        for (id, controllers, path) in paths {
            match controllers {
                "" if id == "0" => v2 = Some(path),
                c if c.split(',').any(|c| c == "cpu") => v1 = Some(path),
                _ => {}
            }
        }
        // a controller is in one hierarchy only
        match (v1, v2) {
            (Some(path), _) => least(self.v1.as_ref()?, path, quota_v1),
            (None, Some(path)) => least(self.v2.as_ref()?, path, quota_v2),
            (None, None) => None,
        }
    }
}

/// A path as `/proc/*/mountinfo` writes it: blanks, tabs, line feeds and backslashes are `\NNN`, in octal (proc(5)).
fn unescaped(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte.into());
                out.push_str(&part[3..]);
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

/// The least on the way from a cgroup up to what is mounted.
fn least(mount: &Mount, path: &str, read: fn(&Path) -> Option<(u64, u64)>) -> Option<Quota> {
    let below = match mount.root.as_str() {
        "/" => path,
        root => path.strip_prefix(root)?,
    };
    let mut below = below.trim_matches('/');
    // outside what this namespace sees
    if below.starts_with("..") {
        return None;
    }
    let mut found: Option<Quota> = None;
    while !below.is_empty() {
        if let Some((quota_ns, period_ns)) = read(&mount.point.join(below)) {
            let quota = Quota { cgroup: format!("/{below}"), quota_ns, period_ns };
            if found.as_ref().is_none_or(|f| quota.is_less(f)) {
                found = Some(quota);
            }
        }
        below = below.rsplit_once('/').map_or("", |(above, _)| above);
    }
    // a container's own root is bounded too, where it is the only one that can be seen
    if let Some((quota_ns, period_ns)) = read(&mount.point) {
        let quota = Quota { cgroup: "/".into(), quota_ns, period_ns };
        if found.as_ref().is_none_or(|f| quota.is_less(f)) {
            found = Some(quota);
        }
    }
    found
}

/// Quota and period (ns) of a cgroup of version 1.
fn quota_v1(dir: &Path) -> Option<(u64, u64)> {
    let number = |file: &str| fs::read_to_string(dir.join(file)).ok()?.trim().parse::<i64>().ok();
    // -1 = none
    let quota = u64::try_from(number("cpu.cfs_quota_us")?).ok()?;
    in_ns(quota, u64::try_from(number("cpu.cfs_period_us")?).ok()?)
}

/// The same of version 2.
fn quota_v2(dir: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(dir.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    // "max" = none
    in_ns(quota.parse().ok()?, period.parse().ok()?)
}

fn in_ns(quota_us: u64, period_us: u64) -> Option<(u64, u64)> {
    (period_us > 0).then(|| Some((quota_us.checked_mul(1000)?, period_us.checked_mul(1000)?)))?
}

/// Processors of this host that are online.
pub fn processors() -> u64 {
    // SAFETY: asks for a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(0)
}

/// On how many processors a process's leader may run, and which of the first 64 these are; `None` where it is gone.
pub fn affinity(tgid: u32) -> Option<(u64, u64)> {
    // as many processors as the kernel programs have room for
    let mut set = [0u64; wakepath_wire::MAX_CPUS as usize / 64];
    // SAFETY: the size given is that of the array, which the kernel fills from its begin.
    let bytes =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, tgid as libc::pid_t, size_of_val(&set), set.as_mut_ptr()) };
    (bytes > 0).then(|| (set.iter().map(|w| u64::from(w.count_ones())).sum(), set[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hierarchy in a folder.
    fn tree(files: &[(&str, &str)]) -> (PathBuf, impl Drop) {
        struct Gone(PathBuf);
        impl Drop for Gone {
            fn drop(&mut self) {
                fs::remove_dir_all(&self.0).expect("it can be removed");
            }
        }
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("wakepath-limits-{}-{n}", std::process::id()));
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        (root.clone(), Gone(root))
    }

    fn quota(cgroup: &str, quota_ns: u64, period_ns: u64) -> Option<Quota> {
        Some(Quota { cgroup: cgroup.into(), quota_ns, period_ns })
    }

    #[test]
    fn the_least_quota_of_version_1_holds() {
        let (point, _gone) = tree(&[
            ("a/cpu.cfs_quota_us", "20000\n"),
            ("a/cpu.cfs_period_us", "100000\n"),
            ("a/b/cpu.cfs_quota_us", "30000\n"),
            ("a/b/cpu.cfs_period_us", "100000\n"),
            ("a/b/c/cpu.cfs_quota_us", "-1\n"),
            ("a/b/c/cpu.cfs_period_us", "100000\n"),
            ("a/d/cpu.cfs_quota_us", "1500\n"),
            ("a/d/cpu.cfs_period_us", "10000\n"),
        ]);
        let found = Cgroups { v1: Some(Mount { point: point.clone(), root: "/".into() }), v2: None };
        let of = |path: &str| found.quota(format!("4:memory:/a/d\n3:cpu,cpuacct:{path}\n0::/x\n").as_bytes());
        assert_eq!(of("/a/b/c"), quota("/a", 20_000_000, 100_000_000));
        assert_eq!(of("/a/d"), quota("/a/d", 1_500_000, 10_000_000));
        assert_eq!(of("/"), None);
        assert_eq!(of("/../elsewhere"), None);
        // a container that sees its own cgroup as the mount, by its name outside
        let inside = Cgroups { v1: Some(Mount { point: point.join("a"), root: "/docker/1".into() }), v2: None };
        assert_eq!(inside.quota(b"3:cpu:/docker/1/d\n"), quota("/d", 1_500_000, 10_000_000));
        assert_eq!(inside.quota(b"3:cpu:/docker/1\n"), quota("/", 20_000_000, 100_000_000));
        assert_eq!(inside.quota(b"3:cpu:/docker/2\n"), None);
    }

    #[test]
    fn the_least_quota_of_version_2_holds() {
        let (point, _gone) = tree(&[
            ("s/cpu.max", "max 100000\n"),
            ("s/a/cpu.max", "50000 100000\n"),
            ("s/a/b/cpu.max", "9000 10000\n"),
            ("odd/cpu.max", "5 0\n"),
            ("odder/cpu.max", "18446744073709551615 1\n"),
        ]);
        let found = Cgroups { v1: None, v2: Some(Mount { point, root: "/".into() }) };
        assert_eq!(found.quota(b"0::/s/a/b\n"), quota("/s/a", 50_000_000, 100_000_000));
        assert_eq!(found.quota(b"0::/s\n"), None);
        assert_eq!(found.quota(b"0::/odd\n"), None);
        assert_eq!(found.quota(b"0::/odder\n"), None);
        assert_eq!(found.quota(b"nonsense"), None);
    }

    /// What systemd makes: slices and scopes, most of them unlimited, several of them with quotas of other periods.
    #[test]
    fn of_nested_cgroups_the_tightest_share_counts_whatever_its_period() {
        let (point, _gone) = tree(&[
            ("system.slice/cpu.max", "max 100000\n"),
            ("system.slice/web.slice/cpu.max", "150000 100000\n"),
            ("system.slice/web.slice/a b.service/cpu.max", "max 50000\n"),
            ("system.slice/web.slice/c.service/cpu.max", "20000 10000\n"),
            ("system.slice/web.slice/c.service/inner/cpu.max", "1000 1000\n"),
            ("system.slice/tight.service/cpu.max", "1000 1000000\n"),
            ("user.slice/empty/cgroup.procs", ""),
            ("torn/cpu.max", "100\n"),
            ("negative/cpu.max", "-1 100000\n"),
        ]);
        let found = Cgroups { v1: None, v2: Some(Mount { point: point.clone(), root: "/".into() }) };
        let of = |path: &str| found.quota(format!("0::{path}\n").as_bytes());
        let web = quota("/system.slice/web.slice", 150_000_000, 100_000_000);
        assert_eq!(of("/system.slice/web.slice/a b.service"), web);
        // two processors for it alone, one and a half with its siblings
        assert_eq!(of("/system.slice/web.slice/c.service"), web);
        assert_eq!(of("/system.slice/web.slice/c.service/inner").map(|q| q.quota_ns), Some(1_000_000));
        assert_eq!(
            of("/system.slice/tight.service").map(|q| (q.quota_ns, q.period_ns)),
            Some((1_000_000, 1_000_000_000))
        );
        for none in ["/system.slice", "/user.slice/empty", "/torn", "/negative", "/gone", "/", ""] {
            assert_eq!(of(none), None, "{none}");
        }
        // a container whose namespace begins at its own cgroup, and one that is given the host's name of it
        let own =
            Cgroups { v1: None, v2: Some(Mount { point: point.join("system.slice/tight.service"), root: "/".into() }) };
        assert_eq!(own.quota(b"0::/\n"), quota("/", 1_000_000, 1_000_000_000));
        // both versions: the controller is where version 1 names it, and version 2 then bounds no processor time
        let both = Cgroups { v1: Some(Mount { point: point.join("none"), root: "/".into() }), ..found.clone() };
        assert_eq!(both.quota(b"3:cpu,cpuacct:/x\n0::/system.slice/tight.service\n"), None);
        assert_eq!(both.quota(b"3:memory:/x\n0::/system.slice/tight.service\n").map(|q| q.quota_ns), Some(1_000_000));
    }

    #[test]
    fn only_a_process_bound_to_fewer_processors_has_its_own_mask() {
        let before = affinity(0).expect("this thread's own");
        // SAFETY: a set of this function's own, for the calling thread alone.
        let bound = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(before.1.trailing_zeros() as usize, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
        };
        assert_eq!(bound, 0);
        assert_eq!(affinity(0), Some((1, 1 << before.1.trailing_zeros())));
    }

    #[test]
    fn hierarchies_are_found_among_mounts() {
        let text = "25 1 0:22 / /proc rw - proc proc rw\n\
                    31 1 0:26 /docker/1 /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                    32 1 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                    33 1 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n\
                    broken\n";
        let found = Cgroups::parse(text);
        let mount = |point: &str, root: &str| Some(Mount { point: point.into(), root: root.into() });
        assert_eq!(found.v1, mount("/sys/fs/cgroup/cpu,cpuacct", "/docker/1"));
        assert_eq!(found.v2, mount("/sys/fs/cgroup/unified", "/"));
        assert_eq!(found.hierarchies().map(|(n, _)| n).collect::<Vec<_>>(), [1, 2]);
        let odd = Cgroups::parse("9 1 0:9 /a\\040b /mnt/c\\134d\\x rw - cgroup2 none rw\n");
        assert_eq!((odd.v1.as_ref(), odd.v2.clone()), (None, mount("/mnt/c\\d\\x", "/a b")));
    }

    #[test]
    fn own_affinity_is_within_the_host() {
        let (count, first) = affinity(std::process::id()).expect("it lives");
        assert!(count >= 1 && first.count_ones() as u64 <= count, "{count} {first:x}");
        assert!(count <= processors().max(1), "{count} of {}", processors());
        assert_eq!(affinity(u32::MAX >> 1), None);
    }
}
