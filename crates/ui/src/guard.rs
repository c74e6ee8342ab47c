//! Who is answered: requests that name this server by its address, come from its own page, and have the token where there
//! is one. A page of another site that resolves its own name to this machine (DNS rebinding) sends that name as Host.

use axum::http::header::{AUTHORIZATION, COOKIE, HOST};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use std::net::{IpAddr, SocketAddr};

/// What is asked of each request.
pub struct Guard {
    port: u16,
    token: Option<String>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// As HTTP says it.
    pub status: StatusCode,
    /// For people.
    pub why: &'static str,
}

const NOT_OURS: Refusal = Refusal {
    status: StatusCode::MISDIRECTED_REQUEST,
    why: "The Host header is not this server's address: open the page by the address that wakepath ui printed.",
};
const ELSEWHERE: Refusal = Refusal { status: StatusCode::FORBIDDEN, why: "Pages of other sites are not answered." };
const NO_TOKEN: Refusal = Refusal {
    status: StatusCode::UNAUTHORIZED,
    why: "The token is missing or wrong: open the address that wakepath ui printed, with its token.",
};

impl Guard {
    /// Of a server at an address.
    pub fn new(at: SocketAddr, token: Option<String>) -> Guard {
        Guard { port: at.port(), token }
    }

    /// Whether a request may be answered.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        self.check_origin(headers)?;
        if self.is_known(headers) { Ok(()) } else { Err(NO_TOKEN) }
    }

    /// The same without the token.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(NOT_OURS) };
        if !host.to_str().is_ok_and(|host| self.is_own(host)) {
            return Err(NOT_OURS);
        }
        // what browsers say of who asks; what does not say it is no page
        match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => Err(ELSEWHERE),
        }
    }

    /// An address as it is, or `localhost`: no other name, since anybody may have one that resolves to this machine.
    fn is_own(&self, host: &str) -> bool {
        if let Ok(at) = host.parse::<SocketAddr>() {
            return at.port() == self.port;
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.parse() == Ok(self.port) => name,
            // browsers leave out HTTP's own port
            None if self.port == 80 => host,
            _ => return false,
        };
        name.eq_ignore_ascii_case("localhost") || self.port == 80 && name.parse::<IpAddr>().is_ok()
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let bearer = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok()?.strip_prefix("Bearer "));
        let cookies = headers.get_all(COOKIE).iter().filter_map(|v| v.to_str().ok());
        let name = self.cookie_name();
        let cookie = cookies.flat_map(|c| c.split(';')).find_map(|c| c.trim().strip_prefix(&name)?.strip_prefix('='));
        bearer.into_iter().chain(cookie).any(|given| is_same(given, token))
    }

    /// Cookies are of all ports of an address.
    fn cookie_name(&self) -> String {
        format!("wakepath-{}", self.port)
    }

    /// The cookie for who opened the page with the token.
    pub fn cookie(&self, given: &str) -> Option<String> {
        let token = self.token.as_ref().filter(|token| is_same(given, token))?;
        Some(format!("{}={token}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name()))
    }
}

/// Compares in a time that does not tell how much is the same.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(token: Option<&str>) -> Guard {
        Guard::new(SocketAddr::from(([127, 0, 0, 1], 7411)), token.map(str::to_owned))
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (n.parse().expect("a name"), v.parse().expect("a value"))).collect()
    }

    #[test]
    fn only_addresses_are_its_own() {
        let guard = guard(None);
        for host in ["127.0.0.1:7411", "localhost:7411", "LOCALHOST:7411", "[::1]:7411", "192.0.2.7:7411"] {
            assert_eq!(guard.check(&headers(&[("host", host)])), Ok(()), "{host}");
        }
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:80",
            "evil.example:7411",
            "localhost.evil.example:7411",
            "localhost:7411:7411",
            "::1:7411x",
        ] {
            assert_eq!(guard.check(&headers(&[("host", host)])), Err(NOT_OURS), "{host}");
        }
        assert_eq!(guard.check(&HeaderMap::new()), Err(NOT_OURS));
        let mut two = headers(&[("host", "127.0.0.1:7411")]);
        two.append(HOST, "evil.example".parse().expect("a value"));
        assert_eq!(guard.check(&two), Err(NOT_OURS));
    }

    #[test]
    fn other_sites_are_refused() {
        for (site, is_ours) in [("same-origin", true), ("none", true), ("cross-site", false), ("same-site", false)] {
            let got = guard(None).check(&headers(&[("host", "localhost:7411"), ("sec-fetch-site", site)]));
            assert_eq!(got.is_ok(), is_ours, "{site}");
        }
    }

    #[test]
    fn the_token_is_asked_for() {
        let guard = guard(Some("abc"));
        let with = |name, value| guard.check(&headers(&[("host", "127.0.0.1:7411"), (name, value)]));
        assert_eq!(with("accept", "*/*"), Err(NO_TOKEN));
        for (name, value) in [("authorization", "Bearer abc"), ("cookie", "a=b; wakepath-7411=abc")] {
            assert_eq!(with(name, value), Ok(()), "{value}");
        }
        for (name, value) in [
            ("authorization", "Bearer abd"),
            ("authorization", "abc"),
            ("cookie", "wakepath-7411="),
            ("cookie", "xwakepath-7411=abc"),
        ] {
            assert_eq!(with(name, value), Err(NO_TOKEN), "{value}");
        }
        assert!(guard.cookie("abc").is_some() && guard.cookie("ab").is_none());
    }
}
