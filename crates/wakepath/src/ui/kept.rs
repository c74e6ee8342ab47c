//! Answers that took long, kept on disk beside the index (`DIR/cache/answers`): opening the page again reads nothing twice.
//!
//! An answer is given again only by the program that made it, of folders in which no file was written since, and whole: its
//! head says all of that, and the sum of its bytes. Whatever is in doubt is made again.

use crate::folders;
use anyhow::{Context as _, Result, bail};
use flate2::Crc;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wakepath_model::folder::is_being_written;

/// Most bytes of all answers that are kept of a folder, and of one.
const BYTES_MAX: u64 = 32 << 20;
const ANSWER_BYTES_MAX: u64 = 8 << 20;
/// First word of a file, with its version.
const FORM: &str = "wakepath-answer/1";
/// In which folder they are.
const ANSWERS: &str = "cache/answers";
/// Such names alone are removed.
const EXTENSION: &str = "answer";
/// A reading that failed may succeed the next time, and what was late may be in time.
const PASSING: [&str; 2] = ["\"id\": \"folder.io\"", "\"id\": \"folder.file\""];
const NONE_LATE: &str = "\"late\": []";

/// Where the answer to one question is kept, and what its file must begin with.
pub struct Place {
    dirs: Vec<PathBuf>,
    dir: PathBuf,
    /// The program, the state of the folders, and the question.
    head: String,
}

/// Commands whose answers read a recording from begin to end, and depend on nothing else.
fn reads_all(command: &str) -> bool {
    matches!(command, "requests" | "triage" | "why" | "flame" | "forecast" | "open")
}

impl Place {
    /// Of a question; `None` where its answer is not kept: it is made quickly, or the folders still change.
    pub fn of(dirs: &[PathBuf], arguments: &[String]) -> Option<Place> {
        arguments.first().filter(|command| reads_all(command))?;
        let is_live = dirs.iter().any(|d| is_being_written(d));
        if is_live {
            return None;
        }
        let dir = dirs.first()?.join(ANSWERS);
        let head = serde_json::json!([
            FORM,
            env!("CARGO_PKG_VERSION"),
            program()?,
            folders::content(dirs),
            dirs.iter().map(|d| d.to_string_lossy()).collect::<Vec<_>>(),
            arguments,
        ]);
        Some(Place { dirs: dirs.to_vec(), dir, head: head.to_string() })
    }

    fn path(&self) -> PathBuf {
        // the head says which it is: of two with one name the later is kept
        self.dir.join(format!("{:08x}.{EXTENSION}", sum(self.head.as_bytes())))
    }

    /// The answer that is kept; `None` where there is none, or any doubt about it.
    pub fn get(&self) -> Option<Vec<u8>> {
        let path = self.path();
        // neither a link is followed nor a pipe waited for
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path).ok()?;
        let about = file.metadata().ok()?;
        let most = ANSWER_BYTES_MAX + self.head.len() as u64 + 16;
        if !about.is_file() || about.len() > most {
            return None;
        }
        let mut bytes = Vec::with_capacity(about.len() as usize);
        file.take(most).read_to_end(&mut bytes).ok()?;
        let rest = bytes.strip_prefix(self.head.as_bytes())?.strip_prefix(b"\n")?;
        let (answer, told) = rest.split_at_checked(rest.len().checked_sub(8)?)?;
        if format!("{:08x}", sum(answer)).as_bytes() != told {
            return None;
        }
        let answer = answer.to_vec();
        // the ones used last stay longest
        if let Ok(file) = File::options().append(true).custom_flags(libc::O_NOFOLLOW).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(answer)
    }

    /// Keeps an answer that was made since, unless anything was written into the folders meanwhile. That it cannot be kept
    /// is no failure: then it is made again.
    pub fn put(&self, arguments: &[String], answer: &[u8]) {
        let is_same = || Place::of(&self.dirs, arguments).is_some_and(|now| now.head == self.head);
        if answer.len() as u64 <= ANSWER_BYTES_MAX && lasts(answer) && is_same() {
            let _ = self.write(answer);
        }
    }

    fn write(&self, answer: &[u8]) -> Result<()> {
        crate::owner::makes_caches(&self.dirs);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        if !fs::symlink_metadata(&self.dir)?.is_dir() {
            bail!("{}: not a folder", self.dir.display());
        }
        make_room(&self.dir, answer.len() as u64)?;
        // beside its place, and moved there whole
        let fresh = self.dir.join(format!(".{}-{:08x}", std::process::id(), sum(self.head.as_bytes())));
        let written =
            write_new(&fresh, &[self.head.as_bytes(), b"\n", answer, format!("{:08x}", sum(answer)).as_bytes()])
                .and_then(|()| fs::rename(&fresh, self.path()).context("moving an answer to its place"));
        if written.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        written
    }
}

