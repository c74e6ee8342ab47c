//! The layouts of `crates/wire` as C, for the kernel programs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn path(root: &Path) -> PathBuf {
    root.join("probes/bpf/wire.h")
}

fn header() -> String {
    let mut out = String::from(
        "/* Made by `cargo xtask bindings` from crates/wire. Do not edit. */\n#ifndef WAKEPATH_WIRE_H\n#define WAKEPATH_WIRE_H\n\n",
    );
    for c in wakepath_wire::CONSTANTS {
        let _ = writeln!(out, "#define {} {:#x}ULL", c.name, c.value);
    }
    for s in wakepath_wire::layouts() {
        let _ = write!(out, "\nstruct {} {{\n", s.name);
        for f in s.fields {
            let _ = match f.count {
                1 => writeln!(out, "\t{} {};", f.ctype, f.name),
                n => writeln!(out, "\t{} {}[{n}];", f.ctype, f.name),
            };
        }
        let _ = writeln!(out, "}};\n_Static_assert(sizeof(struct {}) == {}, \"{}\");", s.name, s.bytes, s.name);
    }
    out.push_str("\n#endif\n");
    out
}

/// Writes the header.
pub fn write(root: &Path) {
    std::fs::write(path(root), header()).expect("probes/bpf/wire.h is writable");
}

/// Whether the header in the tree is what would be written.
pub fn is_current(root: &Path) -> bool {
    std::fs::read_to_string(path(root)).is_ok_and(|on_disk| on_disk == header())
}
