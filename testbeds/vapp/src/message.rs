//! Bodies: lines of text. The ids are here and nowhere else, where a tracer may not look.
//!
//! A request is `Q request hop padding`. A reply has one `H` line for each call made so far, and ends with
//! `R request hop errors padding`; a first part of a reply ends with `+ padding` instead.

use std::io::Write;

use crate::truth::Hop;

/// What a request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Number of the request.
    pub request: u64,
    /// The call that this message is.
    pub hop: u64,
}

/// What a reply says.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Request and hop that are answered.
    pub ask: Ask,
    /// Calls below this one that failed.
    pub errors: u64,
    /// All calls below this one.
    pub hops: Vec<Hop>,
}

fn pad(body: &mut Vec<u8>, padding: usize) {
    body.push(b' ');
    body.resize(body.len() + padding, b'.');
    body.push(b'\n');
}

/// The body of a request.
pub fn ask(ask: Ask, padding: usize) -> Vec<u8> {
    let mut body = format!("Q {} {}", ask.request, ask.hop).into_bytes();
    pad(&mut body, padding);
    body
}

fn hop_lines(body: &mut Vec<u8>, hops: &[Hop]) {
    for h in hops {
        writeln!(
            body,
            "H {} {} {} {} {} {} {} {} {} {} {} {}",
            h.hop,
            h.parent,
            h.client,
            h.server,
            h.component,
            h.conn_bytes,
            h.send_ns[0],
            h.send_ns[1],
            h.reply_ns,
            h.len,
            h.reply_len,
            h.reply_parts
        )
        .expect("writing to memory");
    }
}

/// The body of a first part of a reply.
pub fn part(hops: &[Hop], padding: usize) -> Vec<u8> {
    let mut body = Vec::new();
    hop_lines(&mut body, hops);
    body.push(b'+');
    pad(&mut body, padding);
    body
}

/// The body of a reply, or of its last part.
pub fn answer(ask: Ask, errors: u64, hops: &[Hop], padding: usize) -> Vec<u8> {
    let mut body = Vec::new();
    hop_lines(&mut body, hops);
    write!(body, "R {} {} {errors}", ask.request, ask.hop).expect("writing to memory");
    pad(&mut body, padding);
    body
}

/// Reads a request.
pub fn read_ask(body: &[u8]) -> Option<Ask> {
    let mut words = std::str::from_utf8(body).ok()?.strip_prefix("Q ")?.split(' ');
    Some(Ask { request: words.next()?.parse().ok()?, hop: words.next()?.parse().ok()? })
}

fn read_hop(line: &str) -> Option<Hop> {
    let mut words = line.split(' ');
    let mut next = || words.next();
    Some(Hop {
        hop: next()?.parse().ok()?,
        parent: next()?.parse().ok()?,
        client: next()?.parse().ok()?,
        server: next()?.parse().ok()?,
        component: next()?.to_owned(),
        conn_bytes: next()?.parse().ok()?,
        send_ns: [next()?.parse().ok()?, next()?.parse().ok()?],
        reply_ns: next()?.parse().ok()?,
        len: next()?.parse().ok()?,
        reply_len: next()?.parse().ok()?,
        reply_parts: next()?.parse().ok()?,
    })
}

/// Reads a complete reply.
pub fn read_answer(body: &[u8]) -> Option<Answer> {
    let mut hops = Vec::new();
    for line in std::str::from_utf8(body).ok()?.lines() {
        if let Some(hop) = line.strip_prefix("H ") {
            hops.push(read_hop(hop)?);
        } else if let Some(end) = line.strip_prefix("R ") {
            let mut words = end.split(' ');
            let ask = Ask { request: words.next()?.parse().ok()?, hop: words.next()?.parse().ok()? };
            return Some(Answer { ask, errors: words.next()?.parse().ok()?, hops });
        } else if !line.starts_with('+') {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_read_back() {
        let asked = Ask { request: 7, hop: 0x12 };
        assert_eq!(read_ask(&ask(asked, 5)), Some(asked));
        let mut hop = Hop::new(0x121, 0x12, "t3s2".into(), 99);
        hop.client = "127.0.0.1:4000".parse().unwrap();
        hop.send_ns = [1, 2];
        let mut body = part(std::slice::from_ref(&hop), 3);
        body.extend(answer(asked, 2, std::slice::from_ref(&hop), 4));
        let got = read_answer(&body).unwrap();
        assert_eq!(got, Answer { ask: asked, errors: 2, hops: vec![hop.clone(), hop] });
        assert_eq!(read_answer(b"+ \n"), None);
        assert_eq!(read_answer(b"nonsense"), None);
    }
}
