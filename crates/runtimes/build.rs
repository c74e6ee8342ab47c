//! Makes the agent for the JVM of its source, where there is a JDK. Without one everything builds, and `wakepath attach` says how to
//! have it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Ends of the names of classes that those of the JDK and of libraries call.
const HOOKS: [&str; 8] = ["", "Context", "Line", "Loops", "Netty", "Others", "Wanted", "Wrapper"];

fn main() {
    println!("cargo::rerun-if-changed=helpers/jvm");
    println!("cargo::rerun-if-env-changed=JAVA_HOME");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    let jar = out.join("wakepath-agent.jar");
    if let Err(why) = make(&out, &jar) {
        println!(
            "cargo::warning=without the agent for the JVM: {why}; remedy: scripts/install build, then build again"
        );
        std::fs::write(&jar, []).expect("a file in the build's own folder");
        // a file that never is has cargo look at each build whether there is a JDK now
        println!("cargo::rerun-if-changed={}", out.join("none").display());
    }
}

fn make(out: &Path, jar: &Path) -> Result<(), String> {
    let classes = out.join("agent");
    let _ = std::fs::remove_dir_all(&classes);
    std::fs::create_dir_all(&classes).map_err(|e| format!("{}: {e}", classes.display()))?;
    // what the JDK's classes call is of their package
    let mut hooks = command("javac");
    hooks.args(["-source", "17", "-target", "17", "-g:source,lines", "-Xlint:-options", "--patch-module"]);
    hooks.args(["java.base=helpers/jvm", "-d"]).arg(&classes);
    run(hooks.args(HOOKS.map(|part| source(&format!("WakepathTasks{part}")))))?;
    let mut agent = command("javac");
    agent.args(["--release", "17", "-g:source,lines", "-d"]).arg(&classes);
    run(agent.args(["Agent", "Changer", "ClassFile", "Edit", "Netty"].map(source)))?;
    let mut pack = command("jar");
    // a fixed time, so that the same source makes the same bytes
    pack.args(["--create", "--date", "2026-01-01T00:00:00Z", "--manifest", "helpers/jvm/manifest.txt", "--file"]);
    run(pack.arg(jar).arg("-C").arg(&classes).arg("."))
}

fn source(name: &str) -> String {
    format!("helpers/jvm/{name}.java")
}

/// A tool of the JDK that `JAVA_HOME` names, else of the one that is found.
fn command(name: &str) -> Command {
    let home = std::env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin").join(name));
    Command::new(home.filter(|path| path.exists()).unwrap_or_else(|| name.into()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|e| format!("{name}: {e}"))?;
    let said = String::from_utf8_lossy(&done.stderr).lines().take(8).collect::<Vec<_>>().join(" | ");
    if done.status.success() { Ok(()) } else { Err(format!("{name} failed: {said}")) }
}
