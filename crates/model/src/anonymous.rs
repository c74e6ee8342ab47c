//! Rows without names: for a folder that is handed to somebody who may not know whose it is.
//!
//! Names, addresses and identifiers become others, the same ones wherever they stand, so that everything that compares them
//! finds what it found before. Times, sizes, statuses, ports, and numbers of processes stay.

use crate::folder::HostInfo;
use crate::ids::StrId;
use crate::rows::{Event, WitnessKind, fingerprint};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

/// Words that protocols themselves define: they say nothing of who uses them.
const VERBS: &[&str] = &[
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "SELECT", "INSERT", "UPDATE", "BEGIN", "COMMIT",
    "ROLLBACK", "SET", "MGET", "MSET", "INCR", "DECR", "HGET", "HSET", "LPUSH", "RPUSH", "LPOP", "RPOP", "EXPIRE",
    "EVAL", "PING", "A", "AAAA", "Produce", "Fetch", "find", "insert", "update",
];

/// IPv4's family.
const INET: u16 = 2;

/// What stands for what, in all rows of one folder.
#[derive(Default)]
pub struct Anonymous {
    /// By the field in which it stands.
    names: HashMap<(&'static str, String), String>,
    /// How many names of a field there are.
    counts: HashMap<&'static str, usize>,
    addresses: HashMap<[u8; 16], u32>,
    /// Under a key that is nowhere written.
    identifiers: RandomState,
}

impl Anonymous {
    /// Nothing was named yet.
    pub fn new() -> Anonymous {
        Anonymous::default()
    }

    /// A host, as it is told of in the new folder; `number` counts hosts from 1.
    pub fn host(&mut self, info: &HostInfo, number: usize) -> HostInfo {
        // a flag's value may be a name
        let flag = |f: &String| f.split([' ', '=']).next().unwrap_or_default().to_owned();
        HostInfo {
            hostname: format!("host-{number:03}"),
            boot_id: format!("{number:08}-0000-0000-0000-000000000000"),
            kernel_release: info.kernel_release.clone(),
            arch: info.arch.clone(),
            cpus: info.cpus,
            selection: String::new(),
            flags: info.flags.iter().map(flag).collect(),
            agent_version: info.agent_version.clone(),
            clock: info.clock.clone(),
            earlier: Vec::new(),
        }
    }

    /// A row as it stands in the new folder. `text` knows the strings of the old one, `intern` those of the new one.
    pub fn event<'t>(
        &mut self,
        event: &Event,
        text: impl Fn(StrId) -> &'t str,
        mut intern: impl FnMut(&str) -> StrId,
    ) -> Event {
        let table = event.table();
        let mut bytes = event.bytes().to_vec();
        for field in table.layout().iter().filter(|f| f.stored == "StrId") {
            let at = field.at..field.at + 4;
            let id = bytes[at.clone()].try_into().map_or(StrId::EMPTY, |b| StrId(u32::from_le_bytes(b)));
            let named = intern(&self.name(field.name, text(id)));
            bytes[at].copy_from_slice(&named.0.to_le_bytes());
        }
        // only ids of strings were changed, so it still is a row
        let mut event = Event::read(table, &bytes).unwrap_or(*event);
        match &mut event {
            Event::Endpoint(r) => {
                (r.laddr, r.raddr) = (self.address(r.family, r.laddr), self.address(r.family, r.raddr));
            }
            Event::SniffedFlow(r) => {
                (r.client, r.server) = (self.address(r.family, r.client), self.address(r.family, r.server));
            }
            Event::Packet(r) => {
                let family = r.family();
                (r.saddr, r.daddr) = (self.address(family, r.saddr), self.address(family, r.daddr));
            }
            Event::Message(r) => {
                r.witness = self.identifier(r.witness_kind, r.witness);
                r.fingerprint = self.fingerprint(r.fingerprint);
                r.identifier = self.hashed(r.identifier);
            }
            Event::MessageEnd(r) => r.fingerprint = self.fingerprint(r.fingerprint),
            Event::SniffedExchange(r) => {
                r.witness = self.identifier(r.witness_kind, r.witness);
                let hashes = [
                    &mut r.request_fingerprint,
                    &mut r.reply_fingerprint,
                    &mut r.trace,
                    &mut r.span,
                    &mut r.request_id,
                ];
                hashes.into_iter().for_each(|h| *h = self.hashed(*h));
            }
            _ => {}
        }
        event
    }

    /// The name that stands for a text of a field.
    fn name(&mut self, field: &'static str, text: &str) -> String {
        let label = match field {
            // our own words
            "protocol" | "reason" | "what" => return text.to_owned(),
            "verb" if VERBS.contains(&text) => return text.to_owned(),
            _ if text.is_empty() => return String::new(),
            "comm" => "program",
            "cmdline" => "command",
            field => field,
        };
        if let Some(name) = self.names.get(&(label, text.to_owned())) {
            return name.clone();
        }
        let count = self.counts.entry(label).or_default();
        *count += 1;
        let name = format!("{label}-{count}");
        self.names.insert((label, text.to_owned()), name.clone());
        name
    }

