//! Frames of 802.11, as controllers of access points tunnel them.

use super::{Layer, Stop, Unread, Walk, ether};

/// A frame without its check sum (IEEE 802.11, 9.2 and 9.3.2): of data, what LLC says that it carries.
pub(super) fn inside(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    let &[control, flags] = walk.head()?;
    let (version, kind, subtype) = (control & 3, control >> 2 & 3, control >> 4);
    if version != 0 {
        return Err(Stop::Malformed);
    }
    // Management, control, and data frames without data.
    if kind != 2 || subtype & 4 != 0 {
        return Unread::stop("802.11 without data", control.into());
    }
    if flags & 0x40 != 0 {
        return Unread::stop("802.11, encrypted", control.into());
    }
    let is_relayed = flags & 3 == 3;
    let has_quality = subtype & 8 != 0;
    let is_ordered = has_quality && flags & 0x80 != 0;
    walk.skip(24 + 6 * usize::from(is_relayed) + 2 * usize::from(has_quality) + 4 * usize::from(is_ordered))?;
    ether::llc(walk)
}
