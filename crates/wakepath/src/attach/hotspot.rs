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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};

    const NOBODY: u32 = 65534;

    /// A temporary folder of nobody's, who may replace all in it, beside what is root's alone.
    struct Place {
        dir: tempfile::TempDir,
        folder: PathBuf,
        vault: PathBuf,
    }

    impl Place {
        fn new() -> Result<Place> {
            let dir = tempfile::tempdir()?;
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755))?;
            let (folder, vault) = (dir.path().join("tmp"), dir.path().join("vault"));
            for path in [&folder, &vault] {
                std::fs::create_dir(path)?;
            }
            chown(&folder, Some(NOBODY), Some(NOBODY))?;
            for name in ["agent.jar", "said"] {
                std::fs::write(vault.join(name), "root's")?;
                std::fs::set_permissions(vault.join(name), PermissionsExt::from_mode(0o600))?;
            }
            Ok(Place { dir, folder, vault })
        }

        fn machine(&self, pid: u32) -> Result<Machine> {
            Ok(Machine { pid, own: 7, uid: NOBODY, gid: NOBODY, folder: File::open(&self.folder)? })
        }

        /// Listens as the JVM does, and answers a command after it did this to the folder that was made for it.
        fn answers(&self, mut attack: impl FnMut(&Path) + Send + 'static) -> Result<()> {
            let socket = self.folder.join(".java_pid7");
            let listener = UnixListener::bind(&socket)?;
            chown(&socket, Some(NOBODY), Some(NOBODY))?;
            let folder = self.folder.clone();
            std::thread::spawn(move || {
                while let Ok((mut stream, _)) = listener.accept() {
                    let mut bytes = [0; 4096];
                    let count = stream.read(&mut bytes).unwrap_or(0);
                    let words = String::from_utf8_lossy(&bytes[..count]).into_owned();
                    let made = words.split('\0').find_map(|w| w.strip_prefix("/tmp/")?.split('/').next());
                    attack(&folder.join(made.unwrap_or("none")));
                    let _ = stream.write_all(b"0\nreturn code: 0\n");
                }
            });
            Ok(())
        }

        fn is_intact(&self, after: &str) -> Result<()> {
            let mut all = Vec::new();
            for entry in std::fs::read_dir(&self.vault)? {
                let entry = entry?;
                let about = entry.metadata()?;
                let owner = std::os::unix::fs::MetadataExt::uid(&about);
                all.push((entry.file_name(), owner, about.permissions().mode() & 0o777, std::fs::read(entry.path())?));
            }
            all.sort();
            let whole = |name: &str| (name.into(), 0, 0o600, b"root's".to_vec());
            assert_eq!(all, ["agent.jar", "said"].map(whole), "{after}");
            assert_eq!(std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&self.vault)?), 0, "{after}");
            Ok(())
        }
    }

    /// At each place where root makes or reads a file in the JVM's folder, its user has put something else there meanwhile.
    #[test]
    fn a_folder_that_its_user_swaps_leads_to_nothing_that_is_roots() -> Result<()> {
        // SAFETY: has no conditions.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: only root attaches to what is another user's");
            return Ok(());
        }
        type Attack = fn(&Path, &Path) -> std::io::Result<()>;
        let attacks: [(&str, Attack); 6] = [
            ("its answer is a link", |made, vault| symlink(vault.join("said"), made.join("said"))),
            ("its answer is another name of a file", |made, vault| {
                std::fs::hard_link(vault.join("said"), made.join("said"))
            }),
            ("its answer is a pipe", |made, _| {
                let path = std::ffi::CString::new(made.join("said").into_os_string().into_encoded_bytes())?;
                // SAFETY: a path that ends, and no memory is written.
                if unsafe { libc::mkfifo(path.as_ptr(), 0o666) } == 0 {
                    Ok(())
                } else {
                    Err(std::io::Error::last_os_error())
                }
            }),
            ("the agent is a link", |made, vault| {
                std::fs::remove_file(made.join("agent.jar"))?;
                symlink(vault.join("agent.jar"), made.join("agent.jar"))
            }),
            ("the folder is a link", |made, vault| {
                std::fs::rename(made, made.with_extension("old"))?;
                symlink(vault, made)
            }),
            ("the folder is another one", |made, vault| {
                std::fs::rename(made, made.with_extension("old"))?;
                std::fs::create_dir(made)?;
                symlink(vault.join("said"), made.join("said"))
            }),
        ];
        for (name, attack) in attacks {
            let place = Place::new()?;
            let vault = place.vault.clone();
            place.answers(move |made| attack(made, &vault).unwrap_or_else(|e| panic!("{name}: {e}")))?;
            let said = place.machine(std::process::id())?.load(b"agent", "begin");
            assert!(!format!("{said:?}").contains("root's"), "{name}: {said:?}");
            place.is_intact(name)?;
        }
        Ok(())
    }

    /// The same while the folder is being made, by somebody who swaps it as soon as it is there.
    #[test]
    fn a_folder_that_is_swapped_as_it_is_made_is_not_written_to() -> Result<()> {
        // SAFETY: has no conditions.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: only root attaches to what is another user's");
            return Ok(());
        }
        let place = Place::new()?;
        place.answers(|_| {})?;
        let (machine, is_over) = (place.machine(std::process::id())?, AtomicBool::new(false));
        std::thread::scope(|s| {
            s.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for made in std::fs::read_dir(&place.folder).into_iter().flatten().flatten() {
                        let path = made.path();
                        let is_ours = made.file_type().is_ok_and(|t| t.is_dir()) && path.extension().is_none();
                        if is_ours && std::fs::rename(&path, path.with_extension("old")).is_ok() {
                            let _ = symlink(&place.vault, &path);
                        }
                    }
                }
            });
            for _ in 0..50 {
                let said = machine.load(b"agent", "begin");
                assert!(!format!("{said:?}").contains("root's"), "{said:?}");
            }
            is_over.store(true, Ordering::Relaxed);
        });
        place.is_intact("being swapped")?;
        // what asks for the socket is there already, and leads elsewhere
        std::fs::remove_file(place.folder.join(".java_pid7"))?;
        symlink(place.vault.join("new"), place.folder.join(".attach_pid7"))?;
        // nobody has so high a number
        assert!(place.machine(i32::MAX as u32)?.load(b"agent", "begin").is_err());
        place.is_intact("asking for the socket")?;
        drop(place.dir);
        Ok(())
    }
}
