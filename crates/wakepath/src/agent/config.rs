//! The configuration of an agent: a TOML file. Whatever is wrong in it is said with its place, before anything begins.

use crate::cli::{self, Size, Time};
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Deserializer};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use wakepath_ui::server::is_loopback;

/// A longer file is no configuration, nor a token.
const BYTES_MAX: u64 = 1 << 20;
/// Shorter tokens can be guessed.
const TOKEN_MIN: usize = 16;

/// What a file says, with defaults for what it does not.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where `ring` and `kept` are.
    pub folder: PathBuf,
    #[serde(default)]
    pub record: Record,
    #[serde(default)]
    pub ring: Ring,
    #[serde(default)]
    pub kept: Kept,
    #[serde(default)]
    pub budget: Budget,
    #[serde(default)]
    pub http: Http,
    /// Agents that are asked for their part of what is kept, as HOST:PORT.
    #[serde(default)]
    pub peers: Vec<String>,
    #[serde(default, rename = "trigger")]
    pub triggers: Vec<Rule>,
}

/// What is recorded: the flags of `wakepath record`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Record {
    pub ports: Vec<u16>,
    pub comms: Vec<String>,
    pub cgroups: Vec<String>,
    pub payload: String,
    pub words: String,
    pub head_bytes: u32,
    pub stacks: bool,
    pub faults: bool,
    pub waits: bool,
    pub tls: bool,
    pub runtimes: Vec<String>,
    pub priority: String,
    #[serde(deserialize_with = "parsed")]
    pub ring_bytes: Size,
    pub backend: String,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            ports: Vec::new(),
            comms: Vec::new(),
            cgroups: Vec::new(),
            payload: "attributes".into(),
            words: "recurring".into(),
            head_bytes: 2048,
            stacks: false,
            faults: false,
            waits: true,
            tls: false,
            runtimes: Vec::new(),
            priority: "auto".into(),
            ring_bytes: Size(8 << 20),
            backend: "auto".into(),
        }
    }
}

/// How much of the recent past stays on the disk.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ring {
    #[serde(deserialize_with = "parsed")]
    pub keep: Time,
    #[serde(deserialize_with = "parsed")]
    pub max_bytes: Size,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { keep: Time(900_000_000_000), max_bytes: Size(2 << 30) }
    }
}

/// What triggers keep.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Kept {
    #[serde(deserialize_with = "parsed")]
    pub max_bytes: Size,
    #[serde(deserialize_with = "parsed")]
    pub before: Time,
    #[serde(deserialize_with = "parsed")]
    pub after: Time,
    #[serde(deserialize_with = "parsed")]
    pub longest: Time,
    #[serde(deserialize_with = "parsed")]
    pub peers_within: Time,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            max_bytes: Size(2 << 30),
            before: Time(30_000_000_000),
            after: Time(1_000_000_000),
            longest: Time(600_000_000_000),
            peers_within: Time(30_000_000_000),
        }
    }
}

/// What the agent and its recorder may use together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    #[serde(deserialize_with = "parsed")]
    pub memory: Size,
    /// Of one processor; may be above 100 %.
    #[serde(deserialize_with = "parsed")]
    pub processor: Percent,
    /// How often it is measured.
    #[serde(deserialize_with = "parsed")]
    pub every: Time,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { memory: Size(512 << 20), processor: Percent(50.0), every: Time(10_000_000_000) }
    }
}

/// Who is answered, and where.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    pub listen: SocketAddr,
    /// A file whose text clients must send, and which peers are sent.
    pub token_file: Option<PathBuf>,
}

impl Default for Http {
    fn default() -> Http {
        Http { listen: SocketAddr::from(([127, 0, 0, 1], 7412)), token_file: None }
    }
}

/// Keeps by itself what it finds in the newest recording.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub on: On,
    /// Only requests of this kind, as `wakepath requests` prints it.
    #[serde(default)]
    pub kind: Option<String>,
    /// So many requests must be so, in one look.
    #[serde(default = "one")]
    pub at_least: u64,
    /// With `slow`: longer than this.
    #[serde(default, deserialize_with = "parsed_if_any")]
    pub above: Option<Time>,
}

/// What a rule looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// Requests that failed.
    Failed,
    /// Requests slower than usual.
    Slow,
}

fn one() -> u64 {
    1
}

/// A share of one processor, as `50%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

