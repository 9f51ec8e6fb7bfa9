//! Checks what an exchange brought, each record once in the whole mesh.
//!
//! A thousand nodes check a million signatures to learn of each other, a minute of nothing else. Every record is
//! checked by the shipped code the first time any node hears it; whoever hears the same bytes later is given the same
//! result. What is refused is never remembered.

use std::collections::BTreeMap;

use mesh_node_core::directory::Directory;
use mesh_node_core::directory::exchange::{Checked, Heard};
use mesh_protocol::record::{Unchecked, VerifiedRecord};
use mesh_protocol::root::RootKey;

#[derive(Debug, Default)]
pub(super) struct Notary {
    verified: BTreeMap<[u8; 64], VerifiedRecord>,
}

impl Notary {
    /// As [`Heard::check`] does it.
    pub(super) fn check(&mut self, root: &RootKey, directory: &Directory, heard: Heard) -> Checked {
        let mut checked = Checked { silent: heard.silent, ..Checked::default() };
        for signed in heard.records {
            let known = self.verified.get(&signed.signature).filter(|known| *known.signed() == signed);
            if let Some(known) = known {
                if directory.unchecked(known.record(), known.signed()) != Unchecked::None {
                    checked.records.push(known.clone());
                }
                continue;
            }
            let alone = Heard { records: vec![signed], silent: Vec::new() };
            let first = alone.check(root, |_, _| Unchecked::Both);
            for verified in &first.records {
                self.verified.insert(verified.signed().signature, verified.clone());
            }
            checked.records.extend(first.records);
            checked.refused.extend(first.refused);
        }
        checked
    }
}
