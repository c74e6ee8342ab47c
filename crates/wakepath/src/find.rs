//! The request that a command line names.

use crate::suggest;
use anyhow::{Result, bail};
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::kind_of;
use wakepath_analysis::spans::lay_out;
use wakepath_causality::path::Request;
use wakepath_model::folder::Folder;
use wakepath_model::ids::StrId;

/// The request of an id or its first digits, or the slowest (of a kind) whose end was seen; where none was, the oldest. Of all kinds, one
/// whose messages were read goes before an opaque one: a shell's pipe is hardly what is looked for.
///
/// # Errors
/// Where there is none, or where several begin with the digits.
pub fn request(folder: &Folder, names: &Names<'_>, wanted: &str, kind: Option<&str>) -> Result<Request> {
    let wanted = wanted.trim().to_ascii_lowercase();
    let is_slowest = wanted == "slowest";
    if !is_slowest && (wanted.is_empty() || !wanted.bytes().all(|b| b.is_ascii_hexdigit())) {
        bail!(
            "{wanted:?} is not a request: give an id or its first digits, as `wakepath requests` prints them, or \
             `slowest`"
        );
    }
    // one that the recording's end cut off would have taken longer, and nobody knows how long
    let mut found: Option<((bool, bool, u64), Request)> = None;
    let mut others = 0u64;
    let is_of_kind = |r: &Request| {
        kind.is_none_or(|k| {
            let (service, asked) = kind_of(r, names);
            asked == k || format!("{service} {asked}") == k
        })
    };
    wakepath_causality::reconstruct(
        folder,
        |r| {
            let rank = (is_read(&r), !r.is_in_progress(), lay_out(&r).first().map_or(0, |t| t.duration_ns()));
            let is_it = if is_slowest {
                r.orphan.is_none() && found.as_ref().is_none_or(|f| f.0 < rank) && is_of_kind(&r)
            } else {
                let hit = format!("{:016x}", r.id).starts_with(&wanted);
                others += u64::from(hit && found.is_some());
                hit && found.is_none()
            };
            if is_it {
                found = Some((rank, r));
            }
        },
        |_, _, _, _| {},
    );
    match (found, kind) {
        (Some(_), _) if others > 0 => bail!("{} requests begin with {wanted:?}: give more digits", others + 1),
        (Some((_, request)), _) => Ok(request),
        (None, Some(kind)) if is_slowest => bail!("no request of kind {kind:?}: {}", suggest::kind(folder, kind)),
        (None, _) if is_slowest => bail!("no request was seen; `wakepath info` shows what was recorded"),
        (None, _) => {
            bail!("no request begins with {wanted:?}; `wakepath requests` lists kinds with the ids of their slowest")
        }
    }
}

/// Whether the protocol of what the client asked is known.
fn is_read(r: &Request) -> bool {
    let root = &r.spans[0];
    root.callee.as_ref().or(root.caller.as_ref()).is_some_and(|h| h.exchange.content.protocol != StrId::EMPTY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_testkit::recording::Cuts;
    use wakepath_testkit::script::play;

    /// What the slowest request of a script asked, by its length (µs).
    fn slowest(steps: &str) -> u64 {
        let dir = tempfile::tempdir().expect("a folder");
        let script = format!("task A app\ntask S sh\nflow c - A\nflow p - S opaque\n{steps}");
        let dirs = play(&script).expect("the script").write(&dir.path().join("t"), Cuts::default()).expect("written");
        let folder = Folder::open(&dirs).expect("opened");
        let found = request(&folder, &Names::read(&folder), "slowest", None).expect("a request");
        lay_out(&found)[0].duration_ns() / 1_000
    }

    #[test]
    fn a_request_that_was_read_goes_before_an_opaque_one() {
        let opaque = "100 S takes r1 p\n900 S answers r1\n";
        assert!(slowest(opaque) >= 800);
        let read = slowest(&format!("{opaque}1000 A takes r2 c\n1100 A answers r2\n"));
        assert!((100..200).contains(&read), "{read}");
    }
}
