//! Questions to the person at the terminal. Never asked in a script: there the flag that answers them is named.

use std::io::{self, BufRead, Read};

use crate::failure::Failure;
use crate::invocation::Invocation;

/// Bytes of an answer that are looked at.
const ANSWER_BYTES_MAX: u64 = 1_024;

/// Asks for a yes.
pub(crate) async fn yes(invocation: &Invocation, question: &str, flag: &'static str) -> Result<(), Failure> {
    typed(invocation, &format!("{question} [y/N] "), flag, |answer| {
        matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes")
    })
    .await
}

/// Asks for a name to be typed, before what cannot be undone.
pub(crate) async fn name(invocation: &Invocation, name: &str, flag: &'static str) -> Result<(), Failure> {
    let wanted = name.to_owned();
    typed(invocation, &format!("type `{name}` to go on: "), flag, move |answer| answer == wanted).await
}

async fn typed(
    invocation: &Invocation,
    question: &str,
    flag: &'static str,
    accept: impl FnOnce(&str) -> bool,
) -> Result<(), Failure> {
    let refused = Failure::NotConfirmed { flag };
    if !invocation.interactive() {
        return Err(refused);
    }
    invocation.printer.question(question);
    let answer = tokio::task::spawn_blocking(read_line).await;
    match answer {
        Ok(Ok(answer)) if accept(answer.trim()) => Ok(()),
        _ => Err(refused),
    }
}

fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut line)?;
    Ok(line)
}
