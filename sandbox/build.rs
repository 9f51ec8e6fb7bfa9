//! Compiles the init of every sandbox (`src/init`) into one static program for this machine's own target.
//!
//! The library embeds it. It needs the target's static C library (part of `libc6-dev` on Debian), and downloads
//! nothing.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    for part in ["src/init", "src/control.rs"] {
        println!("cargo::rerun-if-changed={part}");
    }
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let program = PathBuf::from(variable("OUT_DIR")).join("init");
    let status = Command::new(variable("RUSTC"))
        .args(["--edition=2024", "--crate-name=init", "--crate-type=bin", "--target", &variable("TARGET")])
        .args(["-Cpanic=abort", "-Copt-level=s", "-Clto=fat", "-Ccodegen-units=1", "-Cstrip=symbols"])
        .args(["-Ctarget-feature=+crt-static", "-Crelocation-model=static"])
        // Each side of the shared file uses its half.
        .args(["-Adead_code", "-o"])
        .arg(&program)
        .arg("src/init/main.rs")
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!("cargo::error=the init of the sandbox does not build; is the static C library installed?");
    }
}
