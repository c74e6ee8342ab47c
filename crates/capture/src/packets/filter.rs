//! tcpdump's filter language: expressions are compiled by libpcap, which is loaded when the first one is given.

use crate::CaptureError;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock};
use wakepath_wire::packet::{Packet, link};

/// Names of the library: Debian and Ubuntu, the others, development packages.
const NAMES: [&CStr; 3] = [c"libpcap.so.0.8", c"libpcap.so.1", c"libpcap.so"];
/// "Some network mask": only `ip broadcast` would need a real one.
const NETMASK_UNKNOWN: u32 = 0xffff_ffff;
/// libpcap's own number for bare IP, which differs from that in files.
const DLT_RAW: u32 = 12;
const BPF_LD_W_ABS: u16 = 0x20;
const BPF_JEQ_K: u16 = 0x15;
const BPF_RET_K: u16 = 0x06;

#[repr(C)]
struct Program {
    length: u32,
    instructions: *mut libc::sock_filter,
}

// SAFETY: these are the types that <pcap/pcap.h> declares, the same in every version. Instructions are `struct bpf_insn`, which
// is laid out as the kernel's `sock_filter`.
type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut Program, *const c_char, c_int, u32) -> c_int;
type GetError = unsafe extern "C" fn(*mut c_void) -> *mut c_char;
type FreeCode = unsafe extern "C" fn(*mut Program);
type Close = unsafe extern "C" fn(*mut c_void);
type Run = unsafe extern "C" fn(*const libc::sock_filter, *const u8, u32, u32) -> u32;
// SAFETY: as above.
type Version = unsafe extern "C" fn() -> *const c_char;

/// The functions of libpcap that are used.
struct Library {
    open_dead: OpenDead,
    compile: Compile,
    error: GetError,
    free: FreeCode,
    close: Close,
    run: Run,
    version: Version,
    /// Compiling uses global state in old versions.
    compiling: Mutex<()>,
}

fn library() -> Result<&'static Library, CaptureError> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().ok_or_else(|| {
        CaptureError::Packets(
            "filters need libpcap, which is not on this host. Install it (apt-get install libpcap0.8, dnf install libpcap), \
             or leave --filter out"
                .into(),
        )
    })
}

fn load() -> Option<Library> {
    // SAFETY: names end in a zero byte. libpcap's initialisers do nothing but fill its own tables.
    let handle = NAMES.iter().map(|n| unsafe { libc::dlopen(n.as_ptr(), libc::RTLD_NOW) }).find(|h| !h.is_null())?;
    // SAFETY: the types are those that the names are declared with, see above.
    unsafe {
        Some(Library {
            open_dead: symbol::<OpenDead>(handle, c"pcap_open_dead")?,
            compile: symbol::<Compile>(handle, c"pcap_compile")?,
            error: symbol::<GetError>(handle, c"pcap_geterr")?,
            free: symbol::<FreeCode>(handle, c"pcap_freecode")?,
            close: symbol::<Close>(handle, c"pcap_close")?,
            run: symbol::<Run>(handle, c"bpf_filter")?,
            version: symbol::<Version>(handle, c"pcap_lib_version")?,
            compiling: Mutex::new(()),
        })
    }
}

/// A function of a library that is never closed.
///
/// # Safety
/// `F` is the type of a pointer to the function of that name.
unsafe fn symbol<F: Copy>(handle: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is a library's, and the name ends in a zero byte.
    let p = unsafe { libc::dlsym(handle, name.as_ptr()) };
    // SAFETY: not null, of the same size, and of that type, which the caller answers for.
    (!p.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&p) })
}

/// What libpcap says of itself; an error where filters cannot be had on this host.
pub fn libpcap() -> Result<String, CaptureError> {
    let library = library()?;
    // SAFETY: it returns a string that is never freed.
    Ok(unsafe { CStr::from_ptr((library.version)()) }.to_string_lossy().into_owned())
}

/// A compiled filter: which packets are wanted.
///
/// What the bytes of a packet begin with decides how it is looked at, so the expression is compiled once for each link type that
/// is met.
pub struct Filter {
    library: &'static Library,
    expression: CString,
    /// By link type; none where the expression means nothing there, and so matches no packet.
    programs: Vec<(u32, Option<Vec<libc::sock_filter>>)>,
}

