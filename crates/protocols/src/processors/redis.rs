//! Redis: RESP2 and RESP3 (redis.io, "Redis serialization protocol specification"), and inline commands.
//!
//! ```text
//! > *3 $3 SET $4 key1 $5 value         request, verb SET, target SET, 2 arguments; keys and values are never read
//! < +OK                                reply, ok
//! < -WRONGTYPE Operation against …     reply, error, class WRONGTYPE
//! < >3 $7 message …                    unsolicited, verb MESSAGE
//! ```
//!
//! The target names the subcommand of containers (`CONFIG GET`). A (UN)SUBSCRIBE is answered by its first
//! confirmation, further ones are unsolicited; so are a MONITOR's lines and everything after `CLIENT REPLY OFF`.
//! Not handled: streamed strings and aggregates (`$?`, `*?`), which no server sends.

use crate::bytes;
use crate::duplex::{BAD, Duplex, Fit, Framer, Stop, Unit, Wire};
use crate::registry::{About, Docs, RunsOn};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Defect, Dir, EndHow, Outcome, Role, Status, Text};

/// Bytes kept of a line in each direction.
pub const HEAD: usize = 128;

/// The Redis processor.
pub type Redis = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.redis",
    ports: &[6379],
    recognise,
    vocabulary: Vocabulary {
        verb: Grammar::Words(List::of(WORDS)),
        target: Grammar::Words(List::of(WORDS)),
        class: Grammar::Words(List::of(WORDS)),
    },
    runs_on: RunsOn::Plainly,
    bytes_max: 512,
    docs: Docs {
        what: "Redis, RESP2 and RESP3, inline commands",
        request: "a command",
        kept: "command and subcommand, error class; no keys, no values",
        pairs: "order on the connection",
    },
    ..About::NEW
};

