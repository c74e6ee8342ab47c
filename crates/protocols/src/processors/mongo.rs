//! MongoDB's wire protocol (mongodb.com/docs, "MongoDB Wire Protocol").
//!
//! ```text
//! > OP_MSG {find: "users", filter: …}        request, verb find, target the collection, witness its request id
//! < OP_MSG {cursor: …, ok: 1}                reply, ok; error with its number and name
//! ```
//!
//! Of a document only the top level is walked, and of that no value but the command's first word, `ok`, `code` and
//! `codeName`. The reply is told at its first field: where `ok` is not that one, its status is an amendment. What is
//! compressed is bordered and paired, but not read: verb COMPRESSED, marked as cut. Replies behind the first to one
//! request (exhaust cursors) and messages that ask for no reply are unsolicited.

use crate::bytes::{le16, le32, until_nul};
use crate::duplex::{BAD, Duplex, Fit, Framer, NONE, Stop, Unit, Wire};
use crate::registry::{About, Docs};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Dir, EndHow, Outcome, Role, Status, Text, Witness, mask};

/// Bytes kept of a field in each direction.
pub const HEAD: usize = 192;

/// The MongoDB processor.
pub type Mongo = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.mongo",
    ports: &[27017],
    recognise,
    vocabulary: Vocabulary {
        verb: Grammar::Words(List::of(WORDS)),
        target: Grammar::Path(List::of(WORDS)),
        class: Grammar::Words(List::of(WORDS)),
    },
    bytes_max: 768,
    docs: Docs {
        what: "MongoDB: OP_MSG, OP_QUERY; OP_COMPRESSED is not read",
        request: "a command",
        kept: "command, collection, error number and name",
        pairs: "request id",
    },
    ..About::NEW
};

