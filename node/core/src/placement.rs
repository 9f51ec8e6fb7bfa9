//! Where a job runs: a pure choice, with the reason for every node that was not chosen.
//!
//! The node the caller named, or else this one, or else the executors the operator named, in that order. Never
//! whoever advertises the best sandbox: what another node claims decides only whether a node the operator trusts
//! could do it.

use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::id::NodeId;
use mesh_protocol::job::JobSpec;

use crate::broker::resolve::resolve_node;
use crate::site::{STILL_LOOKING, Site};
use crate::view::Contact;

/// Why a node cannot take a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// Its sandbox offers nothing as strong as the job asks for.
    Isolation(String),
    /// It lacks the language.
    Language,
    /// It left, was revoked or is blocked here.
    Gone,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Isolation(offers) => write!(f, "offers {offers}"),
            Self::Language => f.write_str("does not have the language"),
            Self::Gone => f.write_str("is no longer in the mesh"),
        }
    }
}

/// The node that is to run the job.
///
/// # Errors
/// `unknown_node` and its kin for a node that is not there, `minimum_isolation_unsatisfied` or `runtime_unavailable`
/// naming what each considered node lacks and which nodes have it. Nothing was stored.
pub fn place(site: &Site, spec: &JobSpec, on: Option<&str>) -> Result<NodeId, ApiError> {
    let considered: Vec<NodeId> = match on {
        Some(text) => vec![resolve_node(&site.view, text)?],
        None => {
            let named = site.named_executors.iter().filter_map(|text| resolve_node(&site.view, text).ok());
            std::iter::once(site.me).chain(named).collect()
        }
    };
    let mut unfit = Vec::new();
    for node in considered {
        match fitness(site, node, spec) {
            Ok(()) => return Ok(node),
            Err(reason) => unfit.push((node, reason)),
        }
    }
    Err(refusal(site, spec, &unfit))
}

/// Whether an executor can run this job: what its sandbox offers covers it.
///
/// # Errors
/// The first thing that is missing.
pub fn fits(executor: &ExecutorView, spec: &JobSpec) -> Result<(), Unfit> {
    if !executor.classes.iter().any(|class| class.satisfies(spec.minimum_isolation)) {
        let offers = match (&executor.unavailable, executor.classes.first()) {
            (Some(why), None) => format!("no sandbox ({why})"),
            (None, None) => "no sandbox".to_owned(),
            (_, Some(class)) => format!("only {class}"),
        };
        return Err(Unfit::Isolation(offers));
    }
    if executor.languages.iter().any(|language| language == spec.language.name()) {
        Ok(())
    } else {
        Err(Unfit::Language)
    }
}

fn fitness(site: &Site, node: NodeId, spec: &JobSpec) -> Result<(), Unfit> {
    if node == site.me {
        return fits(&site.executor, spec);
    }
    match site.view.members.get(&node) {
        Some(member) if member.contact != Contact::Gone => fits(&member.executor, spec),
        Some(_) | None => Err(Unfit::Gone),
    }
}

