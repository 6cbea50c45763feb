//! Sets the one flag in which this package differs.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=leasehold_without_events");
}
