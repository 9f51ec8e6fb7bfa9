//! Run environments: into a working directory, out of it, and into each engine's own words.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use mesh_harness::environment::{
    EnvironmentError, EnvironmentFile, Harness, Instructions, RunEnvironment, Skill, compile_environment,
    materialize_environment,
};

/// One of everything.
fn whole() -> RunEnvironment {
    let skill = "---\nname: tables\ndescription: \"Makes tables.\"\n---\n\nUse pipes.\n";
    RunEnvironment {
        instructions: Instructions {
            system: Some("Answer in German.".into()),
            agents_md: Some("Run the tests first.\n".into()),
        },
        agent_files: vec![EnvironmentFile::text("web/AGENTS.md", "Use TypeScript.\n")],
        skills: vec![
            Skill {
                name: "tables".into(),
                files: vec![
                    EnvironmentFile::text("SKILL.md", skill),
                    EnvironmentFile::text("examples/one.md", "| a |\n"),
                ],
            },
            Skill { name: "bare".into(), files: vec![EnvironmentFile::text("SKILL.md", "No head.\n")] },
        ],
        sources: vec![EnvironmentFile { path: "input/data.bin".into(), content: vec![0, 159, 146, 150] }],
    }
}

/// Every file, link and directory below, with its permissions and what is in it.
fn snapshot(root: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    fn walk(root: &Path, at: &Path, seen: &mut BTreeMap<String, (u32, Vec<u8>)>) {
        for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let metadata = entry.metadata().expect("it is there");
            let content = match std::fs::read_link(&path) {
                Ok(target) => target.into_os_string().into_encoded_bytes(),
                Err(_) => std::fs::read(&path).unwrap_or_default(),
            };
            seen.insert(name, (metadata.permissions().mode(), content));
            if metadata.is_dir() {
                walk(root, &path, seen);
            }
        }
    }
    let mut seen = BTreeMap::new();
    walk(root, root, &mut seen);
    seen
}

/// A repository with an `AGENTS.md` of its own.
fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let agents = dir.path().join("AGENTS.md");
    std::fs::write(&agents, "Be kind.").expect("written");
    std::fs::set_permissions(&agents, std::fs::Permissions::from_mode(0o600)).expect("set");
    std::fs::create_dir(dir.path().join("web")).expect("made");
    std::fs::write(dir.path().join("web/index.html"), "<html>").expect("written");
    dir
}

#[test]
fn a_tree_is_the_same_after_an_environment_was_in_it() -> anyhow::Result<()> {
    let dir = repository();
    let before = snapshot(dir.path());
    let mut environment = materialize_environment(&whole(), dir.path())?;

    let read = |path: &str| std::fs::read_to_string(dir.path().join(path));
    assert_eq!(read("AGENTS.md")?, "Be kind.\n\nRun the tests first.\n", "added to what is there");
    assert_eq!(read("web/AGENTS.md")?, "Use TypeScript.\n");
    assert_eq!(read(".agents/skills/tables/examples/one.md")?, "| a |\n");
    assert_eq!(std::fs::read(dir.path().join("input/data.bin"))?, [0, 159, 146, 150]);

    let open_to_all = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(dir.path().join("AGENTS.md"), open_to_all)?;
    assert!(environment.restore()?.kept.is_empty());
    assert_eq!(snapshot(dir.path()), before, "its permissions too");
    assert!(environment.restore()?.kept.is_empty(), "a second time does nothing");
    assert_eq!(snapshot(dir.path()), before);
    Ok(())
}

#[test]
fn what_the_agent_changed_is_kept_and_reported() -> anyhow::Result<()> {
    let dir = repository();
    let mut environment = materialize_environment(&whole(), dir.path())?;
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("AGENTS.md"), "Be kind.\n\nRun the tests first.\nAnd lint.\n")?;
    std::fs::write(path(".agents/skills/bare/SKILL.md"), "Better.\n")?;
    std::fs::remove_file(path("web/AGENTS.md"))?;
    std::fs::write(path("input/result.txt"), "made by the agent")?;

    let report = environment.restore()?;
    assert_eq!(report.kept, [".agents/skills/bare/SKILL.md", "AGENTS.md"]);
    assert!(std::fs::read_to_string(path("AGENTS.md"))?.ends_with("And lint.\n"));
    assert!(!path(".agents/skills/tables").exists() && !path("input/data.bin").exists());
    assert_eq!(std::fs::read_to_string(path("input/result.txt"))?, "made by the agent");
    Ok(())
}

#[test]
fn a_file_that_became_a_link_is_not_written_through() -> anyhow::Result<()> {
    let outside = tempfile::tempdir()?;
    let target = outside.path().join("target");
    std::fs::write(&target, "untouched")?;
    let dir = repository();
    let mut environment = materialize_environment(&whole(), dir.path())?;
    std::fs::remove_file(dir.path().join("AGENTS.md"))?;
    symlink(&target, dir.path().join("AGENTS.md"))?;
    assert_eq!(environment.restore()?.kept, ["AGENTS.md"]);
    assert_eq!(std::fs::read_to_string(&target)?, "untouched");
    Ok(())
}

