//! What Claude Code says, line by line, as far as a run needs it. Whatever else it says, now or in a later version, is
//! passed over.

use serde_json::Value;

use crate::outcome::Outcome;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// It has started, with these servers in these states.
    Ready { servers: Vec<(String, String)> },
    /// The model spoke, and asks for these tools.
    Said { text: String, tools: Vec<String> },
    /// It is done.
    Result { text: Option<String>, outcome: Outcome },
    /// Anything else.
    Other,
}

impl Event {
    pub(super) fn parse(line: &str) -> Self {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return Self::Other };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match (line["type"].as_str(), line["subtype"].as_str()) {
            (Some("system"), Some("init")) => {
                let servers = line["mcp_servers"].as_array().into_iter().flatten();
                Self::Ready { servers: servers.map(|it| (text(&it["name"]), text(&it["status"]))).collect() }
            }
            (Some("assistant"), _) => {
                let blocks: Vec<&Value> =
                    line["message"]["content"].as_array().into_iter().flatten().collect();
                let said =
                    blocks.iter().filter(|block| block["type"] == "text").map(|block| text(&block["text"]));
                let tools = blocks.iter().filter(|block| block["type"] == "tool_use");
                Self::Said {
                    text: said.collect::<Vec<_>>().join("\n"),
                    tools: tools.map(|block| text(&block["name"])).collect(),
                }
            }
            (Some("result"), subtype) => {
                let outcome = match (subtype, line["is_error"].as_bool()) {
                    (Some("error_max_turns"), _) => Outcome::StepsExhausted,
                    // A failure of the model's API is told as a success that is an error.
                    (Some("success"), Some(false)) => Outcome::Completed,
                    _ => Outcome::Failed,
                };
                let said = line["result"].as_str().filter(|said| !said.is_empty());
                Self::Result { text: said.map(str::to_owned), outcome }
            }
            _ => Self::Other,
        }
    }
}

/// What the model has said so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) last_text: String,
}

impl Answer {
    pub(super) fn say(&mut self, text: String) {
        if !text.is_empty() {
            self.last_text = text;
        }
    }

    pub(super) fn take_last(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.last_text)).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_kind() {
        let ready =
            r#"{"type":"system","subtype":"init","mcp_servers":[{"name":"runcaps","status":"pending"}]}"#;
        assert_eq!(Event::parse(ready), Event::Ready { servers: vec![("runcaps".into(), "pending".into())] });
        let said = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"a"},{"type":"tool_use","name":"t"}]}}"#;
        assert_eq!(Event::parse(said), Event::Said { text: "a".into(), tools: vec!["t".into()] });
        for line in [
            "",
            "null",
            "[]",
            "not json",
            r#"{"type":"user"}"#,
            r#"{"type":7}"#,
            r#"{"type":"stream_event"}"#,
        ] {
            assert_eq!(Event::parse(line), Event::Other, "{line}");
        }
    }

    #[test]
    fn a_result_is_completed_only_if_it_is_no_error() {
        let outcome = |line: &str| match Event::parse(line) {
            Event::Result { text, outcome } => (text, outcome),
            other => panic!("{other:?}"),
        };
        let done = r#"{"type":"result","subtype":"success","is_error":false,"result":"yes"}"#;
        assert_eq!(outcome(done), (Some("yes".into()), Outcome::Completed));
        let failed = r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error"}"#;
        assert_eq!(outcome(failed), (Some("API Error".into()), Outcome::Failed));
        let exhausted = r#"{"type":"result","subtype":"error_max_turns","is_error":true}"#;
        assert_eq!(outcome(exhausted), (None, Outcome::StepsExhausted));
        assert_eq!(outcome(r#"{"type":"result","subtype":"new"}"#), (None, Outcome::Failed));
    }
}
