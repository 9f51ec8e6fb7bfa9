//! Durations as they are typed: `90`, `90s`, `15m`, `1h`, `7d`.

/// Seconds in what was typed; a bare number is seconds.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        other => return Err(format!("`{other}` is not a unit of time: s, m, h and d are")),
    };
    let count: u64 = digits.parse().map_err(|_| format!("`{digits}` is not a whole number"))?;
    count.checked_mul(unit).ok_or_else(|| "longer than any clock runs".to_owned())
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn units_are_seconds_minutes_hours_and_days() {
        let read = ["90", "90s", "15m", "1h", "7d"].map(|text| seconds(text).unwrap());
        assert_eq!(read, [90, 90, 900, 3_600, 604_800]);
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "h", "1w", "-1", "1.5h", "99999999999999999d"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
