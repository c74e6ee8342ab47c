//! Where packets come from: interfaces, tunnels, files.

use crate::captures::Capture;
use crate::cli::SniffArgs;
use anyhow::{Context as _, Result};
use std::time::Duration;
use wakepath_capture::packets::{Filter, Listen, LiveOptions, LiveSource, TunnelOptions, TunnelSource};
use wakepath_decode::readers::pcap::Record;
use wakepath_model::ids::MonoNs;
use wakepath_wire::packet::Packet;

/// Between two looks at whether the end was asked for, where nothing comes.
pub const TICK: Duration = Duration::from_millis(20);

/// What a source hands over.
pub enum Taken<'a> {
    Packet(&'a Packet<'a>),
    /// Packets were lost between two times.
    Lost(MonoNs, MonoNs, u64),
}

/// A source of packets.
pub enum Source {
    Live(LiveSource),
    Tunnel(TunnelSource),
    Files(Files),
}

impl Source {
    /// Opens what the command line names. Needs rights but for files.
    pub fn open(args: &SniffArgs) -> Result<Source> {
        let filter = args.filter.as_deref().map(Filter::compile).transpose()?;
        let bytes = usize::try_from(args.ring_bytes.0).unwrap_or(usize::MAX);
        if !args.pcap.is_empty() {
            let files = args.pcap.iter().map(|p| Capture::open(p)).collect::<Result<Vec<_>>>()?;
            return Ok(Source::Files(Files::new(files, filter)));
        }
        if !args.iface.is_empty() {
            return Ok(Source::Live(LiveSource::open(LiveOptions {
                interfaces: args.iface.clone(),
                ring_bytes: bytes,
                snaplen: args.snaplen.0.min(u64::from(u32::MAX)) as u32,
                filter,
                promiscuous: !args.no_promiscuous,
            })?));
        }
        let mut listen = Vec::new();
        for text in &args.listen {
            listen.extend(Listen::parse(text).map_err(anyhow::Error::msg).context("--listen")?);
        }
        Ok(Source::Tunnel(TunnelSource::open(TunnelOptions { listen, address: None, buffer_bytes: bytes, filter })?))
    }

    /// Hands over what has come; `false` at the end. Waits no longer than [`TICK`], but for a file's disk.
    pub fn next(&mut self, out: &mut impl FnMut(Taken<'_>)) -> Result<bool> {
        match self {
            Source::Live(live) => {
                live.poll(TICK, &mut |p| out(Taken::Packet(p)))?;
            }
            Source::Tunnel(tunnel) => {
                tunnel.poll(TICK, &mut |p| out(Taken::Packet(p)))?;
            }
            Source::Files(files) => return files.next(out),
        }
        Ok(true)
    }

    /// Packets that the kernel dropped since the last call.
    pub fn drops(&mut self) -> u64 {
        match self {
            Source::Live(live) => live.drops(),
            Source::Tunnel(tunnel) => tunnel.drops(),
            Source::Files(_) => 0,
        }
    }

    /// What there is to tell, in sentences.
    pub fn take_notices(&mut self) -> Vec<String> {
        match self {
            Source::Live(live) => live.take_notices(),
            Source::Tunnel(_) | Source::Files(_) => Vec::new(),
        }
    }

    /// Bytes of files that there are, where that is known.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Source::Files(files) => files.all.iter().map(|f| f.capture.bytes).sum(),
            _ => None,
        }
    }

    /// Bytes of files read so far.
    pub fn done(&self) -> u64 {
        match self {
            Source::Files(files) => files.all.iter().map(|f| f.capture.done()).sum(),
            _ => 0,
        }
    }
}

/// Capture files, one or several in order of time.
pub struct Files {
    all: Vec<File>,
    filter: Option<Filter>,
}

struct File {
    capture: Capture,
    is_over: bool,
    /// Of several files: what was read of this one and not handed over, from `next` on.
    held: Vec<Held>,
    bytes: Vec<u8>,
    next: usize,
}

