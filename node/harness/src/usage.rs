//! What a model call cost, and why its turn ended.
//!
//! Everything is as the provider reported it. Absent means unknown: never zero, never free.

use serde::{Deserialize, Serialize};

/// Tokens and money of one call, or summed over several.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens read, cached or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// `input` and `output` together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The share of `input` that came from a prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// The share of `input` that was put into a prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// The share of `output` that was reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// What the provider says it costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported_cost: Option<Cost>,
}

impl TokenUsage {
    /// Usage of so many tokens, with the total of both.
    #[must_use]
    pub fn new(input: u64, output: u64) -> Self {
        Self {
            input: Some(input),
            output: Some(output),
            total: Some(input.saturating_add(output)),
            ..Self::default()
        }
    }

    /// Adds another call's, field by field: a field stays unknown only while nobody reported it.
    pub fn add(&mut self, other: &Self) {
        let sum = |mine: &mut Option<u64>, theirs: Option<u64>| {
            if let Some(theirs) = theirs {
                *mine = Some(mine.unwrap_or(0).saturating_add(theirs));
            }
        };
        sum(&mut self.input, other.input);
        sum(&mut self.output, other.output);
        sum(&mut self.total, other.total);
        sum(&mut self.cache_read, other.cache_read);
        sum(&mut self.cache_write, other.cache_write);
        sum(&mut self.reasoning, other.reasoning);
        if let Some(theirs) = other.reported_cost {
            let mine = self.reported_cost.map_or(0.0, |cost| cost.amount);
            self.reported_cost = Some(Cost { amount: mine + theirs.amount, ..theirs });
        }
    }
}

/// An amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// How much: finite and not negative.
    pub amount: f64,
    /// Of what.
    pub currency: Currency,
}

impl Cost {
    /// An amount of dollars, unless it is no amount.
    #[must_use]
    pub fn usd(amount: f64) -> Option<Self> {
        (amount.is_finite() && amount >= 0.0).then_some(Self { amount, currency: Currency::Usd })
    }
}

/// A currency that providers report in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Currency {
    /// United States dollars.
    #[serde(rename = "USD")]
    Usd,
}

/// What any kind of model used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Usage {
    /// Tokens, of a language model.
    Token(TokenUsage),
    /// Something else that is counted.
    Unit {
        /// How many.
        units: f64,
        /// Of what: `second`, `image`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unit: Option<String>,
    },
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model was done.
    Stop,
    /// It waits for tools.
    ToolCalls,
    /// It was cut off: what it said is not whole.
    Length,
    /// The provider, or the model itself, refused to go on.
    ContentFilter,
    /// The provider gave no reason, or one that is not known here.
    #[default]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_knows_what_any_call_reported() {
        let priced = |amount| TokenUsage { reported_cost: Cost::usd(amount), ..TokenUsage::new(1, 2) };
        let mut sum = TokenUsage::default();
        for usage in [priced(0.1), TokenUsage::new(1, 2), priced(0.2)] {
            sum.add(&usage);
        }
        assert_eq!((sum.input, sum.output, sum.total, sum.cache_read), (Some(3), Some(6), Some(9), None));
        let cost = sum.reported_cost.map(|cost| cost.amount).unwrap_or_default();
        assert!((cost - 0.3).abs() < 1e-9, "{cost}");
    }

    #[test]
    fn an_amount_that_is_none_is_no_cost() {
        assert!([f64::NAN, f64::INFINITY, -0.1].into_iter().all(|amount| Cost::usd(amount).is_none()));
    }
}