/// Commands, subcommands and classes of errors. Sorted.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "?", "ACL", "ADDSLOTS", "ADDSLOTSRANGE", "APPEND", "ASK", "ASKING", "AUTH", "BGREWRITEAOF", "BGSAVE", "BITCOUNT",
    "BITFIELD", "BITFIELD_RO", "BITOP", "BITPOS", "BLMOVE", "BLMPOP", "BLPOP", "BRPOP", "BRPOPLPUSH", "BUMPEPOCH",
    "BUSY", "BUSYGROUP", "BUSYKEY", "BZMPOP", "BZPOPMAX", "BZPOPMIN", "CACHING", "CAT", "CHANNELS", "CLIENT",
    "CLUSTER", "CLUSTERDOWN", "COMMAND", "CONFIG", "CONSUMERS", "COPY", "COUNT", "COUNT-FAILURE-REPORTS",
    "COUNTKEYSINSLOT", "CREATE", "CREATECONSUMER", "CROSSSLOT", "DBSIZE", "DEBUG", "DECR", "DECRBY", "DEL",
    "DELCONSUMER", "DELETE", "DELSLOTS", "DELUSER", "DESTROY", "DISCARD", "DOCS", "DOCTOR", "DRYRUN", "DUMP", "ECHO",
    "ENCODING", "ERR", "EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "EXEC", "EXECABORT", "EXISTS", "EXPIRE",
    "EXPIREAT", "EXPIRETIME", "FAILOVER", "FCALL", "FCALL_RO", "FLUSH", "FLUSHALL", "FLUSHDB", "FLUSHSLOTS", "FORGET",
    "FREQ", "FUNCTION", "GENPASS", "GEOADD", "GEODIST", "GEOHASH", "GEOPOS", "GEORADIUS", "GEORADIUSBYMEMBER",
    "GEORADIUSBYMEMBER_RO", "GEORADIUS_RO", "GEOSEARCH", "GEOSEARCHSTORE", "GET", "GETBIT", "GETDEL", "GETEX",
    "GETKEYS", "GETKEYSANDFLAGS", "GETKEYSINSLOT", "GETNAME", "GETRANGE", "GETREDIR", "GETSET", "GETUSER", "GRAPH",
    "GROUPS", "HDEL", "HELLO", "HELP", "HEXISTS", "HEXPIRE", "HEXPIREAT", "HEXPIRETIME", "HGET", "HGETALL", "HGETDEL",
    "HGETEX", "HINCRBY", "HINCRBYFLOAT", "HISTOGRAM", "HISTORY", "HKEYS", "HLEN", "HMGET", "HMSET", "HPERSIST",
    "HPEXPIRE", "HPEXPIREAT", "HPTTL", "HRANDFIELD", "HSCAN", "HSET", "HSETEX", "HSETNX", "HSTRLEN", "HTTL", "HVALS",
    "ID", "IDLETIME", "INCR", "INCRBY", "INCRBYFLOAT", "INFO", "INPROG", "INVALIDATE", "INVALIDOBJ", "IOERR", "KEYS",
    "KEYSLOT", "KILL", "LASTSAVE", "LATENCY", "LATEST", "LCS", "LEN", "LINDEX", "LINKS", "LINSERT", "LIST", "LLEN",
    "LMOVE", "LMPOP", "LOAD", "LOADEX", "LOADING", "LOG", "LOLWUT", "LPOP", "LPOS", "LPUSH", "LPUSHX", "LRANGE",
    "LREM", "LSET", "LTRIM", "MALLOC-STATS", "MASTERDOWN", "MEET", "MEMORY", "MESSAGE", "MGET", "MIGRATE", "MISCONF",
    "MODULE", "MONITOR", "MOVE", "MOVED", "MSET", "MSETNX", "MULTI", "MYID", "MYSHARDID", "NO-EVICT", "NO-TOUCH",
    "NOAUTH", "NODES", "NOGOODSLAVE", "NOGROUP", "NOKEY", "NOMASTERLINK", "NOPERM", "NOPROTO", "NOREPLICAS",
    "NOSCRIPT", "NOTBUSY", "NOTREADY", "NUMPAT", "NUMSUB", "OBJECT", "OOM", "PAUSE", "PERSIST", "PEXPIRE",
    "PEXPIREAT", "PEXPIRETIME", "PFADD", "PFCOUNT", "PFDEBUG", "PFMERGE", "PFSELFTEST", "PING", "PMESSAGE", "PSETEX",
    "PSUBSCRIBE", "PSYNC", "PTTL", "PUBLISH", "PUBSUB", "PUNSUBSCRIBE", "PURGE", "QUIT", "RANDOMKEY", "READONLY",
    "READWRITE", "REFCOUNT", "RENAME", "RENAMENX", "REPLCONF", "REPLICAOF", "REPLICAS", "REPLICATE", "REPLY", "RESET",
    "RESETSTAT", "RESTORE", "RESTORE-ASKING", "REWRITE", "ROLE", "RPOP", "RPOPLPUSH", "RPUSH", "RPUSHX", "SADD",
    "SAVE", "SCAN", "SCARD", "SCRIPT", "SDIFF", "SDIFFSTORE", "SEGFAULT", "SELECT", "SENTINEL", "SET",
    "SET-CONFIG-EPOCH", "SETBIT", "SETEX", "SETID", "SETINFO", "SETNAME", "SETNX", "SETRANGE", "SETSLOT", "SETUSER",
    "SHARDCHANNELS", "SHARDNUMSUB", "SHARDS", "SHUTDOWN", "SINTER", "SINTERCARD", "SINTERSTORE", "SISMEMBER",
    "SLAVEOF", "SLAVES", "SLEEP", "SLOTS", "SLOWLOG", "SMEMBERS", "SMESSAGE", "SMISMEMBER", "SMOVE", "SORT",
    "SORT_RO", "SPOP", "SPUBLISH", "SRANDMEMBER", "SREM", "SSCAN", "SSUBSCRIBE", "STATS", "STREAM", "STRLEN",
    "SUBSCRIBE", "SUBSTR", "SUNION", "SUNIONSTORE", "SUNSUBSCRIBE", "SWAPDB", "SYNC", "TIME", "TOUCH", "TRACKING",
    "TRACKINGINFO", "TRYAGAIN", "TTL", "TYPE", "UNBLOCK", "UNBLOCKED", "UNKILLABLE", "UNLINK", "UNLOAD", "UNPAUSE",
    "UNSUBSCRIBE", "UNWATCH", "USAGE", "USERS", "WAIT", "WAITAOF", "WATCH", "WHOAMI", "WRONGPASS", "WRONGTYPE",
    "XACK", "XADD", "XAUTOCLAIM", "XCLAIM", "XDEL", "XGROUP", "XINFO", "XLEN", "XPENDING", "XRANGE", "XREAD",
    "XREADGROUP", "XREVRANGE", "XSETID", "XTRIM", "ZADD", "ZCARD", "ZCOUNT", "ZDIFF", "ZDIFFSTORE", "ZINCRBY",
    "ZINTER", "ZINTERCARD", "ZINTERSTORE", "ZLEXCOUNT", "ZMPOP", "ZMSCORE", "ZPOPMAX", "ZPOPMIN", "ZRANDMEMBER",
    "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZRANGESTORE", "ZRANK", "ZREM", "ZREMRANGEBYLEX", "ZREMRANGEBYRANK",
    "ZREMRANGEBYSCORE", "ZREVRANGE", "ZREVRANGEBYLEX", "ZREVRANGEBYSCORE", "ZREVRANK", "ZSCAN", "ZSCORE", "ZUNION",
    "ZUNIONSTORE",
];

