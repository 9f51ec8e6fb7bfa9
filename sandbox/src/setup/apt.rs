//! Reads apt's source lists and writes the two files that bring `runsc` from a newer Debian suite.
//!
//! Pure: text in, text out. It names no mirror and no key of its own: both come from the source the machine
//! already trusts, so a company mirror stays the only place packages come from.
//!
//! Invariant: the preferences it writes let the newer suite supply `runsc` and nothing else.

use std::fmt::Write as _;

/// The Debian suite whose `runsc` is recent enough (2024-07).
pub const NEWER_SUITE: &str = "trixie";

/// One configured package source, in either of apt's two file formats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AptSource {
    /// Where the packages come from, in the order written.
    pub uris: Vec<String>,
    /// Suites or code names, for example `bookworm bookworm-updates`.
    pub suites: Vec<String>,
    /// Components, for example `main`.
    pub components: Vec<String>,
    /// The key ring (or the key itself) that must have signed it; `None` means apt's default rings.
    pub signed_by: Option<String>,
}

/// Parses a deb822 `*.sources` file (sources.list(5)): stanzas of `Field: value` with folded lines.
/// Disabled stanzas and those without binary packages are left out.
#[must_use]
pub fn parse_deb822(text: &str) -> Vec<AptSource> {
    let mut sources = Vec::new();
    for stanza in text.split("\n\n") {
        let fields = stanza_fields(stanza);
        let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let words =
            |name: &str| field(name).unwrap_or("").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let disabled = field("enabled").is_some_and(|value| value.trim().eq_ignore_ascii_case("no"));
        if disabled || !words("types").iter().any(|kind| kind == "deb") {
            continue;
        }
        sources.push(AptSource {
            uris: words("uris"),
            suites: words("suites"),
            components: words("components"),
            signed_by: field("signed-by").map(|value| value.trim().to_owned()),
        });
    }
    sources
}

/// The fields of one stanza, names in lower case, continuation lines joined by newlines.
fn stanza_fields(stanza: &str) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in stanza.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                let _ = write!(value, "\n{line}");
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    fields
}

/// Parses a one-line-style `*.list` file: `deb [options] uri suite component…`.
#[must_use]
pub fn parse_one_line(text: &str) -> Vec<AptSource> {
    text.lines().filter_map(parse_deb_line).collect()
}

fn parse_deb_line(line: &str) -> Option<AptSource> {
    let line = line.split('#').next().unwrap_or("");
    let mut rest = line.trim().strip_prefix("deb")?;
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    rest = rest.trim_start();
    let mut signed_by = None;
    if let Some(options) = rest.strip_prefix('[') {
        let (options, after) = options.split_once(']')?;
        signed_by = options
            .split_whitespace()
            .find_map(|option| option.strip_prefix("signed-by="))
            .map(|value| value.trim_matches('"').to_owned());
        rest = after;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    Some(AptSource { uris: vec![uri], suites: vec![suite], components: words.collect(), signed_by })
}

/// The source that carries the running release's `main` component: the one whose mirror and key also serve
/// the newer suite. `codename` is `VERSION_CODENAME` of os-release(5).
#[must_use]
pub fn source_of_release<'a>(sources: &'a [AptSource], codename: &str) -> Option<&'a AptSource> {
    sources.iter().find(|source| {
        !source.uris.is_empty()
            && source.suites.iter().any(|suite| suite == codename)
            && source.components.iter().any(|component| component == "main")
    })
}

/// The text of a deb822 source for [`NEWER_SUITE`], with the mirror and key ring of `base`.
#[must_use]
pub fn render_source(base: &AptSource) -> String {
    let mut text = format!(
        "# Only for runsc, the gVisor runtime: see the preferences file of the same name.\n\
         Types: deb\nURIs: {}\nSuites: {NEWER_SUITE}\nComponents: main\n",
        base.uris.join(" ")
    );
    if let Some(signed_by) = &base.signed_by {
        let _ = writeln!(text, "Signed-By: {signed_by}");
    }
    text
}

