//! `verify`: the evidence of a job, checked offline against a key or a mesh's root certificate.
//!
//! Three answers are kept apart: whether the evidence is authentic (the exit code), how the job ended, and whether
//! anything is missing. The first never stands for the second.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ed25519_dalek::VerifyingKey;
use ed25519_dalek::pkcs8::DecodePublicKey;
use mesh_node::identity::{Admission, CertificateError, MemberVerifier, RootCertificate};
use mesh_protocol::evidence::Verified;
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::dsse::Envelope;
use mesh_protocol::evidence::limits::{MAX_ARTIFACT_BYTES, MAX_BUNDLE_BYTES};
use mesh_protocol::evidence::trust::TrustSet;
use mesh_protocol::id::NodeId;
use mesh_protocol::job::FILE_BYTES_MAX;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::args::VerifyArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::{InputError, Source};
use crate::invocation::Invocation;
use crate::job_files;
use crate::render::evidence::{Verdict, verdict};

/// Bytes of a key or certificate file; ours are under 1 KiB.
const KEY_FILE_BYTES_MAX: u64 = 16 * 1024;

/// Verifies.
pub(crate) async fn verify(invocation: &Invocation, args: &VerifyArgs) -> Result<Exit, Failure> {
    let bytes = args.file.bytes(MAX_BUNDLE_BYTES).await?;
    let mut bundle = read(&bytes)?;
    if let Some(path) = &args.artifact {
        bundle.artifact = Some(Source::File(path.clone()).text(MAX_ARTIFACT_BYTES).await?);
    }
    let expected = Expectation { job: args.expect_job.as_deref(), tenant: args.expect_tenant.as_deref() };
    let found = match trust(invocation, args, &bundle)? {
        Ok(trust) => match (proved(&bundle, &trust, expected), &args.output_dir) {
            (Ok(verified), Some(dir)) => outputs(&verified, dir).await,
            (Ok(verified), None) => Verdict::from(&verified),
            (Err(reasons), _) => Verdict::not_verified(reasons),
        },
        Err(reason) => Verdict::not_verified(vec![reason]),
    };
    invocation.printer.answer(&found, verdict);
    Ok(found.exit())
}

/// Evidence in one file, or an envelope alone.
fn read(bytes: &[u8]) -> Result<Bundle, Failure> {
    Bundle::parse(bytes).or_else(|error| {
        let alone = std::str::from_utf8(bytes).ok().filter(|_| Envelope::parse(bytes).is_ok());
        let envelope = alone.ok_or_else(|| {
            Failure::usage(
                format!("this is not evidence: {error}"),
                "give the file that `run --evidence` saved",
            )
        })?;
        Ok(Bundle { envelope: envelope.to_owned(), artifact: None, events: None, certificate: None })
    })
}

/// What the evidence has to be about.
#[derive(Debug, Clone, Copy, Default)]
struct Expectation<'a> {
    job: Option<&'a str>,
    tenant: Option<&'a str>,
}

/// What a bundle proves to someone who trusts these keys.
pub(crate) fn judged(bundle: &Bundle, trust: &TrustSet, expected_job: Option<&str>) -> Verdict {
    let expected = Expectation { job: expected_job, tenant: None };
    proved(bundle, trust, expected).map_or_else(Verdict::not_verified, |verified| Verdict::from(&verified))
}

/// The same, or why it proves nothing; outermost cause first.
fn proved(bundle: &Bundle, trust: &TrustSet, expected: Expectation<'_>) -> Result<Verified, Vec<String>> {
    let verified = bundle.verify(trust, expected.job, expected.tenant);
    verified.map_err(|error| reasons(&error))
}

/// The verdict once the files that the job left are compared with what was signed.
async fn outputs(verified: &Verified, dir: &Path) -> Verdict {
    for signed in &verified.receipt().execution.artifacts {
        let Some(path) = job_files::place(dir, &signed.path) else {
            return Verdict::not_verified(vec![format!("`{}` is no plain path", signed.path)]);
        };
        let reason = match Source::File(path).bytes(FILE_BYTES_MAX).await {
            Ok(bytes) if Digest::of(&bytes) == signed.sha256 && bytes.len() as u64 == signed.size => continue,
            Ok(_) => format!("{} is not the file that was signed", signed.path),
            Err(error) => error.to_string(),
        };
        return Verdict::not_verified(vec![reason]);
    }
    Verdict::from(verified)
}

