//! `wakepath mirror show`: mirrors and what they are made of, as text and as JSON.

use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;

/// The document's schema.
pub const SCHEMA: &str = "wakepath.mirror/1";

/// Mirrors that there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MirrorsView {
    /// By id.
    pub mirrors: Vec<MirrorView>,
}

/// One mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MirrorView {
    /// Its id.
    pub id: String,
    /// Packets copied so far, where that is counted.
    pub packets: Option<u64>,
    /// Their bytes.
    pub bytes: Option<u64>,
    /// What it is made of.
    pub parts: Vec<PartView>,
}

/// A row, flow or filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartView {
    /// `mirror`, `port`, `flow`, `filter`, `qdisc` or `mark`.
    pub kind: &'static str,
    /// The bridge or interface that it is on.
    pub on: String,
    /// What it is, in the words of the tool that made it.
    pub text: String,
    /// Packets copied so far, where that is counted.
    pub packets: Option<u64>,
    /// Their bytes.
    pub bytes: Option<u64>,
}

impl MirrorsView {
    /// Parts with the ids of their mirrors, those of one mirror together.
    pub fn new(parts: impl Iterator<Item = (String, PartView)>) -> MirrorsView {
        let mut mirrors: Vec<MirrorView> = Vec::new();
        for (id, part) in parts {
            if mirrors.last().is_none_or(|m| m.id != id) {
                mirrors.push(MirrorView { id, packets: None, bytes: None, parts: Vec::new() });
            }
            if let Some(mirror) = mirrors.last_mut() {
                let sum = |a: Option<u64>, b: Option<u64>| b.map_or(a, |b| Some(a.unwrap_or(0) + b));
                mirror.packets = sum(mirror.packets, part.packets);
                mirror.bytes = sum(mirror.bytes, part.bytes);
                mirror.parts.push(part);
            }
        }
        MirrorsView { mirrors }
    }

    /// As text.
    pub fn render(&self, style: Style) -> String {
        if self.mirrors.is_empty() {
            return "No mirrors.\n".into();
        }
        let mut out = String::new();
        for mirror in &self.mirrors {
            let copied = match (mirror.packets, mirror.bytes) {
                (Some(packets), Some(bytes)) => format!(", {packets} packets, {}", units::bytes(bytes)),
                _ => String::new(),
            };
            let _ = writeln!(out, "{}{copied}", style.paint(&mirror.id, Tint::Strong));
            for part in &mirror.parts {
                let indent = "         ";
                let text = wrap(&sanitise(&format!("on {}: {}", part.on, part.text)), indent, style.prose());
                let _ = writeln!(out, "  {:6} {}", part.kind, text.trim());
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: &'static str, text: &str, packets: Option<u64>) -> PartView {
        PartView { kind, on: "br0".into(), text: text.into(), packets, bytes: packets.map(|p| p * 100) }
    }

    #[test]
    fn parts_are_gathered_and_summed() {
        let parts = [
            ("0badcafe", part("flow", "tcp,tp_dst=80", Some(3))),
            ("0badcafe", part("flow", "tcp,tp_src=80", Some(4))),
            ("0badcafe", part("port", "wkp0badcafe", None)),
            ("1badcafe", part("mark", "x\u{1b}[2J", None)),
        ];
        let view = MirrorsView::new(parts.into_iter().map(|(id, p)| (id.to_owned(), p)));
        assert_eq!(view.mirrors.len(), 2);
        assert_eq!(
            (view.mirrors[0].packets, view.mirrors[0].bytes, view.mirrors[0].parts.len()),
            (Some(7), Some(700), 3)
        );
        assert_eq!((view.mirrors[1].packets, view.mirrors[1].bytes), (None, None));
        let text = view.render(Style::default());
        assert!(text.contains("0badcafe, 7 packets, 700 B\n  flow   on br0: tcp,tp_dst=80\n"), "{text}");
        assert!(!text.contains('\u{1b}'));
        assert_eq!(MirrorsView::new(std::iter::empty()).render(Style::default()), "No mirrors.\n");
    }
}
