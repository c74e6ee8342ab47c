//! X11, core protocol (X Window System Protocol, X11 release 7.7), as a client speaks it.
//!
//! ```text
//! > set-up                              request, verb SETUP; its reply ok, or error
//! > InternAtom, GetGeometry, …          requests, verb their name, witness the sequence number
//! < reply, or error                     reply, ok, or error with its number and name
//! > PolyLine, and all others            unsolicited: they have no reply
//! < event                               unsolicited, verb EVENT; so is an error that answers no request
//! ```
//!
//! Requests and replies of extensions are unsolicited, as nothing on the wire says which of them belong together. Read
//! from the set-up on only: in mid-stream neither byte order nor sequence number is known. Not handled: the several
//! replies to ListFontsWithInfo (the first is the reply, the others are unsolicited).

use crate::duplex::{BAD, Duplex, Fit, Framer, Stop, Unit, Wire};
use crate::registry::{About, Docs};
use crate::{Attrs, Dir, Outcome, Role, Status, Witness};

/// Bytes kept of a message's head in each direction.
pub const HEAD: usize = 32;

/// The X11 processor.
pub type X11 = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.x11",
    ports: &[6000, 6001],
    recognise,
    bytes_max: 384,
    docs: Docs {
        what: "X11 from its set-up on, as a client speaks it",
        request: "a core request that has a reply",
        kept: "request's name, error",
        pairs: "sequence number",
    },
    ..About::NEW
};

/// What of X11 is remembered between units.
pub struct Framing {
    /// Numbers have their low byte first.
    little: bool,
    /// The set-up was sent; it was answered.
    begun: [bool; 2],
    sequence: u16,
    /// Sequence numbers of the requests that wait for replies, oldest first; when it is full, the oldest goes.
    pending: [u16; 64],
    count: u8,
}

/// The core requests from number 1 on (protocol, appendix B); those with a reply end in `?`.
#[rustfmt::skip]
const REQUESTS: &[&str] = &[
    "CreateWindow", "ChangeWindowAttributes", "GetWindowAttributes?", "DestroyWindow", "DestroySubwindows",
    "ChangeSaveSet", "ReparentWindow", "MapWindow", "MapSubwindows", "UnmapWindow", "UnmapSubwindows",
    "ConfigureWindow", "CirculateWindow", "GetGeometry?", "QueryTree?", "InternAtom?", "GetAtomName?",
    "ChangeProperty", "DeleteProperty", "GetProperty?", "ListProperties?", "SetSelectionOwner", "GetSelectionOwner?",
    "ConvertSelection", "SendEvent", "GrabPointer?", "UngrabPointer", "GrabButton", "UngrabButton",
    "ChangeActivePointerGrab", "GrabKeyboard?", "UngrabKeyboard", "GrabKey", "UngrabKey", "AllowEvents", "GrabServer",
    "UngrabServer", "QueryPointer?", "GetMotionEvents?", "TranslateCoordinates?", "WarpPointer", "SetInputFocus",
    "GetInputFocus?", "QueryKeymap?", "OpenFont", "CloseFont", "QueryFont?", "QueryTextExtents?", "ListFonts?",
    "ListFontsWithInfo?", "SetFontPath", "GetFontPath?", "CreatePixmap", "FreePixmap", "CreateGC", "ChangeGC",
    "CopyGC", "SetDashes", "SetClipRectangles", "FreeGC", "ClearArea", "CopyArea", "CopyPlane", "PolyPoint",
    "PolyLine", "PolySegment", "PolyRectangle", "PolyArc", "FillPoly", "PolyFillRectangle", "PolyFillArc", "PutImage",
    "GetImage?", "PolyText8", "PolyText16", "ImageText8", "ImageText16", "CreateColormap", "FreeColormap",
    "CopyColormapAndFree", "InstallColormap", "UninstallColormap", "ListInstalledColormaps?", "AllocColor?",
    "AllocNamedColor?", "AllocColorCells?", "AllocColorPlanes?", "FreeColors", "StoreColors", "StoreNamedColor",
    "QueryColors?", "LookupColor?", "CreateCursor", "CreateGlyphCursor", "FreeCursor", "RecolorCursor",
    "QueryBestSize?", "QueryExtension?", "ListExtensions?", "ChangeKeyboardMapping", "GetKeyboardMapping?",
    "ChangeKeyboardControl", "GetKeyboardControl?", "Bell", "ChangePointerControl", "GetPointerControl?",
    "SetScreenSaver", "GetScreenSaver?", "ChangeHosts", "ListHosts?", "SetAccessControl", "SetCloseDownMode",
    "KillClient", "RotateProperties", "ForceScreenSaver", "SetPointerMapping?", "GetPointerMapping?",
    "SetModifierMapping?", "GetModifierMapping?",
];

#[rustfmt::skip]
const ERRORS: [&str; 18] = [
    "OTHER", "Request", "Value", "Window", "Pixmap", "Atom", "Cursor", "Font", "Match", "Drawable", "Access", "Alloc",
    "Colormap", "GContext", "IDChoice", "Name", "Length", "Implementation",
];

