//! What colours mean here. Nothing is said by colour alone: every text reads the same without it.
//!
//! Text is always built with its styles; [`crate::printer`] takes them out again where a stream shows none.

use std::fmt::Display;

use anstyle::{AnsiColor, Color, Style};

const fn coloured(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(color)))
}

/// Well, or done.
pub(crate) const GOOD: Style = coloured(AnsiColor::Green);
/// Wrong.
pub(crate) const BAD: Style = coloured(AnsiColor::Red);
/// Worth a look.
pub(crate) const DOUBTFUL: Style = coloured(AnsiColor::Yellow);
/// Something to type, or that names a thing: commands, paths, ids.
pub(crate) const LITERAL: Style = coloured(AnsiColor::Cyan);
/// The value the eye should find first.
pub(crate) const KEY: Style = Style::new().bold();
/// As it comes.
pub(crate) const PLAIN: Style = Style::new();

/// `text` in a style.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// How the state of a peer, an agent, a flight, a job or a check is shown.
#[must_use]
pub(crate) fn of_state(state: &str) -> Style {
    match state {
        "alive" | "online" | "completed" | "succeeded" | "ok" => GOOD,
        "unreachable" | "revoked" | "failed" | "error" | "timed_out" | "oom_killed" | "fail"
        | "incompatible" | "duplicate" => BAD,
        "suspect" | "offline" | "waiting" | "cancelled" | "warn" | "blocked" | "left" => DOUBTFUL,
        _ => PLAIN,
    }
}
