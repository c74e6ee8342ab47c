//! A process without a descriptor left: its accepts fail, and its clients wait in the queue.

use crate::harness::*;
use crate::open::{listen, start};
use serde_json::Value;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::process::Command;

#[test]
fn an_accept_without_a_descriptor_is_said_with_its_remedy() {
    const NAME: &str = "descriptors::an_accept_without_a_descriptor_is_said_with_its_remedy";
    const FAILURES: u64 = 3;
    if part().is_some() {
        let listener = listen();
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("its client is there");
        // no number below the listener's is free that a descriptor may have
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: takes descriptors from this process alone.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) }, 0);
        for _ in 0..FAILURES {
            // SAFETY: no address is asked for.
            let got = unsafe { libc::accept(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut()) };
            assert_eq!((got, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EMFILE)));
        }
        println!("tid {} asks 0", gettid());
        wait_stdin();
        return;
    }
    for backend in BACKENDS {
        let mut server = start(NAME, "server");
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().join("trace");
        let pid = server.child.id().to_string();
        let Some(rec) = record_to(backend, &["--pid", &pid], folder.clone()) else { continue };
        let client = TcpStream::connect(("127.0.0.1", server.port)).expect("it connects");
        writeln!(server.to, "go").expect("it reads");
        server.asked();
        pause(100);
        rec.stop();
        let output = Command::new(binary()).args(["triage", "--json"]).arg(&folder).output().expect("it starts");
        let found: Value = serde_json::from_slice(&output.stdout).expect("a document");
        let said = found["findings"].as_array().expect("a list").iter().filter_map(|f| f["sentence"].as_str());
        let said: Vec<&str> = said.filter(|s| s.contains("limit of open files")).collect();
        let begins = format!(":{} failed to accept a connection {FAILURES} times, because its process", server.port);
        assert!(said.len() == 1 && said[0].contains(&begins) && said[0].contains("ulimit -n"), "{backend}: {found:#}");
        drop(client);
    }
}
