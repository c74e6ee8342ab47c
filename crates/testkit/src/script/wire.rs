//! Lines about sniffers.

use super::{Played, Player, REPLY_BYTES, REQUEST_BYTES, US, number};
use crate::recording::HostRows;
use crate::tap::Passing;
use crate::truth::Call;
use fnv::FnvHasher;
use std::hash::Hasher as _;
use wakepath_model::rows::ExchangeKind;

/// IPv4.
type Address = [u8; 4];

fn address(word: &str) -> Played<Address> {
    let octets: Vec<u8> = word.split('.').filter_map(|o| o.parse().ok()).collect();
    octets.try_into().map_err(|_| format!("{word} is no address"))
}

/// A number for a word, never 0.
pub(super) fn hash(word: &str) -> u64 {
    let mut hash = FnvHasher::default();
    hash.write(word.as_bytes());
    hash.finish() | 1
}

/// How an exchange was seen.
struct Sighting {
    /// The call that it was made for.
    cause: Option<usize>,
    /// It passed the same sniffer once more: the client's address, and the server's with its port.
    again: Option<(Address, (Address, u16))>,
    /// Its flow began while the sniffer looked.
    is_new: bool,
}

impl Player {
    pub(super) fn sniffer(&mut self, name: &str, clock: i64) {
        self.out.hosts.push(HostRows::new(name, clock * 1_000_000_000));
    }

    /// `seen NAME by TAP FROM TO …`.
    pub(super) fn seen(&mut self, name: &str, tap: &str, from: &str, to: &str, rest: &[&str]) -> Played<()> {
        let host = self.out.hosts.iter().position(|h| h.name == tap).ok_or_else(|| format!("no sniffer {tap}"))?;
        let (from, to) = (number(from)? * US, number(to)? * US);
        let mut p = match self.asked.contains_key(name) {
            true => self.passing_of(name)?,
            false => self.passing_of_others(name),
        };
        self.passings += 1;
        p.flow = self.passings;
        (p.request_at, p.reply_at) = ((from, from + US), (to.saturating_sub(US), to));
        let options = self.sighting(&mut p, to, rest)?;
        if p.what != ExchangeKind::ReplyOnly {
            self.is_seen(name, host, &p, from..to, options.cause);
        }
        self.pass(host, &p, options.is_new);
        if let Some((client, server)) = options.again {
            self.passings += 1;
            let end = (self.out.hosts[host].name.clone(), self.passings);
            let call = self.out.truth.calls.iter_mut().find(|c| c.name == name);
            call.into_iter().for_each(|c| c.wire.push((end.clone(), p.request.start)));
            let again = Passing {
                flow: self.passings,
                client: (client, p.client.1),
                server,
                request_at: (from + 2 * US, from + 3 * US),
                reply_at: (to.saturating_sub(3 * US), to.saturating_sub(2 * US)),
                ..p
            };
            self.pass(host, &again, options.is_new);
        }
        Ok(())
    }

    /// Reads what stands behind the times: what is of the exchange goes into `p`, whose reply ended at `to`.
    fn sighting(&self, p: &mut Passing, to: u64, mut rest: &[&str]) -> Played<Sighting> {
        let mut o = Sighting { cause: None, again: None, is_new: true };
        while let Some((word, mut more)) = rest.split_first() {
            match (*word, more) {
                ("from", [a, after @ ..]) => {
                    p.client.0 = address(a)?;
                    more = after;
                }
                ("to", [a, port, after @ ..]) => {
                    p.server = (address(a)?, number(port)? as u16);
                    more = after;
                }
                ("for", [other, after @ ..]) => {
                    let known = self.out.truth.calls.iter().position(|c| c.name == *other);
                    o.cause = Some(known.ok_or_else(|| format!("{other} was not asked"))?);
                    more = after;
                }
                ("id", [id, after @ ..]) => {
                    p.request_id = hash(id);
                    more = after;
                }
                ("trace", [trace, span, after @ ..]) => {
                    p.trace = (hash(trace), hash(span));
                    more = after;
                }
                ("again", [client, server, port, after @ ..]) => {
                    o.again = Some((address(client)?, (address(server)?, number(port)? as u16)));
                    more = after;
                }
                ("old", _) => o.is_new = false,
                ("unanswered", _) => (p.what, p.reply_at, p.ended_at) = (ExchangeKind::Unanswered, (0, 0), to),
                ("open", _) => (p.what, p.reply_at, p.ended_at) = (ExchangeKind::Open, (0, 0), to),
                ("reply", ["only", after @ ..]) => {
                    p.what = ExchangeKind::ReplyOnly;
                    more = after;
                }
                _ => return Err(format!("{word} is not understood")),
            }
            rest = more;
        }
        Ok(o)
    }

    /// Writes into the truth that a request passed a sniffer.
    fn is_seen(&mut self, name: &str, host: usize, p: &Passing, time: std::ops::Range<u64>, cause: Option<usize>) {
        let end = (self.out.hosts[host].name.clone(), p.flow);
        match self.out.truth.calls.iter_mut().find(|c| c.name == name) {
            Some(c) => {
                c.wire.push((end, p.request.start));
                c.cause = c.cause.or(cause);
            }
            None => self.out.truth.calls.push(Call {
                name: name.to_owned(),
                cause,
                client: None,
                server: None,
                wire: vec![(end, p.request.start)],
                start: p.request.start,
                began_ns: time.start,
                ended_ns: if p.reply_at.1 == 0 { u64::MAX } else { time.end },
            }),
        }
    }

    /// An exchange of hosts that are not in the script.
    fn passing_of_others(&self, name: &str) -> Passing {
        let start = 1_000_000 * (self.out.truth.calls.len() as u64 + 1);
        Passing {
            flow: 0,
            client: ([10, 0, 0, 99], 50_001 + self.passings as u16),
            server: ([10, 0, 0, 98], 80),
            request_at: (0, 0),
            reply_at: (0, 0),
            ended_at: 0,
            request: start..start + REQUEST_BYTES,
            reply: start + 500_000..start + 500_000 + REPLY_BYTES,
            request_id: 0,
            trace: (0, 0),
            what: ExchangeKind::Answered,
            target: format!("/{name}"),
        }
    }

    fn pass(&mut self, host: usize, p: &Passing, is_new: bool) {
        let h = &mut self.out.hosts[host];
        h.sniffed_flow(p.request_at.0 - 1, p, wakepath_model::rows::FlowRowKind::Begin, is_new);
        h.sniffed(p);
    }

    /// An exchange that tasks of the script have: its addresses and bytes.
    fn passing_of(&self, name: &str) -> Played<Passing> {
        let a = &self.asked[name];
        let f = self.flows.get(&a.flow).ok_or("no flow")?;
        let (start, end) = a.reply.unwrap_or((f.sent[1], f.sent[1] + REPLY_BYTES));
        Ok(Passing {
            flow: 0,
            client: f.addresses[0],
            server: f.addresses[1],
            request_at: (0, 0),
            reply_at: (0, 0),
            ended_at: 0,
            request: a.start..a.start + REQUEST_BYTES,
            reply: start..end,
            request_id: 0,
            trace: (0, 0),
            what: ExchangeKind::Answered,
            target: format!("/{name}"),
        })
    }
}
