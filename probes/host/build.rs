//! Compiles the parts of the kernel programs that need no kernel, as they are, for this machine.

fn main() {
    println!("cargo:rerun-if-changed=src/host.c");
    println!("cargo:rerun-if-changed=../bpf");
    // the same compiler as for the kernel, without any header of this machine
    cc::Build::new()
        .compiler("clang")
        .file("src/host.c")
        .include("../bpf")
        .extra_warnings(false)
        .flags(["-nostdinc", "-ffreestanding", "-std=gnu11", "-Wall", "-Werror", "-Wno-unknown-pragmas"])
        .compile("wakepath_probes_host");
}