impl FromStr for Percent {
    type Err = String;
    fn from_str(s: &str) -> Result<Percent, String> {
        let number: Option<f64> = s.strip_suffix('%').and_then(|n| n.trim_end().parse().ok());
        let number = number.filter(|n| *n > 0.0 && *n <= 100_000.0);
        number.map(Percent).ok_or_else(|| format!("{s}: give a share of one processor, as \"50%\""))
    }
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn parsed_if_any<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(from: D) -> Result<Option<T>, D::Error> {
    parsed(from).map(Some)
}

impl Config {
    /// Reads a file, and refuses what cannot be.
    pub fn read(path: &Path) -> Result<Config> {
        let text = read_short(path).with_context(|| {
            format!("{}: no configuration can be read; packaging/agent.toml is an example", path.display())
        })?;
        let config: Config = toml::from_str(&text).map_err(|e| anyhow::anyhow!("{}", misread(path, &text, &e)))?;
        config.check().with_context(|| path.display().to_string())?;
        Ok(config)
    }

    /// What no field alone says.
    fn check(&self) -> Result<()> {
        if self.folder.as_os_str().is_empty() || self.folder.is_relative() {
            bail!("folder: give an absolute path, as \"/var/lib/wakepath\"");
        }
        if self.ring.keep.0 < 1_000_000_000 {
            bail!("ring.keep: give at least \"1s\"");
        }
        for (name, size) in [("ring.max_bytes", self.ring.max_bytes), ("kept.max_bytes", self.kept.max_bytes)] {
            if size.0 < 1 << 20 {
                bail!("{name}: give at least \"1M\"");
            }
        }
        if self.kept.before.0 + self.kept.after.0 > self.kept.longest.0 {
            bail!("kept.longest: it is shorter than before and after together; raise it");
        }
        if self.budget.every.0 < 100_000_000 {
            bail!("budget.every: give at least \"100ms\"");
        }
        if !is_loopback(self.http.listen) && self.http.token_file.is_none() {
            bail!(
                "http.listen: other machines reach {}, and anybody there could read what is recorded; add http.token_file, or \
                 listen on 127.0.0.1",
                self.http.listen
            );
        }
        for peer in &self.peers {
            let is_address = peer.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty()
                    && port.parse::<u16>().is_ok_and(|port| port > 0)
                    && !peer.contains(['/', ' ', '\r', '\n'])
            });
            if !is_address {
                bail!("peers: {peer:?} is no address; give HOST:PORT, as \"10.0.0.2:7412\"");
            }
        }
        if let Some(rule) = self.triggers.iter().find(|r| r.above.is_some() && r.on == On::Failed) {
            bail!("trigger: `above` is for on = \"slow\"; remove it from the one that looks for {:?}", rule.on);
        }
        let line = self.record_line(Path::new("ring"), &[]);
        let words = std::iter::once("wakepath".to_owned()).chain(line);
        if let Err(e) = cli::command().try_get_matches_from(words) {
            let said = e.to_string();
            let said = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
            bail!("record: {said}; `wakepath record --help` says what each may be");
        }
        Ok(())
    }

    /// The recording in which the recent past is.
    pub fn ring_folder(&self) -> PathBuf {
        self.folder.join("ring")
    }

    /// Where each trigger's folder is.
    pub fn kept_folder(&self) -> PathBuf {
        self.folder.join("kept")
    }

    /// What clients must send.
    pub fn token(&self) -> Result<Option<String>> {
        self.http.token_file.as_deref().map(read_token).transpose()
    }

    /// The recorder's command line without the program; `lowered`: what is left out to stay in budget.
    pub fn record_line(&self, output: &Path, lowered: &[Detail]) -> Vec<String> {
        let r = &self.record;
        let mut line: Vec<String> = vec!["record".into(), "--append".into(), "--report".into(), "--output".into()];
        line.push(output.to_string_lossy().into_owned());
        let pairs = [
            ("--keep", format!("{}ns", self.ring.keep.0)),
            ("--max-bytes", self.ring.max_bytes.0.to_string()),
            ("--payload", r.payload.clone()),
            ("--words", r.words.clone()),
            ("--head-bytes", r.head_bytes.to_string()),
            ("--priority", r.priority.clone()),
            ("--ring-bytes", r.ring_bytes.0.to_string()),
            ("--backend", r.backend.clone()),
        ];
        let mut add = |name: &str, value: String| line.extend([name.to_owned(), value]);
        pairs.into_iter().for_each(|(name, value)| add(name, value));
        r.ports.iter().for_each(|p| add("--port", p.to_string()));
        r.comms.iter().for_each(|c| add("--comm", c.clone()));
        r.cgroups.iter().for_each(|c| add("--cgroup", c.clone()));
        r.runtimes.iter().for_each(|c| add("--runtimes", c.clone()));
        lowered.iter().for_each(|d| add("--lowered", d.name().to_owned()));
        let is_kept = |d: Detail| !lowered.contains(&d);
        let flags = [
            ("--stacks", r.stacks && r.waits && is_kept(Detail::Stacks) && is_kept(Detail::Waits)),
            ("--faults", r.faults && is_kept(Detail::Faults)),
            ("--no-waits", !r.waits || !is_kept(Detail::Waits)),
            ("--tls", r.tls),
        ];
        line.extend(flags.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| (*name).to_owned()));
        line
    }

    /// The next detail that can be left out beyond those that are; `None` when only paths are left.
    pub fn next_to_lower(&self, lowered: &[Detail]) -> Option<Detail> {
        let r = &self.record;
        let there = [(Detail::Stacks, r.stacks && r.waits), (Detail::Faults, r.faults), (Detail::Waits, r.waits)];
        there.into_iter().find(|(d, is_there)| *is_there && !lowered.contains(d)).map(|(d, _)| d)
    }

    /// The file that says all of this, defaults included.
    pub fn effective(&self) -> String {
        let list = |items: &[String]| {
            let items: Vec<String> = items.iter().map(|i| quoted(i)).collect();
            format!("[{}]", items.join(", "))
        };
        let r = &self.record;
        let ports: Vec<String> = r.ports.iter().map(u16::to_string).collect();
        let mut out = format!("folder = {}\npeers = {}\n", quoted(&self.folder.to_string_lossy()), list(&self.peers));
        let _ = write!(
            out,
            "\n[record]\nports = [{}]\ncomms = {}\ncgroups = {}\npayload = {}\nwords = {}\nhead_bytes = {}\nstacks = {}\n\
             faults = {}\nwaits = {}\ntls = {}\nruntimes = {}\npriority = {}\nring_bytes = {}\nbackend = {}\n",
            ports.join(", "),
            list(&r.comms),
            list(&r.cgroups),
            quoted(&r.payload),
            quoted(&r.words),
            r.head_bytes,
            r.stacks,
            r.faults,
            r.waits,
            r.tls,
            list(&r.runtimes),
            quoted(&r.priority),
            size(r.ring_bytes),
            quoted(&r.backend),
        );
        let _ = write!(
            out,
            "\n[ring]\nkeep = {}\nmax_bytes = {}\n\n[kept]\nmax_bytes = {}\nbefore = {}\nafter = {}\nlongest = {}\n\
             peers_within = {}\n\n[budget]\nmemory = {}\nprocessor = \"{}%\"\nevery = {}\n\n[http]\nlisten = \"{}\"\n",
            time(self.ring.keep),
            size(self.ring.max_bytes),
            size(self.kept.max_bytes),
            time(self.kept.before),
            time(self.kept.after),
            time(self.kept.longest),
            time(self.kept.peers_within),
            size(self.budget.memory),
            self.budget.processor.0,
            time(self.budget.every),
            self.http.listen,
        );
        if let Some(file) = &self.http.token_file {
            let _ = writeln!(out, "token_file = {}", quoted(&file.to_string_lossy()));
        }
        for rule in &self.triggers {
            let on = if rule.on == On::Failed { "failed" } else { "slow" };
            let _ = write!(out, "\n[[trigger]]\non = \"{on}\"\nat_least = {}\n", rule.at_least);
            if let Some(kind) = &rule.kind {
                let _ = writeln!(out, "kind = {}", quoted(kind));
            }
            if let Some(above) = rule.above {
                let _ = writeln!(out, "above = {}", time(above));
            }
        }
        out
    }
}

