//! Times, durations and sizes as people read them. Programs get the exact numbers from `--json`.

/// How long ago `then_ms` was, both wall-clock milliseconds since 1970. A time to come, as another machine's clock
/// can show, is `in ...`.
pub(crate) fn ago(now_ms: u64, then_ms: u64) -> String {
    match now_ms.checked_sub(then_ms) {
        Some(0..1_000) => "now".to_owned(),
        Some(past) => format!("{} ago", rough(past)),
        None => format!("in {}", rough(then_ms.saturating_sub(now_ms))),
    }
}

/// A duration by its largest unit: `3m`.
pub(crate) fn rough(duration_ms: u64) -> String {
    let seconds = duration_ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A measured duration: `40ms`, `4.1s`, `2m 5s`.
pub(crate) fn took(duration_ms: u64) -> String {
    match duration_ms {
        0..1_000 => format!("{duration_ms}ms"),
        1_000..60_000 => format!("{}.{}s", duration_ms / 1_000, duration_ms % 1_000 / 100),
        _ => format!("{}m {}s", duration_ms / 60_000, duration_ms % 60_000 / 1_000),
    }
}

/// A round trip in microseconds: `420us`, `1.3ms`.
pub(crate) fn round_trip(microseconds: u64) -> String {
    match microseconds {
        0..1_000 => format!("{microseconds}us"),
        _ => format!("{}.{}ms", microseconds / 1_000, microseconds % 1_000 / 100),
    }
}

/// A number of bytes: `17 B`, `1.2 KiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(size, _)| count >= *size) {
        Some((size, unit)) => format!("{}.{} {unit}", count / size, count % size * 10 / size),
        None => format!("{count} B"),
    }
}

/// `1 job`, `2 jobs`.
pub(crate) fn count(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_by_its_largest_unit() {
        let now = 1_700_000_000_000;
        assert_eq!(ago(now, now - 999), "now");
        assert_eq!(ago(now, now - 59_999), "59s ago");
        assert_eq!(ago(now, now - 180_000), "3m ago");
        assert_eq!(ago(now, now - 7_200_000), "2h ago");
        assert_eq!(ago(now, now - 86_400_000 * 12), "12d ago");
        assert_eq!(ago(now, now + 61_000), "in 1m");
    }

    #[test]
    fn sizes_and_durations_change_unit_where_people_do() {
        assert_eq!([bytes(1_023), bytes(1_229), bytes(5 << 30)], ["1023 B", "1.2 KiB", "5.0 GiB"]);
        assert_eq!([took(40), took(4_150), took(125_000)], ["40ms", "4.1s", "2m 5s"]);
        assert_eq!([round_trip(420), round_trip(1_370)], ["420us", "1.3ms"]);
        assert_eq!([count(1_u64, "job"), count(0_u64, "job")], ["1 job", "0 jobs"]);
    }
}
