//! The files that this crate itself puts into every root file system: the init, the lines with which interpreters wait
//! for a job, and a minimal `/etc`.

use crate::language::Language;

/// The init, compiled by the build script.
const INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));

/// A file of ours.
#[derive(Clone, Debug)]
pub(super) struct OwnFile {
    /// Below the root.
    pub(super) path: String,
    pub(super) contents: Vec<u8>,
    pub(super) mode: u32,
}

/// What has to be in every tree, whoever made the rest of it.
pub(super) fn boot_files() -> Vec<OwnFile> {
    let waiting = Language::ALL.map(Language::boot_file);
    let mut files: Vec<OwnFile> =
        waiting.iter().map(|(name, text)| readable(&format!("boot/{name}"), text)).collect();
    files.push(OwnFile { path: "boot/init".to_owned(), contents: INIT.to_vec(), mode: 0o555 });
    files
}

/// What a tree made from this machine's programs needs as well.
pub(super) fn own_files() -> Vec<OwnFile> {
    let mut files = boot_files();
    files.extend([
        readable("etc/passwd", "root:x:0:0:root:/:/bin/sh\njob:x:65534:65534:job:/work:/bin/bash\n"),
        readable("etc/group", "root:x:0:\njob:x:65534:\n"),
        readable("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        readable("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ]);
    files
}

fn readable(path: &str, text: &str) -> OwnFile {
    OwnFile { path: path.to_owned(), contents: text.as_bytes().to_vec(), mode: 0o444 }
}
