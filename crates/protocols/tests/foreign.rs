//! Bytes of other protocols, of encrypted streams and of chance: nothing is recognised in them, on no port.

use wakepath_protocols::{Dir, Likely, Protocol, Transport, Verdict, recognise};

/// Numbers without a pattern (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// One port that is nobody's, and each that is some protocol's.
fn ports() -> Vec<u16> {
    let usual = Protocol::ALL.iter().filter(|p| p.transport() == Transport::Stream).flat_map(|p| p.ports());
    std::iter::once(1234).chain(usual.copied()).collect()
}

/// What is recognised in a flow that says these things in turn, the client first or the server first; joined in mid-stream (so that
/// nobody knows who is who), or from its begin.
fn found(said: &[&[u8]]) -> Vec<String> {
    let mut found = Vec::new();
    for port in ports() {
        for first in [None, Some(Dir::ToServer), Some(Dir::ToClient)] {
            let (mut likely, mut dir) = (Likely::default(), first);
            for bytes in said {
                if let Verdict::Protocol(protocol, _) =
                    recognise(Transport::Stream, dir, bytes, (40_000, port), &mut likely)
                {
                    found.push(format!("{} on {port}: {:?}", protocol.id(), String::from_utf8_lossy(bytes)));
                }
                dir = dir.map(Dir::other);
            }
        }
    }
    found
}

#[test]
fn nothing_is_recognised_in_what_other_protocols_say() {
    let sccp = |id: u32, version: u32, body: &[u8]| {
        let length = body.len() as u32 + 4;
        [&length.to_le_bytes()[..], &version.to_le_bytes(), &id.to_le_bytes(), body].concat()
    };
    let cases: [(&str, Vec<Vec<u8>>); 9] = [
        // length (0x80 is also a magic), version, message id: all little-endian, and mostly zeros
        (
            "SCCP",
            vec![
                sccp(3, 0, &[1, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0]),
                sccp(0x8f, 0, &[0; 124]),
                sccp(0, 0, &[0; 124]),
                sccp(0x81, 0x11, &[0; 124]),
                [sccp(0x82, 0, &[1; 12]), sccp(0, 0, &[])].concat(),
            ],
        ),
        (
            "msnms",
            vec![
                b"VER 1 MSNP8 CVR0\r\n".to_vec(),
                b"CVR 2 0x0409 win 4.10 i386 MSNMSGR 5.0.0544 MSMSGS a@example.com\r\n".to_vec(),
                b"MSG 4 N 133\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=UTF-8\r\nX-MMS-IM-Format: FN=Arial; EF=; CO=0; CS=0; PF=22\r\n\r\nhello, how do you do?!".to_vec(),
                b"MSG a@example.com Ann 90\r\nMIME-Version: 1.0\r\nContent-Type: text/x-msmsgscontrol\r\nTypingUser: a@example.com\r\n\r\n\r\nMSG a@example.com Ann 20\r\n".to_vec(),
                b"ACK 4\r\n".to_vec(),
            ],
        ),
        (
            "SSH",
            vec![
                b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n".to_vec(),
                b"SSH-2.0-OpenSSH_9.7\r\n".to_vec(),
                [&[0, 0, 5, 0xdc, 7, 20][..], &[7; 200]].concat(),
            ],
        ),
        ("SMTP", ["220 mx ESMTP\r\n", "EHLO a.example\r\n", "250-mx\r\n250 HELP\r\n", "MAIL FROM:<a@b>\r\n", "250 OK\r\n"].map(|l| l.as_bytes().to_vec()).to_vec()),
        ("IRC", ["NICK ann\r\nUSER ann 0 * :Ann\r\n", ":irc NOTICE * :hello\r\n", "JOIN /x\r\n", ":ann JOIN #x\r\n"].map(|l| l.as_bytes().to_vec()).to_vec()),
        ("SIP", ["OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/TCP a\r\n\r\n", "SIP/2.0 200 OK\r\n\r\n"].map(|l| l.as_bytes().to_vec()).to_vec()),
        ("RTSP", ["OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n", "RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n", "PLAY /a RTSP/1.0\r\n\r\n"].map(|l| l.as_bytes().to_vec()).to_vec()),
        ("XMPP", ["<?xml version='1.0'?><stream:stream to='a'>", "<stream:features/>"].map(|l| l.as_bytes().to_vec()).to_vec()),
        // framed in two bytes of length, as over TCP (RFC 4571)
        ("RTP", (0..40).map(|n| [&[0, 172, 0x80, 0, 0, n, 0, 0, n, 160, 0, 0, 0, 9][..], &[0xd5; 160]].concat()).collect()),
    ];
    for (name, said) in &cases {
        let said: Vec<&[u8]> = said.iter().map(Vec::as_slice).collect();
        assert_eq!(found(&said), Vec::<String>::new(), "{name}");
        for cut in [1, 2, 5, 8, 12, 24] {
            let cut: Vec<&[u8]> = said.iter().map(|bytes| &bytes[..bytes.len().min(cut)]).collect();
            assert_eq!(found(&cut), Vec::<String>::new(), "{name} cut to {cut:?}");
        }
    }
}

