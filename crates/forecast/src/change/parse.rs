//! The grammar of changes: `docs/changes.md`.

use super::names::distance;
use super::{Amount, Bandwidth, Change, Delay, Which};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Each kind of change with an example.
pub const VERBS: [(&str, &str); 12] = [
    ("scale", "scale */postgres/disk=0.5"),
    ("cpu", "cpu web1=+1"),
    ("speed", "speed postgres:5432=2x"),
    ("link", "link web1-db1 bandwidth=10x delay=-50%"),
    ("queue", "queue nginx:80=+128"),
    ("workers", "workers gunicorn:8000=+2"),
    ("threads", "threads java:8080=+8"),
    ("processes", "processes gunicorn:8000=+1"),
    ("pool", "pool app:8000->postgres:5432=+6"),
    ("drop", "drop postgres:5432 SELECT * FROM votes WHERE id = ? keep=1"),
    ("parallel", "parallel users:81 GET /user,carts:82 GET /cart"),
    ("cache", "cache postgres:5432 SELECT* hit=90%"),
];

/// A text that is no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The text.
    pub text: String,
    /// Where in it, in characters from its begin.
    pub at: usize,
    /// What was expected there.
    pub expected: String,
    /// A text that would be one.
    pub example: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // what breaks a line, or moves it, would put the mark under something else
        let shown: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(f, "expected {}", self.expected)?;
        writeln!(f, "    {shown}")?;
        writeln!(f, "    {:width$}^ here", "", width = self.at)?;
        write!(f, "  for example: --change '{}'", self.example)
    }
}

impl std::error::Error for ParseError {}

/// A name so that it is read as one: in double quotes, where anything in it could be taken for something else.
pub(super) fn quoted(name: &str) -> Cow<'_, str> {
    let is_plain = !name.contains(['"', '\'', ',', '=']) && name.trim() == name && !name.is_empty();
    if is_plain { Cow::Borrowed(name) } else { Cow::Owned(format!("\"{}\"", name.replace('"', "\"\""))) }
}

/// A part of the text, which knows where it stands.
#[derive(Clone, Copy)]
struct Part<'t> {
    whole: &'t str,
    from: usize,
    to: usize,
    example: &'static str,
}

type Parsed<T> = Result<T, ParseError>;