/// Whom to trust: outside, when that cannot be told; inside, when the bundle itself gives no reason to.
fn trust(
    invocation: &Invocation,
    args: &VerifyArgs,
    bundle: &Bundle,
) -> Result<Result<TrustSet, String>, Failure> {
    let trust = if args.keys.is_empty() {
        match member(&read_root(&root_of(invocation, args)?)?, bundle.certificate.as_deref()) {
            Ok(node) => TrustSet::node(&node),
            Err(reason) => return Ok(Err(reason)),
        }
    } else {
        let keys: Result<_, Failure> = args.keys.iter().map(|key| read_key(key)).collect();
        TrustSet::new(keys?, args.threshold)
    };
    let hint = "give the keys of the nodes that may sign, each once, and a threshold of at most their number";
    trust.map(Ok).map_err(|error| Failure::usage(error.to_string(), hint))
}

/// The root to trust: the one that was named, or else that of the mesh this machine's node is in.
fn root_of(invocation: &Invocation, args: &VerifyArgs) -> Result<PathBuf, Failure> {
    if let Some(root) = &args.root {
        return Ok(root.clone());
    }
    let own = invocation.home()?.join("root.crt");
    if own.exists() {
        return Ok(own);
    }
    let hint = "add `--key`, or `--root` with the root.crt of a node's home";
    Err(Failure::usage("whom to trust is not said, and there is no mesh here", hint))
}

/// 64 hex digits, a node id, or a file with a public key in PEM (RFC 8410).
fn read_key(text: &str) -> Result<VerifyingKey, Failure> {
    let typed = from_hex(text).or_else(|| text.parse::<NodeId>().ok().map(|node| *node.as_bytes()));
    let key = match typed {
        Some(bytes) => VerifyingKey::from_bytes(&bytes).ok(),
        None => {
            let file = read_small(Path::new(text))?;
            std::str::from_utf8(&file).ok().and_then(|pem| VerifyingKey::from_public_key_pem(pem).ok())
        }
    };
    key.ok_or_else(|| {
        Failure::usage(
            "this is not an Ed25519 public key",
            "give 64 hex digits, a node id, or a PEM file with one",
        )
    })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn read_root(path: &Path) -> Result<RootCertificate, Failure> {
    root_in(read_small(path)?).map_err(|error| {
        Failure::usage(error.to_string(), "give the root certificate of the mesh, in PEM or DER")
    })
}

/// The root certificate a file holds, in PEM or in DER.
pub(crate) fn root_in(file: Vec<u8>) -> Result<RootCertificate, CertificateError> {
    let der = CertificateDer::from_pem_slice(&file).map_or(file, |certificate| certificate.to_vec());
    RootCertificate::from_der(der)
}

/// The node that the root let in with this certificate. The certificate alone proves nothing: the signature must be
/// by its key, which is checked next.
pub(crate) fn member(root: &RootCertificate, certificate: Option<&[u8]>) -> Result<NodeId, String> {
    let Some(der) = certificate else { return Err("it holds no certificate of its signer".to_owned()) };
    // Whom the mesh has revoked since is not known offline.
    let verifier =
        MemberVerifier::new(root, Arc::new(Admission::default())).map_err(|error| error.to_string())?;
    let node = verifier.check(&CertificateDer::from(der), &[], UnixTime::now());
    node.map_err(|refusal| format!("its signer's certificate is not this mesh's: {refusal}"))
}

fn read_small(path: &Path) -> Result<Vec<u8>, Failure> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(KEY_FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|source| InputError::Read { path: path.to_owned(), source })?;
    Ok(bytes)
}

fn reasons(error: &(dyn Error + 'static)) -> Vec<String> {
    std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_hex_is_digits_and_nothing_a_number_may_also_have() {
        assert_eq!(from_hex(&"0A".repeat(32)), Some([10; 32]));
        assert_eq!(from_hex(&"+a".repeat(32)), None);
        assert_eq!(from_hex(&"0a".repeat(31)), None);
    }
}
