//! The fuzzer's one program: `MESH_CLAIM` names the claim it tries to break.
//!
//! What the claims are is in `claims.rs`; how to run them is in `CONTRIBUTING.md`.

#![no_main]

mod claims;

use std::sync::LazyLock;

use claims::{CLAIMS, Claim};
use libfuzzer_sys::fuzz_target;

static CLAIM: LazyLock<Claim> = LazyLock::new(|| {
    let wanted = std::env::var("MESH_CLAIM").expect("MESH_CLAIM names a claim");
    CLAIMS.iter().find(|(name, _)| *name == wanted).expect("MESH_CLAIM is in claims.rs").1
});

fuzz_target!(|bytes: &[u8]| {
    CLAIM(bytes);
});
