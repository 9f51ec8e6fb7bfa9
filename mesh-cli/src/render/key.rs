//! Tenants' keys, without their secrets.

use mesh_node::api::v1::scope::Scope;

use crate::commands::Listed;
use crate::foreign;
use crate::measure::ago;
use crate::style::{self, BAD, DOUBTFUL, GOOD, KEY, LITERAL};
use crate::table::{Align, Cell, Table};

/// All of them, a row each.
pub(crate) fn keys(keys: &[Listed], now_ms: u64) -> String {
    if keys.is_empty() {
        return "no keys yet\n".to_owned();
    }
    let mut table = Table::new([
        ("KEY", Align::Left),
        ("TENANT", Align::Left),
        ("STATE", Align::Left),
        ("SCOPES", Align::Left),
        ("EXPIRES", Align::Left),
        ("MADE", Align::Left),
    ]);
    for key in keys {
        let shade = match key.state {
            "good" => GOOD,
            "expired" => DOUBTFUL,
            _ => BAD,
        };
        table.row([
            Cell::styled(LITERAL, &key.key_id),
            Cell::styled(KEY, &key.tenant_id),
            Cell::styled(shade, key.state),
            Cell::from(scopes(&key.scopes)),
            Cell::maybe(key.expires_at_ms.map(|at_ms| ago(now_ms, at_ms))),
            Cell::from(ago(now_ms, key.created_at_ms)),
        ]);
    }
    table.render()
}

/// The line beside a key that was just made.
pub(crate) fn made(key: &Listed, now_ms: u64) -> String {
    let expires =
        key.expires_at_ms.map_or_else(String::new, |at_ms| format!(", ends {}", ago(now_ms, at_ms)));
    format!(
        "key {} of tenant {}: {}{expires}; it is not shown again",
        style::paint(LITERAL, foreign::line(&key.key_id)),
        style::paint(KEY, foreign::line(&key.tenant_id)),
        scopes(&key.scopes)
    )
}

/// The sentence about a key that was ended.
pub(crate) fn revoked(key: &Listed) -> String {
    let (id, tenant) = (foreign::line(&key.key_id), foreign::line(&key.tenant_id));
    format!("key {} of tenant {tenant} is good for nothing any more\n", style::paint(LITERAL, id))
}

/// The scopes in a word where there is one, otherwise by name.
fn scopes(scopes: &[Scope]) -> String {
    if Scope::ALL.iter().all(|scope| scopes.contains(scope)) {
        return "all".to_owned();
    }
    scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(",")
}