#[test]
fn nothing_is_recognised_in_an_encrypted_stream() {
    let mut random = Random(26);
    for _ in 0..400 {
        // joined amid records, or where some begin; with each first byte that is somebody's magic
        let said: Vec<Vec<u8>> = (0..6)
            .map(|n| {
                let length = 20 + random.next() as usize % 400;
                let mut bytes = random.bytes(length);
                match random.next() % 4 {
                    0 => {
                        bytes[..5].copy_from_slice(&[23, 3, 3, ((length - 5) >> 8) as u8, (length - 5) as u8]);
                    }
                    1 => bytes[0] = [0x80, 0x81, 1, 0, b'*', b'Q', b'l', b'C'][n],
                    _ => {}
                }
                bytes
            })
            .collect();
        let said: Vec<&[u8]> = said.iter().map(Vec::as_slice).collect();
        assert_eq!(found(&said), Vec::<String>::new());
    }
}

#[test]
fn what_may_be_anything_is_known_by_its_answer() {
    let set = b"set key 0 0 100000\r\nxxxxxxxxxxxxxxxx";
    let mut likely = Likely::default();
    let ports = (40_000, 1234);
    let mut says = |dir, bytes: &[u8]| recognise(Transport::Stream, dir, bytes, ports, &mut likely);
    let known = Verdict::Protocol(Protocol::Memcached, Dir::ToClient);
    assert_eq!(says(Some(Dir::ToServer), set), Verdict::Unknown);
    assert_eq!(says(Some(Dir::ToClient), b"STORED\r\n"), known);
    assert_eq!(says(None, set), Verdict::Unknown);
    assert_eq!(says(None, b"220 hello\r\n"), Verdict::Unknown);
    assert_eq!(says(None, b"STORED\r\n"), Verdict::Unknown, "the message before it was none");
    assert_eq!(on_port(set, 11_211), Verdict::Protocol(Protocol::Memcached, Dir::ToServer));
    // the same on its usual port, where one message is enough
    for (bytes, port, protocol, dir) in [
        (&b"get key\r\n"[..], 11_211, Protocol::Memcached, Dir::ToServer),
        (b"PING\r\n", 6379, Protocol::Redis, Dir::ToServer),
        (b"+OK\r\n", 6379, Protocol::Redis, Dir::ToClient),
        (b"PING\r\n", 4222, Protocol::Nats, Dir::ToServer),
        (b"MSG a 1 1000\r\nxxxx", 4222, Protocol::Nats, Dir::ToClient),
    ] {
        assert_eq!(on_port(bytes, port), Verdict::Protocol(protocol, dir), "{port}");
        assert_eq!(on_port(bytes, 1234), Verdict::Unknown, "{port}");
    }
}

fn on_port(bytes: &[u8], port: u16) -> Verdict {
    recognise(Transport::Stream, None, bytes, (40_000, port), &mut Likely::default())
}

#[test]
fn what_a_proxy_says_of_its_client_is_no_protocol() {
    let text = b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n";
    let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\xdc\x04\x01\xbb";
    for header in [&text[..], binary] {
        for (protocol, first) in [
            (Protocol::Http1, &b"GET / HTTP/1.1\r\n"[..]),
            (Protocol::Tls, b"\x16\x03\x01\x02\x00\x01\x00\x01"),
            (Protocol::Redis, b"*1\r\n$4\r\nPING\r\n"),
        ] {
            let bytes = [header, first].concat();
            assert_eq!(on_port(&bytes, 1234), Verdict::Protocol(protocol, Dir::ToServer));
            for cut in 3..=header.len() {
                assert_eq!(on_port(&bytes[..cut], 1234), Verdict::NeedMore, "{cut}");
            }
        }
    }
}
