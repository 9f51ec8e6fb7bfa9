//! Where a node listens, and what it tells others about that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use mesh_protocol::limits::ADDRESSES_MAX;

use super::NodeError;
use crate::home::NodeSection;
use crate::transport::Profile;

/// Binds the member port: the configured address, or else the usual port on every address, or any port when that one
/// is taken.
pub(super) fn bind(listen: Option<SocketAddr>) -> Result<UdpSocket, NodeError> {
    if let Some(address) = listen {
        return UdpSocket::bind(address).map_err(|source| NodeError::Socket { address, source });
    }
    let everywhere = [
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, NodeSection::DEFAULT_PORT)),
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, NodeSection::DEFAULT_PORT)),
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    ];
    let mut last = None;
    for address in everywhere {
        match UdpSocket::bind(address) {
            Ok(socket) => return Ok(socket),
            Err(source) => last = Some(NodeError::Socket { address, source }),
        }
    }
    Err(last.unwrap_or_else(|| NodeError::System(std::io::ErrorKind::AddrNotAvailable.into())))
}

/// What to tell others: the configured addresses, or else the socket's own, or for a socket on every address those of
/// this machine's interfaces. Loopback only when there is nothing else.
pub(super) fn advertised(configured: &[SocketAddr], local: SocketAddr) -> Vec<SocketAddr> {
    if !configured.is_empty() {
        return configured.iter().copied().take(ADDRESSES_MAX).collect();
    }
    if !local.ip().is_unspecified() {
        return vec![local];
    }
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let usable = |ip: &IpAddr| match ip {
        // A socket on every IPv6 address takes IPv4 too, unless the system was told otherwise; then those dials fail and
        // the next address is tried.
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local() && local.is_ipv6(),
    };
    let mut ips: Vec<IpAddr> = interfaces.iter().map(if_addrs::Interface::ip).filter(usable).collect();
    // The same order at every start; IPv4 first, which more networks carry.
    ips.sort();
    ips.dedup();
    if ips.is_empty() {
        ips.push(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    ips.into_iter().take(ADDRESSES_MAX).map(|ip| SocketAddr::new(ip, local.port())).collect()
}

/// On one machine silence means more than on a network.
pub(super) fn profile(addresses: &[SocketAddr]) -> Profile {
    if addresses.iter().all(|address| address.ip().is_loopback()) { Profile::LOCAL } else { Profile::WIDE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_addresses_are_told_as_they_are() {
        let configured = ["192.0.2.7:7370".parse().unwrap()];
        assert_eq!(advertised(&configured, "[::]:1".parse().unwrap()), configured);
    }

    #[test]
    fn a_socket_on_one_address_tells_that_one() {
        let local = "127.0.0.1:4000".parse().unwrap();
        assert_eq!(advertised(&[], local), [local]);
        assert_eq!(profile(&[local]), Profile::LOCAL);
    }

    #[test]
    fn a_socket_on_every_address_tells_none_that_nobody_can_dial() {
        let told = advertised(&[], "[::]:7370".parse().unwrap());
        assert!(!told.is_empty());
        assert!(
            told.iter().all(|address| !address.ip().is_unspecified() && address.port() == 7370),
            "{told:?}"
        );
    }
}