impl<'t> Part<'t> {
    fn text(self) -> &'t str {
        &self.whole[self.from..self.to]
    }

    /// Without space around it.
    fn trimmed(self) -> Part<'t> {
        let (text, start) = (self.text(), self.text().trim_start());
        let from = self.from + text.len() - start.len();
        Part { from, to: from + start.trim_end().len(), ..self }
    }

    /// The part of it from one byte to another.
    fn slice(self, from: usize, to: usize) -> Part<'t> {
        Part { from: self.from + from, to: self.from + to, ..self }
    }

    fn expected<T>(self, what: impl Into<String>) -> Parsed<T> {
        Err(ParseError {
            text: self.whole.to_owned(),
            at: self.whole[..self.from].chars().count(),
            expected: what.into(),
            example: self.example,
        })
    }

    /// Where the first character that `is_it` stands that is not in quotes: only what begins with a quote is quoted, since
    /// statements have quotes in them.
    fn find(self, is_it: impl Fn(char) -> bool) -> Option<usize> {
        self.behind_quotes().and_then(|behind| self.text()[behind..].find(is_it).map(|at| behind + at))
    }

    /// Its length as far as it is quoted, 0 where it is not; `None` where the quote does not end.
    fn behind_quotes(self) -> Option<usize> {
        let text = self.text();
        let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return Some(0) };
        let mut at = 1;
        loop {
            at += text[at..].find(quote)? + 1;
            // a doubled one stands for itself
            if !text[at..].starts_with(quote) {
                return Some(at);
            }
            at += 1;
        }
    }

    /// A name, in quotes or not.
    fn name(self, what: &str) -> Parsed<String> {
        let part = self.trimmed();
        let text = part.text();
        match part.behind_quotes() {
            _ if text.is_empty() => part.expected(what),
            None => part.expected("a quote that ends"),
            Some(0) => Ok(text.to_owned()),
            Some(end) if end < text.len() => part.slice(end, text.len()).expected("nothing more after the quoted name"),
            Some(2) => part.expected(what),
            Some(end) => {
                let quote = &text[..1];
                Ok(text[1..end - 1].replace(&quote.repeat(2), quote))
            }
        }
    }

    /// `NAME=VALUE`: split at the last `=` after a quoted name.
    fn assignment(self, what: &str, value: &str) -> Parsed<(String, Part<'t>)> {
        let part = self.trimmed();
        let Some(behind) = part.behind_quotes() else { return part.expected("a quote that ends") };
        let Some(at) = part.text()[behind..].rfind('=') else {
            let end = part.slice(part.text().len(), part.text().len());
            return if part.text().is_empty() { part.expected(what) } else { end.expected(format!("={value}")) };
        };
        let name = part.slice(0, behind + at).name(what)?;
        Ok((name, part.slice(behind + at + 1, part.text().len()).trimmed()))
    }

    /// Takes ` KEY=VALUE` off its end, if that stands there.
    fn option(&mut self, key: &str) -> Option<Part<'t>> {
        *self = self.trimmed();
        let behind = self.behind_quotes()?;
        let text = self.text();
        let word = text[behind..].rfind(char::is_whitespace).map(|at| behind + at)?;
        let last = self.slice(word, text.len()).trimmed();
        let value = last.text().strip_prefix(key)?.strip_prefix('=')?;
        let value = last.slice(last.text().len() - value.len(), last.text().len());
        *self = self.slice(0, word).trimmed();
        Some(value)
    }

    /// A number without a sign.
    fn unsigned(self, what: &str) -> Parsed<f64> {
        self.scaled(1.0, what)
    }

    /// A number without a sign, of units of `scale`.
    fn scaled(self, scale: f64, what: &str) -> Parsed<f64> {
        /// Beyond this, numbers of things are mistakes.
        const LARGEST: f64 = 1e15;
        let text = self.text();
        let is_number =
            text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && text.bytes().any(|b| b.is_ascii_digit());
        match text.parse::<f64>() {
            Ok(n) if is_number && n * scale <= LARGEST => Ok(n * scale),
            _ => self.expected(what),
        }
    }

    /// Where the text ends in `suffix`: the part before.
    fn before(self, suffix: &str) -> Option<Part<'t>> {
        self.text().strip_suffix(suffix).map(|rest| self.slice(0, rest.len()))
    }

    /// Where the text begins with a sign: whether it is a minus, and what follows.
    fn signed(self) -> Option<(bool, Part<'t>)> {
        let is_minus = match self.text().as_bytes().first()? {
            b'+' => false,
            b'-' => true,
            _ => return None,
        };
        Some((is_minus, self.slice(1, self.text().len())))
    }

    /// `2x`, `+50%`, `-50%`, `50%`; `None` where it is none of these.
    fn times(self, what: &str) -> Parsed<Option<f64>> {
        if let Some(rest) = self.before("x") {
            return rest.unsigned(what).map(Some);
        }
        let Some(rest) = self.before("%") else { return Ok(None) };
        let factor = match rest.signed() {
            None => rest.unsigned(what)? / 100.0,
            Some((false, rest)) => 1.0 + rest.unsigned(what)? / 100.0,
            Some((true, rest)) => 1.0 - rest.unsigned(what)? / 100.0,
        };
        if factor < 0.0 { self.expected("at most -100%") } else { Ok(Some(factor)) }
    }

    /// A factor: also a bare number.
    fn factor(self, may_be_zero: bool) -> Parsed<f64> {
        let what = if may_be_zero { "a factor: 0.5, 2x or -50%" } else { "a factor above 0: 2x or +50%" };
        let factor = match self.times(what)? {
            Some(factor) => factor,
            None => self.unsigned(what)?,
        };
        if factor == 0.0 && !may_be_zero { self.expected(what) } else { Ok(factor) }
    }

    /// How many. `units`: K, M and G may stand behind.
    fn amount(self, units: bool) -> Parsed<Amount> {
        let what = "a number: +1 (more), 8 (in all), 2x, or unbounded";
        if self.text() == "unbounded" {
            return Ok(Amount::Unbounded);
        }
        if let Some(factor) = self.times(what)? {
            return Ok(Amount::Times(factor));
        }
        let whole = |part: Part<'t>| {
            let scales = [("K", 1024.0), ("M", 1_048_576.0), ("G", 1_073_741_824.0)];
            match scales.iter().find_map(|(unit, scale)| part.before(unit).filter(|_| units).map(|p| (p, *scale))) {
                Some((number, scale)) => number.scaled(scale, what),
                None => part.unsigned(what),
            }
        };
        match self.signed() {
            None => whole(self).map(Amount::To),
            Some((false, rest)) => whole(rest).map(Amount::By),
            Some((true, rest)) => whole(rest).map(|n| Amount::By(-n)),
        }
    }

    fn percent(self) -> Parsed<f64> {
        let what = "a share from 0% to 100%";
        match self.before("%") {
            Some(rest) => rest.unsigned(what).and_then(|p| if p > 100.0 { self.expected(what) } else { Ok(p) }),
            None => self.expected(what),
        }
    }

    fn bandwidth(self) -> Parsed<Bandwidth> {
        let what = "a bandwidth: 10x, +50%, 100Mbit or unbounded";
        if self.text() == "unbounded" {
            return Ok(Bandwidth::Unbounded);
        }
        let given = match (self.times(what)?, self.before("bit")) {
            (Some(factor), _) => Bandwidth::Times(factor),
            (None, None) => return self.expected(what),
            (None, Some(rest)) => {
                let scales = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
                let found = scales.iter().find_map(|(unit, scale)| rest.before(unit).map(|p| (p, *scale)));
                let (number, scale) = found.unwrap_or((rest, 1.0));
                Bandwidth::Bits(number.scaled(scale, what)?)
            }
        };
        // nothing would ever arrive
        if matches!(given, Bandwidth::Times(0.0) | Bandwidth::Bits(0.0)) { self.expected(what) } else { Ok(given) }
    }

    fn delay(self) -> Parsed<Delay> {
        let what = "a delay: -50%, 2x, +10ms or 5ms";
        if let Some(factor) = self.times(what)? {
            return Ok(Delay::Times(factor));
        }
        let (sign, rest) = match self.signed() {
            Some((is_minus, rest)) => (Some(is_minus), rest),
            None => (None, self),
        };
        let scales = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
        let Some((number, scale)) = scales.iter().find_map(|(unit, scale)| rest.before(unit).map(|p| (p, *scale)))
        else {
            return self.expected(what);
        };
        let ns = number.scaled(scale, what)?;
        // a day, far below the range of the types
        if ns > 86_400e9 {
            return self.expected("a delay of at most a day");
        }
        Ok(match sign {
            None => Delay::To(ns as u64),
            Some(false) => Delay::By(ns as i64),
            Some(true) => Delay::By(-(ns as i64)),
        })
    }
}

