//! What words may be in an attribute, and which of them say nothing about anybody: the protocols' own.
//!
//! A processor's attributes hold structure and words. Which words are known beforehand is decided here, for all protocols;
//! whoever writes attributes down decides about all others (`docs/privacy.md`).

use crate::registry::Protocol;

/// An attribute of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// [`crate::Attrs::verb`].
    Verb,
    /// [`crate::Attrs::target`].
    Target,
    /// [`crate::Status::class`].
    Class,
}

/// A stretch of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'t> {
    /// Structure, a mask, or a word of the protocol's own.
    Known(&'t str),
    /// A word that somebody chose.
    Word(&'t str),
}

/// How an attribute is divided.
#[derive(Clone, Copy, PartialEq)]
enum Grammar {
    /// The processor chose it of a few constants.
    Constant,
    /// Words with blanks between them.
    Words,
    /// Segments with slashes between them, masks among them.
    Path,
    /// Labels with dots between them.
    Labels,
    /// The shape of an SQL statement.
    Statement,
}

/// Divides an attribute; the stretches put together again are `text`.
pub fn divide<'t>(protocol: Protocol, attribute: Attribute, text: &'t str, each: &mut dyn FnMut(Part<'t>)) {
    let (grammar, known) = rule(protocol, attribute);
    match grammar {
        Grammar::Constant => each(Part::Known(text)),
        Grammar::Words => between(text, ' ', each, |word, each| each(known.part(word))),
        Grammar::Labels => between(text, '.', each, |label, each| each(known.part(label))),
        Grammar::Path => between(text, '/', each, |segment, each| divide_segment(segment, known, each)),
        Grammar::Statement => divide_statement(text, known, each),
    }
}

/// Whether those who ask in this protocol are programs, as a rule: what they ask is the same for all their users.
pub fn is_among_programs(protocol: Protocol) -> bool {
    !matches!(
        protocol,
        Protocol::Http1 | Protocol::Http2 | Protocol::FastCgi | Protocol::DnsTcp | Protocol::DnsUdp | Protocol::Line
    )
}

/// Words that are known of a protocol, sorted; matched without regard to case where they are in lower case throughout.
#[derive(Clone, Copy)]
struct List {
    words: &'static [&'static str],
    folds: bool,
}

impl List {
    const NONE: List = List { words: &[], folds: false };

    fn contains(self, word: &str) -> bool {
        let fold = |b: u8| if self.folds { b.to_ascii_lowercase() } else { b };
        self.words.binary_search_by(|known| known.bytes().cmp(word.bytes().map(fold))).is_ok()
    }

    fn part(self, word: &str) -> Part<'_> {
        if word.is_empty() || self.contains(word) { Part::Known(word) } else { Part::Word(word) }
    }
}

fn rule(protocol: Protocol, attribute: Attribute) -> (Grammar, List) {
    use Attribute::{Class, Target, Verb};
    use Grammar::{Constant, Labels, Path, Statement, Words};
    let list = |words| List { words, folds: false };
    let folding = |words| List { words, folds: true };
    match (protocol, attribute) {
        (Protocol::Http1 | Protocol::Http2 | Protocol::FastCgi, Verb) => (Words, list(HTTP)),
        (Protocol::Http1 | Protocol::Http2 | Protocol::FastCgi, Target) => (Path, List::NONE),
        (Protocol::Postgres | Protocol::MySql, Verb | Target) => (Statement, folding(SQL)),
        (Protocol::Redis, _) => (Words, list(REDIS)),
        (Protocol::Memcached, _) => (Words, list(MEMCACHED)),
        (Protocol::Mongo, Verb | Class) => (Words, list(MONGO)),
        (Protocol::Mongo, Target) => (Path, list(MONGO)),
        (Protocol::Amqp | Protocol::Kafka, Target) => (Path, List::NONE),
        (Protocol::DnsTcp | Protocol::DnsUdp, Target) => (Labels, folding(DNS)),
        (Protocol::Line | Protocol::Oneshot, _) => (Words, list(&["?"])),
        // numbers' names, and SQLSTATE, which is checked for its form
        (Protocol::Http1 | Protocol::Http2 | Protocol::FastCgi | Protocol::Postgres | Protocol::MySql, Class)
        | (Protocol::Amqp | Protocol::Kafka | Protocol::DnsTcp | Protocol::DnsUdp, Verb | Class)
        | (Protocol::X11 | Protocol::Tls, _) => (Constant, List::NONE),
    }
}

