//! The rules that make an edge, and how much each is worth.

use std::fmt;

/// Declares an enum whose variants are shown by their names.
macro_rules! named {
    ($(#[$about:meta])* pub enum $of:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        pub enum $of { $($(#[$doc])* $variant),+ }

        impl $of {
            /// All of them.
            pub const ALL: [$of; [$($name),+].len()] = [$($of::$variant),+];

            /// As shown.
            pub const fn name(self) -> &'static str {
                match self { $($of::$variant => $name),+ }
            }

            /// The one that is shown so.
            pub fn from_name(name: &str) -> Option<$of> {
                $of::ALL.into_iter().find(|of| of.name() == name)
            }
        }
    };
}

named! {
    /// The rule that made a link. Its name is shown as the link's evidence.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Rule {
        /// The same byte range was sent and received.
        Bytes = "bytes",
        /// The same byte range, behind an address translation: matched by sequence numbers alone.
        BytesTranslated = "bytes (translated address)",
        /// The same identifier in both messages.
        Witness = "witness",
        /// The same identifier in both messages, where the address of the one who asked was translated: seen before and behind.
        WitnessTranslated = "witness (translated address)",
        /// A flow opened in a fragment of the request belongs to it until its first exchange is over.
        Owner = "owner",
        /// The task that sent the reply did the work from the moment it took the request up (vPath's thread pattern).
        Reply = "reply",
        /// The library vantage handed the task exactly one input: what it does until the next is for that input's request
        /// (BorderPatrol's immediacy and independence, section 2).
        Isolation = "isolation",
        /// What a task does after one input and before the next.
        Fragment = "fragment",
        /// Of what an event loop could have gone on with, only this is left by what its process was never seen to do though it could have been.
        Turn = "turn",
        /// The same of the requests that a thread holds.
        Thread = "thread",
        /// A connection that the process makes beside others is for the request that had it made, as always.
        Dialled = "dialled",
        /// A loop was given the answer alone, and replied to this request, as always when the caller was known.
        Awaited = "awaited",
        /// The task replies to the requests of one connection, and to no others.
        ConnectionTask = "connection task",
        /// A goroutine that was made amid the request and ended with it.
        Spawned = "spawned",
        /// A client's own task, which the request's task woke, or made, to send this.
        ClientTask = "client task",
        /// A goroutine that took an item of the request's through a channel and handed back what came of it.
        Channel = "channel",
        /// The only request that the component could have been working on.
        Sole = "sole",
        /// A task of the request woke an idle task, which then acted.
        Handoff = "handoff",
        /// The task that acted then woke the one that held the request, which had waited all the while.
        Completion = "completion",
        /// A new task starts in its parent's request.
        Fork = "fork",
        /// The request was answered with the call's answer, by a process that always passes answers on.
        SameReply = "same reply",
    }
}

/// What an exclusion is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strength {
    /// Follows from what was seen.
    Shown,
    /// Follows only if the process goes on as it was always seen to.
    Habit,
}

/// How a rule knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Seen.
    Observed,
    /// Follows from what was seen, under the rule's condition.
    ByRule,
    /// Follows only if the process goes on as it was always seen to: no proof.
    ByHabit,
}

impl Rule {
    /// What a link of it is worth.
    pub const fn strength(self) -> Strength {
        match self.class() {
            Class::ByHabit => Strength::Habit,
            _ => Strength::Shown,
        }
    }

    /// Its class.
    pub const fn class(self) -> Class {
        match self {
            Rule::Bytes | Rule::BytesTranslated | Rule::Witness | Rule::WitnessTranslated | Rule::SameReply => {
                Class::Observed
            }
            Rule::Owner | Rule::Isolation | Rule::Fragment | Rule::Fork => Class::ByRule,
            _ => Class::ByHabit,
        }
    }
}

