//! Compiles the kernel programs and makes their skeleton.
use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../probes/bpf");
    println!("cargo:rerun-if-changed={}", folder.display());
    SkeletonBuilder::new()
        .source(folder.join("wakepath.bpf.c"))
        // v3 has atomics that return the old value; no host headers, so that every machine builds the same
        .clang_args(["-mcpu=v3", "-nostdinc", "-Wall", "-Werror"])
        // kept, for the test that looks into it
        .obj(out.join("wakepath.bpf.o"))
        .build_and_generate(out.join("wakepath.skel.rs"))
        .expect("the kernel programs compile: is clang (14 or later) installed?");
}