/// What of Redis is remembered between units.
pub struct Framing {
    /// Values that are still to come of the message of each direction.
    left: [u64; 2],
    /// Inside a line of text that is longer than a head.
    long: [bool; 2],
    /// Arrays may be messages of a subscription (RESP2; in RESP3 they are pushed).
    listens: bool,
    /// Requests without a reply, as far as known.
    pending: u32,
    /// Requests may have been missed.
    unsure: bool,
    /// (Un)subscriptions that wait for their first confirmation.
    confirms: u32,
    monitor: bool,
    silence: Silence,
}

/// What `CLIENT REPLY` asked for.
#[derive(Clone, Copy, PartialEq)]
enum Silence {
    None,
    Off,
    Next,
}

impl Framer for Framing {
    const NEW: Framing = Framing {
        left: [0; 2],
        long: [false; 2],
        listens: false,
        pending: 0,
        unsure: false,
        confirms: 0,
        monitor: false,
        silence: Silence::None,
    };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match (dir, bytes) {
            (Dir::ToServer, [b'*']) => Fit::More,
            (Dir::ToServer, [b'*', digit, ..]) => digit.is_ascii_digit().into(),
            (Dir::ToServer, _) => bytes[0].is_ascii_alphabetic().into(),
            // A value may be an element of something that began before; only after a request it is a reply.
            (Dir::ToClient, _) => (bytes[0] == b'>' || (self.pending > 0 && TYPES.contains(&bytes[0]))).into(),
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let d = wire.dir.index();
        let line = bytes.iter().position(|&b| b == b'\n').map(|at| at + 1);
        if self.long[d] {
            let (length, cut) = bytes::line(bytes, last)?;
            self.ends(wire, self.left[d], length as u64, !cut);
            return Ok(length as u64);
        }
        match wire.dir {
            Dir::ToServer if self.left[0] == 0 && bytes[0] != b'*' => self.inline(wire, bytes, last),
            Dir::ToServer => self.request(wire, bytes, line.ok_or(Stop::Need)?),
            Dir::ToClient => self.reply(wire, bytes, line, last),
        }
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        self.unsure |= wire.dir == Dir::ToServer;
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.left[wire.dir.index()] = 0;
        self.long[wire.dir.index()] = false;
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        if wire.dir == Dir::ToServer && lost {
            (self.pending, self.confirms, self.unsure) = (0, 0, false);
        }
    }

