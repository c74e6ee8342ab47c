//! Where the load goes.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// A server, and its name for the `Host` header.
pub struct Target {
    pub address: SocketAddr,
    pub host: String,
}

impl Target {
    /// Takes `http://HOST:PORT`. A load generator pointed at a stranger by a slip of the keyboard
    /// is an attack, so only loopback and private networks are accepted.
    pub fn parse(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").ok_or_else(|| format!("`{url}`: only http://HOST:PORT"))?;
        let host = rest.strip_suffix('/').unwrap_or(rest);
        if host.contains(['/', '?', '@']) {
            return Err(format!("`{url}`: no path here; routes are given by --mix"));
        }
        let with_port = match host.parse::<IpAddr>() {
            Ok(ip) => SocketAddr::new(ip, 80).to_string(),
            Err(_) if host.contains(':') => host.to_owned(),
            Err(_) => format!("{host}:80"),
        };
        let address = with_port
            .to_socket_addrs()
            .map_err(|problem| format!("`{host}`: {problem}"))?
            .next()
            .ok_or_else(|| format!("`{host}` has no address"))?;
        if !is_near(address.ip()) {
            return Err(format!("{address} is neither loopback nor a private network: refused"));
        }
        Ok(Self { address, host: host.to_owned() })
    }
}

fn is_near(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_is_near_and_nothing_else() {
        let target = Target::parse("http://127.0.0.1:8123/").unwrap();
        assert_eq!(target.address, "127.0.0.1:8123".parse().unwrap());
        assert_eq!(target.host, "127.0.0.1:8123");
        assert_eq!(Target::parse("http://10.1.2.3").unwrap().address.port(), 80);
        assert!(Target::parse("http://[::1]:99").is_ok());
        for wrong in [
            "https://127.0.0.1:1",
            "127.0.0.1:1",
            "http://127.0.0.1:1/x",
            "http://127.0.0.1:99999",
            "http://8.8.8.8:80",
        ] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
