//! The questions: a path each, its parameters, and the command that answers it. `docs/openapi.json` is made of this table.

use crate::downloads;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Longest value of a parameter (bytes). Kinds of hostile recordings may be long.
pub const VALUE_MAX: usize = 1 << 15;

/// What a parameter becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// `--NAME=VALUE`.
    Option,
    /// `--NAME` where the value is `true`.
    Flag,
    /// The request after the folders: hexadecimal digits or `slowest`.
    Request,
    /// In place of all folders one, by its number from 0.
    Of,
    /// `--NAME` and one of the folders, by its number from 0.
    Folder,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, which is the option's.
    pub name: &'static str,
    /// What it becomes.
    pub how: How,
    /// May be given several times.
    pub repeats: bool,
    /// What it is, for people.
    pub about: &'static str,
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Path below `/api/`.
    pub path: &'static str,
    /// What it answers, for people.
    pub about: &'static str,
    /// The command and the options that it always has, `--json` aside.
    pub command: &'static [&'static str],
    /// Its schema in `docs/schemas`.
    pub schema: &'static str,
    /// What may be given.
    pub parameters: &'static [Parameter],
}

pub(crate) const fn option(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, how: How::Option, repeats: false, about }
}

pub(crate) const KIND: Parameter = option("kind", "A kind of request, as `requests` names it.");
pub(crate) const FROM: Parameter =
    option("from", "Begin: RFC 3339, +12.5s from the start, -5m before the end, or ns since 1970.");
const TO: Parameter = option("to", "End, in the same forms.");
pub(crate) const LONGER: Parameter = option("longer-than", "At least so long, as 20ms.");
pub(crate) const SHORTER: Parameter = option("shorter-than", "Less long, as 50ms.");
pub(crate) const SERVICE: Parameter =
    option("service", "Known to pass through this service, as `requests --map` names it.");
pub(crate) const CALLS: Parameter = option("calls", "With a service: which is known to call this one.");
pub(crate) const WITH: Parameter = Parameter {
    repeats: true,
    ..option(
        "with",
        "With this value, as reply=500: kind, outcome, reply, client, service, call, process, host, cause; may be repeated.",
    )
};
const LIMIT: Parameter = option("limit", "At most so many; 0 = all.");
pub(crate) const OF: Parameter = Parameter { how: How::Of, ..option("of", "Only of this folder: its number, from 0.") };
const AGAINST: Parameter =
    Parameter { how: How::Folder, ..option("against", "Compared with this folder: its number, from 0.") };
const AGAINST_FROM: Parameter = option("against-from", "Begin of the period to compare with, in the forms of `from`.");
const AGAINST_TO: Parameter = option("against-to", "End of the period to compare with.");
pub(crate) const REQUEST: Parameter = option("request", "Id of a request or its first digits, or `slowest`.");