impl Class {
    /// As shown.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Observed => "observed",
            Class::ByRule => "by-rule",
            Class::ByHabit => "by-habit",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

named! {
    /// Why a link was left open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Gap {
        /// Several requests could have made the call.
        Ambiguous = "a call that several requests could have made",
        /// No other open request could have made the call; but the program could by itself, or one that was over.
        Itself = "a call of the one open request, or of none (the program's own, or work after a reply)",
        /// Seen on the wire only: whoever sent it was at work on requests, and no identifier in it is one of theirs.
        Unwitnessed = "its caller may be another request: nothing on the wire says which",
        /// Events were lost between the request and the call.
        Losses = "events were lost meanwhile",
        /// The request was under way before the recording began.
        BeforeRecording = "it began before the recording",
        /// The message's borders are not known.
        Borders = "a message's borders are not known",
        /// Several requests use a connection at once, and whose a message is there is not known: its protocol is not, or one task sends what
        /// others have left to be sent.
        Shared = "several requests share a connection, and whose a message is there is not known",
        /// It asked another process on a pipe that several use, or by a queue: what was done for it there is not followed.
        Unfollowed = "it waited for something done elsewhere, which is not followed there",
        /// Its client left before the reply, and what the server did for it then is not known.
        ClientLeft = "its client left, and how long the service went on with it is not known",
        /// Nothing but turns pairs messages on its connection, and they do not tell which one answers it.
        Turns = "which message answers it, and so when the service was done with it, is not known",
        /// The recording ended first.
        AfterRecording = "the recording ended first",
    }
}

impl Gap {
    /// Calls that were made may be missing, and their time is among that of who made them.
    pub const fn hides_calls(self) -> bool {
        !matches!(self, Gap::AfterRecording)
    }
}

named! {
    /// What would have said whose an open call was, and was not recorded.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Missing {
        /// What was lost.
        Lost = "events that were lost",
        /// What was before the recording.
        Before = "what happened before the recording began (or, with Tokio, before its tasks could be told apart)",
        /// Where messages begin and end.
        Borders = "where messages begin and end",
        /// Which message answers which.
        Answers = "which message answers which, on a WebSocket without identifiers",
        /// Which of its requests a loop works on.
        WhichOfLoop = "which of several requests an event loop was working on",
        /// The same of a loop that was given one input at a time: what its requests wait for inside the program.
        WithinLoop = "which of the requests that waited inside an event loop went on (for a timer, or for a place in a pool)",
        /// Which request a task works on, where any may go on with any.
        WhichOfAny = "which request a thread was working on, in a process that moves requests between its threads",
        /// For whom a task of Tokio's sent that takes no requests itself.
        OwnTask = "for which request a task of its own sent: Tokio's clients (reqwest, redis) and what a request spawns have such tasks",
        /// For whom a thread or a helper took up work.
        PickUp = "for which request a thread took up work",
        /// What the program had heard of, where the kernel receives ahead of it.
        Heard = "what a program that uses io_uring had already heard of",
    }
}

impl Missing {
    /// Whether `wakepath attach` to a running program of this name gives it.
    pub fn comes_by_attaching(self, program: &str) -> bool {
        self == Missing::WhichOfLoop && is_node(program)
    }

    /// What was missing, in words, where programs of these names made the calls: Node.js moves no request between threads, and whose
    /// work its helper did not tell is its loop's.
    pub fn fact<'a>(self, programs: impl Iterator<Item = &'a str> + Clone) -> &'static str {
        match self {
            Missing::WhichOfAny if is_all_node(programs) => Missing::WhichOfLoop.name(),
            _ => self.name(),
        }
    }

    /// What to do about it, where programs of these names made the calls.
    pub fn remedy<'a>(self, programs: impl Iterator<Item = &'a str> + Clone) -> &'static str {
        match self {
            Missing::Lost => "record with a larger --ring-bytes, or fewer services",
            Missing::Before => "record for longer; requests that begin later are not affected",
            Missing::Borders => "record from before these connections are opened",
            Missing::Answers => "send JSON objects with an `id`, and answer with the same one (JSON-RPC)",
            Missing::WhichOfLoop if programs.clone().any(is_python) => {
                "`record --runtimes=python` for asyncio's own loop (of calls from its first moments nothing tells it); for other loops, \
                 restart the service under `wakepath run --isolate`"
            }
            Missing::WhichOfAny | Missing::PickUp if is_all_node(programs.clone()) => OF_NODE,
            Missing::WhichOfLoop if programs.clone().any(is_node) => OF_NODE,
            Missing::WhichOfLoop => {
                "let its callers send an `x-request-id` or a `traceparent` that it passes on; or restart it under \
                 `wakepath run --isolate` (or --isolate=process): one input at a time, which tells nothing of requests that wait for each \
                 other within the program, as for a pool's connection"
            }
            Missing::WhichOfAny => {
                "restart the service under `wakepath run --isolate=process`, which gives it one input at a time; Go programs, \
                 which it cannot enter, need Go 1.18 or later, and `record --runtimes=go`"
            }
            Missing::OwnTask => {
                "if the recording was made without it, `record --runtimes=tokio`, which tells it of reqwest and sqlx in programs that are \
                 not stripped; else record the services that it calls for their own times"
            }
            Missing::WithinLoop => {
                "only the program's own memory tells: record with fewer requests at once, or give its pools more connections"
            }
            Missing::PickUp => {
                "restart the service under `wakepath run --isolate=process`, which gives it one input at a time (it cannot enter Go and \
                 static programs, and does not help where a thread does the work of several requests at once); if threads open connections \
                 for a pool, begin to record when it has them"
            }
            Missing::Heard => "switch io_uring off in the service, or record its callers and callees too",
        }
    }
}

