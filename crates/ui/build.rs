//! The page that is embedded is made by `scripts/page`; a build after it takes it in.

fn main() {
    println!("cargo::rerun-if-changed=page");
}