impl Framer for Framing {
    const NEW: Framing = Framing { little: true, begun: [false; 2], sequence: 0, pending: [0; 64], count: 0 };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match (dir, self.begun) {
            (Dir::ToServer, [false, _]) => setup_fits(bytes),
            (Dir::ToClient, [true, false]) => (bytes[0] <= 2).into(),
            _ => Fit::No,
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], _: bool) -> Unit {
        match wire.dir {
            Dir::ToServer if !self.begun[0] => {
                self.little = bytes[0] == b'l';
                let head = bytes.get(..12).ok_or(Stop::Need)?;
                let padded = |at| u64::from(self.half(head, at)).next_multiple_of(4);
                let total = 12 + padded(6) + padded(8);
                self.begun[0] = true;
                let attrs = Attrs::alone("SETUP");
                wire.whole(Role::Request, wire.behind(total), 12, attrs, &[]);
                Ok(total)
            }
            Dir::ToServer => self.request(wire, bytes),
            Dir::ToClient if !self.begun[1] => {
                let head = bytes.get(..8).ok_or(Stop::Need)?;
                let total = 8 + u64::from(self.half(head, 6)) * 4;
                let outcome = match head[0] {
                    0 => Outcome::Error,
                    1 => Outcome::Ok,
                    _ => Outcome::Unknown, // it wants to know more
                };
                self.begun[1] = true;
                let attrs = Attrs::status("", Status { outcome, ..Status::default() });
                wire.whole(Role::Reply, wire.behind(total), 8, attrs, &[]);
                Ok(total)
            }
            Dir::ToClient => self.answer(wire, bytes),
        }
    }
}

impl Framing {
    fn half(&self, bytes: &[u8], at: usize) -> u16 {
        let pair = [bytes[at], bytes[at + 1]];
        if self.little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) }
    }

    fn long(&self, bytes: &[u8], at: usize) -> u32 {
        let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) }
    }

    fn request(&mut self, wire: &mut Wire<'_>, bytes: &[u8]) -> Unit {
        let head = bytes.get(..4).ok_or(Stop::Need)?;
        let total = match self.half(head, 2) {
            0 => u64::from(self.long(bytes.get(..8).ok_or(Stop::Need)?, 4)) * 4, // BIG-REQUESTS
            words => u64::from(words) * 4,
        };
        if total < 4 {
            return Err(BAD);
        }
        self.sequence = self.sequence.wrapping_add(1);
        let name = match head[0] {
            127 => "NoOperation",
            128.. => "Extension",
            number => REQUESTS.get(usize::from(number).wrapping_sub(1)).copied().ok_or(BAD)?,
        };
        let verb = name.trim_end_matches('?');
        let asks = verb.len() < name.len();
        if asks {
            if usize::from(self.count) == self.pending.len() {
                self.pending.rotate_left(1);
                self.count -= 1;
            }
            self.pending[usize::from(self.count)] = self.sequence;
            self.count += 1;
        }
        let role = if asks { Role::Request } else { Role::Unsolicited };
        let attrs = Attrs::alone(verb);
        wire.whole(role, wire.behind(total), 4, attrs, &[Witness::X11(self.sequence)]);
        Ok(total)
    }

    fn answer(&mut self, wire: &mut Wire<'_>, bytes: &[u8]) -> Unit {
        let head = bytes.get(..8).ok_or(Stop::Need)?;
        let (kind, sequence) = (head[0], self.half(head, 2));
        let more = if matches!(kind & 0x7f, 1 | 35) { u64::from(self.long(head, 4)) * 4 } else { 0 };
        let total = 32 + more;
        let mut role = Role::Unsolicited;
        if kind < 2 {
            let waiting = &self.pending[..usize::from(self.count)];
            if let Some(at) = waiting.iter().position(|number| *number == sequence) {
                // Replies come in order: what was asked before has none.
                self.pending.rotate_left(at + 1);
                self.count -= at as u8 + 1;
                role = Role::Reply;
            }
        }
        let status = match kind {
            0 => Status {
                outcome: Outcome::Error,
                code: Some(head[1].into()),
                class: ERRORS.get(usize::from(head[1])).copied().unwrap_or("OTHER"),
            },
            1 => Status::OK,
            _ => Status::default(),
        };
        let verb = match (role, kind) {
            (Role::Reply, _) => "",
            (_, 0) => "ERROR",
            (_, 1) => "REPLY",
            _ => "EVENT",
        };
        let witness = [Witness::X11(sequence)];
        let witnesses = if kind < 2 { &witness[..] } else { &[] };
        wire.whole(role, wire.behind(total), 8, Attrs::status(verb, status), witnesses);
        Ok(total)
    }
}

/// Whether `bytes` begin like a set-up: byte order, version 11.0, and what names the authorisation.
fn setup_fits(bytes: &[u8]) -> Fit {
    let shape: [&[u8]; 2] = [&[b'l', 0, 11, 0, 0, 0], &[b'B', 0, 0, 11, 0, 0]];
    let like = |shape: &&[u8]| {
        let count = bytes.len().min(6);
        bytes[0] == shape[0] && bytes[2.min(count)..count] == shape[2.min(count)..count]
    };
    match shape.iter().any(like) {
        true if bytes.len() < 12 => Fit::More,
        yes => yes.into(),
    }
}

/// Whether a flow of which these are the first bytes is X11: by the client's set-up.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    if dir == Dir::ToServer { setup_fits(bytes).and_sure() } else { Fit::No }
}
