//! Judges that are not ours: `securesystemslib` (the library under in-toto's tools) on the signature,
//! `in-toto-attestation` (in-toto's own bindings) on the statement, and, written from `docs/evidence.md` in another
//! language, a second verifier on the whole bundle. The programs are in `tests/evidence/`.
//!
//! Needs python3 with venv, and a package index to install from once. Where that is missing each test says
//! `SKIPPED: why` on standard error and passes, unless `MESH_REQUIRE_EXTERNAL=1`.

use std::path::{Path, PathBuf};
use std::process::Command;

use ed25519_dalek::SigningKey;
use mesh_protocol::evidence::artifact::Captured;
use mesh_protocol::evidence::attest;
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::dsse::{Envelope, key_id};

use crate::fixture::{attestation, finished, key, value};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/evidence");
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");
const IMPORTS: &str = "import securesystemslib.dsse, cryptography, in_toto_attestation.v1.statement";
const PACKAGES: [&str; 3] = ["securesystemslib[crypto]==1.*", "cryptography", "in-toto-attestation==0.9.*"];

/// What a judge said of a file.
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

/// A Python with the judges installed; made once and kept beside the build. Tests run in processes of their own, so
/// a file lock lets one of them install while the others wait.
fn install() -> Result<PathBuf, String> {
    let home = Path::new(SCRATCH).join("judges-venv");
    let lock = std::fs::File::create(home.with_extension("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let python = home.join("bin/python");
    let usable = || run(Command::new(&python).args(["-c", IMPORTS]));
    if usable().is_err() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
        usable()?;
    }
    Ok(python)
}

#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
fn python() -> Option<PathBuf> {
    match install() {
        Ok(python) => Some(python),
        Err(why) => {
            assert_ne!(std::env::var("MESH_REQUIRE_EXTERNAL").as_deref(), Ok("1"), "{why}");
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

/// Writes `text` to a file called `name` and lets a script judge it.
fn judge(python: &Path, script: &str, name: &str, text: &str, signer: Option<&SigningKey>) -> Verdict {
    let file = Path::new(SCRATCH).join(format!("{name}.json"));
    std::fs::write(&file, text).unwrap();
    let hex = |key: &SigningKey| -> String {
        key.verifying_key().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let mut command = Command::new(python);
    let output =
        command.arg(Path::new(SCRIPTS).join(script)).arg(&file).args(signer.map(hex)).output().unwrap();
    match output.status.code() {
        Some(0) => Verdict::Accepted,
        Some(1) => Verdict::Rejected,
        _ => panic!("{name}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn securesystemslib_accepts_our_envelope_and_rejects_what_was_tampered_with() {
    let Some(python) = python() else { return };
    let good = Envelope::parse(attestation().envelope.as_bytes()).unwrap();
    let altered = |change: &dyn Fn(&mut Envelope)| {
        let mut envelope = good.clone();
        change(&mut envelope);
        envelope
    };
    let judge = |name, envelope: &Envelope| {
        judge(&python, "securesystemslib_verify.py", name, &envelope.to_json().unwrap(), Some(&key(1)))
    };
    assert_eq!(judge("good-envelope", &good), Verdict::Accepted);

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

#[test]
fn in_toto_reads_our_payload_as_a_statement() {
    let Some(python) = python() else { return };
    let judge = |name, text: &str| judge(&python, "in_toto_statement.py", name, text, None);
    assert_eq!(judge("good-statement", &attestation().envelope), Verdict::Accepted);

    let mut envelope = Envelope::parse(attestation().envelope.as_bytes()).unwrap();
    envelope.payload =
        String::from_utf8(envelope.payload).unwrap().replace("\"subject\"", "\"subjects\"").into();
    assert_eq!(judge("misspelt-statement", &envelope.to_json().unwrap()), Verdict::Rejected);
}

#[test]
fn a_verifier_written_from_the_description_agrees_with_ours() {
    let Some(python) = python() else { return };
    let judge = |name, bundle: &Bundle, signer| {
        judge(&python, "verify_bundle.py", name, &bundle.to_json().unwrap(), Some(&key(signer)))
    };
    let good = Bundle::of(attestation(), None);
    assert_eq!(judge("good-bundle", &good, 1), Verdict::Accepted);
    assert_eq!(judge("good-bundle-other-key", &good, 2), Verdict::Rejected);

    let mut odd = finished();
    odd.stdout = vec![0xff, b'"', b'\\', 0x00, 0x7f];
    odd.stderr = "\u{1}\u{2028}\u{1f600}\u{ffff}\t\"\\/\u{7f}".as_bytes().to_vec();
    odd.execution.killed_by = Some("\u{e9}\u{1b}".to_owned());
    assert!(matches!(Captured::of(&odd.stdout), Captured::Encoded(_)));
    let odd = Bundle::of(attest(odd, &key(1)).unwrap(), None);
    assert_eq!(judge("odd-characters-bundle", &odd, 1), Verdict::Accepted);

    let mut artifact = good.clone();
    artifact.artifact = good.artifact.as_ref().map(|text| text.replace("hello", "jello"));
    assert_eq!(judge("artifact-changed-bundle", &artifact, 1), Verdict::Rejected);
    let mut events = good.clone();
    events.events.as_mut().unwrap()[2].data = value(r#"{"text":"jello"}"#);
    assert_eq!(judge("event-changed-bundle", &events, 1), Verdict::Rejected);
    let mut fewer = good;
    fewer.events.as_mut().unwrap().remove(1);
    assert_eq!(judge("event-dropped-bundle", &fewer, 1), Verdict::Rejected);
}
