//! The target of a request: a path under `/v1` and its parameters, each part escaped (RFC 3986, section 2.1).

use std::fmt::{Display, Write};

/// A request target in the making.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    text: String,
    has_parameters: bool,
}

impl Target {
    /// `/v1/<collection>`.
    pub(crate) fn new(collection: &'static str) -> Self {
        Self { text: format!("/v1/{collection}"), has_parameters: false }
    }

    /// With one more part of the path. Before any parameter.
    pub(crate) fn segment(mut self, value: impl Display) -> Self {
        self.text.push('/');
        self.push_escaped(&value.to_string());
        self
    }

    /// With one more parameter.
    pub(crate) fn parameter(mut self, name: &'static str, value: impl Display) -> Self {
        self.text.push(if self.has_parameters { '&' } else { '?' });
        self.has_parameters = true;
        self.text.push_str(name);
        self.text.push('=');
        self.push_escaped(&value.to_string());
        self
    }

    /// With one more parameter if there is a value for it.
    pub(crate) fn parameter_if(self, name: &'static str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.parameter(name, value),
            None => self,
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    fn push_escaped(&mut self, value: &str) {
        // `.` and `..` are resolved away by some readers even when escaped; no id, ref or name is one.
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
                self.text.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(self.text, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_end_a_part_is_escaped() {
        let target = Target::new("outbox").segment("a/b?c#d e%").parameter("x", "1&y=2").parameter("z", 3);
        assert_eq!(target.as_str(), "/v1/outbox/a%2Fb%3Fc%23d%20e%25?x=1%26y%3D2&z=3");
    }
}
