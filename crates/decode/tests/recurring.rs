//! What messages say, as it is written down: values never, words when they recur.

use proptest::prelude::*;
use wakepath_decode::recurring::{Asker, CLIENTS, Key, REQUESTS, Recurring, Said};
use wakepath_model::ids::StrId;
use wakepath_model::intern::Interner;
use wakepath_model::words::Words;
use wakepath_protocols::Protocol;
use wakepath_protocols::vocabulary::Attribute;

/// A recording's strings, and who asks.
struct Recording {
    recurring: Recurring,
    texts: Interner,
    start: u64,
    lost: Vec<&'static str>,
}

impl Recording {
    fn new() -> Recording {
        let recurring = Recurring::new(Key::new([7; 16]));
        Recording { recurring, texts: Interner::new(), start: 0, lost: Vec::new() }
    }

    /// One request of the client with this address, each on a connection of its own.
    fn ask(&mut self, protocol: Protocol, address: u64, verb: &str, target: &str) -> StrId {
        self.start += 100;
        let asker = Asker::of((99, 80), (address, self.start as u16));
        self.ask_as(protocol, asker, verb, target)
    }

    fn ask_as(&mut self, protocol: Protocol, asker: Asker, verb: &str, target: &str) -> StrId {
        let mut id = StrId::EMPTY;
        for (attribute, text) in [(Attribute::Verb, verb), (Attribute::Target, target)] {
            let said = Said { protocol, attribute, asker, start: self.start, counts: true };
            let (taken, lost) = self.recurring.take(text, &said, |t| self.texts.intern(t));
            id = taken;
            self.lost.extend(lost);
        }
        id
    }

    /// Several clients are there.
    fn others(&mut self, protocol: Protocol) {
        for client in 101..=104 {
            self.ask(protocol, client, "GET", "/");
        }
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        (0..self.texts.count()).filter_map(|i| std::str::from_utf8(self.texts.get(StrId(i as u32))?).ok())
    }

    fn words(&self) -> Words {
        let mut words = Words::default();
        for text in self.texts() {
            words.learn(text);
        }
        words
    }

    /// As a reader of all texts shows it.
    fn shown(&self, id: StrId) -> String {
        let text = std::str::from_utf8(self.texts.get(id).expect("an id")).expect("ASCII");
        self.words().show(text).into_owned()
    }

    fn lands(&self, secret: &str) -> bool {
        let secret = secret.to_ascii_lowercase();
        self.texts().any(|text| text.to_ascii_lowercase().contains(&secret))
    }
}

#[test]
fn a_word_of_several_clients_is_shown_in_earlier_requests_too() {
    let mut r = Recording::new();
    let ids: Vec<StrId> = (1..=4).map(|client| r.ask(Protocol::Http1, client, "GET", "/orders/{n}")).collect();
    let values = ["alice", "bob"].map(|name| r.ask(Protocol::Http1, 9, "GET", &format!("/orders/{name}")));
    assert!(ids.iter().all(|id| r.shown(*id) == "/orders/{n}"));
    assert!(values.iter().all(|id| r.shown(*id) == "/orders/{value}"));
    assert_eq!(ids[2], ids[3], "the text is one from then on");
    assert_eq!(CLIENTS, 3);
    assert!(!r.lands("alice") && !r.lands("bob") && r.lands("orders"));
}

#[test]
fn values_do_not_land_whoever_says_them() {
    let values = [
        "alice@example.org",
        "alice%40example.org",
        "+49-170-1234567",
        "555-123-4567",
        "0049.170.1234567",
        "d41d8cd98f00b204e9800998ecf8427e",
        "deadbeefdeadbeef",
        "5f3a9c00b1",
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.SflKxwRJSMeKKF2QT4fwpM",
        "aGVsbG8gd29ybGQhIHRva2Vu",
        "sk_live_9aZ3kQ7mX2pL5vT8",
        "QwErTyUiOpAsDfGhJkLz",
        "{=0000000000000001:x}",
        "{~0000000000000001}",
        "4111-1111-1111-1111",
        "AKIA1234567890ABCDEF",
    ];
    let mut r = Recording::new();
    for value in values {
        for client in 0..40 {
            let id = r.ask(Protocol::Http1, client, "GET", &format!("/{value}"));
            assert_eq!(r.shown(id), "/{value}", "{value}");
        }
    }
    let plain = [
        "orders",
        "getUserOrdersByCustomerIdentifier",
        "jquery-3.6.0.min.js",
        "v2",
        "pkg.v1.UserService",
        "wp-includes",
        ".well-known",
        "CustomerAddressHistory",
        "oauth2",
        "static-ish",
        "customer_address_history_2019",
        "index.html",
    ];
    for word in plain {
        let id = (0..40).map(|client| r.ask(Protocol::Http1, client, "GET", &format!("/{word}"))).last().expect("40");
        assert_eq!(r.shown(id), format!("/{word}"));
    }
}

/// Each protocol's way of taking a value for a name.
const SECRETS: [(Protocol, &str, &str); 10] = [
    (Protocol::Http1, "GET", "/reset/hunter"),
    (Protocol::Http1, "HUNTER", "/"),
    (Protocol::Http2, "POST", "/pkg.Login/hunter"),
    (Protocol::FastCgi, "GET", "/hunter.php"),
    (Protocol::Postgres, "SET", "SET ROLE hunter"),
    (Protocol::MySql, "HUNTER", "hunter ? ?"),
    (Protocol::Redis, "HUNTER", "HUNTER"),
    (Protocol::Mongo, "hunter", "hunter"),
    (Protocol::Amqp, "queue.declare", "reply.hunter"),
    (Protocol::DnsUdp, "A", "hunter.example.org"),
];