    fn alone(&self, wire: &Wire<'_>) -> bool {
        let pushed = self.listens || self.monitor || self.unsure;
        wire.dir == Dir::ToClient && wire.is_open(wire.dir) && self.pending == 0 && !pushed
    }
}

impl Framing {
    /// `left` values follow this unit of `length` bytes, which is `whole` or the start of a long line.
    fn ends(&mut self, wire: &mut Wire<'_>, left: u64, length: u64, whole: bool) {
        (self.left[wire.dir.index()], self.long[wire.dir.index()]) = (left, !whole);
        if left == 0 && whole {
            wire.end_open(wire.dir, wire.behind(length), EndHow::Framed);
        }
    }

    fn request(&mut self, wire: &mut Wire<'_>, bytes: &[u8], line: usize) -> Unit {
        if self.left[0] > 0 {
            // An argument, of which nothing is wanted but its length.
            let length = bulk(bytes, line)?;
            self.ends(wire, self.left[0] - 1, length, true);
            return Ok(length);
        }
        let count = number(bytes, line)?;
        if count <= 0 {
            return Ok(line as u64); // an empty command gets no reply
        }
        let (verb, mut end) = name(bytes, line as u64)?;
        let mut left = count as u64 - 1;
        let mut target = Text::<40>::of(verb.bytes());
        if left > 0 && CONTAINERS.contains(&verb.as_str()) {
            let (sub, behind) = name(bytes, end)?;
            target.push(b' ');
            target.push_all(sub.bytes());
            (end, left) = (behind, left - 1);
        }
        // What CLIENT REPLY is given, and whether a replica says how far it is, stands in the argument, the only one that is looked at.
        let is_told = left > 0 && matches!(target.as_str(), "CLIENT REPLY" | "REPLCONF");
        let silence = if is_told { name(bytes, end)?.0 } else { Text::new() };
        let (args, queued) = (Some(u32::try_from(left).unwrap_or(u32::MAX)), QUEUES.contains(&verb.as_str()));
        let attrs = Attrs { args, queued, ..asks_for(verb.as_str(), target.as_str()) };
        self.left[0] = left;
        let border = if left == 0 { Border::Known(wire.behind(end)) } else { Border::Open };
        wire.message(self.asked(verb.as_str(), silence.as_str()), (wire.at, border), wire.behind(end), attrs, &[]);
        Ok(end)
    }

    fn inline(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let (length, cut) = bytes::line(bytes, last)?;
        self.long[0] = cut;
        let mut words = bytes[..length].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        // an empty line gets no reply
        let Some(name) = words.next() else { return Ok(length as u64) };
        let verb = verb(name);
        let role = self.asked(verb.as_str(), "");
        let attrs = Attrs { args: Some(words.count() as u32), cut, ..asks_for(verb.as_str(), verb.as_str()) };
        let border = if cut { Border::Open } else { Border::Known(wire.behind(length)) };
        wire.message(role, (wire.at, border), wire.behind(length), attrs, &[]);
        Ok(length as u64)
    }

    /// Remembers what the client asked for; the role of the request. `silence`: what CLIENT REPLY or REPLCONF is given.
    fn asked(&mut self, verb: &str, silence: &str) -> Role {
        let before = self.silence;
        self.silence = match (silence, before) {
            ("OFF", _) => Silence::Off,
            ("SKIP", Silence::None) => Silence::Next,
            ("ON", _) | (_, Silence::None | Silence::Next) => Silence::None,
            (_, Silence::Off) => Silence::Off,
        };
        if matches!(silence, "OFF" | "SKIP" | "ACK") || (silence != "ON" && before != Silence::None) {
            return Role::Unsolicited;
        }
        self.pending = self.pending.saturating_add(1);
        let subscribes = verb.ends_with("SUBSCRIBE");
        self.confirms = self.confirms.saturating_add(u32::from(subscribes));
        self.listens |= subscribes;
        self.monitor = (self.monitor || verb == "MONITOR") && !matches!(verb, "RESET" | "QUIT");
        Role::Request
    }

