//! Where a library calls functions of others.

use crate::program::Program;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind};

/// Most bytes of code that are read for it.
const CODE_MAX: u64 = 16 << 20;
/// Sections of stubs, each of which jumps to a function of another library.
const STUBS: [&str; 3] = [".plt", ".plt.sec", ".plt.got"];

/// The addresses of all instructions that call some functions of other libraries, or go on with them, and which of these. Each begins an
/// instruction: the code is decoded from its beginning, and compilers put no data amid it. Empty where it calls none of them.
pub(crate) fn of<const N: usize>(program: &Program, functions: [&str; N]) -> Vec<(usize, u64)> {
    let slots = functions.map(|function| program.slots_of(function));
    let by_slot = |i: &Instruction| slots.iter().position(|slots| slots.contains(&to_slot(i)));
    let mut stubs = Vec::new();
    for name in STUBS {
        let mut before = Instruction::default();
        each(program, name, |i| {
            if let Some(function) = by_slot(i) {
                let is_marked = before.code() == Code::Endbr64 && before.next_ip() == i.ip();
                stubs.push((function, if is_marked { before.ip() } else { i.ip() }));
            }
            before = *i;
        });
    }
    let by_stub = |i: &Instruction| {
        let is_near = matches!(i.code(), Code::Call_rel32_64 | Code::Jmp_rel32_64);
        stubs.iter().find(|(_, stub)| is_near && *stub == i.near_branch_target()).map(|(function, _)| *function)
    };
    let mut calls = Vec::new();
    each(program, ".text", |i| {
        if let Some(function) = by_slot(i).or_else(|| by_stub(i)) {
            calls.push((function, i.ip()));
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

fn each(program: &Program, section: &str, mut f: impl FnMut(&Instruction)) {
    let Some((code, address)) = program.section(section, CODE_MAX).zip(program.address_of(section)) else { return };
    for i in &mut Decoder::with_ip(64, &code, address, DecoderOptions::NONE) {
        f(&i);
    }
}