impl FromStr for Change {
    type Err = ParseError;

    fn from_str(text: &str) -> Parsed<Change> {
        let whole = Part { whole: text, from: 0, to: text.len(), example: VERBS[0].1 }.trimmed();
        let end = whole.text().find(char::is_whitespace).unwrap_or(whole.text().len());
        let verb = whole.slice(0, end);
        let Some((_, example)) = VERBS.iter().find(|(v, _)| *v == verb.text()) else {
            return no_verb(verb);
        };
        let rest = Part { example, ..whole.slice(end, whole.text().len()).trimmed() };
        match verb.text() {
            "scale" => scale(rest),
            "cpu" => {
                let (of, value) = rest.assignment("a host, a service or its processors", "+1")?;
                Ok(Change::Cpu { of, to: value.amount(false)? })
            }
            "speed" => {
                let (of, value) = rest.assignment("a host, a service or a disk", "2x")?;
                Ok(Change::Speed { of, factor: value.factor(false)? })
            }
            "link" => link(rest),
            "queue" => {
                let (name, value) = rest.assignment("a queue", "+N")?;
                Ok(Change::Queue { name, to: value.amount(true)? })
            }
            verb @ ("workers" | "threads" | "processes") => {
                let (of, value) = rest.assignment("a service", "+N")?;
                let to = value.amount(false)?;
                Ok(match verb {
                    "threads" => Change::Threads { of, to },
                    "processes" => Change::Processes { of, to },
                    _ => Change::Workers { of, to },
                })
            }
            "pool" => {
                let (name, value) = rest.assignment("a pool", "+N")?;
                Ok(Change::Pool { name, to: value.amount(false)? })
            }
            "drop" => drop(rest),
            "parallel" => parallel(rest),
            _ => cache(rest),
        }
    }
}

