//! Tasks of the house: `cargo xtask bindings [--check]` writes `probes/bpf/wire.h` from `crates/wire`.
use std::fmt::Write as _;

fn header() -> String {
    let mut out = String::from(
        "/* Made by `cargo xtask bindings` from crates/wire. Do not edit. */\n#ifndef WAKEPATH_WIRE_H\n#define WAKEPATH_WIRE_H\n\n",
    );
    for c in wakepath_wire::CONSTANTS {
        let _ = writeln!(out, "#define {} {:#x}ULL", c.name, c.value);
    }
    for s in wakepath_wire::LAYOUTS {
        let _ = write!(out, "\nstruct {} {{\n", s.name);
        for f in s.fields {
            let _ = match f.count {
                1 => writeln!(out, "\t{} {};", f.ctype, f.name),
                n => writeln!(out, "\t{} {}[{n}];", f.ctype, f.name),
            };
        }
        let _ = writeln!(
            out,
            "}};\n_Static_assert(sizeof(struct {}) == {}, \"{}\");",
            s.name, s.bytes, s.name
        );
    }
    out.push_str("\n#endif\n");
    out
}

fn main() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../probes/bpf/wire.h");
    match std::env::args().nth(1).as_deref() {
        Some("bindings") => std::fs::write(path, header()).expect("probes/bpf/wire.h is writable"),
        _ => {
            eprintln!("usage: cargo xtask bindings");
            std::process::exit(2);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn header_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../probes/bpf/wire.h");
        let on_disk = std::fs::read_to_string(path).unwrap();
        assert!(on_disk == super::header(), "probes/bpf/wire.h is stale: run `cargo xtask bindings`");
    }
}