fn refusal(site: &Site, spec: &JobSpec, unfit: &[(NodeId, Unfit)]) -> ApiError {
    let language_only = unfit.iter().any(|(_, reason)| *reason == Unfit::Language);
    let (code, wanted) = if language_only {
        ("runtime_unavailable", spec.language.to_string())
    } else {
        ("minimum_isolation_unsatisfied", spec.minimum_isolation.to_string())
    };
    let reasons: Vec<String> =
        unfit.iter().map(|(node, reason)| format!("{} {reason}", site.view.label(*node))).collect();
    let message = format!("no node that may run this job offers {wanted}: {}", reasons.join("; "));
    let error = ApiError::new(ErrorKind::Unavailable, code, message);
    let able: Vec<String> = site
        .view
        .members
        .iter()
        .filter(|(node, member)| {
            let executor = if **node == site.me { &site.executor } else { &member.executor };
            member.contact != Contact::Gone && fits(executor, spec).is_ok()
        })
        .map(|(node, _)| site.view.label(*node).to_string())
        .collect();
    let passing = site.executor.unavailable.as_deref() == Some(STILL_LOOKING);
    let error = match able.first() {
        None if passing => return error.hint("the node has just started: try again in a few seconds"),
        Some(first) => {
            error.hint(format!("these nodes say they have it: {}; try `--on {first}`", able.join(", ")))
        }
        None => error.hint("`mesh-cli setup gvisor` installs the sandbox on this machine"),
    };
    ApiError { retryable: false, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Member, View};
    use mesh_protocol::isolation::IsolationClass;
    use mesh_protocol::job::{JobLimits, Language};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn id(n: u8) -> NodeId {
        NodeId::from_bytes([n; 32])
    }

    fn offers(classes: &[IsolationClass], languages: &[&str]) -> ExecutorView {
        let languages = languages.iter().map(|l| (*l).to_owned()).collect();
        ExecutorView { classes: classes.to_vec(), languages, slots: 1, running: 0, unavailable: None }
    }

    fn site(here: ExecutorView, there: ExecutorView, named: &[&str]) -> Site {
        let member = |name: &str, contact, executor| Member {
            name: name.parse().unwrap(),
            contact,
            state: String::new(),
            since_wall_ms: None,
            cause: String::new(),
            executor,
            as_of_ms: None,
        };
        let members = BTreeMap::from([
            (id(1), member("atlas", Contact::Here, here.clone())),
            (id(2), member("nova", Contact::Reachable, there)),
        ]);
        let view = Arc::new(View { members, agents: Vec::new() });
        let named_executors = named.iter().map(|n| (*n).to_owned()).collect();
        Site { me: id(1), agents: BTreeMap::new(), executor: here, named_executors, view }
    }

    fn spec() -> JobSpec {
        JobSpec {
            language: Language::Python,
            code: "print(1)".into(),
            stdin: String::new(),
            limits: JobLimits::default(),
            minimum_isolation: IsolationClass::default(),
        }
    }

    const GVISOR: &[IsolationClass] = &[IsolationClass::GvisorApplicationKernel];

    #[test]
    fn this_node_comes_first_and_a_named_executor_second() {
        let able = offers(GVISOR, &["python"]);
        assert_eq!(place(&site(able.clone(), able.clone(), &["nova"]), &spec(), None), Ok(id(1)));
        assert_eq!(place(&site(ExecutorView::default(), able, &["nova"]), &spec(), None), Ok(id(2)));
    }

    #[test]
    fn the_best_sandbox_of_a_stranger_is_never_chosen_only_named() {
        let error = place(&site(ExecutorView::default(), offers(GVISOR, &["python"]), &[]), &spec(), None)
            .unwrap_err();
        assert_eq!(error.code, "minimum_isolation_unsatisfied");
        assert!(error.hints[0].contains("`--on nova`"), "{error:?}");
        assert!(!error.retryable);
    }

    #[test]
    fn a_weaker_class_does_not_do() {
        let weak = offers(&[IsolationClass::LinuxSharedKernel], &["python"]);
        let error = place(&site(weak, ExecutorView::default(), &[]), &spec(), None).unwrap_err();
        assert!(error.message.contains("only linux-shared-kernel"), "{error:?}");
        assert!(error.hints[0].contains("setup gvisor"));
    }

    #[test]
    fn a_missing_language_is_named() {
        let error =
            place(&site(offers(GVISOR, &["bash"]), ExecutorView::default(), &[]), &spec(), None).unwrap_err();
        assert_eq!(error.code, "runtime_unavailable");
    }

    #[test]
    fn a_named_node_is_the_only_one_considered() {
        let able = offers(GVISOR, &["python"]);
        assert!(place(&site(able, ExecutorView::default(), &[]), &spec(), Some("nova")).is_err());
    }
}