/// Calls `piece` for what stands between separators, and `each` for the separators.
fn between<'t>(
    text: &'t str,
    separator: char,
    each: &mut dyn FnMut(Part<'t>),
    piece: impl Fn(&'t str, &mut dyn FnMut(Part<'t>)),
) {
    let mut at = 0;
    for one in text.split(separator) {
        if at > 0 {
            each(Part::Known(&text[at - 1..at]));
        }
        piece(one, each);
        at += one.len() + 1;
    }
}

/// A segment of a path template: a mask, a mask with what looked like an extension, or a word.
fn divide_segment<'t>(segment: &'t str, known: List, each: &mut dyn FnMut(Part<'t>)) {
    const MASKS: [&str; 3] = ["{n}", "{id}", "{authority}"];
    let behind = MASKS.iter().find_map(|mask| segment.strip_prefix(mask));
    match behind {
        Some("") => each(Part::Known(segment)),
        Some(extension) if extension.starts_with('.') => {
            let (mask, word) = segment.split_at(segment.len() - extension.len() + 1);
            each(Part::Known(mask));
            each(known.part(word));
        }
        _ if segment == "*" => each(Part::Known(segment)),
        _ => each(known.part(segment)),
    }
}

/// A statement's shape: names and keywords, with marks between them. A name in quotation marks is one word; so is what has the
/// form of a mail address or of a token, which no name has.
fn divide_statement<'t>(text: &'t str, known: List, each: &mut dyn FnMut(Part<'t>)) {
    let bytes = text.as_bytes();
    let is_letter = |b: u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'\\');
    let mut at = 0;
    while at < bytes.len() {
        let (first, start) = (bytes[at], at);
        let run = address_or_token(&bytes[at..]);
        if run > 0 {
            at += run;
            each(Part::Word(&text[start..at]));
        } else if is_letter(first) {
            let more = |b: &&u8| is_letter(**b) || b.is_ascii_digit() || **b == b'$';
            at += bytes[at..].iter().take_while(more).count();
            each(known.part(&text[start..at]));
        } else if matches!(first, b'"' | b'`') {
            let inner = bytes[at + 1..].iter().take_while(|b| **b != first).count();
            each(Part::Known(&text[at..at + 1]));
            if inner > 0 {
                each(Part::Word(&text[at + 1..at + 1 + inner]));
            }
            at = (at + 2 + inner).min(bytes.len());
            each(Part::Known(&text[(start + 1 + inner).min(at)..at]));
        } else {
            let plain = |b: &&u8| !is_letter(**b) && !matches!(**b, b'"' | b'`');
            at += bytes[at..].iter().take_while(plain).count();
            each(Part::Known(&text[start..at]));
        }
    }
}

/// Length of the mail address or JSON Web Token at the start of a text; 0 where it is none.
fn address_or_token(text: &[u8]) -> usize {
    if !text[0].is_ascii_alphanumeric() {
        return 0;
    }
    let within = |b: &&u8| b.is_ascii_alphanumeric() || matches!(**b, b'_' | b'.' | b'@' | b'-' | b'+');
    let run = text.iter().take_while(within).count();
    let is_either = text[..run].contains(&b'@') || text.starts_with(b"eyJ") && text[..run].contains(&b'.');
    if is_either { run } else { 0 }
}

/// Methods (RFC 9110 and the registry of IANA), and what the processor itself says.
#[rustfmt::skip]
const HTTP: &[&str] = &[
    "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "CONNECT", "COPY", "DELETE", "GET", "HEAD", "LABEL",
    "LINK", "LOCK", "M-SEARCH", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE",
    "NOTIFY", "OPAQUE", "OPTIONS", "ORDERPATCH", "PATCH", "POST", "PRI", "PROPFIND", "PROPPATCH", "PURGE", "PUT",
    "QUERY", "REBIND", "REPORT", "SEARCH", "SUBSCRIBE", "TRACE", "UNBIND", "UNCHECKOUT", "UNLINK", "UNLOCK",
    "UNSUBSCRIBE", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
];

