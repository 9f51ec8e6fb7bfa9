//! A tree as one file: an EROFS image, which gVisor reads by itself.
//!
//! A directory of the host is served to a sandbox by a second process, gVisor's gofer, which is started anew for each
//! sandbox, in namespaces of its own, and asked about every file. An image takes neither: the sandbox gets one descriptor
//! that is open for reading, and no process with access to files stands behind it. What that saves is in
//! `docs/benchmarks.md`.
//!
//! Of the format (the kernel's documentation, filesystems/erofs; names as in its `erofs_fs.h`) only what such a tree
//! needs is written. Contents are never packed behind their inodes, because gVisor maps whole pages of the file.
//!
//! ```text
//! block 0     the superblock, 1024 bytes in
//! block 1 …   an unused slot, then the inodes, 64 bytes each, level by level; nids count in halves of a slot
//! then        contents, each from a block of its own: the entries of a directory, the target of a link, bytes
//! ```
//!
//! Invariants: equal trees with equal times give equal images; everything belongs to user 0; modes and modification
//! times are the tree's (Python trusts a compiled module only if its source's time matches); nothing but directories,
//! files and links is taken.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

const BLOCK: usize = 4096;
/// The logarithm of it.
const BLOCK_BITS: u8 = 12;
const MAGIC: u32 = 0xE0F5_E1E2;
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 128;
/// An `erofs_inode_extended`; the short form has no room for a time.
const INODE_BYTES: usize = 64;
/// `i_format`: extended, `EROFS_INODE_FLAT_PLAIN`.
const FORMAT: u16 = 1;
/// An `erofs_dirent`.
const ENTRY_BYTES: usize = 12;
/// Inodes begin here, with an unused one.
const INODES_AT_BLOCK: u32 = 1;

/// One file, directory or link, by its number in the image.
struct Node {
    path: PathBuf,
    metadata: Metadata,
    contents: Contents,
    links: u32,
}

enum Contents {
    /// The names of a directory and their nodes, sorted, with itself and its parent.
    Names(Vec<(OsString, usize)>),
    Target(OsString),
    File,
}

/// Writes the image of `tree` to `image`, durably.
pub(super) fn write(tree: &Path, image: &Path) -> io::Result<()> {
    let nodes = nodes(tree)?;
    let bodies: Vec<Option<Vec<u8>>> =
        nodes.iter().map(|node| body(node, &nodes)).collect::<io::Result<_>>()?;
    let sizes = nodes.iter().zip(&bodies).map(|(node, body)| match body {
        Some(body) => body.len() as u64,
        None => node.metadata.len(),
    });
    let inodes_bytes = (nodes.len() + 1) * INODE_BYTES;
    let mut next = INODES_AT_BLOCK + blocks(inodes_bytes as u64)?;
    let mut inodes = vec![0; INODE_BYTES];
    for (number, (node, size)) in nodes.iter().zip(sizes).enumerate() {
        inodes.extend(inode(node, number, size, next)?);
        next = next.checked_add(blocks(size)?).ok_or(io::ErrorKind::FileTooLarge)?;
    }

    let file = File::create(image)?;
    let mut out = BufWriter::new(&file);
    out.write_all(&[0; BLOCK])?;
    out.write_all(&inodes)?;
    pad(&mut out, inodes.len() as u64)?;
    for (node, body) in nodes.iter().zip(&bodies) {
        let size = match body {
            Some(body) => out.write_all(body).map(|()| body.len() as u64)?,
            None => copy(node, &mut out)?,
        };
        pad(&mut out, size)?;
    }
    out.flush()?;
    drop(out);
    file.write_all_at(&superblock(&nodes, next)?, SUPERBLOCK_AT)?;
    file.sync_all()
}

