//! The document that every answering command prints with `--json`: `schema`, `version`, `losses`, then its own part.
//! Times are integer nanoseconds. The schemas are in `docs/schemas/`.

use crate::losses::Loss;
use serde::Serialize;

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
    let text = serde_json::to_string_pretty(&Document { schema, version: env!("CARGO_PKG_VERSION"), losses, body })?;
    Ok(without_controls(text) + "\n")
}

/// Escapes the controls that JSON allows in strings (DEL and C1), since a document is also looked at on a terminal.
fn without_controls(text: String) -> String {
    let is_control = |c: char| matches!(c, '\x7f'..='\u{9f}');
    if !text.contains(is_control) {
        return text;
    }
    // Outside strings JSON is plain ASCII without DEL, so every such character stands in a string.
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_control(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
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
        let text = document("wakepath.test/1", &[], &Body { at_ns: u64::MAX, name: "a\u{9b}\x1b\"b" })?;
        assert!(text.is_ascii() && !text.contains('\x1b'), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text)?;
        assert_eq!(value["schema"], "wakepath.test/1");
        assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(value["losses"], serde_json::json!([]));
        assert_eq!(value["at_ns"], u64::MAX);
        assert_eq!(value["name"], "a\u{9b}\x1b\"b");
        Ok(())
    }
}
