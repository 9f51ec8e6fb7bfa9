//! Runtime packs: root file systems of the operator's own, in each of the three forms.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mesh_sandbox::{Cancel, Job, Language, Outcome, RuntimePack, Sandbox, SandboxError, tree_sha256};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::fixture::open_with;

/// Fills `root` with Bash, `cat`, what they link to, and a mark.
fn plant(root: &Path) {
    let script = "set -e
        mkdir -p \"$1/usr/bin\" \"$1/etc\"
        for link in bin lib lib64; do
            if [ -L /$link ]; then mkdir -p \"$1/$(readlink /$link)\"; ln -s \"$(readlink /$link)\" \"$1/$link\"; fi
        done
        for program in bash cat; do
            cp -L /usr/bin/$program \"$1/usr/bin/\"
            ldd /usr/bin/$program | grep -o '/[^ ]*' | while read -r library; do
                mkdir -p \"$1$(dirname \"$library\")\"; cp -L \"$library\" \"$1$library\"
            done
        done
        chmod u+s \"$1/usr/bin/cat\"; mkdir -p \"$1/boot\"; echo hostile > \"$1/boot/init\"; ln -s /nowhere \"$1/work\"
        echo packed > \"$1/etc/mark\"";
    let status = Command::new("bash").args(["-c", script, "plant"]).arg(root).status().unwrap();
    assert!(status.success());
}

fn tar(from: &Path, to: &Path, options: &str) {
    let status = Command::new("tar").arg(options).arg(to).arg("-C").arg(from).arg(".").status().unwrap();
    assert!(status.success());
}

/// Puts bytes where their digest says, and returns it.
fn blob(layout: &Path, bytes: &[u8]) -> String {
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(layout.join("blobs/sha256").join(&digest), bytes).unwrap();
    format!("sha256:{digest}")
}

/// An image of one layer made from `root`.
fn layout(dir: &Path, root: &Path) -> PathBuf {
    let layout = dir.join("layout");
    fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
    let layer = dir.join("layer.tar.gz");
    tar(root, &layer, "-czf");
    let layer = blob(&layout, &fs::read(layer).unwrap());
    let manifest = json!({ "schemaVersion": 2, "layers": [{ "digest": layer, "size": 1 }] });
    let manifest = blob(&layout, manifest.to_string().as_bytes());
    let other = json!({ "digest": layer, "platform": { "architecture": "riscv64", "os": "linux" } });
    let index = json!({ "schemaVersion": 2, "manifests": [other, { "digest": manifest }] });
    fs::write(layout.join("index.json"), index.to_string()).unwrap();
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    layout
}

#[test]
fn a_job_runs_in_the_pack_it_names_whatever_form_that_has_and_its_digest_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    plant(&root);
    let layout = layout(dir.path(), &root);
    let tarball = dir.path().join("image.tar");
    tar(&layout, &tarball, "-cf");
    let damaged = dir.path().join("damaged");
    Command::new("cp").arg("-r").arg(&layout).arg(&damaged).status().unwrap();
    for entry in fs::read_dir(damaged.join("blobs/sha256")).unwrap() {
        fs::write(entry.unwrap().path(), "other").unwrap();
    }
    let pack = |name: &str, source: &Path| RuntimePack { name: name.to_owned(), source: source.to_owned() };
    let rootfs = dir.path().join("rootfs");
    let Some(fixture) = open_with(|config| {
        config.packs = vec![
            pack("dir", &root),
            pack("oci", &layout),
            pack("tar", &tarball),
            pack("damaged", &damaged),
            pack("absent", &dir.path().join("nowhere")),
            pack("../x", &root),
        ];
        config.rootfs = rootfs;
    }) else {
        return;
    };
    let offered = &fixture.sandbox.capabilities().packs;
    let names: Vec<&str> = offered.iter().map(|pack| pack.name.as_str()).collect();
    assert_eq!(names, ["dir", "oci", "tar"]);
    let mut digests = Vec::new();
    for pack in offered {
        let (runtime, outputs) = (Some(pack.name.clone()), vec!["x".to_owned()]);
        let code = "cat /etc/mark > output/x; cat output/x";
        let (report, log) = fixture.run_job(&Job { runtime, outputs, ..Job::new(Language::Bash, code) });
        assert_eq!(
            (report.outcome, log.out()),
            (Outcome::Succeeded, "packed\n"),
            "{}: {report:?} {}",
            pack.name,
            log.err()
        );
        assert_eq!(report.artifacts[0].contents, b"packed\n");
        let posture = report.posture.unwrap();
        assert_eq!(posture.runtime_pack.as_deref(), Some(pack.name.as_str()));
        assert_eq!(posture.rootfs_sha256, pack.rootfs_sha256);
        digests.push(posture.rootfs_sha256);
        let job = Job { runtime: Some(pack.name.clone()), ..Job::new(Language::Python, "print(1)") };
        let refused = fixture.sandbox.run(&job, &Cancel::new().unwrap(), &mut ());
        assert!(matches!(refused, Err(SandboxError::LanguageUnavailable { .. })), "{refused:?}");
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "one content, one digest: {digests:?}");
    let own = fixture.bash("true").0.posture.unwrap();
    assert!(own.runtime_pack.is_none() && own.rootfs_sha256 != digests[0]);
    for name in ["damaged", "absent", "../x", "never"] {
        let job = Job { runtime: Some(name.to_owned()), ..Job::new(Language::Bash, "true") };
        let refused = fixture.sandbox.run(&job, &Cancel::new().unwrap(), &mut ());
        assert!(matches!(refused, Err(SandboxError::PackUnavailable { .. })), "{name}: {refused:?}");
    }
    // The source is as it was, and a second start finds the same trees.
    assert_eq!(fs::read_to_string(root.join("boot/init")).unwrap(), "hostile\n");
    let (config, digest) = (fixture.config.clone(), tree_sha256(&root).unwrap());
    drop(fixture);
    let again = Sandbox::preflight(&config).sandbox.unwrap();
    let now: Vec<_> = again.capabilities().packs.iter().map(|pack| pack.rootfs_sha256.clone()).collect();
    assert_eq!((now, tree_sha256(&root).unwrap()), (digests, digest));
}