/// Everything in the tree, level by level, the root first.
fn nodes(tree: &Path) -> io::Result<Vec<Node>> {
    let mut nodes = vec![node(tree.to_owned())?];
    let mut parents = vec![0];
    let mut at = 0;
    while let (Some(here), Some(&parent)) = (nodes.get(at), parents.get(at)) {
        if let Contents::Names(_) = here.contents {
            let children = children(&here.path)?;
            let mut names = vec![(OsString::from("."), at), (OsString::from(".."), parent)];
            let mut links = 2;
            for child in children {
                links += u32::from(child.metadata.is_dir());
                names.push((child.path.file_name().unwrap_or_default().to_owned(), nodes.len()));
                nodes.push(child);
                parents.push(at);
            }
            // Readers search by halves.
            names.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
            if let Some(here) = nodes.get_mut(at) {
                (here.contents, here.links) = (Contents::Names(names), links);
            }
        }
        at += 1;
    }
    Ok(nodes)
}

/// What is in a directory and can be in an image, in an order of its own.
fn children(dir: &Path) -> io::Result<Vec<Node>> {
    let paths: io::Result<Vec<PathBuf>> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect();
    let mut nodes = paths?.into_iter().map(node).collect::<io::Result<Vec<Node>>>()?;
    nodes.retain(|node| !matches!(node.contents, Contents::File) || node.metadata.is_file());
    nodes.sort_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
    Ok(nodes)
}

fn node(path: PathBuf) -> io::Result<Node> {
    let metadata = fs::symlink_metadata(&path)?;
    let contents = if metadata.is_symlink() {
        Contents::Target(fs::read_link(&path)?.into_os_string())
    } else if metadata.is_dir() {
        Contents::Names(Vec::new())
    } else {
        Contents::File
    };
    Ok(Node { path, metadata, contents, links: 1 })
}

/// The contents of what is not a file.
fn body(node: &Node, nodes: &[Node]) -> io::Result<Option<Vec<u8>>> {
    match &node.contents {
        Contents::Names(names) => directory(names, nodes).map(Some),
        Contents::Target(target) => Ok(Some(target.as_bytes().to_vec())),
        Contents::File => Ok(None),
    }
}

/// The blocks of a directory. In each come first the entries, as many as find room with their names, then the names.
fn directory(names: &[(OsString, usize)], nodes: &[Node]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = names;
    while !rest.is_empty() {
        let mut room = BLOCK;
        let fits = |(name, _): &&(OsString, usize)| match room.checked_sub(ENTRY_BYTES + name.len()) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        };
        let (here, later) = rest.split_at(rest.iter().take_while(fits).count());
        if here.is_empty() {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        out.resize(out.len().next_multiple_of(BLOCK), 0);
        let mut name_at = here.len() * ENTRY_BYTES;
        for (name, number) in here {
            let kind = match nodes.get(*number).map(|node| &node.contents) {
                Some(Contents::Names(_)) => 2,
                Some(Contents::Target(_)) => 7,
                Some(Contents::File) | None => 1,
            };
            out.extend(nid(*number).to_le_bytes());
            out.extend(narrow::<_, u16>(name_at)?.to_le_bytes());
            out.extend([kind, 0]);
            name_at += name.len();
        }
        here.iter().for_each(|(name, _)| out.extend(name.as_bytes()));
        rest = later;
    }
    Ok(out)
}

fn inode(node: &Node, number: usize, size: u64, block: u32) -> io::Result<Vec<u8>> {
    let metadata = &node.metadata;
    let mut out = Vec::with_capacity(INODE_BYTES);
    out.extend(FORMAT.to_le_bytes());
    // No extended attributes.
    out.extend([0; 2]);
    out.extend(narrow::<_, u16>(metadata.mode())?.to_le_bytes());
    out.extend([0; 2]);
    out.extend(size.to_le_bytes());
    out.extend(block.to_le_bytes());
    out.extend(narrow::<_, u32>(number + 1)?.to_le_bytes());
    // User and group 0.
    out.extend([0; 8]);
    out.extend(metadata.mtime().to_le_bytes());
    out.extend(narrow::<_, u32>(metadata.mtime_nsec())?.to_le_bytes());
    out.extend(node.links.to_le_bytes());
    out.resize(INODE_BYTES, 0);
    Ok(out)
}

