//! Which addresses and names are inside: never fetched from on behalf of a model.
//!
//! Inside is whatever is not plainly the public internet: this machine, private and shared networks, link-local ones
//! (where clouds serve credentials), multicast, reserved and documentation ranges, and every IPv6 form that carries an
//! IPv4 address of one of these.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::{Ipv4Net, Ipv6Net};

/// Ranges of IPv4 that are inside.
const INSIDE_V4: [&str; 16] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
];

/// Ranges of IPv6 that are inside.
const INSIDE_V6: [&str; 9] = [
    "::/128",
    "::1/128",
    "100::/64",
    "2001:db8::/32",
    "3fff::/20",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
];

/// Ranges of IPv6 with an IPv4 address in the last four bytes: mapped, compatible, NAT64 and its local form.
const LAST_FOUR: [&str; 4] = ["::ffff:0:0/96", "::/96", "64:ff9b::/96", "64:ff9b:1::/48"];

/// 6to4: an IPv4 address after the first two bytes.
const SIX_TO_FOUR: &str = "2002::/16";

/// Teredo: an IPv4 address in the last four bytes, inverted, and another one that is a server's.
const TEREDO: &str = "2001::/32";

static V4: LazyLock<Vec<Ipv4Net>> = LazyLock::new(|| parsed(&INSIDE_V4));
static V6: LazyLock<Vec<Ipv6Net>> = LazyLock::new(|| parsed(&INSIDE_V6));
static V6_LAST_FOUR: LazyLock<Vec<Ipv6Net>> = LazyLock::new(|| parsed(&LAST_FOUR));
static V6_SIX_TO_FOUR: LazyLock<Vec<Ipv6Net>> = LazyLock::new(|| parsed(&[SIX_TO_FOUR]));
static V6_TEREDO: LazyLock<Vec<Ipv6Net>> = LazyLock::new(|| parsed(&[TEREDO]));

/// A test checks that every range is one.
fn parsed<N: std::str::FromStr>(ranges: &[&str]) -> Vec<N> {
    ranges.iter().filter_map(|range| range.parse().ok()).collect()
}

/// Whether an address is inside.
#[must_use]
pub fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_inside_v4(address),
        IpAddr::V6(address) => is_inside_v6(address),
    }
}

fn is_inside_v4(address: Ipv4Addr) -> bool {
    V4.iter().any(|range| range.contains(&address))
}

fn is_inside_v6(address: Ipv6Addr) -> bool {
    let among = |ranges: &[Ipv6Net]| ranges.iter().any(|range| range.contains(&address));
    let [_, _, a, b, c, d, .., e, f, g, h] = address.octets();
    let last = Ipv4Addr::new(e, f, g, h);
    among(&V6)
        || (among(&V6_LAST_FOUR) && is_inside_v4(last))
        || (among(&V6_SIX_TO_FOUR) && is_inside_v4(Ipv4Addr::new(a, b, c, d)))
        || (among(&V6_TEREDO) && is_inside_v4(Ipv4Addr::from(!u32::from(last))))
}

/// Whether a name means this machine by itself, whatever a resolver says.
#[must_use]
pub fn is_inside_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_range_is_one() {
        assert_eq!(V4.len(), INSIDE_V4.len());
        assert_eq!(V6.len(), INSIDE_V6.len());
        assert_eq!((V6_LAST_FOUR.len(), V6_SIX_TO_FOUR.len(), V6_TEREDO.len()), (LAST_FOUR.len(), 1, 1));
    }

    #[test]
    fn what_is_inside_and_what_is_not() {
        let inside = [
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:a00:1::",
            "2002:7f00:1::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001:0:1:2:3:4:80ff:fffe",
        ];
        for text in inside {
            assert!(is_inside(text.parse().unwrap()), "{text}");
        }
        let outside = [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
        ];
        for text in outside {
            assert!(!is_inside(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn names_of_this_machine() {
        for name in ["localhost", "LocalHost", "localhost.", "a.b.localhost", "x.LOCALHOST."] {
            assert!(is_inside_name(name), "{name}");
        }
        for name in ["localhost.example.com", "notlocalhost", "example.com"] {
            assert!(!is_inside_name(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn an_address_hides_in_no_form_of_ipv6(bits: u32) {
            let v4 = Ipv4Addr::from(bits);
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let inside = is_inside(v4.into());
            prop_assert_eq!(is_inside(v4.to_ipv6_mapped().into()), inside);
            prop_assert_eq!(is_inside(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low).into()), inside);
            prop_assert_eq!(is_inside(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1).into()), inside);
            prop_assert_eq!(is_inside(Ipv6Addr::new(0x2001, 0, 1, 2, 3, 4, !high, !low).into()), inside);
        }

        #[test]
        fn whatever_the_standard_library_calls_special_is_inside(bits: u32) {
            let v4 = Ipv4Addr::from(bits);
            let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_broadcast()
                || v4.is_documentation() || v4.is_multicast() || v4.is_unspecified();
            prop_assert!(!special || is_inside(v4.into()));
        }
    }
}
