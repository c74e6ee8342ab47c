//! Files to download: a path each, its parameters, and the command that writes it; and how far those are that are being written.

use crate::Progress;
use crate::api::{
    CALLS, FROM, How, KIND, LONGER, OF, Parameter, REQUEST, Refused, SERVICE, SHORTER, WITH, command_header,
    command_line, described, option, problem,
};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file.
#[derive(Clone, Copy, Debug)]
pub struct Download {
    /// Path below `/api/download/`.
    pub path: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    /// The command that writes it and the options that it always has.
    pub command: &'static [&'static str],
    /// What may be given.
    pub parameters: &'static [Parameter],
    /// Its media type.
    pub media: &'static str,
}

const UNTIL: Parameter = option("until", "End, in the same forms.");
/// Only one request.
const ONLY: Parameter = option("request", "Only this request: its id or first digits, or `slowest`.");
/// Of forms that have one request after the other.
const EACH: &[Parameter] = &[KIND, FROM, UNTIL, LONGER, SHORTER, SERVICE, CALLS, WITH, ONLY, OF];
/// Of forms that are sums of requests.
const SUM: &[Parameter] = &[KIND, FROM, UNTIL, LONGER, SHORTER, SERVICE, CALLS, WITH, OF];

/// All files.
pub const DOWNLOADS: &[Download] = &[
    Download {
        path: "otlp",
        about: "Requests as OpenTelemetry's traces, a line of JSON each.",
        command: &["export", "--to=otlp"],
        parameters: EACH,
        media: "application/x-ndjson",
    },
    Download {
        path: "jaeger",
        about: "Requests as the JSON that Jaeger's page takes.",
        command: &["export", "--to=jaeger"],
        parameters: EACH,
        media: "application/json",
    },
    Download {
        path: "perfetto",
        about: "Requests, tasks and wake-ups as a trace of Perfetto.",
        command: &["export", "--to=perfetto"],
        parameters: &[
            KIND,
            FROM,
            UNTIL,
            LONGER,
            SHORTER,
            SERVICE,
            CALLS,
            WITH,
            ONLY,
            Parameter { repeats: true, ..option("task", "Only such tasks: NAME, TID or NAME/TID; may be repeated.") },
            option("search", "Only tasks whose name, or whose process's name, has this in it."),
            option("host", "Of the tasks."),
            OF,
        ],
        media: "application/octet-stream",
    },
    Download {
        path: "prometheus",
        about: "Rates, errors and durations of requests, as OpenMetrics.",
        command: &["export", "--to=prometheus"],
        parameters: SUM,
        media: "text/plain; charset=utf-8",
    },
    Download {
        path: "folded",
        about: "Time of critical paths by stack, for flame graphs.",
        command: &["export", "--to=folded"],
        parameters: SUM,
        media: "text/plain; charset=utf-8",
    },
    Download {
        path: "bundle",
        about: "One request as a small trace folder without names, as a tar archive.",
        command: &["bundle"],
        parameters: &[Parameter { how: How::Request, ..REQUEST }, KIND, OF],
        media: "application/x-tar",
    },
];

/// Names the download in `/api/downloads`.
const MARK: Parameter = option("mark", "Names this download in /api/downloads: up to 32 letters or digits.");
/// Longest mark (bytes).
const MARK_MAX: usize = 32;

/// A download that is asked for.
pub(crate) struct Wanted {
    pub(crate) file: &'static Download,
    /// The command: its arguments, as [`crate::api::arguments`] gives them.
    pub(crate) arguments: Vec<String>,
    pub(crate) mark: Option<String>,
}

/// What a path and its parameters ask for.
pub(crate) fn wanted(path: &str, pairs: &[(String, String)]) -> Result<Wanted, Refused> {
    let file = DOWNLOADS.iter().find(|d| d.path == path).ok_or_else(|| Refused::Unknown(format!("download/{path}")))?;
    let (marks, pairs): (Vec<_>, Vec<_>) = pairs.iter().cloned().partition(|(name, _)| name == MARK.name);
    let mark = match marks.as_slice() {
        [] => None,
        [(_, mark)] if is_mark(mark) => Some(mark.clone()),
        [_] => return Err(Refused::Value { name: MARK.name, why: "give up to 32 letters or digits" }),
        _ => return Err(Refused::Twice(MARK.name)),
    };
    let arguments = command_line(file.path, file.command, file.parameters, &pairs)?;
    Ok(Wanted { file, arguments, mark })
}

