//! The part of an environment that is no file in the working directory: what each engine puts into its own prompt or
//! configuration.
//!
//! | engine | `system` | `agents_md` | skills |
//! |---|---|---|---|
//! | native | system prompt | system prompt | index in the system prompt |
//! | claude-code | appended to its prompt | appended, since it does not read `AGENTS.md` | a plugin |
//! | codex | its own `AGENTS.md` | it reads the working directory's | index in its own `AGENTS.md` |
//! | ACP | top of the prompt | it reads the working directory's | index at the top of the prompt |
//! | ACP without `AGENTS.md` | top of the prompt | top of the prompt, nested ones too | index there |

use super::{EnvironmentFile, RunEnvironment, Skill};
use crate::limits::SKILL_DESCRIPTION_BYTES;

/// Who starts from an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harness {
    /// The loop of the kernel.
    Native,
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// An agent behind ACP that reads `AGENTS.md`.
    Acp,
    /// An agent behind ACP that does not.
    AcpWithoutAgentsMd,
}

/// What one engine is given. Empty for an environment that is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompiledEnvironment {
    /// What is said before the task: in the system prompt, appended to it, in the harness's own `AGENTS.md`, or at the
    /// top of the prompt, as the harness has it.
    pub instructions: Option<String>,
    /// Files of a plugin, for a directory outside the working directory. Their paths are as the caller gave them: write
    /// them through a [`Tree`](crate::beneath::Tree).
    pub plugin: Vec<EnvironmentFile>,
    /// Whether only the project's settings may be loaded, and not those of the host's user.
    pub project_settings_only: bool,
}

/// What this harness is given of an environment.
#[must_use]
pub fn compile_environment(environment: Option<&RunEnvironment>, harness: Harness) -> CompiledEnvironment {
    let Some(environment) = environment.filter(|environment| !environment.is_empty()) else {
        return CompiledEnvironment::default();
    };
    let is_claude = harness == Harness::ClaudeCode;
    let reads_agents_md = matches!(harness, Harness::Codex | Harness::Acp);
    let mut sections: Vec<String> = environment.instructions.system.iter().cloned().collect();
    if !reads_agents_md {
        sections.extend(environment.instructions.agents_md.iter().cloned());
    }
    if harness == Harness::AcpWithoutAgentsMd {
        sections.extend(environment.agent_files.iter().map(scoped));
    }
    if !is_claude && !environment.skills.is_empty() {
        sections.push(index(&environment.skills));
    }
    let sections: Vec<&str> = sections.iter().map(|section| section.trim_end()).collect();
    CompiledEnvironment {
        instructions: (!sections.is_empty()).then(|| sections.join("\n\n")),
        plugin: if is_claude { plugin(&environment.skills) } else { Vec::new() },
        project_settings_only: is_claude,
    }
}

/// A nested `AGENTS.md` as a section that says where it counts.
fn scoped(file: &EnvironmentFile) -> String {
    let directory = file.path.rsplit_once('/').map_or(".", |(directory, _)| directory);
    format!("In {directory}:\n\n{}", String::from_utf8_lossy(&file.content))
}

/// What skills there are, and where.
fn index(skills: &[Skill]) -> String {
    let lines = skills.iter().map(|skill| {
        let place = format!(".agents/skills/{}/SKILL.md", skill.name);
        match description(skill) {
            Some(description) => format!("- {}: {description} ({place})", skill.name),
            None => format!("- {} ({place})", skill.name),
        }
    });
    let lines: Vec<String> = lines.collect();
    format!("Skills. Read the file of one before you do what it is for.\n\n{}", lines.join("\n"))
}

/// The description at the head of a skill's `SKILL.md`, on one line.
fn description(skill: &Skill) -> Option<String> {
    let file = skill.files.iter().find(|file| file.path == "SKILL.md")?;
    let text = std::str::from_utf8(&file.content).ok()?;
    let head = text.strip_prefix("---\n")?;
    let (head, _) = head.split_once("\n---")?;
    let line = head.lines().find_map(|line| line.strip_prefix("description:"))?;
    let line = line.trim().trim_matches(['"', '\'']);
    let end = line.floor_char_boundary(SKILL_DESCRIPTION_BYTES);
    line.get(..end).filter(|line| !line.is_empty()).map(str::to_owned)
}

/// Skills as a plugin of Claude Code.
fn plugin(skills: &[Skill]) -> Vec<EnvironmentFile> {
    if skills.is_empty() {
        return Vec::new();
    }
    let manifest = r#"{"name":"run","version":"1.0.0","description":"Skills of this run"}"#;
    let manifest = EnvironmentFile::text(".claude-plugin/plugin.json", manifest);
    let files = skills.iter().flat_map(|skill| {
        skill.files.iter().map(|file| EnvironmentFile {
            path: format!("skills/{}/{}", skill.name, file.path),
            content: file.content.clone(),
        })
    });
    std::iter::once(manifest).chain(files).collect()
}