#[test]
fn paths_that_lead_elsewhere_or_mean_something_are_refused_before_anything_is_written() {
    let source = |path: &str| RunEnvironment {
        sources: vec![EnvironmentFile::text(path, "x")],
        instructions: Instructions { agents_md: Some("x".into()), system: None },
        ..RunEnvironment::default()
    };
    let skill = |name: &str, path: &str| RunEnvironment {
        skills: vec![Skill { name: name.into(), files: vec![EnvironmentFile::text(path, "x")] }],
        ..RunEnvironment::default()
    };
    let agents = |path: &str| RunEnvironment {
        agent_files: vec![EnvironmentFile::text(path, "x")],
        ..RunEnvironment::default()
    };
    let bad = [
        source("../x"),
        source("/x"),
        source(""),
        source(".git/hooks/post-checkout"),
        source("sub/.GIT/config"),
        skill("a/b", "SKILL.md"),
        skill("..", "SKILL.md"),
        skill("", "SKILL.md"),
        skill("a", "../../../x"),
        agents("web/README.md"),
        agents("../AGENTS.md"),
    ];
    for environment in bad {
        let dir = tempfile::tempdir().expect("a directory");
        let refused = materialize_environment(&environment, dir.path());
        assert!(
            matches!(refused, Err(EnvironmentError::Path { .. } | EnvironmentError::Forbidden { .. })),
            "{environment:?}"
        );
        assert!(snapshot(dir.path()).is_empty());
    }
}

#[test]
fn two_files_of_one_path_and_a_file_that_is_there_are_refused() {
    let dir = repository();
    let before = snapshot(dir.path());
    let twice = RunEnvironment {
        sources: vec![EnvironmentFile::text("a/b", "1"), EnvironmentFile::text("a//./b", "2")],
        ..RunEnvironment::default()
    };
    let refused = materialize_environment(&twice, dir.path());
    assert!(matches!(refused, Err(EnvironmentError::Duplicate { path }) if path == "a/b"));
    let taken = RunEnvironment {
        sources: vec![EnvironmentFile::text("new", "1"), EnvironmentFile::text("web/index.html", "2")],
        ..RunEnvironment::default()
    };
    let refused = materialize_environment(&taken, dir.path());
    assert!(matches!(refused, Err(EnvironmentError::Exists { path }) if path == "web/index.html"));
    assert_eq!(snapshot(dir.path()), before, "and what was written before is taken back");
}

#[test]
fn what_fails_half_way_is_taken_back() {
    let dir = repository();
    symlink("/etc", dir.path().join("input")).expect("linked");
    let before = snapshot(dir.path());
    let refused = materialize_environment(&whole(), dir.path());
    assert!(matches!(refused, Err(EnvironmentError::File { path, .. }) if path == "input/data.bin"));
    assert_eq!(snapshot(dir.path()), before);
}

/// Where the other half of the test below finds a disk with little room.
const SMALL_DISK: &str = "HARNESS_TEST_SMALL_DISK";

#[test]
fn what_a_full_disk_cut_off_is_taken_back_too() -> anyhow::Result<()> {
    let Some(disk) = std::env::var_os(SMALL_DISK) else { return on_a_small_disk() };
    let disk = Path::new(&disk);
    std::fs::write(disk.join("AGENTS.md"), "Be kind.")?;
    let before = snapshot(disk);
    let large = "x".repeat(512 * 1024);
    let merged = RunEnvironment {
        instructions: Instructions { agents_md: Some(large.clone()), system: None },
        ..RunEnvironment::default()
    };
    let new = RunEnvironment {
        sources: vec![EnvironmentFile::text("input/small", "x"), EnvironmentFile::text("input/large", large)],
        ..RunEnvironment::default()
    };
    for environment in [merged, new] {
        let refused = materialize_environment(&environment, disk);
        assert!(matches!(refused, Err(EnvironmentError::File { .. })), "{refused:?}");
        assert_eq!(snapshot(disk), before);
    }
    Ok(())
}

/// Runs the test above with a disk of 64 KiB, in a mount namespace of its own.
fn on_a_small_disk() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mount = format!("mount -t tmpfs -o size=64k none '{}'", folder.path().display());
    let works = Command::new("unshare").args(["-rm", "sh", "-c", &mount]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no small disk can be mounted here (unshare -rm, mount)");
        return Ok(());
    }
    let script = format!("{mount} && exec \"$0\" --exact \"$1\" --nocapture");
    let mut inside = Command::new("unshare");
    inside.args(["-rm", "sh", "-c", &script]).arg(std::env::current_exe()?);
    inside.arg("environments::what_a_full_disk_cut_off_is_taken_back_too").env(SMALL_DISK, folder.path());
    let output = inside.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{failed}");
    Ok(())
}

/// What every engine makes of the same environment, in one text.
fn compiled(environment: &RunEnvironment) -> String {
    let all =
        [Harness::Native, Harness::ClaudeCode, Harness::Codex, Harness::Acp, Harness::AcpWithoutAgentsMd];
    let one = |harness| {
        let compiled = compile_environment(Some(environment), harness);
        let files = compiled.plugin.iter().map(|file| {
            format!("--- {}\n{}\n", file.path, String::from_utf8_lossy(&file.content).trim_end())
        });
        format!(
            "===== {harness:?}, project settings only: {}\n{}\n{}",
            compiled.project_settings_only,
            compiled.instructions.unwrap_or_else(|| "(nothing)".into()),
            files.collect::<String>()
        )
    };
    all.map(one).join("\n")
}

#[test]
fn every_engine_makes_its_own_of_one_environment() {
    insta::assert_snapshot!(compiled(&whole()));
}

#[test]
fn an_environment_without_anything_changes_nothing() -> anyhow::Result<()> {
    let empty = RunEnvironment::default();
    for harness in [Harness::Native, Harness::ClaudeCode, Harness::Codex, Harness::Acp] {
        let compiled = compile_environment(Some(&empty), harness);
        assert_eq!(compiled, compile_environment(None, harness));
        assert_eq!(compiled, Default::default());
    }
    let dir = repository();
    let before = snapshot(dir.path());
    let mut environment = materialize_environment(&empty, dir.path())?;
    assert_eq!(snapshot(dir.path()), before);
    environment.restore()?;
    Ok(())
}
