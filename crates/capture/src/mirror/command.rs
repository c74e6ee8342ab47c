//! A command of the system, as it is run and as it is printed.

use std::fmt;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command as Process, Stdio};

/// A program, its arguments, and what it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Name of the program.
    pub program: &'static str,
    /// Its arguments.
    pub args: Vec<String>,
    /// What is set in its environment.
    pub environment: Vec<(&'static str, String)>,
    /// Its standard input; empty = none.
    pub input: String,
}

impl Command {
    /// A command with these arguments.
    pub fn new(program: &'static str, args: impl IntoIterator<Item = impl Into<String>>) -> Command {
        Command {
            program,
            args: args.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            input: String::new(),
        }
    }

    /// Runs it; its standard output, or in words why it failed.
    pub fn run(&self) -> Result<String, String> {
        self.try_run().map_err(|e| match e {
            Failed::Missing => {
                let package = match self.program {
                    "ovs-vsctl" | "ovs-ofctl" | "ovs-appctl" => "openvswitch-switch",
                    _ => "iproute2",
                };
                format!("{} is not on this host; it comes with {package}", self.program)
            }
            Failed::Refused(words) => words,
        })
    }

    pub(super) fn try_run(&self) -> Result<String, Failed> {
        let failed = |what: &str| Failed::Refused(format!("{}: {what}", self.program));
        let mut process = Process::new(self.program);
        process.args(&self.args).envs(self.environment.iter().map(|(k, v)| (k, v)));
        process.stdin(if self.input.is_empty() { Stdio::null() } else { Stdio::piped() });
        let mut child = match process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(Failed::Missing),
            Err(e) => return Err(failed(&e.to_string())),
        };
        if let Some(mut stdin) = child.stdin.take() {
            // one that does not read says why when it ends
            let _ = stdin.write_all(self.input.as_bytes());
        }
        let output = child.wait_with_output().map_err(|e| failed(&e.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        if output.status.signal() == Some(libc::SIGALRM) {
            // --timeout, which both of Open vSwitch's tools are given
            return Err(failed("no answer for 10 s; is ovs-vswitchd running?"));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        match said.as_slice() {
            [] => Err(failed(&output.status.to_string())),
            // what it says names itself already
            lines => Err(Failed::Refused(lines.join("; "))),
        }
    }
}

/// Why a command did not do it.
pub(super) enum Failed {
    /// There is no such program.
    Missing,
    /// It said so.
    Refused(String),
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.environment {
            write!(f, "{key}={} ", quoted(value))?;
        }
        f.write_str(self.program)?;
        for arg in &self.args {
            write!(f, " {}", quoted(arg))?;
        }
        if !self.input.is_empty() {
            write!(f, " <<'END'\n{}\nEND", self.input.trim_end())?;
        }
        Ok(())
    }
}

/// As a shell reads it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_printed_as_a_shell_reads_it() {
        let mut c = Command::new("sh", ["-c", "echo \"$1\" $X; cat", "it's", "a b", ""]);
        c.environment.push(("X", "1 2".into()));
        c.input = "first\n$second\n".into();
        let printed = c.to_string();
        assert!(printed.starts_with("X='1 2' sh -c 'echo "), "{printed}");
        let direct = c.run().expect("it runs");
        let by_shell = Command::new("sh", ["-c", &printed]).run().expect("it runs");
        assert_eq!((direct.as_str(), by_shell.as_str()), ("a b 1 2\nfirst\n$second\n", "a b 1 2\nfirst\n$second\n"));
    }

    #[test]
    fn failures_say_why() {
        let words = Command::new("sh", ["-c", "echo one >&2; echo two >&2; exit 3"]).run().expect_err("it fails");
        assert_eq!(words, "one; two");
        let words = Command::new("sh", ["-c", "exit 3"]).run().expect_err("it fails");
        assert_eq!(words, "sh: exit status: 3");
        let words = Command::new("a-program-that-is-nowhere", ["x"]).run().expect_err("it fails");
        assert!(words.contains("not on this host"), "{words}");
    }
}
