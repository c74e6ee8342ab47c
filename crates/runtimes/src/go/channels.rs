//! Where Go's channels put items into their room and get them out, amid functions of the runtime.

use super::table::{Function, Functions};
use crate::Point;
use crate::program::Program;

/// Most bytes of code of one of these functions: they have one to three thousand.
const CODE_MAX: u64 = 1 << 16;
/// An item is copied out of a channel's room, and its place cleared at once: so many bytes lie between the two calls at most.
const COPY_TO_CLEAR: u64 = 48;

/// The calls of `typedmemmove` that put an item into a channel's room, and those of `typedmemclr` after one that got it out. `None`
/// where the functions do not have just the calls that Go 1.21 to 1.26 have: others may be in line there.
pub(super) fn rooms(program: &Program, functions: &Functions) -> Option<[(Point, u64); 4]> {
    let copies = functions.find("runtime.typedmemmove")?.address;
    let clears = functions.find("runtime.typedmemclr")?.address;
    let calls = |name| {
        let of = functions.find(name)?;
        let (copied, cleared) = (calls_in(program, of, copies)?, calls_in(program, of, clears)?);
        let got: Vec<u64> = cleared.into_iter().filter(|&c| is_behind(c, &copied)).collect();
        let put: Vec<u64> = copied.into_iter().filter(|&c| !got.iter().any(|&g| is_behind(g, &[c]))).collect();
        Some((put, got))
    };
    let (sends, receives) = (calls("runtime.chansend")?, calls("runtime.chanrecv")?);
    let selects = calls("runtime.selectgo")?;
    let all = [&sends, &receives, &selects].map(|(put, got)| (&put[..], &got[..]));
    let [(&[sent], &[]), (&[], &[received]), (&[put], &[got])] = all else { return None };
    let place = |point, address| Some((point, program.place(address)?));
    Some([
        place(Point::GoPuts, sent)?,
        place(Point::GoPuts, put)?,
        place(Point::GoGets, received)?,
        place(Point::GoGets, got)?,
    ])
}

fn is_behind(clear: u64, copies: &[u64]) -> bool {
    copies.iter().any(|&copy| clear.checked_sub(copy).is_some_and(|bytes| bytes <= COPY_TO_CLEAR))
}

/// The addresses of the instructions in a function that call another one.
pub(super) fn calls_in(program: &Program, of: Function, function: u64) -> Option<Vec<u64>> {
    let code = program.code(program.place(of.address)?, of.bytes.min(CODE_MAX))?;
    Some(calls_of(&code, of.address, function))
}

/// How long such an instruction is.
pub(super) const CALL_BYTES: u64 = 5;

/// The addresses of the instructions in code, which begins at an address, that call a function.
fn calls_of(code: &[u8], begin: u64, function: u64) -> Vec<u64> {
    const CALL: u8 = 0xe8;
    const BYTES: usize = CALL_BYTES as usize;
    let calls = code.windows(BYTES).enumerate().filter(|(at, c)| {
        let next = begin.wrapping_add((at + BYTES) as u64);
        let by = i32::from_le_bytes([c[1], c[2], c[3], c[4]]);
        c[0] == CALL && next.wrapping_add_signed(i64::from(by)) == function
    });
    calls.map(|(at, _)| begin + at as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_where_they_lead() {
        let mut code = vec![0x90; 40];
        code[3..8].copy_from_slice(&[0xe8, 0xf8, 0xff, 0xff, 0xff]);
        code[20..25].copy_from_slice(&[0xe8, 0x07, 0x00, 0x00, 0x00]);
        assert_eq!(calls_of(&code, 0x1000, 0x1000), [0x1003]);
        assert_eq!(calls_of(&code, 0x1000, 0x1020), [0x1014]);
        assert_eq!(calls_of(&code, 0x1000, 0x1021), []);
    }

    #[test]
    fn a_place_is_cleared_right_behind_the_copy() {
        assert!(is_behind(0x1030, &[0x1000]) && is_behind(0x1030, &[0x900, 0x1010]));
        assert!(!is_behind(0x1031, &[0x1000]) && !is_behind(0x1000, &[0x1010]));
    }
}