fn write_new(path: &Path, parts: &[&[u8]]) -> Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    for part in parts {
        file.write_all(part)?;
    }
    Ok(())
}

/// Whether the same would be answered again: no read failed, and nothing was left out for lack of time.
fn lasts(answer: &[u8]) -> bool {
    // quotes within texts are escaped, so these stand where they mean something
    let text = String::from_utf8_lossy(answer);
    let has_failed = text.contains("\"failed_reads\": ") && !text.contains("\"failed_reads\": 0");
    !has_failed
        && !PASSING.iter().any(|p| text.contains(p))
        && (!text.contains("\"late\": [") || text.contains(NONE_LATE))
}

/// Removes those that were used longest ago, and what an end of this program left behind.
fn make_room(dir: &Path, bytes: u64) -> Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(dir)?.flatten() {
        // another answer may just have been moved to its place
        let (path, Ok(about)) = (entry.path(), entry.metadata()) else { continue };
        let is_left = entry.file_name().to_string_lossy().starts_with('.')
            && about.modified().ok().and_then(|t| t.elapsed().ok()).is_some_and(|t| t.as_secs() > 60);
        if about.is_file() && (is_left || path.extension().is_some_and(|e| e == EXTENSION)) {
            kept.push((if is_left { SystemTime::UNIX_EPOCH } else { about.modified()? }, about.len(), path));
        }
    }
    kept.sort();
    let mut sum = bytes + kept.iter().map(|k| k.1).sum::<u64>();
    for (used, length, path) in kept {
        if sum > BYTES_MAX || used == SystemTime::UNIX_EPOCH {
            let _ = fs::remove_file(path);
            sum -= length;
        }
    }
    Ok(())
}

