//! Where Go's crypto/tls reads and writes records.
//!
//! All that is received goes through calls in `(*Conn).readRecordOrCCS`. The probes are at these calls, and at the first branch after each. A
//! uretprobe changes the return address, and Go moves stacks. A probe at each `ret` costs five times one at a call or at a branch, because the
//! kernel steps the program through it.

use super::first_step;
use super::table::{Function, Functions};
use crate::TlsPoint;
use crate::program::Program;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic};

/// Most bytes of code of that function: it has twelve thousand at most.
const CODE_MAX: u64 = 1 << 17;

/// The probes; `None` if the program has no crypto/tls, or not as it is known.
pub(crate) fn places(program: &Program) -> Option<Vec<(TlsPoint, u64)>> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let functions = Functions::read(program)?;
    let writes = program.place(functions.find("crypto/tls.(*Conn).writeRecordLocked")?.address)?;
    let writes = writes + first_step(&program.bytes_at(writes)?)?;
    let record = functions.find("crypto/tls.(*Conn).readRecordOrCCS")?;
    let reads = functions.find("crypto/tls.(*Conn).readFromUntil")?.address;
    let decrypts = functions.find("crypto/tls.(*halfConn).decrypt")?.address;
    let code = program.code(program.place(record.address)?, record.bytes.min(CODE_MAX))?;
    let mut places = vec![(TlsPoint::GoWrites, writes)];
    for call in calls(&code, record, reads) {
        places.push((TlsPoint::GoReads, program.place(call.at)?));
        places.push((TlsPoint::GoHasRead, program.place(call.returned)?));
    }
    let is_known = places.len() > 1;
    let decrypted = calls(&code, record, decrypts);
    for call in &decrypted {
        places.push((TlsPoint::GoDecrypts, program.place(call.returned)?));
    }
    (is_known && !decrypted.is_empty()).then_some(places)
}

/// An instruction that calls a function, and one after it, at which all that the function returned is still in registers.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    at: u64,
    returned: u64,
}

/// The calls of a function in another one's code.
fn calls(code: &[u8], of: Function, function: u64) -> Vec<Call> {
    let instructions: Vec<_> = Decoder::with_ip(64, code, of.address, DecoderOptions::NONE).iter().collect();
    let is_it = |i: &Instruction| i.code() == Code::Call_rel32_64 && i.near_branch_target() == function;
    let called = instructions.iter().enumerate().filter(|(_, i)| is_it(i));
    called.map(|(n, i)| Call { at: i.ip(), returned: returned(i.next_ip(), &instructions[n + 1..]) }).collect()
}

/// Where a probe costs least after a call: at a conditional branch, which the kernel carries out without stepping the program, if nothing on
/// the way to it writes a register. Go's compiler begins no block between a call and the branch that ends its block.
fn returned(next: u64, after: &[Instruction]) -> u64 {
    let is_passive = |i: &&Instruction| matches!(i.mnemonic(), Mnemonic::Nop | Mnemonic::Test | Mnemonic::Cmp);
    // `xchg %ax,%ax`, as Go pads code, is a `nop` too
    let branch = after.iter().find(|i| !is_passive(i));
    branch.filter(|i| matches!(i.mnemonic(), Mnemonic::Je | Mnemonic::Jne)).map_or(next, Instruction::ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;

    /// A call of what is at 0x2000, and what comes after it.
    fn returned_after(after: &[u8]) -> Vec<Call> {
        let far = 0x2000u32 - (AT as u32 + 6);
        let code = [&[0x90, 0xe8][..], &far.to_le_bytes(), after].concat();
        calls(&code, Function { address: AT, bytes: code.len() as u64 }, 0x2000)
    }

    #[test]
    fn a_probe_after_a_call_is_at_the_branch_if_no_register_is_written_before_it() {
        let call = |returned| [Call { at: AT + 1, returned }];
        // test rsi, rsi; jne, as after `decrypt`
        assert_eq!(returned_after(b"\x48\x85\xf6\x0f\x85\x10\x00\x00\x00"), call(AT + 9));
        // nop; test rax, rax; je, as after `readFromUntil` of Go 1.22 and of Go 1.26
        assert_eq!(returned_after(b"\x66\x90\x48\x85\xc0\x74\x30"), call(AT + 11));
        assert_eq!(returned_after(b"\x0f\x1f\x44\x00\x00\x48\x85\xc0\x0f\x84\x10\x00\x00\x00"), call(AT + 14));
        // mov rax, rcx; test; je: what was returned is overwritten
        assert_eq!(returned_after(b"\x48\x89\xc8\x48\x85\xc0\x74\x30"), call(AT + 6));
        // another way to go on than a condition
        assert_eq!(returned_after(b"\xeb\x10"), call(AT + 6));
        assert_eq!(returned_after(b""), call(AT + 6));
    }

    #[test]
    fn calls_of_others_are_none() {
        let code = [0xe8, 0x10, 0, 0, 0, 0x48, 0x85, 0xc0, 0x74, 0];
        assert_eq!(calls(&code, Function { address: AT, bytes: 10 }, 0x2000), []);
    }
}
