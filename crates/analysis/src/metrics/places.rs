//! Where services and clients are.

use super::OTHER;
use std::net::{Ipv4Addr, Ipv6Addr};

const AF_UNIX: u16 = 1;
const AF_INET6: u16 = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Where a service is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Address family; 0 for what is not an address.
    pub family: u16,
    /// Address (IPv4 in the first four bytes).
    pub address: [u8; 16],
    /// Port.
    pub port: u16,
    /// IP protocol.
    pub ip_protocol: u8,
    /// A UNIX socket's path, or what stands for all that is not told apart.
    pub path: String,
}

impl Place {
    pub(super) fn named(path: &str) -> Place {
        Place { path: path.to_owned(), ..Place::default() }
    }

    /// `ADDRESS:PORT`, with the protocol where it is not TCP; a path as it is; of packets without IP the number of their kind.
    pub fn label(&self) -> String {
        if !self.path.is_empty() {
            return self.path.clone();
        }
        let address = address(self.family, self.address);
        match (self.family, self.ip_protocol) {
            // ICMP and most tunnels have no ports; of fragments they may not be known
            (2.., TCP) if self.port == 0 => address,
            (2.., UDP) if self.port == 0 => format!("{address}/udp"),
            (2.., p) if self.port == 0 => format!("{address}/{p}"),
            (AF_INET6, TCP) => format!("[{address}]:{}", self.port),
            (_, TCP) => format!("{address}:{}", self.port),
            (AF_INET6, UDP) => format!("[{address}]:{}/udp", self.port),
            (_, UDP) => format!("{address}:{}/udp", self.port),
            (0, 0) => format!("not IP, {:#06x}", self.port),
            (_, p) => format!("{address}:{}/{p}", self.port),
        }
    }
}

/// An address as text.
pub fn address(family: u16, address: [u8; 16]) -> String {
    match family {
        AF_INET6 => Ipv6Addr::from(address).to_string(),
        0 => OTHER.to_owned(),
        AF_UNIX => "unix".to_owned(),
        _ => {
            let [a, b, c, d, ..] = address;
            Ipv4Addr::new(a, b, c, d).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_not_port_0() {
        let place = |family, port, ip_protocol| {
            let mut address = [0; 16];
            address[..4].copy_from_slice(&[10, 0, 0, 1]);
            Place { family, address, port, ip_protocol, path: String::new() }.label()
        };
        let four = [(80, TCP), (0, TCP), (53, UDP), (0, UDP), (0, 1)].map(|(port, ip)| place(2, port, ip));
        assert_eq!(four, ["10.0.0.1:80", "10.0.0.1", "10.0.0.1:53/udp", "10.0.0.1/udp", "10.0.0.1/1"]);
        let six = [(80, TCP), (0, TCP), (0, UDP), (0, 58)].map(|(port, ip)| place(AF_INET6, port, ip));
        assert_eq!(six, ["[a00:1::]:80", "a00:1::", "a00:1::/udp", "a00:1::/58"]);
    }
}