    /// The address that stands for one. Loopback, and no address, say nothing.
    fn address(&mut self, family: u16, address: [u8; 16]) -> [u8; 16] {
        const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        let is_mapped = family != INET && address.starts_with(&MAPPED);
        let v4 = match (family == INET, is_mapped) {
            (true, _) => Some([address[0], address[1], address[2], address[3]]),
            (_, true) => Some([address[12], address[13], address[14], address[15]]),
            _ => None,
        };
        let mut key = address;
        if let Some(v4) = v4 {
            if v4[0] == 127 || v4 == [0; 4] {
                return address;
            }
            key = [0; 16];
            key[..4].copy_from_slice(&v4);
            key[15] = 4;
        } else if address[..15] == [0; 15] {
            return address;
        }
        let next = self.addresses.len() as u32 + 1;
        let number = self.addresses.entry(key).or_insert(next).to_be_bytes();
        let mut out = [0; 16];
        match (v4, is_mapped) {
            (Some(_), false) => out[..4].copy_from_slice(&[10, number[1], number[2], number[3]]),
            (Some(_), true) => {
                out[..12].copy_from_slice(&MAPPED);
                out[12..].copy_from_slice(&[10, number[1], number[2], number[3]]);
            }
            (None, _) => {
                out[0] = 0xfd;
                out[12..].copy_from_slice(&number);
            }
        }
        out
    }

    /// What stands for an identifier that a client gave, and so may be found in its logs.
    fn identifier(&self, kind: WitnessKind, value: u64) -> u64 {
        match kind {
            WitnessKind::Traceparent | WitnessKind::XRequestId => self.hashed(value),
            _ => value,
        }
    }

    /// Another fingerprint for one; what says that there is nothing to compare stays.
    fn fingerprint(&self, value: u64) -> u64 {
        if value <= fingerprint::NOTHING { value } else { self.hashed(value).max(fingerprint::NOTHING + 1) }
    }

    /// Another hash for one that somebody could look for; 0 is none.
    fn hashed(&self, value: u64) -> u64 {
        if value == 0 { 0 } else { self.identifiers.hash_one(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intern::Interner;
    use crate::rows::{EndpointRow, MessageRow, Table, TaskRow};

    /// Tables with addresses: [`Anonymous::event`] changes those of each.
    const WITH_ADDRESSES: [Table; 3] = [Table::Endpoint, Table::SniffedFlow, Table::Packet];
    const V4: [u8; 16] = [192, 0, 2, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn every_table_with_addresses_is_known() {
        for table in Table::ALL {
            let has = table.layout().iter().any(|f| f.stored.replace(' ', "") == "[u8;16]");
            assert_eq!(has, WITH_ADDRESSES.contains(table), "{}: may hold an address", table.name());
        }
    }

    #[test]
    fn names_become_others_and_stay_one() {
        let mut old = Interner::new();
        let texts = ["payroll", "/home/alice/payroll --key s3cret", "/salaries/{n}", "GET", "MYVERB", "proto.http1"];
        let ids = texts.map(|t| old.intern(t));
        let text = |id: StrId| texts[ids.iter().position(|i| *i == id).unwrap_or(0)];
        let task = TaskRow { comm: ids[0], cmdline: ids[1], tid: 7, ..Default::default() };
        let message = |verb| MessageRow {
            target: ids[2],
            verb,
            protocol: ids[5],
            witness: 42,
            witness_kind: WitnessKind::XRequestId,
            ..Default::default()
        };
        let mut anonymous = Anonymous::new();
        let mut said = Vec::new();
        let mut change = |event: Event| {
            anonymous.event(
                &event,
                |id| if id == StrId::EMPTY { "" } else { text(id) },
                |name| {
                    said.push(name.to_owned());
                    StrId(said.len() as u32)
                },
            )
        };
        let first = change(task.into());
        let (Event::Task(first), Event::Task(_)) = (first, change(task.into())) else { panic!("a task") };
        assert_eq!(first.tid, 7, "numbers stay");
        let (Event::Message(known), Event::Message(own)) =
            (change(message(ids[3]).into()), change(message(ids[4]).into()))
        else {
            panic!("messages")
        };
        assert!(known.witness != 42 && known.witness == own.witness);
        let said: Vec<&str> = said.iter().map(String::as_str).filter(|s| !s.is_empty()).collect();
        assert_eq!(
            said,
            ["program-1", "command-1", "program-1", "command-1"]
                .into_iter()
                .chain(["proto.http1", "GET", "target-1", "proto.http1", "verb-1", "target-1"])
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn addresses_become_others_and_stay_one() {
        let mut mapped = [0; 16];
        mapped[10..12].copy_from_slice(&[0xff; 2]);
        mapped[12..].copy_from_slice(&V4[..4]);
        let mut v6 = [0; 16];
        v6[..2].copy_from_slice(&[0x20, 0x01]);
        v6[15] = 1;
        let mut anonymous = Anonymous::new();
        let mut of = |family, laddr| {
            let row = EndpointRow { family, laddr, ..Default::default() };
            match anonymous.event(&row.into(), |_| "", |_| StrId::EMPTY) {
                Event::Endpoint(r) => r.laddr,
                _ => panic!("an endpoint"),
            }
        };
        let v4 = of(2, V4);
        assert_eq!(v4[..4], [10, 0, 0, 1]);
        assert_eq!(of(10, mapped)[12..], v4[..4], "the same host, seen through a socket of both families");
        assert!(of(10, v6)[0] == 0xfd && of(10, v6) == of(10, v6) && of(10, v6) != v6);
        let mut loopback = [0; 16];
        loopback[..4].copy_from_slice(&[127, 0, 0, 1]);
        assert_eq!((of(2, loopback), of(10, [0; 16])), (loopback, [0; 16]));
    }
}
