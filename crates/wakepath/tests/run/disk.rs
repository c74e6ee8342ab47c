//! Disks that fill up and folders that go away while the library vantage records.

use super::*;

#[test]
fn a_full_disk_ends_the_recording_and_not_the_command() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let disk = dir.path().join("disk");
    fs::create_dir(&disk)?;
    // in a mount namespace of its own: a disk of 400 KB, and a command that fills it and goes on
    let writes = "import os,socket,time\na,b=socket.socketpair()\nfor i in range(60000):\n a.send(os.urandom(64)); b.recv(64)\n\
                  time.sleep(1.5)\nopen('end','w').write('well')\nos._exit(CODE)";
    for (code, wanted) in [("0", 1), ("126", 126)] {
        let script = format!(
            "mount -t tmpfs -o size=400k tmpfs disk && {} run -o disk/t -- python3 -c \"$1\"; status=$?; \
             {} info disk/t --json > info; exit $status",
            env!("CARGO_BIN_EXE_wakepath"),
            env!("CARGO_BIN_EXE_wakepath"),
        );
        let mut own = Command::new("unshare");
        own.arg(if own_uid() == 0 { "-m" } else { "-Urm" }).args(["sh", "-c", &script, "sh"]);
        let output = own.arg(writes.replace("CODE", code)).current_dir(dir.path()).stdin(Stdio::null()).output()?;
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(wanted), "{said}");
        assert!(said.contains("free space") && said.contains("keeps running without being recorded"), "{said}");
        assert_eq!(fs::read_to_string(dir.path().join("end"))?, "well");
        let info = fs::read_to_string(dir.path().join("info"))?;
        assert!(info.contains("\"loss.disk\"") && info.contains("\"folder.not_ended\""), "{info}");
        fs::remove_file(dir.path().join("end"))?;
    }
    Ok(())
}

#[test]
fn a_folder_that_is_removed_meanwhile_is_no_success() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    for (code, wanted) in [(0, 1), (5, 5)] {
        let script = format!("rm -r {}; exit {code}", path(&folder));
        let output = run(&["run", "-o", path(&folder), "--", "sh", "-c", &script]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(wanted), "{said}");
        assert!(said.contains("was removed or moved") && !said.contains(" MB, into"), "{said}");
    }
    Ok(())
}