/// What tells Node's requests apart. A helper that is loaded may not follow a library, which no recording shows.
const OF_NODE: &str = "`wakepath attach` while it runs, or start it with `wakepath helper node`'s output; where that helper was loaded, it \
                       does not follow the library that made these calls, and nothing else tells";

/// Whether Node.js alone is among programs of these names.
fn is_all_node<'a>(mut names: impl Iterator<Item = &'a str> + Clone) -> bool {
    names.clone().next().is_some() && names.all(is_node)
}

/// Whether a program of this name is Node.js.
fn is_node(name: &str) -> bool {
    matches!(name, "node" | "nodejs")
}

/// Whether a program of this name runs in CPython, by the names of the interpreter and of its usual servers.
fn is_python(name: &str) -> bool {
    const SERVERS: [&str; 8] = ["gunicorn", "uvicorn", "hypercorn", "daphne", "granian", "celery", "twistd", "fastapi"];
    name.starts_with("python") || name.starts_with("pypy") || SERVERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_remedy_is_of_the_programs_that_made_the_calls() {
        let remedy = |names: &[&'static str]| Missing::WhichOfLoop.remedy(names.iter().copied());
        assert!(remedy(&["python3.11"]).contains("--runtimes=python"));
        assert!(remedy(&["haproxy", "gunicorn"]).contains("--runtimes=python"));
        assert!(remedy(&["node"]).contains("wakepath attach"));
        for missing in [Missing::WhichOfLoop, Missing::WhichOfAny, Missing::PickUp] {
            let text = missing.remedy(["node"].into_iter());
            assert!(text.contains("where that helper was loaded") && !text.contains("isolate"), "{missing:?}: {text}");
            assert!(!missing.fact(["node"].into_iter()).contains("between its threads"), "{missing:?}");
            assert!(missing.remedy(["java"].into_iter()).contains("isolate"), "{missing:?}");
        }
        for name in ["nginx", "haproxy", "deno", "perl"] {
            let text = remedy(&[name]);
            assert!(!text.contains("asyncio") && !text.contains("attach"), "{name}: {text}");
        }
    }

    /// Whether a case of a folder of golden cases expects a link that a rule made.
    fn is_shown_in(folder: &Path, rule: Rule) -> bool {
        let cases = folder.read_dir().into_iter().flatten().flatten();
        let texts = cases.filter_map(|case| std::fs::read_to_string(case.path().join("expected.txt")).ok());
        let shown = [format!("[{}", rule.name()), format!("; {}]", rule.name())];
        let mut lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.any(|line| shown.iter().any(|shown| line.contains(shown)))
    }

    #[test]
    fn every_rule_has_golden_cases_of_its_own() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
        for rule in Rule::ALL {
            // of translated addresses there are folders, too
            let name = rule.name().replace("bytes (", "").replace(" (translated address)", "").replace(" address)", "");
            let folder = format!("link.{}", name.replace(' ', "-"));
            assert!(is_shown_in(&root.join(&folder), rule), "{folder}: no case in which {rule} links");
        }
    }
}
