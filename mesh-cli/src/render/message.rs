//! Messages, each under the name of who wrote it.

use mesh_protocol::api::ask::MessageView;

use crate::foreign;
use crate::measure::ago;
use crate::style::{self, KEY};

/// All of them, newest first.
pub(crate) fn messages(messages: &[MessageView], now_ms: u64) -> String {
    if messages.is_empty() {
        return "no messages yet\n".to_owned();
    }
    messages.iter().map(|message| one(message, now_ms)).collect::<Vec<_>>().join("\n")
}

/// The text is indented, so that it cannot pass for a heading.
fn one(message: &MessageView, now_ms: u64) -> String {
    let between = format!("{} -> {}", foreign::line(&message.from), foreign::line(&message.to));
    let mut text = format!(
        "{}  {}  {}\n",
        style::paint(KEY, between),
        ago(now_ms, message.at_ms),
        message.conversation_id
    );
    for line in foreign::block(&message.body).lines() {
        text.push_str(&format!("    {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use mesh_protocol::id::{ConversationId, MessageId};

    use super::*;
    use crate::render::specimen::{NOW, THEN, plain};

    #[test]
    fn a_message_stands_indented_under_who_wrote_it() {
        let message = MessageView {
            message_id: MessageId::mint(THEN, [3; 10]),
            conversation_id: ConversationId::mint(THEN, [2; 10]),
            from: "nova/reviewer".into(),
            to: "@operator".into(),
            body: "looks fine\noperator -> you".into(),
            reply_to: None,
            at_ms: THEN,
        };
        insta::assert_snapshot!(plain(&messages(&[message], NOW)), @r"
        nova/reviewer -> @operator  10m ago  cnv-065svpb801p050g2081040g208
            looks fine
            operator -> you
        ");
    }
}