/// All questions.
pub const QUESTIONS: &[Question] = &[
    Question {
        path: "triage",
        about: "Where to begin: what is slow, fails, hangs and limits.",
        command: &["triage"],
        schema: "triage",
        parameters: &[option("within", "Most time taken, as 30s; parts that are late are left out.")],
    },
    Question {
        path: "brief",
        about: "What the folders hold in short, without reading it.",
        command: &["info", "--brief"],
        schema: "brief",
        parameters: &[],
    },
    Question {
        path: "info",
        about: "What the folders hold and what they lost.",
        command: &["info"],
        schema: "info",
        parameters: &[],
    },
    Question {
        path: "requests",
        about: "Kinds of request.",
        command: &["requests"],
        schema: "requests",
        parameters: &[FROM, TO, LONGER, SHORTER, SERVICE, CALLS, WITH, OF],
    },
    Question {
        path: "kinds_compared",
        about: "Kinds of request of two recordings or periods, what changed most first.",
        command: &["requests"],
        schema: "requests_compared",
        parameters: &[FROM, TO, LONGER, SHORTER, SERVICE, CALLS, WITH, OF, AGAINST, AGAINST_FROM, AGAINST_TO],
    },
    Question {
        path: "map_compared",
        about: "Services and the calls between them of two recordings or periods, what changed most first.",
        command: &["requests", "--map"],
        schema: "service_map_compared",
        parameters: &[KIND, FROM, TO, LONGER, SHORTER, SERVICE, CALLS, WITH, OF, AGAINST, AGAINST_FROM, AGAINST_TO],
    },
    Question {
        path: "each",
        about: "Requests one by one, with what most of each went to.",
        command: &["requests", "--each"],
        schema: "each",
        parameters: &[KIND, FROM, TO, LONGER, SHORTER, SERVICE, CALLS, WITH, LIMIT, OF],
    },
    Question {
        path: "over_time",
        about: "Rate, errors and durations over time.",
        command: &["requests", "--over-time"],
        schema: "over_time",
        parameters: &[
            option("columns", "Columns that the time is divided into, 1 to 1000."),
            KIND,
            FROM,
            TO,
            LONGER,
            SHORTER,
            SERVICE,
            CALLS,
            WITH,
            OF,
        ],
    },
    Question {
        path: "common",
        about: "What the selected requests have in common and the others have not.",
        command: &["requests", "--common"],
        schema: "common",
        parameters: &[KIND, FROM, TO, LONGER, SHORTER, SERVICE, CALLS, WITH, LIMIT, OF],
    },
    Question {
        path: "map",
        about: "Services, and the calls between them.",
        command: &["requests", "--map"],
        schema: "service_map",
        parameters: &[KIND, FROM, TO, LONGER, SHORTER, SERVICE, CALLS, WITH, OF],
    },
    Question {
        path: "show",
        about: "One request: its calls, and how its links are known.",
        command: &["show"],
        schema: "show",
        parameters: &[
            Parameter { how: How::Request, ..REQUEST },
            KIND,
            Parameter { how: How::Flag, ..option("evidence", "With the proof of each link: `true`.") },
        ],
    },
    Question {
        path: "waits",
        about: "The critical path of a request, or the active path of a task.",
        command: &["waits"],
        schema: "waits",
        parameters: &[
            REQUEST,
            KIND,
            option("task", "NAME, TID or NAME/TID."),
            option("host", "Of the task."),
            FROM,
            TO,
            OF,
        ],
    },
    Question {
        path: "why",
        about: "What the slow requests of a kind spend more on than the typical ones, or selected ones than the others.",
        command: &["why"],
        schema: "why",
        parameters: &[
            KIND,
            option("slowest", "Share of the slow ones, as 1%."),
            option("kinds", "Most kinds compared; 0 = all."),
            FROM,
            TO,
            LONGER,
            SHORTER,
            SERVICE,
            CALLS,
            WITH,
            OF,
            AGAINST,
            AGAINST_FROM,
            AGAINST_TO,
        ],
    },
    Question {
        path: "timeline",
        about: "What tasks did over time, thinned to a number of columns, with exact sums.",
        command: &["timeline"],
        schema: "timeline",
        parameters: &[
            Parameter { repeats: true, ..option("task", "NAME, TID or NAME/TID; may be repeated.") },
            option("search", "Tasks whose name, or whose process's name, has this in it."),
            option("host", "Of the tasks."),
            FROM,
            TO,
            option("columns", "Columns that the time is divided into, 1 to 10000."),
            LIMIT,
            OF,
            Parameter { how: How::Flag, ..option("path", "With the active path of the one task: `true`.") },
            Parameter { how: How::Flag, ..option("processors", "With who had each processor: `true`.") },
            Parameter { how: How::Flag, ..option("syscalls", "With waits by system call: `true`.") },
            option("events", "With the first intervals of time, so many."),
            option("what", "Of those, whose state or system call has this in it."),
        ],
    },
    Question {
        path: "flame",
        about: "Where the critical paths of requests went, by host, service, program and cause.",
        command: &["flame"],
        schema: "flame",
        parameters: &[
            KIND,
            FROM,
            TO,
            LONGER,
            SHORTER,
            SERVICE,
            CALLS,
            WITH,
            Parameter {
                how: How::Flag,
                ..option("difference", "With what the requests that are not selected took: `true`.")
            },
            OF,
            AGAINST,
            AGAINST_FROM,
            AGAINST_TO,
        ],
    },
    Question {
        path: "forecast",
        about: "Latency and throughput under changes, with error bars, and what limits then.",
        command: &["forecast"],
        schema: "forecast",
        parameters: &[
            Parameter { repeats: true, ..option("change", "A change, as docs/changes.md has them; may be repeated.") },
            option("next", "Limits found one behind the other."),
            option("request", "Only of this kind of request."),
            FROM,
            TO,
            OF,
        ],
    },
    Question {
        path: "open",
        about: "Still in progress when recording stopped.",
        command: &["open"],
        schema: "open",
        parameters: &[],
    },
];

/// Answered at once, whatever is read for others.
pub fn is_quick(path: &str) -> bool {
    path == "brief"
}

/// Why a question is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such question.
    #[error("no such question: /api/{0}")]
    Unknown(String),
    /// A parameter that the question does not take.
    #[error("{question} takes no parameter {name:?}")]
    Parameter {
        /// The question.
        question: &'static str,
        /// The parameter.
        name: String,
    },
    /// A parameter twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// A value that cannot be one.
    #[error("{name}: {why}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// The command of a question: its arguments without the folders and without `--json`. A request stands last, after
