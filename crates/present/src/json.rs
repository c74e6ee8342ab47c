//! The document that every answering command prints with `--json`: `schema`, `version`, `losses`, then its own part.
//! Times are integer nanoseconds. The schemas are in `docs/schemas/`.

use crate::losses::Loss;
use serde::Serialize;
use std::io::{self, Write};

#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'a str,
    version: &'a str,
    losses: &'a [Loss],
    #[serde(flatten)]
    body: &'a T,
}

/// The document of `schema` (`wakepath.info/1`) with a body that serialises as an object.
pub fn document<T: Serialize>(schema: &str, losses: &[Loss], body: &T) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    write(&mut out, schema, losses, body)?;
    String::from_utf8(out).map_err(serde::ser::Error::custom)
}

/// The same, written as it is made: for bodies that are not held in memory.
pub fn write<T: Serialize>(
    out: &mut impl Write,
    schema: &str,
    losses: &[Loss],
    body: &T,
) -> Result<(), serde_json::Error> {
    let document = Document { schema, version: env!("CARGO_PKG_VERSION"), losses, body };
    serde_json::to_writer_pretty(WithoutControls(&mut *out), &document)?;
    out.write_all(b"\n").map_err(serde_json::Error::io)
}

/// Escapes the controls that JSON allows in strings (DEL and C1), since a document is also looked at on a terminal.
/// Outside strings JSON is plain ASCII without DEL, so every such character stands in a string. It must be given whole
/// characters at once, as the serialiser does: no buffer may stand before it.
struct WithoutControls<W>(W);

impl<W: Write> Write for WithoutControls<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const DEL: u8 = 0x7f;
        // of C1 in UTF-8
        const FIRST: u8 = 0xc2;
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|b| matches!(*b, DEL | FIRST)) {
            let (before, behind) = rest.split_at(at);
            self.0.write_all(before)?;
            rest = match behind {
                [DEL, behind @ ..] => {
                    self.0.write_all(b"\\u007f")?;
                    behind
                }
                [FIRST, c @ 0x80..=0x9f, behind @ ..] => {
                    write!(self.0, "\\u{c:04x}")?;
                    behind
                }
                _ => {
                    let (one, behind) = behind.split_at(1);
                    self.0.write_all(one)?;
                    behind
                }
            };
        }
        self.0.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Body {
        at_ns: u64,
        name: &'static str,
    }

    #[test]
    fn the_envelope_stands_around_the_body() -> Result<(), serde_json::Error> {
        let text = document("wakepath.test/1", &[], &Body { at_ns: u64::MAX, name: "ä\u{9b}\x1b\"b\x7f" })?;
        assert!(!text.contains(|c: char| c != '\n' && c.is_control()), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text)?;
        assert_eq!(value["schema"], "wakepath.test/1");
        assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(value["losses"], serde_json::json!([]));
        assert_eq!(value["at_ns"], u64::MAX);
        assert_eq!(value["name"], "ä\u{9b}\x1b\"b\x7f");
        Ok(())
    }
}
