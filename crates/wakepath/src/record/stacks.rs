//! What the addresses of a stack mean while its process is there to be asked: files and offsets.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use wakepath_capture::StackTable;
use wakepath_capture::procfs::{self, Mapping};
use wakepath_model::defects::id as defect;
use wakepath_model::ids::StrId;
use wakepath_model::stack::push_frame;

/// Programs whose code is remembered at once; beyond, all are looked up again.
const IMAGES_MAX: usize = 1024;
/// Stacks whose text is remembered at once.
const KNOWN_MAX: usize = 1 << 17;
/// Most bytes of stacks' texts in one recording: other strings need room too.
const TEXT_BYTES_MAX: usize = 12 << 20;
/// A process's code is read again for an address that was not in it, but not more often than this.
const AGAIN: Duration = Duration::from_secs(1);

/// The stacks of a recording.
pub struct Stacks {
    table: StackTable,
    images: HashMap<(u32, u64), Image>,
    known: HashMap<(u32, u64, u32), StrId>,
    /// Build ids by file: path and inode.
    build_ids: HashMap<(String, u64), String>,
    text_bytes: usize,
}

/// The code of a process, as it was when it was looked at.
struct Image {
    code: Vec<(Mapping, String)>,
    looked: Instant,
}

impl Stacks {
    /// None seen yet.
    pub fn new(table: StackTable) -> Stacks {
        Stacks { table, images: HashMap::new(), known: HashMap::new(), build_ids: HashMap::new(), text_bytes: 0 }
    }

    /// The text of stack `id` in a process that runs `image`, and what of it was lost. A stack is looked up once for each process.
    pub fn text(
        &mut self,
        tgid: u32,
        image: u64,
        id: u32,
        intern: impl FnOnce(&[u8]) -> StrId,
    ) -> (StrId, Option<&'static str>) {
        if let Some(known) = self.known.get(&(tgid, image, id)) {
            return (*known, None);
        }
        let Some(frames) = self.table.frames(id) else {
            return (StrId::EMPTY, Some(defect::STACK_LOST));
        };
        self.look(tgid, image, &frames);
        let Some(Image { code, .. }) = self.images.get(&(tgid, image)) else {
            return (StrId::EMPTY, Some(defect::STACK_UNMAPPED));
        };
        let mut text = String::new();
        for &address in &frames {
            match find(code, address) {
                Some((m, build_id)) if m.inode != 0 => {
                    push_frame(&mut text, &m.path, build_id, address - m.start + m.offset);
                }
                Some((m, _)) => push_frame(&mut text, &m.path, "", address),
                None => push_frame(&mut text, "", "", address),
            }
        }
        self.text_bytes += text.len();
        if self.text_bytes > TEXT_BYTES_MAX {
            return (StrId::EMPTY, Some(defect::STACK_LOST));
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let interned = intern(text.as_bytes());
        self.known.insert((tgid, image, id), interned);
        (interned, None)
    }

    /// Reads the process's code where it is not known, or where it may have grown.
    fn look(&mut self, tgid: u32, image: u64, frames: &[u64]) {
        if let Some(i) = self.images.get(&(tgid, image))
            && (frames.iter().all(|&a| find(&i.code, a).is_some()) || i.looked.elapsed() < AGAIN)
        {
            return;
        }
        let Some(mappings) = procfs::mappings(tgid, image) else { return };
        if self.images.len() >= IMAGES_MAX {
            self.images.clear();
            self.build_ids.clear();
        }
        let code = mappings.into_iter().map(|m| {
            let key = (m.path.clone(), m.inode);
            let build_id =
                self.build_ids.entry(key).or_insert_with(|| procfs::build_id(tgid, &m).unwrap_or_default()).clone();
            (m, build_id)
        });
        let code = code.collect();
        self.images.insert((tgid, image), Image { code, looked: Instant::now() });
    }
}

fn find(code: &[(Mapping, String)], address: u64) -> Option<&(Mapping, String)> {
    // mappings come in order of address
    let after = code.partition_point(|(m, _)| m.start <= address);
    code.get(after.checked_sub(1)?).filter(|(m, _)| address < m.end)
}
