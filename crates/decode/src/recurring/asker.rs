//! Who asked whom, as numbers that say nothing of either.

/// Who asked whom. Numbers that differ where they are not the same; the same at both ends of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The server's address and port.
    pub service: u64,
    /// The client's address.
    pub address: u64,
    /// The client's address and port.
    pub connection: u64,
}

impl Asker {
    /// Of two ends: a number for the address ([`address_number`]), and the port.
    pub fn of(server: (u64, u16), client: (u64, u16)) -> Asker {
        let port = |(address, port): (u64, u16)| mixed(address ^ u64::from(port).rotate_right(16));
        Asker { service: port(server), address: mixed(client.0), connection: port(client) }
    }
}

/// A number for an address, in two words of any order of bytes.
pub fn address_number([high, low]: [u64; 2]) -> u64 {
    mixed(low ^ mixed(high))
}

/// All bits depend on all bits.
fn mixed(of: u64) -> u64 {
    let once = (of ^ of >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (once ^ once >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ once >> 32
}