/// Keywords, types, common functions and settings of PostgreSQL and MySQL, and what the processors say.
#[rustfmt::skip]
const SQL: &[&str] = &[
    "abort", "above", "abs", "absolute", "access", "action", "add", "admin", "after", "age", "aggregate", "algorithm",
    "all", "alter", "always", "analyse", "analyze", "and", "any", "application_name", "array", "array_agg",
    "array_length", "as", "asc", "asensitive", "assertion", "asymmetric", "at", "atomic", "attach", "attribute",
    "auth", "authorization", "auto_increment", "autocommit", "avg", "backward", "basedir", "batch", "before", "begin",
    "between", "bigint", "binary", "bind", "binlog", "bit", "bit_and", "bit_or", "blob", "bool", "bool_and",
    "bool_or", "boolean", "both", "brin", "btree", "btrim", "by", "bytea", "cache", "call", "called", "cancel",
    "cascade", "cascaded", "case", "cast", "catalog", "ceil", "ceiling", "chain", "change", "char", "char_length",
    "character", "character_length", "character_set_client", "character_set_connection", "character_set_results",
    "characteristics", "charset", "check", "checkpoint", "class", "client_encoding", "client_min_messages", "close",
    "cluster", "coalesce", "collate", "collation", "column", "columns", "comment", "commit", "committed",
    "compression", "concat", "concat_ws", "concurrently", "configuration", "conflict", "connect", "connection",
    "constraint", "constraints", "content", "continue", "convert", "copy", "cost", "count", "crc32", "create",
    "cross", "csv", "cube", "curdate", "current", "current_catalog", "current_date", "current_role", "current_schema",
    "current_setting", "current_time", "current_timestamp", "current_user", "cursor", "curtime", "cycle", "daemon",
    "data", "database", "databases", "date", "date_add", "date_format", "date_part", "date_sub", "date_trunc",
    "datediff", "datestyle", "datetime", "day", "dayofweek", "db", "deallocate", "debug", "dec", "decimal", "declare",
    "default", "defaults", "deferrable", "deferred", "definer", "delayed", "delete", "delimiter", "delimiters",
    "dense_rank", "depends", "desc", "describe", "detach", "deterministic", "dictionary", "disable", "discard",
    "distinct", "distinctrow", "div", "do", "document", "domain", "double", "drop", "dump", "duplicate", "each",
    "else", "elseif", "enable", "enclosed", "encoding", "encrypted", "end", "engine", "enum", "escape", "escaped",
    "event", "every", "exchange", "exclude", "excluding", "exclusive", "execute", "exists", "exit", "exp", "explain",
    "expression", "extension", "external", "extra_float_digits", "extract", "false", "family", "fetch", "field",
    "fields", "filter", "finalize", "first", "float", "floor", "flush", "following", "for", "force", "foreign",
    "format", "forward", "found", "freeze", "from", "from_unixtime", "full", "fulltext", "function", "functions",
    "gen_random_uuid", "generate_series", "generated", "get_lock", "gin", "gist", "global", "grant", "granted",
    "greatest", "greeting", "group", "group_concat", "grouping", "groups", "gssencrequest", "handler", "hash",
    "having", "hbtree", "header", "hex", "high_priority", "hold", "hour", "identified", "identity",
    "idle_in_transaction_session_timeout", "if", "ifnull", "ignore", "ilike", "immediate", "immutable", "implicit",
    "import", "in", "include", "including", "increment", "index", "indexes", "infile", "info", "information_schema",
    "inherit", "inherits", "init", "initially", "inline", "inner", "innodb", "inout", "input", "insensitive",
    "insert", "instead", "instr", "int", "int2", "int4", "int8", "integer", "intersect", "interval", "into",
    "invoker", "is", "isnull", "isolation", "join", "json", "json_agg", "json_array", "json_build_object",
    "json_extract", "json_object", "json_table", "jsonb", "jsonb_agg", "jsonb_build_object", "key", "keys", "kill",
    "label", "lag", "language", "large", "last", "last_insert_id", "lastval", "lateral", "latin1", "lead", "leading",
    "leakproof", "least", "leave", "left", "length", "level", "like", "limit", "linear", "lines", "list", "listen",
    "ln", "load", "local", "localtime", "localtimestamp", "location", "lock", "lock_timeout", "locked", "log",
    "logged", "login", "long", "longblob", "longtext", "loop", "low_priority", "lower", "lpad", "ltrim", "mapping",
    "master", "match", "matched", "materialized", "max", "max_allowed_packet", "maxvalue", "md5", "mediumblob",
    "mediumint", "mediumtext", "memory", "merge", "method", "min", "minute", "minvalue", "mod", "mode", "modify",
    "month", "move", "names", "national", "natural", "nchar", "new", "next", "nextval", "no", "none", "normalize",
    "not", "nothing", "notice", "notification", "notify", "notnull", "now", "nowait", "ntile", "null", "nullif",
    "nulls", "numeric", "object", "octet_length", "of", "off", "offset", "oids", "old", "on", "only", "open",
    "operator", "optimize", "option", "options", "or", "order", "ordinality", "others", "out", "outer", "outfile",
    "over", "overlaps", "overlay", "overriding", "owned", "owner", "parallel", "parameter", "parameters", "parse",
    "parser", "partial", "partition", "partitions", "passing", "password", "percentile_cont", "persistent",
    "pg_advisory_lock", "pg_advisory_unlock", "pg_advisory_xact_lock", "pg_attribute", "pg_blocking_pids",
    "pg_catalog", "pg_class", "pg_constraint", "pg_database", "pg_index", "pg_namespace", "pg_notify", "pg_proc",
    "pg_sleep", "pg_stat_activity", "pg_stat_statements", "pg_try_advisory_lock", "pg_type", "pi", "ping", "placing",
    "plan", "plans", "point", "policy", "position", "pow", "power", "preceding", "precision", "prepare", "prepared",
    "preserve", "primary", "prior", "privileges", "procedural", "procedure", "procedures", "process", "processlist",
    "program", "publication", "purge", "query", "quick", "quit", "quote", "rand", "random", "range", "rank", "read",
    "real", "reassign", "recheck", "recursive", "ref", "references", "referencing", "refresh", "regclass", "regexp",
    "regexp_replace", "register", "reindex", "relative", "release", "release_lock", "reload", "rename", "repair",
    "repeat", "repeatable", "replace", "replica", "replication", "require", "reset", "reset_connection", "restart",
    "restrict", "return", "returning", "returns", "reverse", "revoke", "right", "rlike", "role", "rollback", "rollup",
    "round", "routine", "row", "row_count", "row_number", "rows", "rpad", "rtrim", "rule", "savepoint", "schema",
    "schemas", "scroll", "search", "search_path", "second", "security", "select", "send", "sequence", "sequences",
    "serial", "serializable", "server", "session", "session_user", "set", "set_config", "setof", "sets", "setval",
    "sha1", "sha2", "share", "show", "shutdown", "sign", "signed", "similar", "simple", "skip", "slave", "sleep",
    "smallint", "smallserial", "snapshot", "some", "spatial", "split_part", "sql", "sql_mode", "sqrt", "sslrequest",
    "stable", "standalone", "standard_conforming_strings", "start", "starting", "startup", "statement",
    "statement_timeout", "statistics", "status", "stddev", "stdin", "stdout", "stmt", "storage", "stored",
    "str_to_date", "straight_join", "strict", "string_agg", "strip", "strpos", "subscription", "substring", "sum",
    "support", "symmetric", "sync", "sysid", "system", "table", "tables", "tablesample", "tablespace", "temp",
    "temporary", "terminate", "terminated", "text", "then", "ties", "time", "time_zone", "timestamp", "timestampdiff",
    "timestamptz", "timetz", "timezone", "tinyblob", "tinyint", "tinytext", "to", "to_char", "to_date", "to_json",
    "to_number", "to_timestamp", "to_tsquery", "to_tsvector", "trailing", "transaction", "transaction_isolation",
    "transform", "translate", "treat", "trigger", "trim", "true", "truncate", "trusted", "tx_isolation", "type",
    "types", "unbounded", "uncommitted", "undo", "unencrypted", "union", "unique", "unix_timestamp", "unknown",
    "unlisten", "unlock", "unlogged", "unnest", "unsigned", "until", "update", "upper", "usage", "use", "user",
    "using", "utc_date", "utc_time", "utc_timestamp", "utf8", "utf8mb4", "utf8mb4_general_ci", "uuid", "vacuum",
    "valid", "validate", "validator", "value", "values", "varbinary", "varbit", "varchar", "variables", "variadic",
    "variance", "varying", "verbose", "version", "view", "views", "virtual", "volatile", "wait_timeout", "warnings",
    "week", "when", "where", "while", "window", "with", "within", "without", "work", "wrapper", "write", "xml", "xor",
    "year", "year_month", "zerofill", "zone",
];