/// [`FOLDERS`].
pub fn arguments(path: &str, pairs: &[(String, String)]) -> Result<Vec<String>, Refused> {
    let question = QUESTIONS.iter().find(|q| q.path == path).ok_or_else(|| Refused::Unknown(path.to_owned()))?;
    command_line(question.path, question.command, question.parameters, pairs)
}

/// The same of a question's parts.
pub(crate) fn command_line(
    question: &'static str,
    command: &[&str],
    parameters: &'static [Parameter],
    pairs: &[(String, String)],
) -> Result<Vec<String>, Refused> {
    let mut options: Vec<String> = command.iter().map(|&w| w.to_owned()).collect();
    let mut request = None;
    let mut of = FOLDERS.to_owned();
    for p in parameters {
        let mut given = pairs.iter().filter(|(name, _)| name == p.name);
        let Some((_, value)) = given.next() else { continue };
        if given.next().is_some() && !p.repeats {
            return Err(Refused::Twice(p.name));
        }
        check(p, value)?;
        match p.how {
            How::Option => options.push(format!("--{}={value}", p.name)),
            How::Flag => options.push(format!("--{}", p.name)),
            How::Request => request = Some(value.clone()),
            How::Of => of = format!("{FOLDER}{value}"),
            How::Folder => options.extend([format!("--{}", p.name), format!("{FOLDER}{value}")]),
        }
        for (_, further) in pairs.iter().filter(|(name, _)| p.repeats && name == p.name).skip(1) {
            check(p, further)?;
            options.push(format!("--{}={further}", p.name));
        }
    }
    if let Some((name, _)) = pairs.iter().find(|(name, _)| !parameters.iter().any(|p| p.name == name)) {
        return Err(Refused::Parameter { question, name: name.clone() });
    }
    // a flag must not stand before the folders: it could take one for its value
    options.push(of);
    let wants_request = parameters.iter().any(|p| p.how == How::Request);
    match request {
        Some(request) => options.push(request),
        None if wants_request => return Err(Refused::Value { name: "request", why: "is missing" }),
        None => {}
    }
    let (flags, rest): (Vec<_>, Vec<_>) = options.into_iter().partition(|o| o == "--evidence");
    Ok(rest.into_iter().chain(flags).collect())
}

/// Where the folders stand among the arguments.
pub const FOLDERS: &str = "\0folders";
/// What one of the folders stands as: this, and its number.
pub const FOLDER: &str = "\0folder:";

fn check(p: &Parameter, value: &str) -> Result<(), Refused> {
    let wrong = |why| Err(Refused::Value { name: p.name, why });
    if value.len() > VALUE_MAX {
        return wrong("is too long");
    }
    if value.contains('\0') {
        return wrong("has a NUL in it");
    }
    match p.how {
        How::Flag if value != "true" => wrong("give `true`, or leave it out"),
        How::Request
            if value != "slowest"
                && (value.is_empty() || value.len() > 16 || !value.bytes().all(|b| b.is_ascii_hexdigit())) =>
        {
            wrong("give an id or its first digits, or `slowest`")
        }
        How::Of | How::Folder if value.len() > 3 || value.parse::<u16>().is_err() => {
            wrong("give the number of a folder, from 0")
        }
        _ => Ok(()),
    }
}

/// The description of the questions in OpenAPI's form.
pub fn openapi() -> Value {
    let mut paths = serde_json::Map::new();
    paths.insert("/api/recording".into(), recording());
    paths.insert("/api/progress".into(), progress());
    for q in QUESTIONS {
        paths.insert(format!("/api/{}", q.path), question(q));
    }
    paths.extend(downloads::openapi());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "What `wakepath ui` answers",
            "version": "1",
            "description": "Each answer is, byte for byte, what the command prints that the header Wakepath-Command names, with --json added; each file below /api/download/ is what that command writes. Only GET; from the same origin."
        },
        "paths": paths,
    })
}

fn question(q: &Question) -> Value {
    let parameters = described(q.parameters);
    let mut command = String::from("wakepath");
    for word in q.command {
        let _ = write!(command, " {word}");
    }
    let schema = format!("schemas/{}.schema.json", q.schema);
    json!({ "get": {
        "operationId": q.path,
        "summary": q.about,
        "description": format!("`{command} --json` of the folders."),
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "The answer.",
                "headers": { "Wakepath-Command": command_header() },
                "content": { "application/json": { "schema": { "$ref": schema } } },
            },
            "400": problem("The parameters are wrong."),
            "422": problem("The command gives no answer, and says why."),
        },
    }})
}