    fn reply(&mut self, wire: &mut Wire<'_>, bytes: &[u8], line: Option<usize>, last: bool) -> Unit {
        let (kind, whole) = (bytes[0], line.is_some());
        // A line of text may be long: of it only an error's class is wanted.
        let text = last && matches!(kind, b'+' | b'-' | b'(');
        let line = line.or(text.then_some(bytes.len())).ok_or(Stop::Need)?;
        let count = || Ok(number(bytes, line)?.max(0) as u64);
        let (length, values) = match kind {
            b'$' | b'!' | b'=' => (bulk(bytes, line)?, 0),
            b'*' | b'~' | b'>' => (line as u64, count()?),
            b'%' => (line as u64, count()? * 2),
            b'|' => (line as u64, count()? * 2 + 1), // they stand before the value that they belong to
            _ if TYPES.contains(&kind) => (line as u64, 0),
            _ => return Err(BAD),
        };
        let end = wire.behind(length);
        if self.left[1] > 0 {
            self.ends(wire, (self.left[1] - 1).saturating_add(values), length, whole);
            return Ok(length);
        }
        let mut event = Text::<16>::new();
        let listening = kind == b'>' || (kind == b'*' && (self.listens || self.pending == 0));
        if listening && values > 0 && *bytes.get(line).ok_or(Stop::Need)? == b'$' {
            event = name(bytes, line as u64)?.0;
        }
        self.long[1] = !whole;
        self.listens &= kind != b'>';
        self.left[1] = values;
        let role = self.role(kind, event.as_str(), bytes.get(1));
        let class = error_class(kind, &bytes[1..line]);
        let outcome = if matches!(kind, b'-' | b'!') { Outcome::Error } else { Outcome::Ok };
        let verb = if role == Role::Unsolicited { event.as_str() } else { "" };
        let attrs = Attrs::status(verb, Status { outcome, code: None, class: class.as_str() });
        let border = if values == 0 && whole { Border::Known(end) } else { Border::Open };
        wire.message(role, (wire.at, border), wire.behind(line), attrs, &[]);
        Ok(length)
    }

    fn role(&mut self, kind: u8, event: &str, second: Option<&u8>) -> Role {
        let confirmation = event.ends_with("SUBSCRIBE");
        let pushed = kind == b'>' || matches!(event, "MESSAGE" | "PMESSAGE" | "SMESSAGE");
        let watched = self.monitor && kind == b'+' && second.is_some_and(u8::is_ascii_digit);
        let confirms = confirmation && self.confirms > 0;
        if !confirms && (confirmation || pushed || watched || (self.pending == 0 && !self.unsure)) {
            return Role::Unsolicited;
        }
        self.confirms -= u32::from(confirms);
        self.pending = self.pending.saturating_sub(1);
        Role::Reply
    }
}

const TYPES: &[u8] = b"+-:$*_#,(!=%~>|";
/// What puts something where others may take it up: lists, streams, channels.
const QUEUES: &[&str] = &["LPUSH", "LPUSHX", "PUBLISH", "RPUSH", "RPUSHX", "SPUBLISH", "XADD"];

/// What waits for others to put something into a list, a set or a stream. Of a stream, only `BLOCK` among the arguments says so, which
/// are not read: without it the answer comes at once, and nothing is lost by not calling it slow.
const AWAITS: &[&str] =
    &["BLMOVE", "BLMPOP", "BLPOP", "BRPOP", "BRPOPLPUSH", "BZMPOP", "BZPOPMAX", "BZPOPMIN", "XREAD", "XREADGROUP"];

