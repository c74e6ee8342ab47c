//! Readers of other tracers' files: bytes in, [raw events](crate::raw) out. They open no file: the caller hands them
//! bytes, or something to read bytes from. Of a packet capture packets go out, for [`crate::network`].

pub mod ctf;
mod facts;
pub mod ftrace;
mod lttng;
pub mod marks;
pub mod pcap;
pub mod perf;
pub mod registry;
mod tracefs;
mod tracepoints;
mod window;

pub use facts::{Counts, Fault, HostFacts, Progress};

/// A file, or anything else of a known size that can be read at any place.
pub trait ReadAt {
    /// Bytes in all, as far as is known now.
    fn size(&self) -> u64;

    /// Reads bytes from offset `at` on; how many were read, 0 at the end.
    ///
    /// # Errors
    /// What the system says; the reader counts it as the end of the file.
    fn read_at(&self, at: u64, buf: &mut [u8]) -> std::io::Result<usize>;
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use crate::raw::{Raw, RawSink};
    use wakepath_model::ids::MonoNs;

    /// Keeps each event as a line.
    #[derive(Default)]
    pub struct Kept(pub Vec<String>);

    impl RawSink for Kept {
        fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
            self.0.push(format!("{} {cpu} {event:?}", at.0));
        }

        fn lost(&mut self, cpu: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
            self.0.push(format!("{} {cpu:?} lost {count} from {}", to.0, from.0));
        }

        fn count(&mut self, defect: &'static str, at: MonoNs) {
            self.0.push(format!("{} defect {defect}", at.0));
        }
    }
}
