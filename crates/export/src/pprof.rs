//! Where critical paths went, as a profile of pprof: its frames are host, service, program, cause, and who was waited for.

use crate::protobuf::Message;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::io::{self, Write};
use wakepath_analysis::flame::{Flame, Stack};
use wakepath_present::text::escaped;

/// The frames of a stack, outermost first; what only needs a name to stand for itself is left as it is.
pub fn frames(stack: &Stack) -> Vec<String> {
    let mut frames = vec![
        escaped(&stack.host).into_owned(),
        escaped(&stack.service).into_owned(),
        escaped(&stack.program).into_owned(),
        stack.cause.name().to_owned(),
    ];
    if !stack.by.is_empty() {
        frames.push(escaped(&stack.by).into_owned());
    }
    frames
}

/// Numbers for things that are told once.
#[derive(Default)]
struct Numbered(BTreeMap<String, u64>, Vec<String>);

impl Numbered {
    fn number(&mut self, text: &str) -> u64 {
        let next = self.1.len() as u64;
        if let Some(&number) = self.0.get(text) {
            return number;
        }
        self.0.insert(text.to_owned(), next);
        self.1.push(text.to_owned());
        next
    }
}

/// Writes the profile, compressed as pprof wants it. `span`: begin and end of the recording (ns since 1970).
pub fn write(flame: &Flame, span: (i64, i64), out: &mut dyn Write) -> io::Result<()> {
    let mut to = GzEncoder::new(out, Compression::default());
    to.write_all(profile(flame, span).bytes())?;
    to.finish().map(drop)
}

fn profile(flame: &Flame, span: (i64, i64)) -> Message {
    let (mut texts, mut functions) = (Numbered::default(), Numbered::default());
    texts.number("");
    let mut p = Message::default();
    let value_type = |texts: &mut Numbered, m: &mut Message, name: &str, unit: &str| {
        m.put_int(1, texts.number(name).cast_signed());
        m.put_int(2, texts.number(unit).cast_signed());
    };
    p.put(1, |m| value_type(&mut texts, m, "slices", "count"));
    p.put(1, |m| value_type(&mut texts, m, "critical_path", "nanoseconds"));
    for (stack, time) in &flame.stacks {
        // a frame is known by its level too, so that a program and a service of one name stay two
        let levels: Vec<u64> =
            frames(stack).iter().enumerate().map(|(n, f)| functions.number(&format!("{n}{f}")) + 1).collect();
        p.put(2, |sample| {
            sample.put_packed(1, levels.into_iter().rev());
            sample.put_packed(2, [time.slices, u64::try_from(time.ns).unwrap_or(u64::MAX)].into_iter());
        });
    }
    for (n, named) in functions.1.iter().enumerate() {
        let id = n as u64 + 1;
        p.put(4, |location| {
            location.put_uint(1, id);
            location.put(4, |line| line.put_uint(1, id));
        });
        let (level, name) = named.split_at(1);
        let level = ["host", "service", "program", "cause", "by"][level.parse::<usize>().unwrap_or(0)];
        p.put(5, |function| {
            function.put_uint(1, id);
            function.put_int(2, texts.number(name).cast_signed());
            function.put_int(4, texts.number(level).cast_signed());
        });
    }
    let default = texts.number("critical_path").cast_signed();
    for text in &texts.1 {
        p.put_bytes_always(6, text.as_bytes());
    }
    p.put_int(9, span.0);
    p.put_int(10, span.1.saturating_sub(span.0));
    p.put_int(14, default);
    p
}
