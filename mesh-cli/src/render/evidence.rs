//! What verifying evidence found. It keeps three answers apart: who signed, how the job ended, and whether anything is
//! missing. A valid signature is never called a success.

use mesh_protocol::evidence::Verified;
use mesh_protocol::id::NodeId;
use mesh_protocol::job::JobStatus;
use serde::Serialize;

use crate::exit::Exit;
use crate::foreign;
use crate::style::{self, BAD, DOUBTFUL, KEY};
use crate::table::key_values;

/// What was found, as `--json` prints it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Verdict {
    /// Whether the signature is a trusted node's, and everything given is what it signed and about what was expected.
    pub(crate) verified: bool,
    /// Why not; outermost cause first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) reasons: Vec<String>,
    /// What the signers say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) claims: Option<Claims>,
}

/// What the signers say of the job.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Claims {
    signers: Vec<NodeId>,
    job: String,
    requester: String,
    language: String,
    outcome: JobStatus,
    exit_code: Option<i32>,
    killed_by: Option<String>,
    isolation: Option<String>,
    evidence_complete: bool,
    event_chain_complete: bool,
    events_checked: bool,
    output_checked: bool,
}

impl Verdict {
    /// Nothing was proved.
    pub(crate) const fn not_verified(reasons: Vec<String>) -> Self {
        Self { verified: false, reasons, claims: None }
    }

    /// What the exit code says.
    pub(crate) fn exit(&self) -> Exit {
        match &self.claims {
            None => Exit::Negative,
            Some(claims) if claims.complete() => Exit::Done,
            Some(_) => Exit::Incomplete,
        }
    }
}

impl From<&Verified> for Verdict {
    fn from(verified: &Verified) -> Self {
        let execution = &verified.receipt().execution;
        let observed = execution.observed.as_ref();
        let claims = Claims {
            signers: verified.signers.clone(),
            job: execution.job_id.clone(),
            requester: execution.requester.clone(),
            language: execution.language.clone(),
            outcome: verified.outcome().into(),
            exit_code: verified.exit_code(),
            killed_by: execution.killed_by.clone(),
            isolation: observed.and_then(|observed| observed.isolation_class.clone()),
            evidence_complete: verified.evidence_complete(),
            event_chain_complete: verified.event_chain_complete(),
            events_checked: verified.events_checked,
            output_checked: verified.artifact.is_some(),
        };
        Self { verified: true, reasons: Vec::new(), claims: Some(claims) }
    }
}

impl Claims {
    const fn complete(&self) -> bool {
        self.evidence_complete && self.event_chain_complete && self.events_checked && self.output_checked
    }
}

/// The verdict, then what the signers say.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let Some(claims) = &verdict.claims else {
        let mut text = format!("{}\n", style::paint(BAD, "does not verify"));
        for reason in &verdict.reasons {
            text.push_str(&format!("  because {}\n", foreign::line(reason)));
        }
        return text;
    };
    let headline = if claims.complete() {
        style::paint(KEY, "authentic: the signer claims what follows, and that nothing is missing")
    } else {
        style::paint(DOUBTFUL, "authentic and incomplete: the signer claims what follows, with gaps")
    };
    let signers: Vec<String> = claims.signers.iter().map(ToString::to_string).collect();
    let events = match (claims.events_checked, claims.event_chain_complete) {
        (true, true) => "checked, the chain is complete",
        (true, false) => "checked, the signer says that some are missing",
        (false, true) => "not in the file; the signer says that the chain is complete",
        (false, false) => "not in the file; the signer says that some are missing",
    };
    let output = match (claims.output_checked, claims.evidence_complete) {
        (true, true) => "checked",
        (true, false) => "checked, the signer says that some was lost",
        (false, _) => "not in the file",
    };
    let pairs = [
        ("signed by", signers.join(", ")),
        ("job", foreign::line(&claims.job)),
        ("for", foreign::line(&claims.requester)),
        ("language", foreign::line(&claims.language)),
        ("outcome", outcome(claims)),
        ("isolation", claims.isolation.as_deref().map_or_else(|| "not observed".to_owned(), foreign::line)),
        ("events", events.to_owned()),
        ("output", output.to_owned()),
    ];
    format!("{headline}\n\n{}", key_values(&pairs))
}

fn outcome(claims: &Claims) -> String {
    let mut text = style::paint(KEY, claims.outcome);
    if let Some(code) = claims.exit_code {
        text.push_str(&format!(", exit code {code}"));
    }
    if let Some(word) = &claims.killed_by {
        text.push_str(&format!(", stopped by {}", foreign::line(word)));
    }
    text
}
