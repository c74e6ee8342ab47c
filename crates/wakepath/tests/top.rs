//! `wakepath top` on a terminal: it draws, follows the terminal's size, and gives the terminal back.

#[path = "support/gateway.rs"]
mod gateway;
mod support;

use gateway::{folder, script};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use support::{Tested, run, stderr, wakepath};

/// However busy the machine is.
const PATIENCE: Duration = Duration::from_secs(90);

/// A command on a terminal of its own.
struct Screen {
    child: Child,
    terminal: File,
    drawn: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

fn size(lines: u16, columns: u16) -> libc::winsize {
    libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Screen {
    fn start(args: &[&str], term: &str) -> Result<Screen, Box<dyn std::error::Error>> {
        let (mut ours, mut theirs) = (0, 0);
        let window = size(24, 80);
        // SAFETY: both numbers are written before it returns; name and settings are not wanted.
        let made = unsafe {
            libc::openpty(&raw mut ours, &raw mut theirs, std::ptr::null_mut(), std::ptr::null_mut(), &raw const window)
        };
        assert_eq!(made, 0, "a terminal");
        // SAFETY: both are open and nobody else's.
        let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        let mut command = wakepath(args);
        command.env("TERM", term);
        command.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(Stdio::from(theirs));
        // SAFETY: both calls may be made between fork and exec; standard input is the terminal.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn()?;
        drop(command);
        let terminal = File::from(ours);
        let mut from = terminal.try_clone()?;
        let (tell, drawn) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut bytes) {
                if tell.send(bytes[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Screen { child, terminal, drawn, seen: Vec::new() })
    }

    /// Waits until this was drawn since the last wait.
    fn shows(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&self.seen).contains(text) {
            match self.drawn.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{text:?} was not drawn:\n{}", String::from_utf8_lossy(&self.seen))
                }
            }
        }
        self.seen.clear();
    }

    fn press(&mut self, keys: &str) -> Tested {
        Ok(self.terminal.write_all(keys.as_bytes())?)
    }

    fn resize(&self, lines: u16, columns: u16) {
        let window = size(lines, columns);
        // SAFETY: the terminal is open, the size is one.
        assert_eq!(unsafe { libc::ioctl(self.terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const window) }, 0);
    }

    fn ends(&mut self) -> Result<Option<i32>, Box<dyn std::error::Error>> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err("it does not end".into())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_draws_follows_the_size_and_quits() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let mut screen = Screen::start(&["top", &folder], "xterm")?;
    // the other screen, where nothing of before is lost
    screen.shows("\x1b[?1049h");
    screen.shows("/vote");
    // a narrow screen has no room for the whole list of keys
    screen.resize(50, 200);
    screen.shows("q quit");
    screen.press("\r")?;
    screen.shows("wakepath show");
    screen.press("\x1b")?;
    screen.shows("Why");
    screen.press("q")?;
    screen.shows("\x1b[?1049l");
    assert_eq!(screen.ends()?, Some(0));
    Ok(())
}

#[test]
fn a_signal_ends_it_and_gives_the_terminal_back() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(0, 0));
    let mut screen = Screen::start(&["top", &folder], "xterm")?;
    screen.shows("/vote");
    // SAFETY: a signal to a child of ours that has not been waited for.
    unsafe { libc::kill(screen.child.id() as i32, libc::SIGTERM) };
    screen.shows("\x1b[?1049l");
    assert_eq!(screen.ends()?, Some(0));
    Ok(())
}

#[test]
fn where_it_cannot_draw_it_says_what_to_do() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(0, 0));
    let none = run(&["top", &folder]);
    assert_eq!(none.status.code(), Some(1));
    assert!(stderr(&none).contains("top needs a terminal; for a single answer: wakepath triage "), "{}", stderr(&none));
    let nowhere = tempfile::tempdir()?;
    let empty = wakepath(&["top"]).current_dir(nowhere.path()).output()?;
    assert!(stderr(&empty).contains("no trace folder in this directory"), "{}", stderr(&empty));
    Ok(())
}

#[test]
fn a_dumb_terminal_is_told_so() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(0, 0));
    let mut screen = Screen::start(&["top", &folder], "dumb")?;
    screen.shows("TERM=dumb");
    assert_eq!(screen.ends()?, Some(1));
    Ok(())
}