/// What can be left out of a recording without losing paths, in the order in which it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Stacks of waits.
    Stacks,
    /// Page faults.
    Faults,
    /// Waits, with all that follows from them.
    Waits,
}

impl Detail {
    /// As flags and figures name it.
    pub fn name(self) -> &'static str {
        match self {
            Detail::Stacks => "stacks",
            Detail::Faults => "faults",
            Detail::Waits => "waits",
        }
    }
}

/// A token from a file, without the blanks around it.
pub fn read_token(path: &Path) -> Result<String> {
    let text = read_short(path).with_context(|| format!("{}: no token can be read", path.display()))?;
    let token = text.trim();
    if token.len() < TOKEN_MIN || !token.bytes().all(|b| b.is_ascii_graphic()) {
        bail!(
            "{}: a token has at least {TOKEN_MIN} visible ASCII characters; make one: openssl rand -hex 32 > {}",
            path.display(),
            path.display()
        );
    }
    Ok(token.to_owned())
}

fn read_short(path: &Path) -> Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        bail!("it has more than 1 MiB");
    }
    Ok(text)
}

/// What is wrong in a file, and where.
fn misread(path: &Path, text: &str, e: &toml::de::Error) -> String {
    let at = e.span().map_or(0, |s| s.start.min(text.len()));
    let line = text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
    let written = text.lines().nth(line - 1).unwrap_or_default().trim();
    let said = e.message().trim().replace('\n', "; ");
    format!("{}:{line}: {said}, in `{written}`; docs/how-to/keep-it-running.md has every setting", path.display())
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

fn size(size: Size) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|(shift, _)| size.0 > 0 && size.0.trailing_zeros() >= *shift);
    unit.map_or_else(|| format!("\"{}\"", size.0), |(shift, unit)| format!("\"{}{unit}\"", size.0 >> shift))
}