impl Filter {
    /// Compiles an expression of tcpdump's language (`man pcap-filter`).
    ///
    /// [`CaptureError::Filter`] has libpcap's words where the expression is wrong; another error says what to install where libpcap
    /// is not there.
    pub fn compile(expression: &str) -> Result<Filter, CaptureError> {
        let library = library()?;
        let c = CString::new(expression)
            .map_err(|_| CaptureError::Filter(format!("filter {expression:?}: a zero byte is in it")))?;
        let mut filter = Filter { library, expression: c, programs: Vec::new() };
        // what is wrong for Ethernet may be right for bare IP, but not the other way round for anything of use
        let program = filter
            .compile_for(link::ETHERNET)
            .map_err(|words| CaptureError::Filter(format!("filter {expression:?}: {words}; see man pcap-filter")))?;
        filter.programs.push((link::ETHERNET, Some(program)));
        Ok(filter)
    }

    /// Whether the packet is wanted. In a packet of a file or tunnel, as in tcpdump, what is behind a VLAN tag is found only
    /// by an expression that says `vlan`.
    pub fn matches(&mut self, packet: &Packet<'_>) -> bool {
        let (run, bytes) = (self.library.run, packet.bytes);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // SAFETY: libpcap compiled the program, whose every path ends in a return; it reads `bytes` no further than `length`.
        self.program(packet.link)
            .is_some_and(|p| unsafe { run(p.as_ptr(), bytes.as_ptr(), packet.length, length) } != 0)
    }

    fn program(&mut self, link: u32) -> Option<&[libc::sock_filter]> {
        let at = match self.programs.iter().position(|(l, _)| *l == link) {
            Some(at) => at,
            None => {
                let program = self.compile_for(link).ok();
                self.programs.push((link, program));
                self.programs.len() - 1
            }
        };
        self.programs[at].1.as_deref()
    }

    fn compile_for(&self, link: u32) -> Result<Vec<libc::sock_filter>, String> {
        let dlt = if link == link::RAW { DLT_RAW } else { link };
        let dlt = c_int::try_from(dlt).map_err(|_| "no such link type".to_owned())?;
        let l = self.library;
        let _guard = l.compiling.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: the calls are those that pcap_compile(3) prescribes: the handle is closed and the program freed once, the
        // message is copied before the handle goes, and instructions are read as far as the program's length.
        unsafe {
            let handle = (l.open_dead)(dlt, c_int::from(u16::MAX));
            if handle.is_null() {
                return Err("libpcap has no memory".into());
            }
            let mut program = Program { length: 0, instructions: std::ptr::null_mut() };
            let r = (l.compile)(handle, &mut program, self.expression.as_ptr(), 1, NETMASK_UNKNOWN);
            let result = if r == 0 {
                Ok(std::slice::from_raw_parts(program.instructions, program.length as usize).to_vec())
            } else {
                Err(CStr::from_ptr((l.error)(handle)).to_string_lossy().into_owned())
            };
            if r == 0 {
                (l.free)(&mut program);
            }
            (l.close)(handle);
            result
        }
    }

    /// Whether the kernel cannot decide for this link type, so that [`Self::matches`] has to.
    pub(super) fn is_for_user_space(&self, link: u32) -> bool {
        link != link::ETHERNET || self.asks_for_tags()
    }

    /// The kernel takes a packet's VLAN tag off before a filter sees it; only where it was put back can it be asked for.
    fn asks_for_tags(&self) -> bool {
        let text = self.expression.to_bytes();
        text.split(|b| !b.is_ascii_alphanumeric()).any(|word| word == b"vlan")
    }
}

/// The program for the kernel: cuts packets to `snaplen` bytes, and drops those of Ethernet that the filter does not want.
pub(super) fn kernel_program(filter: Option<&mut Filter>, snaplen: u32) -> Vec<libc::sock_filter> {
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let accept = op(BPF_RET_K, 0, 0, snaplen);
    let wanted = filter.filter(|f| !f.asks_for_tags()).and_then(|f| f.program(link::ETHERNET));
    let Some(wanted) = wanted else { return vec![accept] };
    let hardware = (libc::SKF_AD_OFF + libc::SKF_AD_HATYPE) as u32;
    let mut program = vec![
        op(BPF_LD_W_ABS, 0, 0, hardware),
        op(BPF_JEQ_K, 2, 0, libc::ARPHRD_ETHER.into()),
        op(BPF_JEQ_K, 1, 0, libc::ARPHRD_LOOPBACK.into()),
        accept,
    ];
    // what it returns for a packet that it wants is how much of it
    program.extend(wanted.iter().map(|i| match i.code {
        BPF_RET_K if i.k != 0 => accept,
        _ => *i,
    }));
    program
}
