//! The system calls a job may not make, from `policy/seccomp-deny.txt`, as an OCI seccomp profile.

use serde::Serialize;

/// The policy is data that can be read and reviewed without reading this program.
const POLICY: &str = include_str!("../../policy/seccomp-deny.txt");
/// The error a denied call gets: EPERM.
const EPERM: u32 = 1;

/// An OCI seccomp profile: everything is allowed but the listed calls.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Profile {
    default_action: &'static str,
    architectures: [&'static str; 1],
    syscalls: Vec<Rule>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    names: Vec<&'static str>,
    action: &'static str,
    errno_ret: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<[Argument; 1]>,
}

/// Matches when the argument has all bits of `value`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    index: u32,
    value: u64,
    value_two: u64,
    op: &'static str,
}

impl Profile {
    /// The profile of the policy file.
    pub(super) fn denied_calls() -> Self {
        Self {
            default_action: "SCMP_ACT_ALLOW",
            architectures: [if cfg!(target_arch = "aarch64") {
                "SCMP_ARCH_AARCH64"
            } else {
                "SCMP_ARCH_X86_64"
            }],
            syscalls: parse(POLICY),
        }
    }
}

fn parse(policy: &'static str) -> Vec<Rule> {
    policy
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, flag) =
                line.split_once(" flag=0x").map_or((line, None), |(name, flag)| (name, Some(flag)));
            // An unreadable flag denies the call whatever its argument: the safe reading.
            let flag = flag.and_then(|flag| u64::from_str_radix(flag, 16).ok());
            Rule {
                names: vec![name],
                action: "SCMP_ACT_ERRNO",
                errno_ret: EPERM,
                args: flag.map(|bits| {
                    [Argument { index: 0, value: bits, value_two: bits, op: "SCMP_CMP_MASKED_EQ" }]
                }),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_policy_is_a_plain_call_or_a_call_with_a_readable_flag() {
        let rules = parse(POLICY);
        assert!(rules.len() > 40);
        for rule in &rules {
            let name = rule.names[0];
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{name}"
            );
            assert_eq!(rule.args.is_some(), name == "clone", "only clone is judged by its flags");
        }
    }

    #[test]
    fn clone3_stays_allowed_because_denying_it_breaks_threads() {
        assert!(parse(POLICY).iter().all(|rule| rule.names != ["clone3"]));
    }
}
