//! The command of the guest vantage.

use super::{PayloadFlag, Size, Time, WordsFlag};
use clap::Args;
use std::path::PathBuf;

/// Record a virtual machine from below: the system calls of its programs, without touching it
///
/// QEMU's emulator runs the guest, and a plugin in it watches each system call. Addresses, byte numbers and names come out
/// of the guest's memory, by its kernel's own description of its types (BTF). The guest is one host of the folder.
/// Needs QEMU 10 and an x86-64 Linux guest whose kernel has BTF. KVM cannot be used. docs/below.md has more.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath guest -o vm -- qemu-system-x86_64 -cpu max disk.img  with this QEMU, until it ends
  wakepath guest -o vm --flags       print the flags for a QEMU that others start; record it
  wakepath requests vm               then ask, as of any recording")]
#[command(group(clap::ArgGroup::new("who").required(true)))]
pub struct GuestArgs {
    /// Trace folder to create
    #[arg(short, long, default_value = "wakepath-trace", value_name = "DIR")]
    pub output: PathBuf,
    /// Print the flags that QEMU needs, and record the emulator that is started with them
    #[arg(long, group = "who")]
    pub flags: bool,
    /// Name of the guest in answers
    #[arg(long, default_value = "guest", value_name = "NAME")]
    pub name: String,
    /// Replace an existing trace folder
    #[arg(long)]
    pub force: bool,
    /// Stop after this time (30s, 5m, 1h)
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// What to keep of messages: nothing, masked attributes, or also their raw first bytes
    #[arg(long, value_enum, default_value = "attributes")]
    pub payload: PayloadFlag,
    /// Which words of paths, statements and names to write: those that several clients sent, or all (docs/privacy.md)
    #[arg(long, value_enum, default_value = "recurring", env = "WAKEPATH_WORDS", value_name = "WHICH")]
    pub words: WordsFlag,
    /// Maximum number of bytes examined of each message
    #[arg(long, default_value_t = 2048, value_name = "BYTES")]
    pub head_bytes: u32,
    /// Size of the ring buffer (a power of two)
    #[arg(long, default_value = "16M", value_name = "BYTES")]
    pub ring_bytes: Size,
    /// Write without compression: larger files, less processor time
    #[arg(long)]
    pub no_compress: bool,
    /// QEMU and its arguments
    #[arg(last = true, group = "who", value_name = "CMD")]
    pub command: Vec<String>,
}
