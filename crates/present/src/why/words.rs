//! A difference as a colleague would name it: the sentences stand in the table of causes (`wakepath_analysis::causes`).

use super::views::call;
use std::borrow::Cow;
use wakepath_analysis::causes::{Cause, Sentence, State, When};
use wakepath_analysis::why::{Detail, Difference};

/// What a difference is, with where and by whom; `main` is what its largest part says.
pub(super) fn text(d: &Difference, main: Option<&Detail>) -> String {
    let known = Known { difference: d, main };
    let about = d.what.cause.about();
    let said = about.says.iter().find_map(|s| known.said(s));
    let added = about.adds.iter().filter_map(|s| known.said(s));
    let asked = main.and_then(|m| m.serving.as_deref()).map(|asked| format!(", for {asked}"));
    said.into_iter().chain(added).chain(asked).chain(known.disk_behind()).collect()
}

/// What is known of a difference.
struct Known<'d> {
    difference: &'d Difference,
    main: Option<&'d Detail>,
}

impl<'d> Known<'d> {
    fn service(&self) -> &'d str {
        let service = &self.difference.what.service;
        if service.is_empty() { "?" } else { service }
    }

    fn by(&self) -> Option<&'d str> {
        self.main?.by.as_deref()
    }

    fn object(&self) -> Option<&'d str> {
        self.main?.object.as_deref()
    }

    /// That another service, which was waited for too, waited for a disk, where that is most of the time.
    fn disk_behind(&self) -> Option<String> {
        let main = self.main.filter(|m| m.state == State::Disk && !self.is(When::BySeveral))?;
        let who = main.meanwhile.as_ref()?;
        let cause = self.difference.what.cause;
        matches!(cause, Cause::Futex | Cause::Lock).then(|| format!(", while {who} waited for the disk"))
    }

    /// A sentence; `None` where it is not right, or a word of it is not known.
    fn said(&self, sentence: &Sentence) -> Option<String> {
        if !self.is(sentence.when) {
            return None;
        }
        let mut parts = sentence.text.split('{');
        let mut out = parts.next()?.to_owned();
        for part in parts {
            let (word, rest) = part.split_once('}')?;
            let (word, otherwise) = word.split_once('|').map_or((word, None), |(word, o)| (word, Some(o)));
            out.push_str(&self.word(word).or(otherwise.map(Cow::Borrowed))?);
            out.push_str(rest);
        }
        Some(out)
    }

    fn is(&self, when: When) -> bool {
        let process = self.service().split(':').next();
        match when {
            When::Always => true,
            When::ByAnother => self.by().is_some_and(|by| Some(by) != process),
            When::ByItsLike => self.by().is_some_and(|by| Some(by) == process),
            When::ByOwnThread => self.main.is_some_and(|m| m.is_own_thread),
            When::BySeveral => {
                let (parts, more_ns) = (&self.difference.parts, self.difference.more_ns);
                parts.first().is_some_and(|p| p.more_ns.abs() * 2 < more_ns.abs())
            }
            When::Because(reason) => self.main.and_then(|m| m.reason) == Some(reason),
            When::WithoutPort => {
                let callee = self.object().and_then(|ends| ends.strip_prefix("between ")?.split_once(" and "));
                callee.is_some_and(|(_, callee)| !callee.contains(':'))
            }
        }
    }

    fn word<'w>(&'w self, word: &str) -> Option<Cow<'w, str>> {
        let text = match word {
            "service" => self.service(),
            "by" => self.by()?,
            "object" => self.object()?,
            "file" => self.object().filter(|o| !o.starts_with("device "))?,
            // of an accept queue: `ADDRESS:PORT (LENGTH)`
            "length" => self.object()?.split_once(" (")?.1.trim_end_matches(')'),
            "reason" => self.main?.reason?,
            "call" => return call(self.main?.syscall).map(Cow::Owned),
            _ => return None,
        };
        Some(text).filter(|t| !t.is_empty()).map(Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_analysis::reasons;
    use wakepath_analysis::why::What;

    fn difference(cause: Cause) -> Difference {
        let what = What { cause, service: "api:80".into(), host: "h".into() };
        Difference { what, more_ns: 10, slow_ns: 10, typical_ns: 0, with: 1, examples: Vec::new(), parts: Vec::new() }
    }

    fn detail(by: Option<&str>, object: Option<&str>) -> Detail {
        Detail {
            state: State::Lock,
            syscall: Some(202),
            by: by.map(str::to_owned),
            object: object.map(str::to_owned),
            meanwhile: None,
            is_own_thread: false,
            serving: None,
            reason: Some(reasons::NO_ANSWER),
        }
    }

    #[test]
    fn every_word_of_every_sentence_is_one_that_can_be_known() {
        let main = detail(Some("db"), Some("10.0.0.1:53 (128 waiting)"));
        for cause in Cause::ALL {
            let d = difference(*cause);
            let known = Known { difference: &d, main: Some(&main) };
            for s in cause.about().says.iter().chain(cause.about().adds) {
                let always = Sentence { when: When::Always, ..*s };
                assert!(known.said(&always).is_some_and(|t| !t.contains(['{', '}', '|'])), "{cause:?}: {}", s.text);
            }
        }
    }

    #[test]
    fn what_is_known_is_said_and_what_is_not_is_left_out() {
        let said = |cause, main: Option<Detail>| text(&difference(cause), main.as_ref());
        for (cause, by, object, expected) in [
            (Cause::Lock, Some("db"), None, "api:80 waiting for a lock that db holds, in futex"),
            (Cause::Lock, Some("api"), Some("row"), "api:80 waiting for another api that holds a lock, in futex (row)"),
            (Cause::Disk, Some("api"), None, "api:80 waiting for the disk, in futex"),
            (Cause::Disk, Some("db"), None, "api:80 waiting for the disk (through db), in futex"),
            (Cause::Network, None, Some("between sh and cat"), "on the way between sh and cat (a pipe or UNIX socket)"),
            (Cause::Network, None, Some("between curl and 10.0.0.1:80"), "on the network between curl and 10.0.0.1:80"),
            (
                Cause::AcceptQueue,
                None,
                Some("a:80 (9 of 9)"),
                "waiting for room in the accept queue of api:80 (9 of 9)",
            ),
            (Cause::Stopped, Some("sh"), None, "api:80 stopped by a signal from sh"),
            (
                Cause::Dns,
                None,
                Some("10.0.0.2:53"),
                "api:80 waiting for the DNS name server, 10.0.0.2:53, which did not answer before the timeout",
            ),
        ] {
            assert_eq!(said(cause, Some(detail(by, object))), expected);
        }
        assert_eq!(said(Cause::Lock, None), "api:80 waiting for a lock");
        assert_eq!(said(Cause::Unknown, None), "not known, in api:80");
        let behind =
            Detail { state: State::Disk, meanwhile: Some("db".into()), is_own_thread: true, ..detail(None, None) };
        let expected = "api:80 waiting to be woken by another of its threads, while db waited for the disk";
        assert_eq!(said(Cause::Futex, Some(Detail { reason: None, ..behind })), expected);
        let served = Detail { serving: Some("GET /".into()), reason: None, ..detail(None, None) };
        assert_eq!(said(Cause::Cpu, Some(served)), "api:80 computing, for GET /");
    }
}