fn time(time: Time) -> String {
    let units = [(3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms")];
    let unit = units.into_iter().find(|(ns, _)| time.0 > 0 && time.0.is_multiple_of(*ns));
    unit.map_or_else(|| format!("\"{}ns\"", time.0), |(ns, unit)| format!("\"{}{unit}\"", time.0 / ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("agent.toml");
        std::fs::write(&path, text).expect("it can be written");
        Config::read(&path).map_err(|e| crate::output::reasons(&e).replace(&path.display().to_string(), "agent.toml"))
    }

    #[test]
    fn what_check_prints_is_the_same_configuration() {
        let text = "folder = '/x y'\npeers = ['a:1', '[::1]:7412']\n[record]\nports = [80, 443]\nstacks = true\n\
                    [ring]\nkeep = '90s'\nmax_bytes = '100M'\n[budget]\nprocessor = '12.5%'\n\
                    [[trigger]]\non = 'slow'\nkind = 'GET \"x\"'\nabove = '1500ms'\n[[trigger]]\non = 'failed'\nat_least = 3\n";
        let config = read(text).expect("it is right");
        assert_eq!(read(&config.effective()), Ok(config.clone()), "{}", config.effective());
        let least = read("folder = '/x'").expect("all else has a default");
        assert_eq!(read(&least.effective()), Ok(least));
    }

    #[test]
    fn errors_name_the_file_the_line_and_the_way_out() {
        for (text, wanted) in [
            (
                "folder = '/x'\n[ring]\nkeep = '90x'\n",
                "agent.toml:3: x: not a unit of time; use ms, s, m or h, in `keep = '90x'`",
            ),
            (
                "folder = '/x'\n[ring]\nkeeps = '9s'\n",
                "agent.toml:3: unknown field `keeps`, expected `keep` or `max_bytes`",
            ),
            ("folder = ", "agent.toml:1: "),
            ("", "missing field `folder`"),
            ("folder = 'x'", "give an absolute path"),
            ("folder = '/x'\n[http]\nlisten = '0.0.0.0:1'\n", "add http.token_file"),
            ("folder = '/x'\npeers = ['x']\n", "give HOST:PORT"),
            ("folder = '/x'\n[record]\nwaits = false\npayload = 'all'\n", "record: invalid value 'all'"),
            ("folder = '/x'\n[[trigger]]\non = 'failed'\nabove = '1s'\n", "`above` is for on = \"slow\""),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.contains(wanted), "{text:?}: {said}");
        }
    }

    #[test]
    fn detail_goes_in_its_order_and_paths_stay() {
        let config = read("folder = '/x'\n[record]\nstacks = true\nfaults = true\n").expect("it is right");
        let mut lowered = Vec::new();
        while let Some(next) = config.next_to_lower(&lowered) {
            lowered.push(next);
        }
        assert_eq!(lowered, [Detail::Stacks, Detail::Faults, Detail::Waits]);
        let line = config.record_line(Path::new("r"), &lowered).join(" ");
        assert!(line.ends_with("--lowered stacks --lowered faults --lowered waits --no-waits"), "{line}");
        let line = config.record_line(Path::new("r"), &[]).join(" ");
        assert!(line.ends_with("--stacks --faults"), "{line}");
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("token");
        for (text, is_good) in
            [("0123456789abcdef\n", true), ("short", false), ("0123456789 abcdef", false), ("", false)]
        {
            std::fs::write(&path, text).expect("it can be written");
            assert_eq!(read_token(&path).is_ok(), is_good, "{text:?}");
        }
    }
}
