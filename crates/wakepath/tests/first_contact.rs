//! What a new user meets: wrong usage, terminals of any width, colour, pagers, completions, folders that sudo made.

mod support;

use serde_json::Value;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Tested, check, run, schemas, stderr, stdout, wakepath, widest, write_small};
use wakepath_model::rows::Event;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::shapes::{Plan, Shape, simulate};

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

/// A web service with a thread for each connection, before a database.
fn web(dir: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let plan = Plan { clients: 6, requests: 20, ..Plan::new(Shape::ThreadPerConnection, 7) };
    Ok(simulate(&plan).write(dir, Cuts::default())?.remove(0))
}

#[test]
fn schemas_stand_alone() -> Tested {
    let mut shared: Vec<(PathBuf, Value)> = Vec::new();
    for entry in std::fs::read_dir(schemas())? {
        let file = entry?.path();
        let text = std::fs::read_to_string(&file)?;
        let schema: Value = serde_json::from_str(&text)?;
        for part in text.split("\"$ref\":").skip(1) {
            assert!(part.trim_start().starts_with("\"#/"), "{}: refers to another document", file.display());
        }
        assert!(!schema["$id"].as_str().is_some_and(|id| id.contains("//")), "{}: $id names a host", file.display());
        // without a registry and without a network
        jsonschema::options().build(&schema).map_err(|e| format!("{}: {e}", file.display()))?;
        shared.push((file, serde_json::json!([schema["$defs"]["losses"], schema["$defs"]["loss"]])));
    }
    assert!(shared.len() >= 17, "{}", shared.len());
    for (file, losses) in &shared[1..] {
        assert_eq!(*losses, shared[0].1, "{} and {} describe losses alike", file.display(), shared[0].0.display());
    }
    Ok(())
}

#[test]
fn tables_take_the_width_that_there_is() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = web(dir.path())?;
    let folder = path(&folder);
    for args in [
        &["requests", folder][..],
        &["show", folder, "slowest"],
        &["open", folder],
        &["why", folder],
        &["info", folder],
        &["metrics", folder],
        &["triage", folder],
        &["waits", folder, "--request", "slowest"],
    ] {
        for width in [80, 100, 200] {
            let output = wakepath(args).env("COLUMNS", width.to_string()).output()?;
            let text = stdout(&output);
            assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
            // a command that is to be copied is one line
            let widest = widest(&text.lines().filter(|l| !l.contains("wakepath ")).collect::<Vec<_>>().join("\n"));
            assert!(widest <= width, "{args:?} at {width}: {widest}\n{text}");
        }
    }
    Ok(())
}

#[test]
fn colour_is_what_the_user_asks_for() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    write_small(&folder, "web", "aaaaaaaa-1", true);
    let coloured = |args: &[&str], env: &[(&str, &str)]| -> Result<bool, std::io::Error> {
        let mut command = wakepath(&[&["info", path(&folder)], args].concat());
        Ok(stdout(&command.envs(env.iter().copied()).output()?).contains('\x1b'))
    };
    assert!(!coloured(&[], &[])?, "no terminal");
    assert!(coloured(&[], &[("CLICOLOR_FORCE", "1")])?);
    assert!(!coloured(&[], &[("CLICOLOR_FORCE", "0")])?);
    assert!(!coloured(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")])?);
    assert!(coloured(&["--color", "always"], &[("NO_COLOR", "1")])?);
    assert!(!coloured(&["--color", "never"], &[("CLICOLOR_FORCE", "1")])?);
    Ok(())
}

/// Runs shell commands on a terminal of 200 columns and 12 lines; what they wrote on it.
fn on_terminal(commands: &str) -> Result<String, Box<dyn std::error::Error>> {
    let output = Command::new("script")
        .args(["-qec", &format!("stty cols 200 rows 12; {commands}"), "/dev/null"])
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .env_remove("LESS")
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("script (Debian: bsdutils) gives a terminal: {e}"))?;
    Ok(stdout(&output))
}