/// Commands, what the processor says, and names of errors. Sorted.
#[rustfmt::skip]
const WORDS: &[&str] = &[
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

/// What of MongoDB is remembered between units.
pub struct Framing {
    sides: [Walk; 2],
    /// Request id of the last reply that said that more would come.
    exhaust: Option<u32>,
}

/// The message at hand, of which the document is walked.
struct Walk {
    /// Where it ends, or `NONE`: there is none.
    end: u64,
    start: u64,
    role: Role,
    witness: u32,
    told: bool,
    outcome: Outcome,
    /// The outcome that it was told with.
    said: Outcome,
    code: Option<u16>,
    name: Text<32>,
}

impl Walk {
    const NONE: Walk = Walk {
        end: NONE,
        start: NONE,
        role: Role::Request,
        witness: 0,
        told: false,
        outcome: Outcome::Unknown,
        said: Outcome::Unknown,
        code: None,
        name: Text::new(),
    };
}

const REPLY: u32 = 1;
const QUERY: u32 = 2004;
const GET_MORE: u32 = 2005;
const COMPRESSED: u32 = 2012;
const MSG: u32 = 2013;

/// Drivers watch a server by a greeting that it answers when something about it changes, or after ten seconds.
const AWAITS: &[&str] = &["hello", "isMaster", "ismaster"];

impl Framer for Framing {
    const NEW: Framing = Framing { sides: [Walk::NONE; 2], exhaust: None };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        if bytes.len() < 16 {
            return Fit::More;
        }
        let known = matches!(le32(bytes, 12), Some(REPLY | 2001..=2007 | COMPRESSED | MSG));
        // What answers request 0 has a 0 there too.
        let fits = known && (dir == Dir::ToClient || le32(bytes, 8) == Some(0));
        (fits && le32(bytes, 0).is_some_and(|length| (16..1 << 27).contains(&length))).into()
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let d = wire.dir.index();
        if self.sides[d].end != NONE {
            return self.field(wire, bytes, last);
        }
        let length = le32(bytes, 0).ok_or(Stop::Need)?;
        if !(16..1 << 28).contains(&length) {
            return Err(BAD);
        }
        let code = le32(bytes, 12).ok_or(Stop::Need)?;
        if code == MSG && length < 26 {
            return Err(BAD);
        }
        let (id, to) = (le32(bytes, 4).unwrap_or(0), le32(bytes, 8).unwrap_or(0));
        let total = u64::from(length);
        let replies = wire.dir == Dir::ToClient;
        let witness = if replies { to } else { id };
        self.sides[d] = Walk { end: wire.behind(total), start: wire.at, witness, ..Walk::NONE };
        let mut role = if replies { Role::Reply } else { Role::Request };
        let mut verb = "";
        let document = match code {
            MSG => {
                let (Some(flags), Some(kind)) = (le32(bytes, 16), bytes.get(20)) else {
                    self.sides[d] = Walk::NONE;
                    return Err(Stop::Need);
                };
                let more = flags & 2 != 0;
                if replies && self.exhaust == Some(to) {
                    role = Role::Unsolicited;
                } else if !replies && more {
                    role = Role::OneWay;
                }
                if replies && more {
                    self.exhaust = Some(id);
                }
                if *kind == 0 { Some(21) } else { None }
            }
            REPLY => Some(36),
            QUERY => {
                let name = bytes.get(20..).unwrap_or(&[]);
                let (collection, cut) = until_nul(name);
                if cut && bytes.len() < HEAD && !last && (bytes.len() as u64) < total {
                    self.sides[d] = Walk::NONE;
                    return Err(Stop::Need);
                }
                verb = "QUERY";
                (!cut && collection.ends_with(b".$cmd")).then_some(20 + collection.len() as u64 + 9)
            }
            _ => {
                verb = match code {
                    2001 => "UPDATE",
                    2002 => "INSERT",
                    2006 => "DELETE",
                    2007 => "KILL CURSORS",
                    GET_MORE => "GET MORE",
                    COMPRESSED => "COMPRESSED",
                    _ => "",
                };
                if verb.is_empty() {
                    self.sides[d] = Walk::NONE;
                    return Err(BAD);
                }
                if !matches!(code, GET_MORE | COMPRESSED) {
                    role = Role::OneWay;
                }
                None
            }
        };
        let walk = &mut self.sides[d];
        walk.role = role;
        // After the document's own length its first field.
        if let Some(at) = document.filter(|at| at + 5 <= total) {
            return Ok(at + 4);
        }
        walk.tell(wire, Attrs { verb, cut: verb == "COMPRESSED", ..Attrs::default() });
        self.finish(wire, total)
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        let walk = &mut self.sides[wire.dir.index()];
        if walk.end != NONE {
            walk.tell(wire, Attrs { cut: true, ..Attrs::default() });
        }
        *walk = Walk::NONE;
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.sides[wire.dir.index()] = Walk::NONE;
    }
}

impl Framing {
    /// The message ends with this unit of `length` bytes.
    fn finish(&mut self, wire: &mut Wire<'_>, length: u64) -> Unit {
        let walk = core::mem::replace(&mut self.sides[wire.dir.index()], Walk::NONE);
        if wire.dir == Dir::ToClient && (walk.outcome != walk.said || walk.code.is_some()) {
            wire.sink.amend(wire.dir, walk.start, walk.status());
        }
        wire.end_open(wire.dir, walk.end, EndHow::Framed);
        Ok(length)
    }

    /// One field of the document.
    fn field(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let walk = &mut self.sides[wire.dir.index()];
        let rest = walk.end - wire.at;
        let view = &bytes[..bytes.len().min(usize::try_from(rest).unwrap_or(usize::MAX))];
        let kind = view[0];
        let (name, cut) = until_nul(&view[1..]);
        if cut && kind != 0 && (view.len() as u64) < rest && !last {
            return Err(Stop::Need);
        }
        let value = 1 + name.len() + 1;
        // A document that ends, a name that does not, or a field that is none: the rest is passed over.
        let known = if cut || kind == 0 { None } else { size(kind, view, value) };
        let size = match known {
            Some(Some(size)) if value as u64 + size < rest => size, // behind the last one a zero follows
            Some(None) if (view.len() as u64) < rest && !last => return Err(Stop::Need),
            _ => {
                walk.tell(wire, Attrs { cut: true, ..Attrs::default() });
                return self.finish(wire, rest);
            }
        };
        let text = kind == 2 && (!walk.told || name == b"codeName");
        let wanted = value + size.min(if text { 96 } else { 8 }) as usize;
        if view.len() < wanted && !last {
            return Err(Stop::Need);
        }
        let known = &view[..view.len().min(value + size as usize)];
        let string = known.get(value + 4..).map_or(&[][..], |text| until_nul(text).0);
        if wire.dir == Dir::ToClient {
            walk.learn(name, kind, &known[value.min(known.len())..], string);
            if !walk.told {
                walk.said = walk.outcome;
                let status = Status { outcome: walk.outcome, ..Status::default() };
                walk.tell(wire, Attrs { status, ..Attrs::default() });
            }
        } else if !walk.told {
            let mut target = Text::<64>::new();
            let private = name.windows(4).any(|part| part.eq_ignore_ascii_case(b"user") || part == b"Role");
            if text && !private {
                mask::path(string, (size as usize) > string.len() + 5, &mut target);
            }
            let verb = if name.iter().all(u8::is_ascii_alphabetic) { Text::<16>::of(name) } else { Text::of(b"?") };
            let awaits = AWAITS.contains(&verb.as_str());
            walk.tell(wire, Attrs { verb: verb.as_str(), target: target.as_str(), awaits, ..Attrs::default() });
        }
        Ok(value as u64 + size)
    }
}

