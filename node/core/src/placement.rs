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
    /// It lacks the runtime pack.
    Runtime,
    /// It left, was revoked or is blocked here.
    Gone,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Isolation(offers) => write!(f, "offers {offers}"),
            Self::Language => f.write_str("does not have the language"),
            Self::Runtime => f.write_str("does not have the runtime pack"),
            Self::Gone => f.write_str("is no longer in the mesh"),
        }
    }
}

impl Unfit {
    /// The code for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Isolation(_) | Self::Gone => "minimum_isolation_unsatisfied",
            Self::Language => "runtime_unavailable",
            Self::Runtime => "runtime_pack_unavailable",
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
        None => trusted(site).collect(),
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

/// This node and the executors the operator named, in order of preference.
fn trusted(site: &Site) -> impl Iterator<Item = NodeId> {
    let named = site.named_executors.iter().filter_map(|text| resolve_node(&site.view, text).ok());
    std::iter::once(site.me).chain(named)
}

/// Another node that can run the job now, for one whose executor is out of reach: one that can be reached, and that
/// had not been tried before.
#[must_use]
pub fn elsewhere(site: &Site, spec: &JobSpec, tried: &[NodeId]) -> Option<NodeId> {
    let reached = |node: &NodeId| *node == site.me || is_reached(site, *node);
    trusted(site).filter(reached).find(|node| !tried.contains(node) && fitness(site, *node, spec).is_ok())
}

/// Whether a node answers now.
#[must_use]
pub fn is_reached(site: &Site, node: NodeId) -> bool {
    let contact = site.view.members.get(&node).map(|member| member.contact);
    matches!(contact, Some(Contact::Here | Contact::Reachable))
}

/// Whether an executor can run this job: what its sandbox offers covers it.
///
/// # Errors
/// The first thing that is missing.
pub fn fits(executor: &ExecutorView, spec: &JobSpec) -> Result<(), Unfit> {
    if !executor.classes.iter().any(|class| class.satisfies(spec.requirements.minimum_isolation)) {
        let offers = match (&executor.unavailable, executor.classes.first()) {
            (Some(why), None) => format!("no sandbox ({why})"),
            (None, None) => "no sandbox".to_owned(),
            (_, Some(class)) => format!("only {class}"),
        };
        return Err(Unfit::Isolation(offers));
    }
    if !executor.languages.iter().any(|language| language == spec.language.name()) {
        return Err(Unfit::Language);
    }
    // What packs another node has it does not advertise: it answers for itself.
    let packs = executor.runtimes.as_ref();
    match (packs, &spec.runtime) {
        (Some(packs), Some(wanted)) if !packs.contains(wanted) => Err(Unfit::Runtime),
        _ => Ok(()),
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
    // What is nearest to running it says what is missing.
    let lacks = |what: &Unfit| unfit.iter().any(|(_, reason)| reason == what);
    let (code, wanted) = if lacks(&Unfit::Runtime) {
        (Unfit::Runtime.code(), format!("the runtime pack {}", spec.runtime.as_deref().unwrap_or_default()))
    } else if lacks(&Unfit::Language) {
        (Unfit::Language.code(), spec.language.to_string())
    } else {
        (Unfit::Gone.code(), spec.requirements.minimum_isolation.to_string())
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
    use crate::site::JobPolicy;
    use crate::view::{Member, View};
    use mesh_protocol::isolation::IsolationClass;
    use mesh_protocol::job::Language;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn id(n: u8) -> NodeId {
        NodeId::from_bytes([n; 32])
    }

    fn offers(classes: &[IsolationClass], languages: &[&str]) -> ExecutorView {
        let languages = languages.iter().map(|l| (*l).to_owned()).collect();
        ExecutorView { classes: classes.to_vec(), languages, slots: 1, ..ExecutorView::default() }
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
        let jobs = JobPolicy::default();
        Site { me: id(1), agents: BTreeMap::new(), executor: here, named_executors, jobs, view }
    }

    fn spec() -> JobSpec {
        JobSpec::new(Language::Python, "print(1)")
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
    fn a_missing_runtime_pack_is_named_and_a_node_that_does_not_say_is_asked() {
        let spec = JobSpec { runtime: Some("science".into()), ..spec() };
        let packs = |packs: &[&str]| ExecutorView {
            runtimes: Some(packs.iter().map(|pack| (*pack).to_owned()).collect()),
            ..offers(GVISOR, &["python"])
        };
        let error = place(&site(packs(&["web"]), ExecutorView::default(), &[]), &spec, None).unwrap_err();
        assert_eq!(error.code, "runtime_pack_unavailable");
        assert_eq!(place(&site(packs(&["science"]), ExecutorView::default(), &[]), &spec, None), Ok(id(1)));
        let silent = offers(GVISOR, &["python"]);
        assert_eq!(place(&site(packs(&[]), silent, &["nova"]), &spec, None), Ok(id(2)));
    }

    #[test]
    fn a_named_node_is_the_only_one_considered() {
        let able = offers(GVISOR, &["python"]);
        assert!(place(&site(able, ExecutorView::default(), &[]), &spec(), Some("nova")).is_err());
    }
}