#[test]
fn a_terminal_gets_its_width_and_a_pager_where_it_is_too_small() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = web(dir.path())?;
    let (program, paged) = (env!("CARGO_BIN_EXE_wakepath"), dir.path().join("paged"));
    let ask = |what: &str| format!("{program} {what} {}", path(&folder));
    let pager = format!("PAGER='cat > {}'", path(&paged));

    on_terminal(&format!("{pager} {}", ask("info")))?;
    let text = std::fs::read_to_string(&paged)?;
    assert!(text.contains("Host web") && text.contains('\x1b'), "a pager gets the whole answer, in colour: {text}");
    std::fs::remove_file(&paged)?;

    for (not_paged, why) in [
        (format!("{pager} {}", ask("--no-pager info")), "--no-pager"),
        (format!("{pager} {} | cat", ask("info")), "into a pipe"),
        (format!("PAGER=none-such {}", ask("info")), "a pager that does not exist"),
        (format!("PAGER=cat {}", ask("info")), "cat is no pager"),
        (format!("TERM=dumb {}", ask("info")), "less needs more than a dumb terminal"),
    ] {
        let shown = on_terminal(&not_paged)?;
        assert!(!paged.exists() && shown.contains("Host web"), "{why}: {shown}");
    }
    Ok(())
}

#[test]
fn what_is_missing_or_meant_is_named() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = web(dir.path())?;
    let folder = path(&folder);
    for (args, code, said) in [
        (&["show"][..], 2, "<DIR> and the request <REQUEST> are missing"),
        (&["show", folder], 2, "<REQUEST> is missing"),
        (&["show", "slowest"], 2, "<DIR> is missing"),
        (&["show", "slowest", folder], 2, "<REQUEST> is missing"),
        (&["tables", "a", "b"], 2, "Usage: wakepath tables"),
        (&["show", folder, "slowest", "--kind", "GET /"], 1, "did you mean 'GET /"),
        (&["waits", folder, "--request", "slowest", "--kind", "get /a"], 1, "did you mean 'GET /a'?"),
        (&["why", folder, "--kind", "GET /aa"], 1, "did you mean 'GET /a'?"),
        (&["bottleneck", folder, "--request", "/a"], 1, "did you mean 'GET /a'?"),
        (&["show", folder, "xyz"], 1, "is not a request"),
        (&["recorde"], 2, "similar subcommands exist: 'reduce', 'record'\n"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {said} is not in {}", stderr(&output));
    }
    Ok(())
}

#[test]
fn shells_complete_kinds_and_requests_and_no_hidden_command() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = web(dir.path())?;
    let folder = path(&folder);
    let complete = |words: &[&str]| -> Result<String, Box<dyn std::error::Error>> {
        let output = wakepath(&[&["--", "wakepath"], words].concat())
            .env("WAKEPATH_COMPLETE", "bash")
            .env("_CLAP_IFS", "\n")
            .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
            .env("_CLAP_COMPLETE_COMP_TYPE", "9")
            .output()?;
        Ok(stdout(&output))
    };
    assert!(complete(&["why", folder, "--kind", "GET"])?.contains("'GET /a'"), "quoted, since it has a space");
    let ids = complete(&["show", folder, ""])?;
    assert!(ids.contains("slowest"), "{ids}");
    assert!(ids.lines().any(|l| l.len() == 16 && l.bytes().all(|b| b.is_ascii_hexdigit())), "{ids}");
    let commands = complete(&["rec"])?;
    assert!(commands.contains("record") && !commands.contains("recorder"), "{commands}");
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completions", shell]));
        assert!(script.contains("WAKEPATH_COMPLETE") && !script.contains("recorder"), "{script}");
    }
    Ok(())
}