impl Walk {
    /// Emits the message, unless that was done.
    fn tell(&mut self, wire: &mut Wire<'_>, attrs: Attrs<'_>) {
        if !core::mem::replace(&mut self.told, true) {
            let witness = [Witness::Mongo(self.witness)];
            wire.message(self.role, (self.start, Border::Open), wire.at.max(self.start), attrs, &witness);
        }
    }

    fn learn(&mut self, name: &[u8], kind: u8, value: &[u8], text: &[u8]) {
        let zero = match kind {
            1 => value.get(..8).map(|double| double == [0; 8]),
            8 => value.first().map(|flag| *flag == 0),
            16 => le32(value, 0).map(|number| number == 0),
            _ => None,
        };
        match name {
            b"ok" => {
                self.outcome = match zero {
                    Some(true) => Outcome::Error,
                    Some(false) => Outcome::Ok,
                    None => Outcome::Unknown,
                }
            }
            b"code" if kind == 16 => self.code = le16(value, 0),
            b"codeName" if kind == 2 => self.name = Text::of(text),
            _ => {}
        }
    }

    fn status(&self) -> Status<'_> {
        match self.outcome {
            Outcome::Error => Status { outcome: Outcome::Error, code: self.code, class: self.name.as_str() },
            outcome => Status { outcome, ..Status::default() },
        }
    }
}

/// How long the value at `at` is; `Some(None)`: not to be seen yet; `None`: there is no such type (bsonspec.org).
fn size(kind: u8, view: &[u8], at: usize) -> Option<Option<u64>> {
    let long = |more: u64| le32(view, at).map(|length| u64::from(length) + more);
    Some(match kind {
        1 | 9 | 0x11 | 0x12 => Some(8),
        2 | 13 | 14 => long(4),
        3 | 4 | 15 => long(0),
        5 => long(5),
        6 | 10 | 0x7f | 0xff => Some(0),
        7 => Some(12),
        8 => Some(1),
        16 => Some(4),
        0x13 => Some(16),
        _ => return None,
    })
}

/// Whether a flow of which these are the first bytes is MongoDB: by the header of OP_MSG, OP_QUERY or OP_COMPRESSED.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    if bytes.len() < 16 {
        // The high byte of the length is zero, and the codes are below 2014.
        let zero = |at: usize| bytes.get(at).is_none_or(|&b| b == 0);
        return if zero(3) && zero(14) && bytes.len() > 3 { Fit::More } else { Fit::No };
    }
    let code = le32(bytes, 12).unwrap_or(0);
    let to = le32(bytes, 8).unwrap_or(0);
    let size = le32(bytes, 0).unwrap_or(0);
    // What answers request 0 says 0 too; but what asks says in which database.
    let asks = to == 0 && (dir == Dir::ToServer || bytes.windows(4).any(|part| part == b"$db\0"));
    let plausible = (16..48_000_000).contains(&size) && (dir == Dir::ToServer) == asks;
    Fit::from(plausible && matches!(code, QUERY | COMPRESSED | MSG)).and_sure()
}
