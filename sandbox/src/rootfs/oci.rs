//! Reads OCI image layouts (image-layout and manifest of the OCI image specification, v1.1): which layers make the
//! image for this machine, each checked against its digest before a byte of it is believed.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek as _};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::Deserialize;
use tar::{Archive, EntryType};

use super::unpack::{self, Budget, bad};
use crate::runtime::sha256_of_file;

/// Longest index or manifest, in bytes.
const JSON_BYTES_MAX: u64 = 4 << 20;
/// Indexes inside indexes.
const DEPTH_MAX: usize = 4;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    platform: Option<OciPlatform>,
}

#[derive(Deserialize)]
struct OciPlatform {
    architecture: String,
    os: String,
}

/// Unpacks the image in `layout` for this machine into `tree`.
pub(super) fn unpack_layout(layout: &Path, tree: &Path) -> io::Result<()> {
    let mut index: Index = json(&layout.join("index.json"))?;
    for _ in 0..DEPTH_MAX {
        if !index.layers.is_empty() {
            let mut budget = Budget::default();
            return index
                .layers
                .iter()
                .try_for_each(|layer| unpack::layer(opened(&blob(layout, layer)?)?, tree, &mut budget));
        }
        let fits = |one: &&Descriptor| {
            one.platform.as_ref().is_none_or(|on| on.os == "linux" && on.architecture == architecture())
        };
        let next = index.manifests.iter().find(fits).ok_or_else(|| bad("no image for this machine"))?;
        index = json(&blob(layout, next)?)?;
    }
    Err(bad("indexes in indexes"))
}

/// What the specification calls this machine's processor.
fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

fn json(path: &Path) -> io::Result<Index> {
    let mut text = Vec::new();
    File::open(path)?.take(JSON_BYTES_MAX).read_to_end(&mut text)?;
    serde_json::from_slice(&text).map_err(io::Error::from)
}

/// The file of a blob that has the digest it is called by.
fn blob(layout: &Path, descriptor: &Descriptor) -> io::Result<PathBuf> {
    let name = descriptor.digest.strip_prefix("sha256:").filter(|name| is_digest(name));
    let name = name.ok_or_else(|| bad("a digest that is not SHA-256"))?;
    let path = layout.join("blobs/sha256").join(name);
    if sha256_of_file(&path)? == name { Ok(path) } else { Err(bad("a blob that is not what it is called")) }
}

fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// A tar file, gzip or not.
fn opened(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::new(File::open(path)?);
    let mut magic = [0; 2];
    file.read_exact(&mut magic)?;
    file.rewind()?;
    Ok(if magic == GZIP_MAGIC { Box::new(GzDecoder::new(file)) } else { Box::new(file) })
}

/// Unpacks the parts of a layout from a tar file into `layout`; everything else in it is left out.
pub(super) fn unpack_tarball(tarball: &Path, layout: &Path) -> io::Result<()> {
    fs::create_dir_all(layout.join("blobs/sha256"))?;
    let mut budget = Budget::default();
    for entry in Archive::new(opened(tarball)?).entries()? {
        let mut entry = entry?;
        budget.take(entry.size())?;
        let path = entry.path()?.into_owned();
        let path = path.strip_prefix(".").unwrap_or(&path);
        let is_part = path == Path::new("index.json")
            || path == Path::new("oci-layout")
            || path.strip_prefix("blobs/sha256").is_ok_and(|name| name.to_str().is_some_and(is_digest));
        if is_part && entry.header().entry_type() == EntryType::Regular {
            io::copy(&mut entry, &mut File::create(layout.join(path))?)?;
        }
    }
    if layout.join("index.json").is_file() { Ok(()) } else { Err(bad("no OCI image layout in it")) }
}