#[test]
fn one_clients_value_does_not_land_in_any_protocol() {
    for (protocol, verb, target) in SECRETS {
        let mut r = Recording::new();
        // others are there too, before and after
        r.others(protocol);
        for _ in 0..5 {
            r.ask(protocol, 5, verb, target);
        }
        r.others(protocol);
        assert!(!r.lands("hunter"), "{protocol:?}");
    }
}

#[test]
fn a_service_with_one_client_on_one_connection_has_readable_kinds() {
    let mut r = Recording::new();
    let asker = Asker::of((99, 80), (1, 40_000));
    let mut ids = Vec::new();
    for i in 0..u64::from(REQUESTS) * 3 {
        r.start += 1 + i;
        let target = ["/vote/{n}", "/results", "/health"][(i % 3) as usize];
        ids.push((r.ask_as(Protocol::Http1, asker, "GET", target), target));
    }
    assert!(ids.iter().all(|(id, target)| r.shown(*id) == *target), "earlier ones too");
}

#[test]
fn so_has_a_database_with_one_pool_for_each_program() {
    let mut r = Recording::new();
    let shape = |program: u64| format!("SELECT total FROM table_{program} WHERE id = ?");
    let mut last = Vec::new();
    for _ in 0..REQUESTS {
        last = (1..=4).map(|program| r.ask(Protocol::Postgres, program, "SELECT", &shape(program))).collect();
    }
    assert!((1..=4).zip(last).all(|(program, id)| r.shown(id) == shape(program)));
}

#[test]
fn very_many_values_leave_room_for_everything_else() {
    let mut r = Recording::new();
    for i in 0..150_000u32 {
        let name: String = i.to_string().bytes().map(|digit| char::from(digit + 49)).collect();
        r.ask(Protocol::Http1, 5, "GET", &format!("/user/{name}"));
    }
    assert!(r.texts.count() < 110_000 && r.texts.overflow_count() == 0, "{}", r.texts.count());
    assert!(r.lost.contains(&"words.full") && r.lost.contains(&"words.forgotten"));
    let last = r.ask(Protocol::Http1, 5, "GET", "/user/someone");
    assert_eq!(r.shown(last), "/user/{value}", "one kind, though the word before it recurs");
    let ids: Vec<StrId> = (1..=3).map(|client| r.ask(Protocol::Http1, client, "GET", "/late")).collect();
    assert_eq!(r.shown(ids[2]), "/late");
}

#[test]
fn another_key_gives_other_hashes() {
    let text = |key| {
        let (mut recurring, mut texts) = (Recurring::new(Key::new([key; 16])), Interner::new());
        let said = Said {
            protocol: Protocol::Http1,
            attribute: Attribute::Target,
            asker: Asker::default(),
            start: 0,
            counts: true,
        };
        let (id, _) = recurring.take("/a/b/a", &said, |t| texts.intern(t));
        String::from_utf8_lossy(texts.get(id).expect("an id")).into_owned()
    };
    assert_ne!(text(1), text(2));
    let one = text(1);
    assert_eq!((&one[1..20], one.len()), (&one[41..60], 60), "{one}: the same word has the same hash");
}

proptest! {
    /// Whatever is said: what is written shows nothing but structure, known words and words that recurred, and what a reader
    /// shows differs from the text in values alone.
    #[test]
    fn nothing_lands_that_did_not_recur(
        said in prop::collection::vec((0u64..6, "[a-z]{1,3}", prop::collection::vec("[a-zA-Z0-9._~{}=@-]{1,24}", 1..4)), 1..60)
    ) {
        let mut r = Recording::new();
        let mut by: std::collections::BTreeMap<String, std::collections::BTreeSet<u64>> = Default::default();
        let mut ids = Vec::new();
        // six clients, so that all services have several
        r.others(Protocol::Http1);
        for (client, first, rest) in &said {
            let words = [&[first.clone()][..], rest].concat();
            for word in &words {
                by.entry(word.clone()).or_default().insert(*client);
            }
            let target = format!("/{}", words.join("/"));
            ids.push((r.ask(Protocol::Http1, *client, "GET", &target), target));
        }
        for text in r.texts().filter(|t| t.starts_with('/')) {
            for segment in text.split('/').skip(1).filter(|s| !s.is_empty()) {
                let inner = segment.strip_prefix("{=").and_then(|s| s.strip_suffix('}'));
                if let Some((_, word)) = inner.and_then(|s| s.split_once(':')) {
                    prop_assert!(by[word].len() >= CLIENTS, "{word}");
                } else {
                    let is_hash = segment.len() == 19 && segment.starts_with("{~");
                    // `{n}`: what a number was masked as before, and what whoever says just that lands with
                    prop_assert!(is_hash || ["{value}", "*", "{n}"].contains(&segment), "{text}");
                }
            }
        }
        for (id, target) in ids {
            let shown = r.shown(id);
            prop_assert_eq!(shown.split('/').count(), target.split('/').count());
            let same = shown.split('/').zip(target.split('/')).all(|(a, b)| a == b || a == "{value}");
            prop_assert!(same, "{} as {}", target, shown);
        }
    }
}