fn is_mark(word: &str) -> bool {
    (1..=MARK_MAX).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Downloads that are remembered: pages look at theirs more than once a second.
const REMEMBERED: usize = 64;

/// Where a download stands.
#[derive(Clone, Debug)]
enum Stage {
    /// Others are written before it.
    Waiting,
    Writing,
    /// It is whole; what was written, for people.
    Done(String),
    /// Why it is not, for people.
    Failed(String),
}

/// How far a download is.
pub(crate) struct Written {
    mark: Option<String>,
    stage: Mutex<Stage>,
    /// Bytes that were sent.
    bytes: AtomicU64,
    /// What is read for it.
    pub(crate) progress: Arc<Progress>,
}

impl Written {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is its turn.
    pub(crate) fn begins(&self) {
        *self.stage() = Stage::Writing;
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn ends(&self, how: Result<String, String>) {
        *self.stage() = how.map_or_else(Stage::Failed, Stage::Done);
    }

    fn document(&self) -> Value {
        let (stage, said) = match &*self.stage() {
            Stage::Waiting => ("waiting", None),
            Stage::Writing => ("writing", None),
            Stage::Done(said) => ("done", Some(said.clone())),
            Stage::Failed(why) => ("failed", Some(why.clone())),
        };
        let (bytes, read) = (self.bytes.load(Relaxed), self.progress.share());
        json!({ "mark": self.mark, "stage": stage, "bytes": bytes, "read": read, "said": said })
    }
}

/// The last downloads.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<VecDeque<Arc<Written>>>);

impl Remembered {
    /// One more; remembered if it has a mark.
    pub(crate) fn begin(&self, mark: Option<String>) -> Arc<Written> {
        let stage = Mutex::new(Stage::Waiting);
        let written = Written { mark, stage, bytes: AtomicU64::new(0), progress: Arc::default() };
        let written = Arc::new(written);
        if written.mark.is_some() {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.push_front(Arc::clone(&written));
            all.truncate(REMEMBERED);
        }
        written
    }

    /// How far each is, as JSON.
    pub(crate) fn document(&self) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Value::from_iter(all.iter().map(|w| w.document())).to_string()
    }
}

/// The description of the files in OpenAPI's form.
pub(crate) fn openapi() -> Map<String, Value> {
    let mut paths = Map::new();
    paths.insert("/api/downloads".into(), remembered());
    for d in DOWNLOADS {
        let mut parameters = described(d.parameters);
        parameters.extend(described(&[MARK]));
        let is_bundle = d.path == "bundle";
        let description = match is_bundle {
            true => "The folder that `wakepath bundle` makes, as a tar archive.".to_owned(),
            false => format!("What `wakepath {}` of the folders writes.", d.command.join(" ")),
        };
        let binary = json!({ "type": "string", "contentMediaType": d.media });
        paths.insert(
            format!("/api/download/{}", d.path),
            json!({ "get": {
                "operationId": format!("download_{}", d.path),
                "summary": d.about,
                "description": format!("{description} Sent as it is written; cut off where that fails."),
                "parameters": parameters,
                "responses": {
                    "200": {
                        "description": "The file.",
                        "headers": { "Wakepath-Command": command_header() },
                        "content": { d.media: { "schema": binary } },
                    },
                    "400": problem("The parameters are wrong."),
                    "422": problem("The command writes nothing, and says why."),
                },
            }}),
        );
    }
    paths
}

fn remembered() -> Value {
    json!({ "get": {
        "operationId": "downloads",
        "summary": "How far the last downloads are that have a mark, the newest first.",
        "parameters": [],
        "responses": { "200": {
            "description": "One entry a download.",
            "content": { "application/json": { "schema": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["mark", "stage", "bytes", "read", "said"],
                    "additionalProperties": false,
                    "properties": {
                        "mark": { "type": "string", "description": "As it was given." },
                        "stage": {
                            "enum": ["waiting", "writing", "done", "failed"],
                            "description": "Waits for other downloads; is being written; is whole; failed.",
                        },
                        "bytes": { "type": "integer", "minimum": 0, "description": "Bytes that were sent." },
                        "read": {
                            "type": ["number", "null"],
                            "minimum": 0,
                            "maximum": 1,
                            "description": "Share that was read of what must be read; null where that is not known.",
                        },
                        "said": { "type": ["string", "null"], "description": "At its end: what was written, or why it failed." },
                    },
                },
            } } },
        } },
    }})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::FOLDERS;

    fn asked(path: &str, pairs: &[(&str, &str)]) -> Result<Wanted, Refused> {
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        wanted(path, &pairs)
    }

    #[test]
    fn a_download_is_a_command() {
        let found = asked("otlp", &[("until", "+2s"), ("mark", "a7")]).expect("it is one");
        assert_eq!(found.arguments, ["export", "--to=otlp", "--until=+2s", FOLDERS]);
        assert_eq!(found.mark.as_deref(), Some("a7"));
        let found = asked("bundle", &[("request", "8d27")]).expect("it is one");
        assert_eq!(found.arguments, ["bundle", FOLDERS, "8d27"]);
    }

    #[test]
    fn what_is_no_download_is_refused() {
        for (path, pairs) in [
            ("no", &[][..]),
            ("bundle", &[]),
            ("bundle", &[("request", "-o/etc/x")]),
            ("folded", &[("request", "8d27")]),
            ("otlp", &[("output", "/etc/x")]),
            ("otlp", &[("endpoint", "http://x")]),
            ("otlp", &[("mark", "a-b")]),
            ("otlp", &[("mark", "a"), ("mark", "b")]),
        ] {
            assert!(asked(path, pairs).is_err(), "{path} {pairs:?}");
        }
    }

    #[test]
    fn the_last_downloads_are_remembered_with_how_they_ended() {
        let all = Remembered::default();
        all.begin(None).ends(Ok("unmarked".into()));
        for n in 0..REMEMBERED + 5 {
            let written = all.begin(Some(n.to_string()));
            written.begins();
            written.add(7);
            written.ends(if n % 2 == 0 { Ok("2 requests".into()) } else { Err("no request".into()) });
        }
        let found: Vec<Value> = serde_json::from_str(&all.document()).expect("it is JSON");
        assert_eq!(found.len(), REMEMBERED);
        let last = json!({ "mark": "68", "stage": "done", "bytes": 7, "read": null, "said": "2 requests" });
        assert_eq!(found[0], last);
        assert_eq!((&found[1]["stage"], &found[1]["said"]), (&json!("failed"), &json!("no request")));
    }
}