#[test]
fn counts_are_of_all_recordings_and_say_so() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = web(dir.path())?;
    let one = check("requests", &stdout(&run(&["requests", "--json", path(&folder)])));
    assert_eq!(one["recordings"], 1);
    assert!(!stdout(&run(&["requests", path(&folder)])).contains("recordings together"));
    // another host's, an hour later
    let mut later = simulate(&Plan { clients: 6, requests: 20, ..Plan::new(Shape::ThreadPerConnection, 7) });
    for host in &mut later.hosts {
        host.name.push_str("-later");
        for row in &mut host.rows {
            if let Event::Anchor(a) = row {
                a.real_ns += 3_600_000_000_000;
            }
        }
    }
    let later = later.write(&dir.path().join("later"), Cuts::default())?.remove(0);
    let both = check("requests", &stdout(&run(&["requests", "--json", path(&folder), path(&later)])));
    assert_eq!(both["recordings"], 2);
    assert_eq!(both["span_ns"].as_u64(), one["span_ns"].as_u64().map(|ns| 2 * ns));
    let text = stdout(&run(&["requests", path(&folder), path(&later)]));
    assert!(text.contains("Counts and times cover 2 recordings together"), "{text}");
    Ok(())
}

#[test]
fn recording_nobody_is_refused_and_makes_no_folder() -> Tested {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("t");
    // larger than any process number
    let nobody = (1u32 << 30).to_string();
    for selector in [&["--pid", &nobody][..], &["--port", "80,x"], &["--pid", "1,x"]] {
        let output = run(&[&["record", "-o", path(&out), "--duration", "1s"], selector].concat());
        let (status, said) = (output.status.code(), stderr(&output));
        let expected = if selector[1] == nobody { Some(1) } else { Some(2) };
        assert_eq!(status, expected, "{selector:?}: {said}");
        if selector[1] == nobody && is_root() {
            assert!(said.contains("there is no such process"), "{said}");
        }
        assert!(!out.exists(), "{selector:?}");
    }
    Ok(())
}

/// Whether this is root, who may give files away.
fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|s| s.lines().any(|l| l.starts_with("Uid:\t0\t")))
}

fn owners(dir: &Path, out: &mut Vec<(PathBuf, u32)>) -> Tested {
    out.push((dir.to_owned(), std::fs::symlink_metadata(dir)?.uid()));
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            owners(&entry.path(), out)?;
        } else {
            out.push((entry.path(), entry.metadata()?.uid()));
        }
    }
    Ok(())
}

#[test]
fn what_sudo_makes_belongs_to_who_called_it() -> Tested {
    if !is_root() {
        println!("skipped: only root gives files away");
        return Ok(());
    }
    const NOBODY: u32 = 65534;
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("made");
    let as_sudo = |args: &[&str]| {
        let mut command = wakepath(args);
        command.env("SUDO_UID", NOBODY.to_string()).env("SUDO_GID", NOBODY.to_string());
        command.output()
    };
    let source = web(&dir.path().join("source"))?;
    let output = as_sudo(&["merge", path(&source), "-o", path(&folder)])?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // what is cached belongs to whom the folder belongs, whoever asks
    for args in [&["why", path(&folder)][..], &["open", path(&folder)], &["tables", path(&folder)]] {
        let output = as_sudo(args)?;
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    }
    let mut found = Vec::new();
    owners(&folder, &mut found)?;
    assert!(
        found.iter().any(|(p, _)| p.starts_with(folder.join("cache")) && p.is_file()),
        "a cache was made: {found:?}"
    );
    let wrong: Vec<_> = found.iter().filter(|(_, uid)| *uid != NOBODY).collect();
    assert!(wrong.is_empty(), "{wrong:?}");

    // a link that the owner puts there is not followed
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "root's")?;
    std::os::unix::fs::symlink(&secret, folder.join("cache/link"))?;
    std::fs::hard_link(&secret, folder.join("cache/hard"))?;
    as_sudo(&["open", path(&folder)])?;
    assert_eq!(std::fs::metadata(&secret)?.uid(), 0);
    Ok(())
}