fn superblock(nodes: &[Node], blocks: u32) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(SUPERBLOCK_BYTES);
    out.extend(MAGIC.to_le_bytes());
    // No checksum, and no feature.
    out.extend([0; 8]);
    out.extend([BLOCK_BITS, 0]);
    out.extend(narrow::<_, u16>(nid(0))?.to_le_bytes());
    out.extend((nodes.len() as u64).to_le_bytes());
    // Built at no time.
    out.extend([0; 12]);
    out.extend(blocks.to_le_bytes());
    out.extend(INODES_AT_BLOCK.to_le_bytes());
    // Attributes, names, features: nothing.
    out.resize(SUPERBLOCK_BYTES, 0);
    Ok(out)
}

/// What the format calls the node with this number.
fn nid(number: usize) -> u64 {
    (number as u64 + 1) * 2
}

/// Copies a file that may not have changed its size since it was looked at.
fn copy(node: &Node, out: &mut impl Write) -> io::Result<u64> {
    let expected = node.metadata.len();
    let copied = io::copy(&mut File::open(&node.path)?.take(expected), out)?;
    if copied == expected { Ok(copied) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Fills the block that `size` bytes end in.
fn pad(out: &mut impl Write, size: u64) -> io::Result<()> {
    let used = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    out.write_all(vec![0; (BLOCK - used) % BLOCK].as_slice())
}

fn blocks(bytes: u64) -> io::Result<u32> {
    narrow(bytes.div_ceil(BLOCK as u64))
}

fn narrow<T, U: TryFrom<T>>(value: T) -> io::Result<U> {
    U::try_from(value).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::rootfs::tree_sha256;

    /// A tree with everything in it that matters: empty and full files, directories of more than a block, links.
    fn plant(root: &Path) {
        fs::create_dir_all(root.join("many/deep/deeper")).unwrap();
        fs::create_dir(root.join("empty")).unwrap();
        for number in 0..300 {
            fs::write(root.join(format!("many/a name that is rather long {number}")), number.to_string())
                .unwrap();
        }
        for (name, size) in [("none", 0), ("block", BLOCK), ("more", BLOCK + 1), ("-dash before dot", 3)] {
            fs::write(root.join(name), vec![b'x'; size]).unwrap();
        }
        symlink("../none", root.join("many/link")).unwrap();
        symlink("nowhere", root.join("many/deep/dangling")).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_007, 5);
        File::options().write(true).open(root.join("more")).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn another_program_finds_the_whole_tree_in_an_image() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, image, out) = (dir.path().join("tree"), dir.path().join("image"), dir.path().join("out"));
        plant(&tree);
        write(&tree, &image).unwrap();
        let fsck = Command::new("fsck.erofs")
            .arg(format!("--extract={}", out.display()))
            .args(["--preserve-perms", "--no-preserve-owner"])
            .arg(&image)
            .output();
        let Ok(fsck) = fsck else { return eprintln!("SKIPPED: erofs-utils is not installed") };
        assert!(fsck.status.success(), "{fsck:?}");
        assert_eq!(tree_sha256(&out).unwrap(), tree_sha256(&tree).unwrap());
        let modified = |root: &Path| fs::metadata(root.join("more")).unwrap().modified().unwrap();
        assert_eq!(modified(&out), modified(&tree));
    }

    #[test]
    fn equal_trees_give_equal_images_and_a_time_counts() {
        let dir = tempfile::tempdir().unwrap();
        let image = |tree: &Path| {
            let path = dir.path().join("image");
            write(tree, &path).unwrap();
            fs::read(path).unwrap()
        };
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        for (root, names) in [(&one, ["a", "b"]), (&two, ["b", "a"])] {
            fs::create_dir(root).unwrap();
            for name in names {
                fs::write(root.join(name), name).unwrap();
            }
            for path in ["a", "b", ""] {
                let file = File::open(root.join(path)).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            }
        }
        assert!(image(&one) == image(&two));
        let file = File::open(two.join("a")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        assert!(image(&one) != image(&two));
    }
}
