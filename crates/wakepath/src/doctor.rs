//! `wakepath doctor`: looks at the host, tries the vantages for real, and says what to do about each "no".

mod agent;
mod guest;
mod host;
mod kernel;
mod library;
mod network;
mod tls;

use crate::cli::DoctorArgs;
use crate::output;
use crate::rights;
use anyhow::Result;
use std::time::Instant;
use wakepath_capture::{Backend, CaptureError, KernelOptions, KernelSource, Support, Watch, procfs};
use wakepath_present::doctor::{Capability, Check, Doctor, HostFacts, SCHEMA, Trial, Vantage, Verdict, render};
use wakepath_present::json;
use wakepath_present::text::Style;

/// Looks, tries, tells.
pub fn run(args: &DoctorArgs) -> Result<i32> {
    let (hostname, _, kernel_release) = procfs::host();
    let vantage = kernel_vantage(&kernel_release);
    let mut works = vantage.works;
    let mut vantages = vec![vantage, library::vantage(), network::vantage(), guest::vantage()];
    if let Some(file) = &args.agent {
        let agent = agent::vantage(file);
        works &= agent.works;
        vantages.push(agent);
    }
    let doctor = Doctor {
        host: HostFacts { hostname, kernel_release, arch: std::env::consts::ARCH.into(), cpus: host::possible_cpus() },
        vantages,
    };
    let text = if args.json { json::document(SCHEMA, &[], &doctor)? } else { render(&doctor, Style::for_stdout()) };
    output::answer(text.as_bytes())?;
    Ok(if works { output::ANSWERED } else { output::FAILED })
}

/// A check without a remedy.
fn check(id: &'static str, title: &str, verdict: Verdict, found: impl Into<String>) -> Check {
    Check { id, title: title.into(), verdict, found: found.into(), remedy: None }
}

/// A check that says what to do.
fn check_to_do(
    id: &'static str,
    title: &str,
    verdict: Verdict,
    found: impl Into<String>,
    remedy: impl Into<String>,
) -> Check {
    Check { remedy: Some(remedy.into()), ..check(id, title, verdict, found) }
}

fn kernel_vantage(release: &str) -> Vantage {
    let support = wakepath_capture::support();
    let capabilities = capabilities();
    let missing: Vec<&str> = capabilities.iter().filter(|c| !c.present).map(|c| c.name).collect();
    let trial = if missing.is_empty() { trial(&support) } else { Trial::default() };

    let mut checks = kernel::checks(release, &support, trial.error.is_none() && trial.tried);
    checks.extend(rights_checks(&capabilities));
    checks.push(trial_check(&trial, &missing));
    checks.extend(host::checks());

    let works = trial.tried && trial.error.is_none();
    let blocking: Vec<&str> = checks
        .iter()
        .filter(|c| c.verdict == Verdict::No && !c.id.starts_with("rights.") && c.id != "trial")
        .map(|c| c.title.as_str())
        .collect();
    let backend = kernel::backend(&support);
    Vantage {
        vantage: "kernel",
        works,
        summary: summary(&trial, backend, &missing, &blocking),
        backend,
        trial,
        checks,
        tracepoints: kernel::tracepoints(&support),
        capabilities,
    }
}

fn summary(trial: &Trial, backend: Option<&str>, missing: &[&str], blocking: &[&str]) -> String {
    match (trial.tried, &trial.error) {
        (true, None) => format!(
            "`wakepath record` can be used on this host, with the backend {}.",
            backend.unwrap_or("unknown")
        ),
        (true, Some(_)) => match &trial.works_with {
            Some(flags) => format!("It failed as `record` does it by default, and works with `wakepath record {flags}`."),
            None => "Nothing can be recorded on this host; the trial below has the exact error. Reading trace folders works.".into(),
        },
        (false, _) if blocking.is_empty() => format!(
            "This user lacks {}; no other obstacle was found, but only a trial with these rights is proof. \
             Reading trace folders needs no rights.",
            missing.join(", ")
        ),
        (false, _) => format!(
            "This user lacks {}, and there are other obstacles: {}. Reading trace folders needs no rights.",
            missing.join(", "),
            blocking.join(", ")
        ),
    }
}

fn capabilities() -> Vec<Capability> {
    let all = rights::has(rights::CAP_SYS_ADMIN);
    rights::NEEDED
        .iter()
        .map(|&(name, number, needed_for)| Capability {
            name,
            needed_for,
            present: all || rights::has(number),
            kept: true,
        })
        .collect()
}