/// Which program this is: another build of the same version may answer otherwise.
fn program() -> Option<[u64; 4]> {
    let about = fs::metadata("/proc/self/exe").ok()?;
    Some([about.ino(), about.len(), about.mtime() as u64, about.mtime_nsec() as u64])
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use wakepath_model::folder::{FolderWriter, HostInfo, Options};
    use wakepath_model::ids::MonoNs;
    use wakepath_model::rows::AnchorRow;

    type Tested = Result<(), Box<dyn std::error::Error>>;

    fn folder(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn std::error::Error>> {
        let path = dir.join("t");
        let mut w = FolderWriter::create(&path, HostInfo::default(), Options::default())?;
        w.push(&AnchorRow { at: MonoNs(7), ..Default::default() });
        w.close()?;
        Ok(vec![path])
    }

    fn words(of: &str) -> Vec<String> {
        of.split(' ').map(str::to_owned).collect()
    }

    fn place(dirs: &[PathBuf], question: &str) -> Result<Place, &'static str> {
        Place::of(dirs, &words(question)).ok_or("it is kept")
    }

    #[test]
    fn an_answer_is_given_again_until_anything_changes() -> Tested {
        let dir = tempfile::tempdir()?;
        let dirs = folder(dir.path())?;
        let at = place(&dirs, "requests --each")?;
        assert_eq!(at.get(), None);
        at.put(&words("requests --each"), b"{}\n");
        assert_eq!(at.get().as_deref(), Some(&b"{}\n"[..]));
        assert_eq!(place(&dirs, "requests --map")?.get(), None, "another question");
        assert!(Place::of(&dirs, &words("info")).is_none(), "made quickly, and of the cache, too");
        // the same bytes written again, with the same time
        let host = fs::read_dir(dirs[0].join("hosts"))?.flatten().next().ok_or("a host")?.path();
        let segments = fs::read_dir(host)?.flatten().map(|e| e.path());
        let segment = segments.into_iter().find(|p| p.extension().is_some_and(|e| e == "seg")).ok_or("a segment")?;
        let (bytes, about) = (fs::read(&segment)?, fs::metadata(&segment)?);
        fs::write(&segment, bytes)?;
        File::options().append(true).open(&segment)?.set_modified(about.modified()?)?;
        let now = place(&dirs, "requests --each")?;
        assert_eq!(now.get(), None, "a segment was written");
        at.put(&words("requests --each"), b"{}\n");
        assert_eq!(now.get(), None, "made of what was there before");
        Ok(())
    }

    #[test]
    fn what_is_damaged_or_no_file_is_not_given() -> Tested {
        let dir = tempfile::tempdir()?;
        let dirs = folder(dir.path())?;
        let (at, question) = (place(&dirs, "requests")?, words("requests"));
        let answer = b"{ \"schema\": \"s\" }\n";
        at.put(&question, answer);
        let whole = fs::read(at.path())?;
        for n in 0..whole.len() {
            fs::write(at.path(), &whole[..n])?;
            assert_eq!(at.get(), None, "cut at {n}");
            let mut flipped = whole.clone();
            flipped[n] ^= 1;
            fs::write(at.path(), &flipped)?;
            assert_eq!(at.get(), None, "flipped at {n}");
        }
        fs::write(dir.path().join("other"), &whole)?;
        fs::remove_file(at.path())?;
        symlink(dir.path().join("other"), at.path())?;
        assert_eq!(at.get(), None, "a link");
        fs::remove_file(at.path())?;
        assert!(std::process::Command::new("mkfifo").arg(at.path()).status()?.success());
        assert_eq!(at.get(), None, "a pipe");
        at.put(&question, answer);
        assert_eq!(at.get().as_deref(), Some(&answer[..]), "put in its place");
        Ok(())
    }

    #[test]
    fn what_may_be_otherwise_the_next_time_is_not_kept() {
        assert!(lasts(b"{ \"late\": [],\n\"x\": 1 }") && lasts(b"{}"));
        assert!(!lasts(b"{ \"late\": [\n\"why\" ] }"));
        assert!(lasts(b"{ \"failed_reads\": 0 }") && !lasts(b"{ \"failed_reads\": 2 }"));
        assert!(!lasts(b"{ \"losses\": [ { \"id\": \"folder.io\" } ] }"));
        assert!(lasts(br#"{ "asked": "\"late\": [ 1 ]" }"#), "a text that looks so");
    }

    #[test]
    fn answers_that_come_at_once_are_all_kept() -> Tested {
        let dir = tempfile::tempdir()?;
        let dirs = folder(dir.path())?;
        let ask = |n: u64| words(&format!("requests --limit={n}"));
        std::thread::scope(|s| {
            for n in 0..16 {
                let dirs = &dirs;
                s.spawn(move || {
                    for n in (n * 8)..(n * 8 + 8) {
                        if let Some(at) = Place::of(dirs, &ask(n)) {
                            at.put(&ask(n), b"{}");
                        }
                    }
                });
            }
        });
        let lost: Vec<u64> =
            (0..128).filter(|&n| Place::of(&dirs, &ask(n)).is_none_or(|p| p.get().is_none())).collect();
        assert!(lost.is_empty(), "not kept: {lost:?}");
        Ok(())
    }

    #[test]
    fn the_ones_used_last_have_room() -> Tested {
        let dir = tempfile::tempdir()?;
        let dirs = folder(dir.path())?;
        let large = vec![b' '; ANSWER_BYTES_MAX as usize - 100];
        let ask = |n: u64| words(&format!("requests --limit={n}"));
        for n in 0..6 {
            let at = Place::of(&dirs, &ask(n)).ok_or("it is kept")?;
            at.put(&ask(n), &large);
            assert!(at.get().is_some());
        }
        let has = |n| Place::of(&dirs, &ask(n)).is_some_and(|p| p.get().is_some());
        assert_eq!((0..6).filter(|&n| has(n)).count(), 3, "as many as find room beside the newest");
        assert!(has(5) && !has(0));
        let all = fs::read_dir(dirs[0].join(ANSWERS))?.flatten().map(|e| e.metadata().map_or(0, |m| m.len()));
        assert!(all.sum::<u64>() <= BYTES_MAX);
        Ok(())
    }
}
