//! A named tool that is not ours judges our envelopes: `securesystemslib`, the reference implementation of DSSE and
//! the library under in-toto's own tools, through `tests/evidence/securesystemslib_verify.py`.
//!
//! Needs python3 with venv, and a package index to install from once. Where that is missing the test says
//! `SKIPPED: why` on standard error and passes, unless `MESH_REQUIRE_EXTERNAL=1`.

use std::path::{Path, PathBuf};
use std::process::Command;

use ed25519_dalek::SigningKey;
use mesh_protocol::evidence::dsse::{Envelope, key_id};

use crate::fixture::{attestation, key};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/evidence/securesystemslib_verify.py");
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

/// What the tool said of an envelope.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Rejected,
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {complaint}")) }
}

/// A Python that can import the tool; installed once and kept beside the build.
fn python() -> Result<PathBuf, String> {
    let home = Path::new(SCRATCH).join("securesystemslib-venv");
    let python = home.join("bin/python");
    let usable = || run(Command::new(&python).args(["-c", "import securesystemslib.dsse, cryptography"]));
    if usable().is_err() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
        let install = ["-m", "pip", "install", "--quiet", "securesystemslib[crypto]==1.*", "cryptography"];
        run(Command::new(&python).args(install))?;
        usable()?;
    }
    Ok(python)
}

fn judge(python: &Path, name: &str, envelope: &Envelope, signer: &SigningKey) -> Verdict {
    let file = Path::new(SCRATCH).join(format!("{name}.dsse.json"));
    std::fs::write(&file, envelope.to_json().unwrap()).unwrap();
    let public: String = signer.verifying_key().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let output = Command::new(python).arg(SCRIPT).arg(&file).arg(public).output().unwrap();
    match output.status.code() {
        Some(0) => Verdict::Accepted,
        Some(1) => Verdict::Rejected,
        _ => panic!("{name}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn securesystemslib_accepts_our_envelope_and_rejects_what_was_tampered_with() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => {
            assert_ne!(std::env::var("MESH_REQUIRE_EXTERNAL").as_deref(), Ok("1"), "{why}");
            eprintln!("SKIPPED: {why}");
            return;
        }
    };
    let good = Envelope::parse(attestation().envelope.as_bytes()).unwrap();
    let altered = |change: &dyn Fn(&mut Envelope)| {
        let mut envelope = good.clone();
        change(&mut envelope);
        envelope
    };
    let judge = |name, envelope: &Envelope| judge(&python, name, envelope, &key(1));
    assert_eq!(judge("good", &good), Verdict::Accepted);

    let payload = altered(&|envelope| envelope.payload[100] ^= 1);
    assert_eq!(judge("payload-flipped", &payload), Verdict::Rejected);
    let signature = altered(&|envelope| envelope.signatures[0].sig[10] ^= 1);
    assert_eq!(judge("signature-flipped", &signature), Verdict::Rejected);
    let payload_type = altered(&|envelope| envelope.payload_type = "application/json".to_owned());
    assert_eq!(judge("type-changed", &payload_type), Verdict::Rejected);
    let stranger = altered(&|envelope| {
        *envelope = Envelope::sign(&envelope.payload_type, envelope.payload.clone(), &key(2));
        // Under the trusted key's name: otherwise the tool would not even look at the signature.
        envelope.signatures[0].keyid = Some(key_id(&key(1).verifying_key()));
    });
    assert_eq!(judge("other-key", &stranger), Verdict::Rejected);
}