fn rights_checks(capabilities: &[Capability]) -> Vec<Check> {
    let is_root = host::is_root();
    let mut checks: Vec<Check> = capabilities
        .iter()
        .map(|c| {
            let (id, found) = ("rights.capability", format!("to {}", c.needed_for));
            match (c.present, is_root) {
                (true, _) => check(id, c.name, Verdict::Yes, found),
                (false, true) => check_to_do(
                    id,
                    c.name,
                    Verdict::No,
                    format!("missing, though this is root: a container or service manager removed it; needed {found}"),
                    format!("Give it to the container (docker run --cap-add {}, or --privileged) or run wakepath on the host itself.", c.name.trim_start_matches("CAP_")),
                ),
                (false, false) => check(id, c.name, Verdict::No, format!("missing; needed {found}")),
            }
        })
        .collect();
    if !is_root && let Some(last) = checks.iter_mut().rfind(|c| c.verdict == Verdict::No) {
        last.remedy =
            Some(format!("Run it as root (sudo wakepath …), or give the binary the rights, once:\n{}", rights::SETCAP));
    }
    let names: Vec<&str> = capabilities.iter().filter(|c| c.kept).map(|c| c.name).collect();
    checks.push(check(
        "rights.kept",
        "rights while recording",
        Verdict::Note,
        format!("{}; every other is given up once the programs are attached", names.join(", ")),
    ));
    checks
}

/// Loads and attaches the programs with small rings, watching no process, and takes them away again.
fn trial(support: &Support) -> Trial {
    let hooks = kernel::has_socket_hooks(support);
    let begin = Instant::now();
    let outcome = attach(Backend::Auto, true);
    let duration_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut trial = Trial { tried: true, duration_ns, ..Trial::default() };
    match outcome {
        Ok(programs) => trial.programs = programs,
        Err(e) => {
            trial.error = Some(match loader_words() {
                Some(words) => format!("{e}; {words}"),
                None => e.to_string(),
            });
            let ways = [
                (Backend::SocketHooks, true, "--backend socket-hooks"),
                (Backend::Syscalls, true, "--backend syscalls"),
                (Backend::Auto, false, "--no-waits"),
                (Backend::Syscalls, false, "--backend syscalls --no-waits"),
            ];
            trial.works_with = ways
                .into_iter()
                .filter(|(backend, ..)| hooks || *backend == Backend::Auto)
                .find(|(backend, waits, _)| attach(*backend, *waits).is_ok())
                .map(|(.., flags)| flags.to_owned());
        }
    }
    trial
}

/// What the loader and the kernel's verifier say of a failure: they say it on standard error, so another process is
/// asked to fail in the same way.
fn loader_words() -> Option<String> {
    const LOG: &str = "WAKEPATH_LIBBPF_LOG";
    if std::env::var_os(LOG).is_some() {
        return None;
    }
    let output = std::process::Command::new("/proc/self/exe")
        .args(["doctor", "--json"])
        .env(LOG, "1")
        .stdin(std::process::Stdio::null())
        .output()
        .ok()?;
    last_words(&String::from_utf8_lossy(&output.stderr))
}

/// Which program failed, and the verifier's last word on it.
fn last_words(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let failed = lines.iter().position(|l| l.starts_with("libbpf: ") && l.contains("failed to load"))?;
    let verdict = lines[..failed].iter().rev().find(|l| !l.starts_with("processed ") && !l.starts_with("-- "));
    let failed = lines[failed].trim_start_matches("libbpf: ");
    Some(match verdict {
        Some(word) => format!("{failed}: {word}"),
        None => failed.to_owned(),
    })
}

fn attach(backend: Backend, waits: bool) -> Result<u32, CaptureError> {
    let mut source = KernelSource::attach(&KernelOptions {
        backend,
        ring_bytes: 1 << 16,
        waits,
        watch: Watch::Processes(Vec::new()),
        ..KernelOptions::default()
    })?;
    source.snapshot(|_| {})?;
    let programs = source.costs().len() as u32;
    source.detach();
    Ok(programs)
}

fn trial_check(trial: &Trial, missing: &[&str]) -> Check {
    let (id, title) = ("trial", "trial");
    match (&trial.error, trial.tried) {
        (_, false) => check_to_do(
            id,
            title,
            Verdict::Note,
            format!("not made: it needs {}", missing.join(", ")),
            "Run `sudo wakepath doctor`.",
        ),
        (None, true) => check(
            id,
            title,
            Verdict::Yes,
            format!(
                "{} programs were loaded and attached in {}, the open files were read, and everything was removed again",
                trial.programs,
                wakepath_present::units::duration(trial.duration_ns)
            ),
        ),
        (Some(error), true) => check_to_do(
            id,
            title,
            Verdict::No,
            error.clone(),
            match &trial.works_with {
                Some(flags) => format!("Record with {flags}: that works here."),
                None => "Run `WAKEPATH_LIBBPF_LOG=1 wakepath doctor` and report what it says on standard error, with the kernel release.".to_owned(),
            },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_last_word_is_found() {
        let log = "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n0: (07) r1 += -56\nR3 invalid mem access 'scalar'\n\
                   processed 3 insns (limit 1000000)\n-- END PROG LOAD LOG --\n\
                   libbpf: prog 'x': failed to load: -EACCES\nlibbpf: failed to load object 'o'\n";
        let words = last_words(log);
        assert_eq!(words.as_deref(), Some("prog 'x': failed to load: -EACCES: R3 invalid mem access 'scalar'"));
        assert_eq!(last_words("nothing of interest"), None);
    }
}