/// The text of an apt_preferences(5) file: `runsc` from [`NEWER_SUITE`], everything else never from there.
#[must_use]
pub fn render_preferences() -> String {
    format!(
        "Package: *\nPin: release n={NEWER_SUITE}\nPin-Priority: -10\n\n\
         Package: runsc\nPin: release n={NEWER_SUITE}\nPin-Priority: 990\n"
    )
}

/// The version `apt-cache policy` would install, if any.
#[must_use]
pub fn candidate_version(policy: &str) -> Option<&str> {
    let candidate = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate:"))?.trim();
    (candidate != "(none)").then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "Types: deb\n# a comment\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates\n\
        Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\
        Types: deb\nURIs: http://mirror.test/debian-security\nSuites: bookworm-security\nComponents: main\n\n\
        Enabled: no\nTypes: deb\nURIs: http://off.test/\nSuites: bookworm\nComponents: main\n\n\
        Types: deb-src\nURIs: http://src.test/\nSuites: bookworm\nComponents: main\n";

    #[test]
    fn deb822_stanzas_become_sources_and_disabled_ones_do_not() {
        let sources = parse_deb822(DEB822);
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].uris, ["http://mirror.test/debian"]);
        assert_eq!(sources[0].suites, ["bookworm", "bookworm-updates"]);
        assert_eq!(sources[0].signed_by.as_deref(), Some("/usr/share/keyrings/debian-archive-keyring.gpg"));
    }

    #[test]
    fn an_inline_key_keeps_its_folded_lines() {
        let sources = parse_deb822(
            "Types: deb\nURIs: http://m.test\nSuites: x\nComponents: main\nSigned-By:\n -----BEGIN\n .\n abc\n",
        );
        assert_eq!(sources[0].signed_by.as_deref(), Some("-----BEGIN\n .\n abc"));
    }

    #[test]
    fn one_line_sources_are_read_with_and_without_options() {
        let text = "deb http://a.test/debian bookworm main contrib # note\n\
            deb [arch=amd64 signed-by=/k.gpg] http://b.test/debian bookworm main\n\
            # deb http://c.test x main\ndeb-src http://d.test bookworm main\n";
        let sources = parse_one_line(text);
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].components, ["main", "contrib"]);
        assert_eq!(sources[1].signed_by.as_deref(), Some("/k.gpg"));
    }

    #[test]
    fn the_release_source_is_chosen_over_its_security_source() {
        let mut sources = parse_deb822(DEB822);
        sources.reverse();
        let chosen = source_of_release(&sources, "bookworm").unwrap();
        assert_eq!(chosen.uris, ["http://mirror.test/debian"]);
        assert!(source_of_release(&sources, "noble").is_none());
    }

    #[test]
    fn the_written_source_reads_back_with_the_same_mirror_and_key() {
        let base = parse_deb822(DEB822).remove(0);
        let written = parse_deb822(&render_source(&base)).remove(0);
        assert_eq!((written.uris, written.signed_by), (base.uris, base.signed_by));
        assert_eq!(written.suites, [NEWER_SUITE]);
    }

    #[test]
    fn preferences_admit_runsc_and_block_the_rest() {
        let text = render_preferences();
        let (rest, runsc) = text.split_once("\n\n").unwrap();
        assert!(rest.contains("Package: *") && rest.contains("Pin-Priority: -10"));
        assert!(runsc.contains("Package: runsc") && runsc.contains("Pin-Priority: 990"));
    }

    #[test]
    fn a_candidate_is_read_from_apt_cache_policy() {
        assert_eq!(
            candidate_version("runsc:\n  Installed: (none)\n  Candidate: 0.0~20240729.0-4\n"),
            Some("0.0~20240729.0-4")
        );
        assert_eq!(candidate_version("runsc:\n  Candidate: (none)\n"), None);
        assert_eq!(candidate_version(""), None);
    }
}
