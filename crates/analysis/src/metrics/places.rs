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
