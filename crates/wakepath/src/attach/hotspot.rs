//! HotSpot's own way to have an agent loaded: a socket in the process's temporary folder, which it opens at SIGQUIT.
//!
//! Everything here is bounded, in bytes and in time. The process is a watched one, and so is its temporary folder: what has another owner
//! than the process, or is a link, is not taken.

use super::signals;
use crate::owner;
use anyhow::{Context as _, Result, bail};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// How long the socket may take to open: the JVM comes to it when its threads have come to a safe point.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// How long the agent may take: methods are compiled anew, and the program may be short of processors.
const ANSWER_MAX: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(20);
/// Most bytes of an answer.
const BYTES_MAX: u64 = 1 << 16;
/// Where every HotSpot on Linux has its socket, whatever `java.io.tmpdir` says.
const TEMPORARY: &str = "/tmp";

/// A JVM that may be asked.
pub struct Machine {
    pid: u32,
    /// Its number as it sees itself.
    own: u32,
    uid: u32,
    gid: u32,
    /// Its temporary folder.
    folder: File,
}

impl Machine {
    /// Refuses where the JVM was told not to listen, or where the signal would end it.
    pub fn look(pid: u32) -> Result<Machine> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("reading its status")?;
        let numbers = |name: &str| -> Vec<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let (uid, gid) = (numbers("Uid:").get(1).copied(), numbers("Gid:").get(1).copied());
        let (Some(uid), Some(gid)) = (uid, gid) else { bail!("its user is not known") };
        let path = format!("/proc/{pid}/root{TEMPORARY}");
        // a link would lead out of the process's own files
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
        let folder = options.open(&path).with_context(|| format!("opening {path}; run it as root"))?;
        let own = numbers("NSpid:").last().copied().unwrap_or(pid);
        let machine = Machine { pid, own, uid, gid, folder };
        if machine.is_told_not_to() {
            bail!(
                "nothing was done: it was started with -XX:+DisableAttachMechanism, so nothing can be loaded into it"
            );
        }
        let is_caught = signals(&status, "SigCgt:").is_some_and(|set| set >> (libc::SIGQUIT - 1) & 1 == 1);
        if !is_caught && !machine.listens() {
            bail!(
                "nothing was done: it does not handle SIGQUIT, at which a JVM opens its attach socket (was it started with -Xrs?), so \
                 the signal would end it"
            );
        }
        Ok(machine)
    }

    fn is_told_not_to(&self) -> bool {
        const OPTION: &[u8] = b"-XX:+DisableAttachMechanism";
        let files = ["cmdline", "environ"].map(|name| std::fs::read(format!("/proc/{}/{name}", self.pid)));
        let mut words = files.iter().flatten().flat_map(|bytes| bytes.split(|b| matches!(b, 0 | b' ' | b'=' | b'"')));
        // an option has no `=`, and stands behind that of a variable
        words.any(|word| word == OPTION)
    }

    fn socket_name(&self) -> String {
        format!(".java_pid{}", self.own)
    }

    fn listens(&self) -> bool {
        let found = statat(&self.folder, self.socket_name(), AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|file| FileType::from_raw_mode(file.st_mode) == FileType::Socket && file.st_uid == self.uid)
    }

    /// Has the agent loaded and told `what`; gives what it says. All of it is done as the process's user: who may change the
    /// folder leads us to nothing that is root's.
    pub fn load(&self, agent: &[u8], what: &str) -> Result<String> {
        let done = owner::as_user(self.uid, self.gid, || self.load_as_user(agent, what));
        done.context("becoming the process's user; run it as root, or as that user")?
    }

    fn load_as_user(&self, agent: &[u8], what: &str) -> Result<String> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // one that is there already is none of ours, and is not taken
        let name = format!("wakepath-{}-{:x}", self.own, since.as_nanos());
        mkdirat(&self.folder, &name, Mode::RWXU).with_context(|| format!("making a folder in its {TEMPORARY}"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.folder, &name, flags, Mode::empty()).map_err(std::io::Error::from);
        let place = File::from(opened.with_context(|| format!("{TEMPORARY}/{name} was replaced; nothing was done"))?);
        let told = self.load_from(&place, &format!("{TEMPORARY}/{name}"), agent, what);
        let removed = owner::remove_made(&self.folder, &name, &place, &["agent.jar", "said"]);
        let told = told?;
        removed.with_context(|| format!("removing {TEMPORARY}/{name}"))?;
        Ok(told)
    }

    fn load_from(&self, place: &File, seen_as: &str, agent: &[u8], what: &str) -> Result<String> {
        if fstat(place)?.st_uid != self.uid {
            bail!("{seen_as} was replaced; nothing was done");
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut jar = File::from(openat(place, "agent.jar", flags, Mode::RUSR | Mode::WUSR)?);
        jar.write_all(agent)?;
        drop(jar);
        let options = format!("{seen_as}/agent.jar={what}\t{seen_as}/agent.jar\t{seen_as}/said");
        let answer = self.ask(&["load", "instrument", "false", &options])?;
        let mut said = String::new();
        let only_a_file = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(place, "said", only_a_file, Mode::empty()) {
            Ok(file) => {
                File::from(file).take(BYTES_MAX).read_to_string(&mut said).context("reading what the agent says")?
            }
            Err(_) => bail!("the JVM did not load the agent: {}", answer.trim().replace('\n', "; ")),
        };
        Ok(said)
    }

    /// Sends a command, and gives the answer.
    fn ask(&self, words: &[&str]) -> Result<String> {
        let mut stream = self.connect()?;
        let mut bytes = b"1\0".to_vec();
        for word in words {
            bytes.extend_from_slice(word.as_bytes());
            bytes.push(0);
        }
        stream.write_all(&bytes).context("asking the JVM")?;
        let mut answer = Vec::new();
        stream.take(BYTES_MAX).read_to_end(&mut answer).context("waiting for the JVM's answer")?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn connect(&self) -> Result<UnixStream> {
        if !self.listens() {
            self.open()?;
        }
        // the path is through what is open, and who listens there is asked below
        let socket = Path::new("/proc/self/fd").join(self.folder.as_raw_fd().to_string()).join(self.socket_name());
        let stream = UnixStream::connect(socket).context("connecting to the JVM's attach socket")?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        if peer(&stream)? != self.pid {
            bail!("nothing was done: another process listens at the JVM's attach socket");
        }
        Ok(stream)
    }

    /// Has it open its socket: at SIGQUIT, while there is a file that its user made.
    fn open(&self) -> Result<()> {
        let file = format!(".attach_pid{}", self.own);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.folder, &file, flags, Mode::RUSR | Mode::WUSR) {
            Err(e) if e != Errno::EXIST => return Err(e).context("asking for the attach socket"),
            _ => {}
        }
        let opened = self.signal_and_wait();
        let _ = unlinkat(&self.folder, &file, AtFlags::empty());
        opened
    }

    fn signal_and_wait(&self) -> Result<()> {
        let pid = i32::try_from(self.pid).context("the process's number")?;
        // SAFETY: sends a signal, which the JVM handles, as was looked at; no memory is touched.
        if unsafe { libc::kill(pid, libc::SIGQUIT) } != 0 {
            let e = std::io::Error::last_os_error();
            bail!("it cannot be signalled: {e}; run it as root, or as the user of the process");
        }
        let begun = Instant::now();
        while !self.listens() {
            if begun.elapsed() > OPEN_MAX {
                bail!("the JVM opened no attach socket within {} s: is it stopped, or no HotSpot?", OPEN_MAX.as_secs());
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }
}

/// The process at the other end.
fn peer(stream: &UnixStream) -> Result<u32> {
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `who` has the bytes that are said, and the descriptor is open.
    let failed = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut who).cast(), &raw mut bytes)
    };
    if failed != 0 {
        return Err(std::io::Error::last_os_error()).context("asking who listens at the JVM's attach socket");
    }
    Ok(who.pid as u32)
}