/// Commands, subcommands and classes of errors.
#[rustfmt::skip]
const REDIS: &[&str] = &[
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

/// Commands and errors.
#[rustfmt::skip]
const MEMCACHED: &[&str] = &[
    "?", "ADD", "ADDQ", "APPEND", "APPENDQ", "AUTH", "AUTH_ERROR", "CACHE_MEMLIMIT", "CAS", "CLIENT_ERROR", "DECR",
    "DECREMENT", "DECREMENTQ", "DELETE", "DELETEQ", "ERROR", "EXISTS", "FLUSH", "FLUSHQ", "FLUSH_ALL", "GAT", "GATK",
    "GATKQ", "GATQ", "GATS", "GET", "GETK", "GETKQ", "GETQ", "GETS", "INCR", "INCREMENT", "INCREMENTQ", "INVALID",
    "LIST", "LRU", "LRU_CRAWLER", "MA", "MD", "ME", "MG", "MN", "MS", "NON_NUMERIC", "NOOP", "NOT_FOUND",
    "NOT_STORED", "OTHER", "OUT_OF_MEMORY", "PREPEND", "PREPENDQ", "QUIT", "QUITQ", "REPLACE", "REPLACEQ", "SASL",
    "SERVER_ERROR", "SET", "SETQ", "SHUTDOWN", "SLABS", "STAT", "STATS", "STEP", "TOO_LARGE", "TOUCH",
    "UNKNOWN_COMMAND", "VERBOSITY", "VERSION", "WATCH",
];

/// Commands, what the processor says, and names of errors.
#[rustfmt::skip]
const MONGO: &[&str] = &[
    "$cmd", "?", "AlreadyInitialized", "AuthSchemaIncompatible", "AuthenticationFailed", "BadValue", "COMPRESSED",
    "CURSORS", "CallbackCanceled", "CannotBackfillArray", "CannotCreateIndex", "CannotMutateObject",
    "CannotReuseObject", "CommandNotFound", "CommandResultSchemaViolation", "ConflictingUpdateOperators",
    "CursorNotFound", "DELETE", "DocumentValidationFailure", "DollarPrefixedFieldName", "DottedFieldName",
    "DuplicateKey", "EmptyArrayOperation", "EmptyFieldName", "ExceededTimeLimit", "FailedToParse", "FileAlreadyOpen",
    "FileNotOpen", "FileRenameFailed", "FileStreamFailed", "GET", "GraphContainsCycle", "HostNotFound",
    "HostUnreachable", "INSERT", "IllegalOperation", "ImmutableField", "IndexAlreadyExists", "IndexKeySpecsConflict",
    "IndexNotFound", "IndexOptionsConflict", "InternalError", "Interrupted", "InterruptedAtShutdown",
    "InterruptedDueToReplStateChange", "InvalidBSON", "InvalidDBRef", "InvalidIdField", "InvalidLength",
    "InvalidNamespace", "InvalidOptions", "InvalidPath", "InvalidRoleModification", "KILL", "LockBusy", "LockTimeout",
    "LogWriteFailed", "MORE", "ManualInterventionRequired", "MaxTimeMSExpired", "MultipleErrorsOccurred",
    "NamespaceExists", "NamespaceNotFound", "NetworkTimeout", "NoMatchingDocument", "NoReplicationEnabled",
    "NoSuchKey", "NoSuchTransaction", "NodeNotFound", "NonExistentPath", "NotPrimaryNoSecondaryOk",
    "NotPrimaryOrSecondary", "NotSecondary", "NotSingleValueField", "NotWritablePrimary", "NotYetInitialized",
    "OperationFailed", "OperationIncomplete", "OplogOperationUnsupported", "Overflow", "PathNotViable",
    "PrimarySteppedDown", "PrivilegeNotFound", "ProtocolError", "QUERY", "QueryPlanKilled", "REPLY",
    "RemoteChangeDetected", "RemoteValidationError", "ReplicaSetNotFound", "RoleDataInconsistent",
    "RoleModificationFailed", "RoleNotFound", "RolesNotRelated", "ShardKeyNotFound", "ShardNotFound",
    "ShutdownInProgress", "StaleShardVersion", "TransactionTooOld", "TypeMismatch", "UPDATE", "Unauthorized",
    "UnknownError", "UnknownReplWriteConcern", "UnsupportedFormat", "UserDataInconsistent", "UserModificationFailed",
    "UserNotFound", "WriteConcernFailed", "WriteConcernLegacyOK", "WriteConflict", "abortTransaction", "aggregate",
    "applyOps", "authenticate", "balancerStart", "balancerStatus", "balancerStop", "buildInfo", "buildinfo",
    "bulkWrite", "collMod", "collStats", "commitTransaction", "compact", "connPoolStats", "connectionStatus",
    "convertToCapped", "count", "create", "createIndexes", "createRole", "createUser", "currentOp", "dataSize",
    "dbHash", "dbStats", "dbstats", "delete", "distinct", "drop", "dropAllRolesFromDatabase",
    "dropAllUsersFromDatabase", "dropConnections", "dropDatabase", "dropIndexes", "dropRole", "dropUser",
    "enableSharding", "endSessions", "explain", "filemd5", "find", "findAndModify", "findandmodify", "fsync",
    "fsyncUnlock", "geoSearch", "getCmdLineOpts", "getDefaultRWConcern", "getLastError", "getLog", "getMore",
    "getParameter", "getShardMap", "getlasterror", "getnonce", "grantPrivilegesToRole", "grantRolesToRole",
    "grantRolesToUser", "hello", "hostInfo", "insert", "invalidateUserCache", "isMaster", "isdbgrid", "ismaster",
    "killAllSessions", "killAllSessionsByPattern", "killCursors", "killOp", "killSessions", "listCollections",
    "listCommands", "listDatabases", "listIndexes", "listShards", "lockInfo", "logRotate", "logout", "mapReduce",
    "mapreduce", "moveChunk", "moveCollection", "moveRange", "netstat", "ping", "planCacheClear", "profile",
    "reIndex", "refreshSessions", "removeShard", "renameCollection", "replSetAbortPrimaryCatchUp", "replSetFreeze",
    "replSetGetConfig", "replSetGetStatus", "replSetHeartbeat", "replSetInitiate", "replSetMaintenance",
    "replSetReconfig", "replSetRequestVotes", "replSetResizeOplog", "replSetStepDown", "replSetSyncFrom",
    "replSetUpdatePosition", "resetError", "reshardCollection", "revokePrivilegesFromRole", "revokeRolesFromRole",
    "revokeRolesFromUser", "rolesInfo", "saslContinue", "saslStart", "serverStatus", "setDefaultRWConcern",
    "setFeatureCompatibilityVersion", "setIndexCommitQuorum", "setParameter", "setShardVersion", "shardCollection",
    "shardingState", "shutdown", "split", "splitVector", "startSession", "top", "update", "updateRole", "updateUser",
    "updateZoneKeyRange", "usersInfo", "validate", "waitForFailPoint", "whatsmyuri",
];

/// Labels that name no one.
#[rustfmt::skip]
const DNS: &[&str] = &[
    "_dmarc", "_domainkey", "_http", "_https", "_srv", "_tcp", "_udp", "app", "arpa", "cloud", "cluster", "co", "com",
    "de", "dev", "edu", "eu", "example", "fr", "gov", "home", "in-addr", "int", "internal", "intra", "invalid", "io",
    "ip6", "lan", "local", "localdomain", "localhost", "mil", "net", "org", "svc", "test", "uk", "us", "www",
];

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;
    use std::string::String;

    /// The text with brackets around its words.
    fn divided(protocol: Protocol, attribute: Attribute, text: &str) -> String {
        let (mut out, mut again) = (String::new(), String::new());
        divide(protocol, attribute, text, &mut |part| match part {
            Part::Known(known) => {
                out.push_str(known);
                again.push_str(known);
            }
            Part::Word(word) => {
                out.push_str(&format!("[{word}]"));
                again.push_str(word);
            }
        });
        assert_eq!(again, text, "nothing is left out");
        out
    }

    #[test]
    fn lists_are_sorted_and_hold_each_word_once() {
        for (name, list) in
            [("HTTP", HTTP), ("SQL", SQL), ("REDIS", REDIS), ("MEMCACHED", MEMCACHED), ("MONGO", MONGO), ("DNS", DNS)]
        {
            for pair in list.windows(2) {
                assert!(pair[0] < pair[1], "{name}: {} before {}", pair[0], pair[1]);
            }
        }
        assert!(SQL.iter().chain(DNS).all(|w| w.bytes().all(|b| !b.is_ascii_uppercase())), "lists that fold case");
    }

    #[test]
    fn words_of_the_protocol_are_known_and_all_others_are_words() {
        use Attribute::{Class, Target, Verb};
        let cases = [
            (Protocol::Http1, Verb, "GET", "GET"),
            (Protocol::Http1, Verb, "ALICE", "[ALICE]"),
            (Protocol::Http1, Verb, "", ""),
            (Protocol::Http2, Target, "/user/alice", "/[user]/[alice]"),
            (Protocol::FastCgi, Target, "/", "/"),
            (Protocol::Http1, Target, "*", "*"),
            (Protocol::Http1, Target, "/a//{n}.smith/{id}/{n}", "/[a]//{n}.[smith]/{id}/{n}"),
            (Protocol::Http1, Target, "/{nobody}/{n}x", "/[{nobody}]/[{n}x]"),
            (Protocol::Http1, Target, "{authority}", "{authority}"),
            (
                Protocol::Postgres,
                Target,
                "SELECT a.b FROM t1 WHERE x = ? AND y IN (?+)",
                "SELECT [a].[b] FROM [t1] WHERE [x] = ? AND [y] IN (?+)",
            ),
            (Protocol::Postgres, Target, "EXECUTE <prepared>", "EXECUTE <prepared>"),
            (Protocol::Postgres, Target, "select $1, \"My Name\", \"cut", "select $1, \"[My Name]\", \"[cut]"),
            (Protocol::MySql, Target, "set x\\xc3\\xa9 = `` + `a`;", "set [x\\xc3\\xa9] = `` + `[a]`;"),
            (
                Protocol::MySql,
                Target,
                "set role ann.lee@corp.example, @a.b",
                "set role [ann.lee@corp.example], @[a].[b]",
            ),
            (Protocol::Postgres, Target, "listen eyJhb.eyJz.c2ln; a-b", "listen [eyJhb.eyJz.c2ln]; [a]-[b]"),
            (Protocol::MySql, Verb, "LONG DATA", "LONG DATA"),
            (Protocol::Postgres, Class, "40P01", "40P01"),
            (Protocol::Redis, Target, "CONFIG GET", "CONFIG GET"),
            (Protocol::Redis, Verb, "HUNTER2", "[HUNTER2]"),
            (Protocol::Redis, Class, "WRONGTYPE", "WRONGTYPE"),
            (Protocol::Mongo, Verb, "find", "find"),
            (Protocol::Mongo, Verb, "hunter", "[hunter]"),
            (Protocol::Mongo, Target, "people", "[people]"),
            (Protocol::Memcached, Verb, "FLUSH_ALL", "FLUSH_ALL"),
            (Protocol::DnsUdp, Target, "alice.Example.COM", "[alice].Example.COM"),
            (Protocol::Kafka, Target, "orders.v1", "[orders.v1]"),
            (Protocol::Amqp, Verb, "basic.publish", "basic.publish"),
            (Protocol::X11, Target, "GetGeometry", "GetGeometry"),
        ];
        for (protocol, attribute, text, expected) in cases {
            assert_eq!(divided(protocol, attribute, text), expected, "{protocol:?} {attribute:?}");
        }
    }
}
