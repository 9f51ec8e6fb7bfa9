//! What tells one process from a later one of the same number: the boot it belongs to and when it started (proc(5)).

use std::io;

/// This boot's id, a UUID as text.
pub(super) fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// When a process started, clock ticks since boot; `None` when there is no such process. A zombie still has one.
pub(super) fn start_time(process: i32) -> io::Result<Option<u64>> {
    match std::fs::read(format!("/proc/{process}/stat")) {
        Ok(stat) => match parse_start_time(&stat) {
            Some(started) => Ok(Some(started)),
            None => Err(io::ErrorKind::InvalidData.into()),
        },
        // The process may also end between opening and reading.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Field 22 of a stat line. Field 2 is the program's name in brackets, and may hold brackets, spaces and any bytes.
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    // The first of these is field 3.
    fields.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_cannot_forge_its_start_time_by_its_name() {
        let stat = b"42 (a) 1 2 (\xff) S 1 42 42 0 -1 4194304 9 0 0 0 0 0 0 0 20 0 1 0 8837265 2 3\n";
        assert_eq!(parse_start_time(stat), Some(8_837_265));
        assert_eq!(parse_start_time(b"42 (a) S 1"), None);
        assert_eq!(parse_start_time(b""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_a_start_time_and_the_impossible_one_has_none() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(start_time(own).unwrap().is_some());
        assert_eq!(start_time(i32::MAX).unwrap(), None);
    }
}