/// Parameters in OpenAPI's form.
pub(crate) fn described(parameters: &[Parameter]) -> Vec<Value> {
    let each = parameters.iter().map(|p| {
        json!({
            "name": p.name,
            "in": "query",
            "required": p.how == How::Request,
            "description": p.about,
            "schema": schema(p),
        })
    });
    each.collect()
}

fn schema(p: &Parameter) -> Value {
    let value = match p.how {
        How::Flag => json!({ "const": "true" }),
        _ => json!({ "type": "string", "maxLength": VALUE_MAX }),
    };
    // a list is a parameter given several times: the default of the form
    if p.repeats { json!({ "type": "array", "items": value }) } else { value }
}

fn recording() -> Value {
    json!({ "get": {
        "operationId": "recording",
        "summary": "The folders, and a stamp that is another one after they changed.",
        "parameters": [],
        "responses": { "200": {
            "description": "The folders.",
            "content": { "application/json": { "schema": {
                "type": "object",
                "required": ["folders", "stamp", "live", "version"],
                "additionalProperties": false,
                "properties": {
                    "folders": { "type": "array", "items": { "type": "string" } },
                    "stamp": { "type": "string", "description": "Another one after the folders changed." },
                    "live": { "type": "boolean", "description": "A recorder writes into one of them now." },
                    "version": { "type": "string", "description": "Version of wakepath." },
                },
            } } },
        } },
    }})
}

fn progress() -> Value {
    json!({ "get": {
        "operationId": "progress",
        "summary": "How far the answers are that are being made; those of which that is not known are left out.",
        "parameters": [],
        "responses": { "200": {
            "description": "One entry an answer.",
            "content": { "application/json": { "schema": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["question", "read"],
                    "additionalProperties": false,
                    "properties": {
                        "question": { "type": "string", "description": "Path and query, as they were asked." },
                        "read": { "type": "number", "minimum": 0, "maximum": 1, "description": "Share that was read of what must be read." },
                    },
                },
            } } },
        } },
    }})
}

pub(crate) fn command_header() -> Value {
    json!({
        "description": "The command that gives the same answer as text, percent-encoded.",
        "schema": { "type": "string" },
    })
}

pub(crate) fn problem(about: &str) -> Value {
    json!({
        "description": about,
        "content": { "application/json": { "schema": {
            "type": "object",
            "required": ["error"],
            "additionalProperties": false,
            "properties": { "error": { "type": "string", "description": "Why, for people." } },
        } } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str, pairs: &[(&str, &str)]) -> Result<Vec<String>, Refused> {
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        arguments(path, &pairs)
    }

    #[test]
    fn a_question_is_a_command() {
        let words = asked("each", &[("limit", "5"), ("kind", "GET /a --json")]).expect("it is one");
        assert_eq!(words, ["requests", "--each", "--kind=GET /a --json", "--limit=5", FOLDERS]);
        let words = asked("timeline", &[("task", "a/1"), ("task", "b"), ("path", "true")]).expect("it is one");
        assert_eq!(words, ["timeline", "--task=a/1", "--task=b", "--path", FOLDERS]);
        let words = asked("show", &[("request", "8d27"), ("evidence", "true")]).expect("it is one");
        assert_eq!(words, ["show", FOLDERS, "8d27", "--evidence"]);
        let words = asked("flame", &[("of", "1"), ("against", "0")]).expect("it is one");
        assert_eq!(words, ["flame", "--against", "\0folder:0", "\0folder:1"]);
    }

    #[test]
    fn what_is_no_value_or_parameter_is_refused() {
        for (path, pairs) in [
            ("no", &[][..]),
            ("../etc/passwd", &[]),
            ("info", &[("verify", "true")]),
            ("show", &[]),
            ("show", &[("request", "--help")]),
            ("show", &[("request", "12345678901234567")]),
            ("show", &[("request", "1"), ("request", "2")]),
            ("show", &[("request", "1"), ("evidence", "7")]),
            ("why", &[("kind", "a\0b")]),
            ("flame", &[("of", "../b")]),
            ("flame", &[("against", "-1")]),
        ] {
            assert!(asked(path, pairs).is_err(), "{path} {pairs:?}");
        }
        let long = "x".repeat(VALUE_MAX + 1);
        assert!(asked("why", &[("kind", &long)]).is_err());
    }

    #[test]
    fn the_document_describes_these_questions() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let ours = serde_json::to_string_pretty(&openapi()).expect("it is JSON") + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &ours).expect("docs can be written");
        }
        let theirs = std::fs::read_to_string(path).unwrap_or_default();
        assert!(ours == theirs, "docs/openapi.json is another one; write it again with UPDATE_GOLDEN=1");
    }
}