/// A record whose bytes are kept.
enum Held {
    Packet { packet: Packet<'static>, start: usize, end: usize },
    Lost { from: u64, at: u64, count: u64 },
}

impl Held {
    fn at(&self) -> u64 {
        match self {
            Held::Packet { packet, .. } => packet.at_ns,
            Held::Lost { at, .. } => *at,
        }
    }
}

impl Files {
    fn new(captures: Vec<Capture>, filter: Option<Filter>) -> Files {
        let file = |capture: Capture| File { capture, is_over: false, held: Vec::new(), bytes: Vec::new(), next: 0 };
        Files { all: captures.into_iter().map(file).collect(), filter }
    }

    /// What was wrong with the files.
    pub fn captures(&self) -> impl Iterator<Item = &Capture> {
        self.all.iter().map(|f| &f.capture)
    }

    fn next(&mut self, out: &mut impl FnMut(Taken<'_>)) -> Result<bool> {
        let Files { all, filter } = self;
        let mut wanted = |p: &Packet<'_>| filter.as_mut().is_none_or(|f| f.matches(p));
        if let [file] = &mut all[..] {
            return file.read(&mut |record| match record {
                Record::Packet(p) if wanted(&p) => out(Taken::Packet(&p)),
                Record::Packet(_) => {}
                Record::Lost { from_ns, at_ns, count, .. } => out(Taken::Lost(MonoNs(from_ns), MonoNs(at_ns), count)),
            });
        }
        // the next of each file must be known before any is handed over
        for (i, file) in all.iter_mut().enumerate() {
            while file.next >= file.held.len() && !file.is_over {
                if !file.fill(i as u32, &mut wanted)? && !file.is_over {
                    return Ok(true);
                }
            }
        }
        let mut is_any = false;
        loop {
            let first = all.iter().enumerate().filter_map(|(i, f)| Some((f.held.get(f.next)?.at(), i))).min();
            let Some((_, i)) = first else { return Ok(is_any) };
            is_any = true;
            let file = &mut all[i];
            match &file.held[file.next] {
                Held::Packet { packet, start, end } => {
                    out(Taken::Packet(&Packet { bytes: &file.bytes[*start..*end], ..*packet }));
                }
                Held::Lost { from, at, count } => out(Taken::Lost(MonoNs(*from), MonoNs(*at), *count)),
            }
            file.next += 1;
            if file.next == file.held.len() && !file.is_over {
                return Ok(true);
            }
        }
    }
}

impl File {
    /// Reads a chunk; `false` at the end, and, of standard input and pipes, also `true` where nothing came.
    fn read(&mut self, out: &mut impl FnMut(Record<'_>)) -> Result<bool> {
        if !self.capture.is_ready(TICK) {
            return Ok(true);
        }
        let more = self.capture.next(out)?;
        self.is_over = !more;
        Ok(more)
    }

    /// Reads a chunk to hold it; `false` where nothing came of it.
    fn fill(&mut self, number: u32, wanted: &mut impl FnMut(&Packet<'_>) -> bool) -> Result<bool> {
        let (mut held, mut bytes) = (std::mem::take(&mut self.held), std::mem::take(&mut self.bytes));
        held.clear();
        bytes.clear();
        self.next = 0;
        let reads = self.capture.done();
        self.read(&mut |record| match record {
            Record::Packet(p) if wanted(&p) => {
                let start = bytes.len();
                bytes.extend_from_slice(p.bytes);
                // interfaces of one file are not those of another
                let interface = number << 16 | p.interface & 0xffff;
                let packet = Packet { bytes: &[], interface, ..p_meta(&p) };
                held.push(Held::Packet { packet, start, end: bytes.len() });
            }
            Record::Packet(_) => {}
            Record::Lost { from_ns, at_ns, count, .. } => held.push(Held::Lost { from: from_ns, at: at_ns, count }),
        })?;
        // times go back a little between the queues of a device
        held.sort_by_key(Held::at);
        (self.held, self.bytes) = (held, bytes);
        Ok(self.capture.done() > reads || !self.held.is_empty())
    }
}

/// A packet without its bytes.
fn p_meta(p: &Packet<'_>) -> Packet<'static> {
    Packet { at_ns: p.at_ns, link: p.link, interface: p.interface, length: p.length, bytes: &[] }
}