fn asks_for<'a>(verb: &'a str, target: &'a str) -> Attrs<'a> {
    Attrs { target, awaits: AWAITS.contains(&verb), subscribes: verb.ends_with("SUBSCRIBE"), ..Attrs::alone(verb) }
}

/// Commands whose first argument is part of the command.
const CONTAINERS: &[&str] = &[
    "ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DEBUG", "FUNCTION", "LATENCY", "MEMORY", "MODULE", "OBJECT",
    "PUBSUB", "SCRIPT", "SLOWLOG", "XGROUP", "XINFO",
];

/// The number in the line `bytes[..line]`, after its type.
fn number(bytes: &[u8], line: usize) -> Result<i64, Stop> {
    let text = bytes[1..line].strip_suffix(b"\r\n").ok_or(BAD)?;
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits == b"?" {
        return Err(Stop::Lost(Some(Defect::Unsupported)));
    }
    let value = bytes::decimal(digits).ok_or(BAD)? as i64;
    Ok(if negative { -value } else { value })
}

/// Length of the bulk string whose first line is `bytes[..line]`, with that line and the closing CRLF.
fn bulk(bytes: &[u8], line: usize) -> Result<u64, Stop> {
    if !matches!(bytes[0], b'$' | b'!' | b'=') {
        return Err(BAD);
    }
    Ok(match number(bytes, line)? {
        length @ 0.. => line as u64 + length as u64 + 2,
        _ => line as u64, // the null string of RESP2
    })
}

/// The bulk string at `at` as a name, and where it ends; `?` if it is too long to be one.
fn name(bytes: &[u8], at: u64) -> Result<(Text<16>, u64), Stop> {
    let start = usize::try_from(at).unwrap_or(usize::MAX);
    let line = start + bytes::line(bytes.get(start..).ok_or(Stop::Need)?, false)?.0;
    let end = at + bulk(&bytes[start..], line - start)?;
    if end - line as u64 > 34 {
        return Ok((verb(&[]), end));
    }
    let whole = bytes.get(line..end as usize).ok_or(Stop::Need)?;
    Ok((verb(whole.strip_suffix(b"\r\n").unwrap_or(&[])), end))
}

/// A command's name in capitals; `?` for what does not look like one, since it may be data.
fn verb(name: &[u8]) -> Text<16> {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let begins = name.first().is_some_and(u8::is_ascii_alphabetic);
    if begins && name.len() <= 16 && name.iter().all(plain) { Text::upper(name) } else { Text::of(b"?") }
}

/// The first word of an error; for a bulk error (`!`) the line holds only its length.
fn error_class(kind: u8, line: &[u8]) -> Text<16> {
    let word = line.split(u8::is_ascii_whitespace).next().unwrap_or(&[]);
    let plain = word.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_');
    if kind == b'-' && plain && word.len() < line.len() { Text::of(word) } else { Text::new() }
}

/// Whether a flow of which these are the first bytes is Redis: by a command as an array; on its usual port also by
/// an inline command or a reply.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    match (dir, bytes) {
        (Dir::ToServer, [b'*', rest @ ..]) => {
            let count = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            let behind = &rest[count..rest.len().min(count + 3)];
            match count {
                0 if rest.is_empty() => Fit::More,
                1..=9 if b"\r\n$".starts_with(behind) && behind.len() < 3 => Fit::More,
                1..=9 => Fit::from(behind == b"\r\n$").and_sure(),
                _ => Fit::No,
            }
        }
        _ if !usual => Fit::No,
        (Dir::ToServer, _) => bytes::command_fits(bytes, |word| WORDS.binary_search(&verb(word).as_str()).is_ok()),
        (Dir::ToClient, _) if TYPES.contains(&bytes[0]) => bytes::resp_fits(bytes),
        (Dir::ToClient, _) => Fit::No,
    }
}