fn no_verb<T>(verb: Part<'_>) -> Parsed<T> {
    let near = VERBS.iter().min_by_key(|(v, _)| distance(v, verb.text())).unwrap_or(&VERBS[0]);
    let verbs: Vec<&str> = VERBS.iter().map(|v| v.0).collect();
    let guess = if distance(near.0, verb.text()) <= 2 { format!("; did you mean {}?", near.0) } else { String::new() };
    Part { example: near.1, ..verb }.expected(format!("one of {}{guess}", verbs.join(", ")))
}

fn scale(rest: Part<'_>) -> Parsed<Change> {
    let what = "HOST/PROCESS/STATE, each of which may be *";
    let (name, value) = rest.assignment(what, "0.5")?;
    // a process may have a slash in its name, as kworker/0:1
    let parts = name.split_once('/').and_then(|(host, rest)| rest.rsplit_once('/').map(|(p, s)| [host, p, s]));
    match parts {
        Some([host, process, state]) if [host, process, state].iter().all(|p| !p.is_empty() && p.trim() == *p) => {
            let (host, process, state) = (host.to_owned(), process.to_owned(), state.to_owned());
            Ok(Change::Scale { host, process, state, factor: value.factor(true)? })
        }
        _ => rest.expected(what),
    }
}

fn link(mut rest: Part<'_>) -> Parsed<Change> {
    let (mut bandwidth, mut delay) = (None, None);
    loop {
        if let Some(value) = rest.option("bandwidth") {
            let given = value.bandwidth()?;
            if bandwidth.replace(given).is_some() {
                return value.expected("bandwidth only once");
            }
        } else if let Some(value) = rest.option("delay") {
            let given = value.delay()?;
            if delay.replace(given).is_some() {
                return value.expected("delay only once");
            }
        } else {
            break;
        }
    }
    let between = rest.name("the two ends, as web1-db1")?;
    if bandwidth.is_none() && delay.is_none() {
        return rest.slice(rest.text().len(), rest.text().len()).expected("bandwidth=… or delay=… behind the two ends");
    }
    Ok(Change::Link { between, bandwidth, delay })
}

const SPAN: &str = "what is asked for, as `wakepath requests` and `wakepath show` print it";

fn drop(mut rest: Part<'_>) -> Parsed<Change> {
    let which = if let Some(value) = rest.option("share") {
        Which::Percent(value.percent()?)
    } else if let Some(value) = rest.option("keep") {
        let what = "how many of each visit's calls stay, as keep=1";
        match value.text().parse::<u32>() {
            Ok(n) if value.text().bytes().all(|b| b.is_ascii_digit()) => Which::Beyond(n),
            _ => return value.expected(what),
        }
    } else {
        Which::All
    };
    Ok(Change::Drop { span: rest.name(SPAN)?, which })
}

fn parallel(rest: Part<'_>) -> Parsed<Change> {
    let mut spans = Vec::new();
    let mut left = rest.trimmed();
    loop {
        if left.behind_quotes().is_none() {
            return left.expected("a quote that ends");
        }
        match left.find(|c| c == ',') {
            Some(at) => {
                spans.push(left.slice(0, at).name(SPAN)?);
                left = left.slice(at + 1, left.text().len()).trimmed();
            }
            None => {
                spans.push(left.name(SPAN)?);
                return Ok(Change::Parallel { spans });
            }
        }
    }
}

fn cache(mut rest: Part<'_>) -> Parsed<Change> {
    match rest.option("hit") {
        Some(value) => Ok(Change::Cache { hit: value.percent()?, span: rest.name(SPAN)? }),
        None => rest.slice(rest.text().len(), rest.text().len()).expected("what is asked for, and hit=90% behind it"),
    }
}