/// What a user who may call sudo for this program alone puts where root is to write: links to what only root may have.
#[test]
fn what_root_writes_for_somebody_goes_through_no_link() -> Tested {
    if !is_root() {
        println!("skipped: only root writes for others");
        return Ok(());
    }
    const NOBODY: u32 = 65534;
    let dir = tempfile::tempdir()?;
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let (secret, vault) = (dir.path().join("secret"), dir.path().join("vault"));
    std::fs::write(&secret, "root's")?;
    std::fs::create_dir(&vault)?;
    for only_roots in [&secret, &vault] {
        std::fs::set_permissions(only_roots, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    }
    let user = dir.path().join("user");
    std::fs::create_dir(&user)?;
    let give = |path: &Path| std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY));
    give(&user)?;
    let as_sudo = |args: &[&str]| {
        let mut command = wakepath(args);
        command.env("SUDO_UID", NOBODY.to_string()).env("SUDO_GID", NOBODY.to_string());
        command.output()
    };
    let intact = |what: &str| -> Tested {
        let about = std::fs::metadata(&secret)?;
        assert_eq!((about.uid(), std::fs::read_to_string(&secret)?), (0, "root's".to_owned()), "{what}");
        let vaulted: Vec<_> = std::fs::read_dir(&vault)?.collect();
        assert!(vaulted.is_empty() && std::fs::metadata(&vault)?.uid() == 0, "{what}: {vaulted:?}");
        Ok(())
    };
    let source = web(&dir.path().join("source"))?;
    let made = user.join("made");
    let output = as_sudo(&["merge", path(&source), "-o", path(&made)])?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    // an answer, and the file that says that recording has begun
    let (link, hard) = (user.join("link"), user.join("hard"));
    std::os::unix::fs::symlink(&secret, &link)?;
    std::fs::hard_link(&secret, &hard)?;
    let marks = user.join("marks");
    std::fs::write(&marks, "")?;
    let capture = dir.path().join("empty.pcap");
    std::fs::write(
        &capture,
        [&0xa1b2_c3d4_u32.to_le_bytes()[..], &[2, 0, 4, 0], &[0; 8], &[0, 0, 1, 0, 1, 0, 0, 0]].concat(),
    )?;
    for target in [&link, &hard] {
        let out = as_sudo(&["export", "--to", "folded", path(&made), "-o", path(target)])?;
        assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
        intact("export")?;
        let out =
            as_sudo(&["sniff", "--pcap", path(&capture), "-o", path(&user.join("s")), "--ready-file", path(target)])?;
        assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
        intact("a ready file")?;
        std::fs::remove_dir_all(user.join("s"))?;
        // also root itself, without sudo
        let out = run(&["export", "--to", "folded", path(&made), "-o", path(target)]);
        assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
        intact("root's export")?;
    }

    // a folder that is given, or a part of it
    let to_vault = user.join("to-vault");
    std::os::unix::fs::symlink(&vault, &to_vault)?;
    give(&to_vault)?;
    as_sudo(&["tables", path(&made), "-o", path(&to_vault)])?;
    intact("tables")?;
    for inside in ["hosts", "cache", "hosts/here"] {
        let at = made.join(inside);
        let aside = user.join("aside");
        if at.exists() {
            std::fs::rename(&at, &aside)?;
        }
        std::os::unix::fs::symlink(&vault, &at)?;
        give(&at)?;
        let out = as_sudo(&["sniff", "--pcap", path(&capture), "-o", path(&made), "--append"])?;
        if inside != "hosts/here" {
            assert!(!out.status.success() && stderr(&out).contains("is a link"), "{inside}: {}", stderr(&out));
        }
        intact(inside)?;
        as_sudo(&["why", path(&made)])?;
        run(&["why", path(&made)]);
        intact(inside)?;
        std::fs::remove_file(&at)?;
        if aside.exists() {
            std::fs::rename(&aside, &at)?;
        }
    }

    // what only root may have and lies in the user's folder stays root's
    let moved = made.join("cache/moved");
    std::fs::write(&moved, "root's")?;
    as_sudo(&["open", path(&made)])?;
    run(&["open", path(&made)]);
    assert_eq!(std::fs::metadata(&moved)?.uid(), 0);
    Ok(())
}
