//! Where a library calls functions of others.

use crate::program::Program;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind};

/// Most bytes of code that are read for it.
const CODE_MAX: u64 = 16 << 20;
/// Sections of stubs, each of which jumps to a function of another library.
const STUBS: [&str; 3] = [".plt", ".plt.sec", ".plt.got"];

/// The addresses of all instructions that call a function of another library's, or go on with it. Each begins an instruction: the code is
/// decoded from its beginning, and compilers put no data amid it. None where it does not say which functions it calls.
pub(crate) fn of(program: &Program, function: &str) -> Vec<u64> {
    let slots = program.slots_of(function);
    let mut stubs = Vec::new();
    for name in STUBS {
        let mut before = Instruction::default();
        each(program, name, |i| {
            if slots.contains(&to_slot(i)) {
                let is_marked = before.code() == Code::Endbr64 && before.next_ip() == i.ip();
                stubs.push(if is_marked { before.ip() } else { i.ip() });
            }
            before = *i;
        });
    }
    let mut calls = Vec::new();
    each(program, ".text", |i| {
        let is_near = matches!(i.code(), Code::Call_rel32_64 | Code::Jmp_rel32_64);
        if slots.contains(&to_slot(i)) || is_near && stubs.contains(&i.near_branch_target()) {
            calls.push(i.ip());
        }
    });
    calls
}

/// The slot through which an instruction calls or jumps; 0 where it does neither.
fn to_slot(i: &Instruction) -> u64 {
    let is_by_slot = matches!(i.code(), Code::Call_rm64 | Code::Jmp_rm64)
        && i.op0_kind() == OpKind::Memory
        && i.is_ip_rel_memory_operand();
    if is_by_slot { i.ip_rel_memory_address() } else { 0 }
}

fn each(program: &Program, section: &str, f: impl FnMut(&Instruction)) {
    let Some((code, address)) = program.section(section, CODE_MAX).zip(program.address_of(section)) else { return };
    let mut f = f;
    for i in &mut Decoder::with_ip(64, &code, address, DecoderOptions::NONE) {
        f(&i);
    }
}
