//! `wakepath doctor`: what was found out about this host, for people and for scripts. Finding out is the command's work.

use crate::text::{Style, Tint, columns, cut, sanitise, wrap};
use serde::Serialize;

/// The document's schema.
pub const SCHEMA: &str = "wakepath.doctor/1";

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doctor {
    /// The host.
    pub host: HostFacts,
    /// Each vantage that this version has.
    pub vantages: Vec<Vantage>,
}

/// The host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    /// Name.
    pub hostname: String,
    /// Kernel release.
    pub kernel_release: String,
    /// Architecture.
    pub arch: String,
    /// Processors that could be used.
    pub cpus: u32,
}

/// One vantage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vantage {
    /// Its name.
    pub vantage: &'static str,
    /// It works, now, for this user: it was tried.
    pub works: bool,
    /// The same in one sentence.
    pub summary: String,
    /// The backend that `record` would choose, where one is possible.
    pub backend: Option<&'static str>,
    /// The trial.
    pub trial: Trial,
    /// Checks, in the order in which they are shown.
    pub checks: Vec<Check>,
    /// Tracepoints that it uses.
    pub tracepoints: Vec<Tracepoint>,
    /// Capabilities that it needs.
    pub capabilities: Vec<Capability>,
}

/// What loading and attaching the programs came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// It was tried; not without the rights to.
    pub tried: bool,
    /// Programs that were attached and detached again.
    pub programs: u32,
    /// How long loading and attaching took.
    pub duration_ns: u64,
    /// The exact error.
    pub error: Option<String>,
    /// Flags for `record` with which it works where it does not without.
    pub works_with: Option<String>,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Yes,
    /// Works, with a limit.
    Limit,
    /// Stands in the way.
    No,
    /// A fact, neither good nor bad.
    Note,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its id.
    pub id: &'static str,
    /// What is checked.
    pub title: String,
    /// The outcome.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do, in one sentence, a command on a line of its own; none where there is nothing to do.
    pub remedy: Option<String>,
}

/// A tracepoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tracepoint {
    /// Name.
    pub name: &'static str,
    /// This kernel has it.
    pub present: bool,
    /// What recording loses without it.
    pub without: &'static str,
}

/// A capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Name.
    pub name: &'static str,
    /// What it is for.
    pub needed_for: &'static str,
    /// This process has it, or one that includes it.
    pub present: bool,
    /// It is kept while recording; all others are given up once attached.
    pub kept: bool,
}

/// The report.
pub fn render(doctor: &Doctor, style: Style) -> String {
    let mut out = String::new();
    for v in &doctor.vantages {
        let (mark, tint) = if v.works { ("works", Tint::Good) } else { ("does not work", Tint::Bad) };
        out.push_str(&format!("The {} vantage {}.\n", v.vantage, style.paint(mark, tint)));
        out.push_str(&wrap(&sanitise(&v.summary), "", style.prose()));
        out.push('\n');
        let width = v.checks.iter().map(|c| columns(&c.title)).max().unwrap_or(0).min(30);
        for c in &v.checks {
            let (mark, tint) = match c.verdict {
                Verdict::Yes => ("yes  ", Tint::Good),
                Verdict::Limit => ("limit", Tint::Warn),
                Verdict::No => ("NO   ", Tint::Bad),
                Verdict::Note => ("note ", Tint::Dim),
            };
            let title = cut(&c.title, width).into_owned();
            let fill = width - columns(&title);
            // the first line follows the title, the rest stands below it
            let indent = " ".repeat(11 + width);
            let found = wrap(&sanitise(&c.found), &indent, style.prose());
            let found = found.strip_prefix(&indent).unwrap_or("\n");
            let mark = style.paint(mark, tint);
            out.push_str(&format!("  {mark}  {title}{:fill$}  {found}", ""));
            if let Some(remedy) = &c.remedy {
                for (i, line) in remedy.lines().enumerate() {
                    let mark = if i == 0 { "         → " } else { "           " };
                    let text = wrap(&sanitise(line), "           ", style.prose());
                    out.push_str(mark);
                    out.push_str(text.trim_start());
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_the_width_and_every_no_says_what_to_do() {
        let check = |verdict| Check {
            id: "a.b",
            title: "a title that is rather long for a title".into(),
            verdict,
            found: "word of another length ".repeat(40),
            remedy: Some("do ".repeat(60)),
        };
        let doctor = Doctor {
            host: HostFacts { hostname: "h".into(), kernel_release: "6.1".into(), arch: "x86_64".into(), cpus: 2 },
            vantages: vec![Vantage {
                vantage: "kernel",
                works: false,
                summary: "because ".repeat(40),
                backend: None,
                trial: Trial::default(),
                checks: vec![check(Verdict::No), check(Verdict::Yes)],
                tracepoints: vec![],
                capabilities: vec![],
            }],
        };
        let text = render(&doctor, Style::default());
        assert!(text.lines().all(|l| columns(l) <= crate::text::WIDTH_MAX), "{text}");
        assert!(text.contains("NO     a title") && text.contains("→ do"), "{text}");
    }
}
