//! Which addresses are public, and what the others are.
//!
//! Answers to: `limits` (the default of [`crate::Hooks::allow_address`]). Must not: resolve or connect.
//! INVARIANT: an IPv6 address that carries an IPv4 address is never public: whoever means the IPv4 address says it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// Anyone's, on the internet.
    Public,
    /// `0.0.0.0/8` and `::`.
    Unspecified,
    /// The host itself.
    Loopback,
    /// A private network.
    Private,
    /// Shared by a carrier's customers.
    Shared,
    /// One link only; cloud metadata services live here.
    LinkLocal,
    /// A cloud's metadata or control service at an address that looks public.
    Metadata,
    /// Many receivers.
    Multicast,
    /// All receivers.
    Broadcast,
    /// For documents and measurements.
    Documentation,
    /// An IPv4 address inside an IPv6 one: mapped, compatible, translated or tunnelled.
    Embedded,
    /// Kept for protocols, or not given out.
    Reserved,
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::Shared => "carrier-shared",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Documentation => "documentation",
            Self::Embedded => "IPv4-in-IPv6",
            Self::Reserved => "reserved",
        })
    }
}

/// What the address is for, by the registries of special-purpose addresses.
pub fn classify(address: &IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => classify_v4(*address),
        IpAddr::V6(address) => classify_v6(*address),
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressKind {
    match address.octets() {
        [0, ..] => AddressKind::Unspecified,
        [127, ..] => AddressKind::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressKind::Private,
        // 100.100.100.200, a cloud's metadata service, is among these.
        [100, 64..=127, ..] => AddressKind::Shared,
        [169, 254, ..] => AddressKind::LinkLocal,
        // A cloud's wire server.
        [168, 63, 129, 16] => AddressKind::Metadata,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [198, 18..=19, ..] => AddressKind::Documentation,
        [192, 0, 0, _] | [192, 88, 99, _] => AddressKind::Reserved,
        [224..=239, ..] => AddressKind::Multicast,
        [255, 255, 255, 255] => AddressKind::Broadcast,
        [240..=255, ..] => AddressKind::Reserved,
        _ => AddressKind::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressKind {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressKind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Loopback,
        // Compatible, mapped, translated; NAT64 of both prefixes; 6to4; Teredo.
        [0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, ..] | [0x2002, ..] | [0x2001, 0, ..] => AddressKind::Embedded,
        // ISATAP, under any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => AddressKind::Embedded,
        [0xfe80..=0xfebf, ..] => AddressKind::LinkLocal,
        [0xfec0..=0xfeff, ..] | [0xfc00..=0xfdff, ..] => AddressKind::Private,
        [0xff00..=0xffff, ..] => AddressKind::Multicast,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x2001, 2, 0, ..] => AddressKind::Documentation,
        [0x2001, 0..=0x1ff, ..] => AddressKind::Reserved,
        [0x2000..=0x3fff, ..] => AddressKind::Public,
        _ => AddressKind::Reserved,
    }
}

/// Whether the address is one of this host's own: only then can a socket be bound to it. Where the kernel lets
/// foreign addresses be bound (`ip_nonlocal_bind`), every address counts as the host's, which refuses too much.
pub fn is_own(address: &IpAddr) -> bool {
    UdpSocket::bind((*address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_told_apart() {
        let table = [
            ("8.8.8.8", "public"),
            ("100.63.255.255", "public"),
            ("100.128.0.0", "public"),
            ("172.15.0.1", "public"),
            ("172.32.0.1", "public"),
            ("2606:4700::1111", "public"),
            ("2a00:1450:4001::1", "public"),
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("10.0.0.1", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("100.64.0.1", "carrier-shared"),
            ("100.100.100.200", "carrier-shared"),
            ("169.254.169.254", "link-local"),
            ("169.254.170.2", "link-local"),
            ("168.63.129.16", "cloud metadata"),
            ("192.0.0.192", "reserved"),
            ("192.88.99.1", "reserved"),
            ("192.0.2.1", "documentation"),
            ("198.18.0.1", "documentation"),
            ("198.51.100.1", "documentation"),
            ("203.0.113.5", "documentation"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "broadcast"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::127.0.0.1", "IPv4-in-IPv6"),
            ("::8.8.8.8", "IPv4-in-IPv6"),
            ("::ffff:127.0.0.1", "IPv4-in-IPv6"),
            ("::ffff:8.8.8.8", "IPv4-in-IPv6"),
            ("::ffff:0:127.0.0.1", "IPv4-in-IPv6"),
            ("64:ff9b::a9fe:a9fe", "IPv4-in-IPv6"),
            ("64:ff9b:1::7f00:1", "IPv4-in-IPv6"),
            ("2002:7f00:1::", "IPv4-in-IPv6"),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "IPv4-in-IPv6"),
            ("2606:4700::200:5efe:7f00:1", "IPv4-in-IPv6"),
            ("fe80::1", "link-local"),
            ("fec0::1", "private"),
            ("fd00:ec2::254", "private"),
            ("fc00::1", "private"),
            ("ff02::1", "multicast"),
            ("2001:db8::1", "documentation"),
            ("3fff::1", "documentation"),
            ("2001:2::1", "documentation"),
            ("2001:10::1", "reserved"),
            ("2001:20::1", "reserved"),
            ("100::1", "reserved"),
            ("5f00::1", "reserved"),
        ];
        for (address, want) in table {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(classify(&address).to_string(), want, "{address}");
        }
    }

    #[test]
    fn the_host_knows_its_own_addresses() {
        assert!(is_own(&"127.0.0.1".parse().unwrap()));
        assert!(!is_own(&"203.0.113.5".parse().unwrap()));
    }
}
