//! The kernel's verifier allows a chain of calls 512 bytes of stack. Kernels before 6.13 hold every program of ours against that; newer
//! ones give most programs a stack of their own, so that they would load what an older one refuses. Here the compiled object itself is
//! held against the older rule (`check_max_stack_depth` in the kernel's verifier).
//!
//! What is read is an upper bound: the verifier leaves out what the configuration turns off.

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SymbolKind};
use std::collections::{BTreeMap, HashMap};

/// Bytes that all frames of a chain of calls may have (`MAX_BPF_STACK`).
const STACK_MAX: u32 = 512;
/// Functions of a chain (`MAX_CALL_FRAMES`).
const FRAMES_MAX: usize = 8;
/// Each frame counts as a multiple of this, and none as nothing.
const FRAME_STEP: u32 = 32;
/// Chains that are printed.
const SHOWN: usize = 8;

const REGISTERS: usize = 11;
const FRAME_POINTER: usize = 10;

/// A function of the object.
#[derive(Debug)]
struct Function {
    /// Its program's section; `.text` where it is no program.
    section: String,
    /// Bytes of machine code.
    code: usize,
    /// Bytes of its own frame.
    stack: u32,
    /// Functions that it calls, or hands to a helper that does.
    calls: Vec<String>,
}

/// One instruction of eight bytes; of two, the first half.
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    to: usize,
    from: usize,
    offset: i16,
    value: i32,
}

impl Instruction {
    fn read(bytes: &[u8]) -> Instruction {
        Instruction {
            code: bytes[0],
            to: usize::from(bytes[1] & 0xf),
            from: usize::from(bytes[1] >> 4),
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            value: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }

    fn class(self) -> u8 {
        self.code & 7
    }
}

// Instructions, as the kernel documents them (instruction-set.rst).
const LDX: u8 = 1;
const ST: u8 = 2;
const STX: u8 = 3;
const JMP: u8 = 5;
const JMP32: u8 = 6;
const LD_IMM64: u8 = 0x18;
const ADD64_IMM: u8 = 0x07;
const ADD64_REG: u8 = 0x0f;
const MOV64_REG: u8 = 0xbf;
const JA: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// `from` of a call of one of our own functions.
const PSEUDO_CALL: usize = 1;

/// Of each register the lowest place in the frame that it may point at, from the frame's upper end; `None` = not into the frame.
type Registers = [Option<i32>; REGISTERS];

/// The lowest place of its frame that a function's code uses, by following what points into it through all branches. A pointer that
/// was kept in the frame itself is not followed further: where it pointed was seen before.
fn frame_of(code: &[Instruction]) -> u32 {
    let mut before: Vec<Option<Registers>> = vec![None; code.len()];
    let mut first = [None; REGISTERS];
    first[FRAME_POINTER] = Some(0);
    let (mut lowest, mut open) = (0, vec![(0, first)]);
    while let Some((at, new)) = open.pop() {
        let Some(&i) = code.get(at) else { continue };
        let Some(mut now) = joined(&mut before[at], new) else { continue };
        if let Some(used) = used(i, &now) {
            lowest = lowest.min(used);
        }
        step(i, &mut now);
        lowest = now.iter().flatten().fold(lowest, |l, r| l.min(*r));
        assert!(lowest > -65_536, "a pointer into the stack moves in a loop");
        let wide = usize::from(i.code == LD_IMM64);
        let target = (at + 1).wrapping_add_signed(isize::from(i.offset));
        let is_jump = matches!(i.class(), JMP | JMP32) && i.code != CALL && i.code != EXIT;
        if is_jump {
            open.push((target, now));
        }
        if i.code != EXIT && i.code != JA {
            open.push((at + 1 + wide, now));
        }
    }
    lowest.unsigned_abs()
}

/// What may be in the registers before an instruction, with one way more to it; `None` where that adds nothing.
fn joined(before: &mut Option<Registers>, new: Registers) -> Option<Registers> {
    let Some(old) = before else {
        *before = Some(new);
        return Some(new);
    };
    let mut both = *old;
    for (b, n) in both.iter_mut().zip(new) {
        *b = match (*b, n) {
            (Some(x), Some(y)) => Some(x.min(y)),
            (x, y) => x.or(y),
        };
    }
    if both == *old {
        return None;
    }
    *before = Some(both);
    Some(both)
}

/// The place of the frame that an instruction reads or writes.
fn used(i: Instruction, registers: &Registers) -> Option<i32> {
    let by = match i.class() {
        LDX => i.from,
        ST | STX => i.to,
        _ => return None,
    };
    Some(registers[by]? + i32::from(i.offset))
}

/// What an instruction leaves in the registers.
fn step(i: Instruction, registers: &mut Registers) {
    match (i.code, i.class()) {
        (MOV64_REG, _) => registers[i.to] = registers[i.from],
        (ADD64_IMM, _) => registers[i.to] = registers[i.to].map(|r| r.saturating_add(i.value)),
        (CALL, _) => registers[..6].fill(None),
        // what is added is not negative, or the verifier would have to know how much
        (ADD64_REG, _) => registers[i.to] = registers[i.to].or(registers[i.from]),
        (_, ST | STX | JMP | JMP32) => {}
        _ => registers[i.to] = None,
    }
}

/// The functions of a compiled object by name.
fn functions(object: &[u8]) -> BTreeMap<String, Function> {
    let file = object::File::parse(object).expect("the build script made an object");
    let at = places(&file);
    let mut found = BTreeMap::new();
    for (&(section, begin), (name, bytes)) in &at {
        let section = file.section_by_index(section).expect("a symbol's section");
        let data = section.data().expect("code");
        let code: Vec<_> = data[begin..begin + bytes].chunks_exact(8).map(Instruction::read).collect();
        let calls = calls(&file, &section, begin..begin + bytes, &code, &at);
        let function = Function {
            section: section.name().expect("a name").to_owned(),
            code: *bytes,
            stack: frame_of(&code),
            calls,
        };
        assert!(found.insert(name.clone(), function).is_none(), "two functions are called {name}");
    }
    found
}

/// Name and bytes of the functions, by section and place in it.
type Places = HashMap<(SectionIndex, usize), (String, usize)>;

fn places(file: &object::File<'_>) -> Places {
    file.symbols()
        .filter(|s| s.kind() == SymbolKind::Text && s.size() > 0)
        .filter_map(|s| {
            Some(((s.section_index()?, s.address() as usize), (s.name().ok()?.to_owned(), s.size() as usize)))
        })
        .collect()
}

/// The functions that the code of one refers to.
fn calls(
    file: &object::File<'_>,
    section: &object::Section<'_, '_>,
    range: std::ops::Range<usize>,
    code: &[Instruction],
    places: &Places,
) -> Vec<String> {
    let is_call = |i: &Instruction| i.code == CALL && i.from == PSEUDO_CALL;
    let mut out = Vec::new();
    let mut relocated = HashMap::new();
    for (at, relocation) in section.relocations() {
        let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
        relocated.insert(at as usize, file.symbol_by_index(symbol).expect("a relocation's symbol"));
    }
    for (n, i) in code.iter().enumerate() {
        let at = range.start + n * 8;
        // where the instruction is not relocated, the function is in the same section
        let (of, place) = match relocated.get(&at) {
            None if is_call(i) => (section.index(), at as i64 + 8 + i64::from(i.value) * 8),
            None => continue,
            Some(symbol) => match (symbol.section_index(), symbol.kind()) {
                (Some(of), SymbolKind::Text) => (of, symbol.address() as i64),
                (Some(of), SymbolKind::Section) if is_call(i) => (of, (i64::from(i.value) + 1) * 8),
                (Some(of), SymbolKind::Section) if i.code == LD_IMM64 => (of, i64::from(i.value)),
                // a function of the kernel's, or a datum
                _ => continue,
            },
        };
        match places.get(&(of, place as usize)) {
            Some((name, _)) => out.push(name.clone()),
            None => assert!(!is_call(i), "a call of nothing at {at}"),
        }
    }
    out.sort();
    out.dedup();
    out
}

/// The bytes of stack that the deepest chain of calls from a function takes, and that chain.
fn deepest<'a>(functions: &'a BTreeMap<String, Function>, name: &'a str, above: usize) -> (u32, Vec<&'a str>) {
    assert!(above < FRAMES_MAX, "more than {FRAMES_MAX} functions call one another down to {name}");
    let function = &functions[name];
    let own = function.stack.max(1).next_multiple_of(FRAME_STEP);
    let below = function.calls.iter().map(|c| deepest(functions, c, above + 1)).max_by_key(|(bytes, _)| *bytes);
    let (bytes, mut chain) = below.unwrap_or_default();
    chain.insert(0, name);
    (own + bytes, chain)
}

#[test]
fn every_chain_of_calls_fits_the_stack_that_older_kernels_allow() {
    let functions = functions(include_bytes!(concat!(env!("OUT_DIR"), "/wakepath.bpf.o")));
    let mut chains: Vec<_> = functions
        .iter()
        .filter(|(_, f)| f.section != ".text")
        .map(|(name, f)| (deepest(&functions, name, 0), f.code))
        .collect();
    assert!(chains.len() > 40, "the programs of the object were found");
    chains.sort_by_key(|((bytes, _), _)| std::cmp::Reverse(*bytes));
    println!("stack, of {STACK_MAX} bytes at most; code of the program itself; deepest chain, each with its own frame");
    for ((bytes, chain), code) in chains.iter().take(SHOWN) {
        let chain: Vec<_> = chain.iter().map(|f| format!("{f} {}", functions[*f].stack)).collect();
        println!("{bytes:5} {code:6}  {}", chain.join(" > "));
    }
    let code: usize = functions.values().map(|f| f.code).sum();
    println!("machine code in all: {code} bytes");
    let ((bytes, chain), _) = &chains[0];
    assert!(
        *bytes <= STACK_MAX,
        "{} take {bytes} bytes of stack: kernels before 6.13 refuse to load it",
        chain.join(" > ")
    );
}

/// `to`, `from`: registers.
fn instruction(code: u8, to: usize, from: usize, offset: i16, value: i32) -> Instruction {
    Instruction { code, to, from, offset, value }
}

const STORE64: u8 = 0x7b;
const LOAD64: u8 = 0x79;
const JUMP_IF_ZERO: u8 = 0x15;

#[test]
fn a_frame_is_as_deep_as_what_is_stored_and_what_is_pointed_at() {
    let exit = instruction(EXIT, 0, 0, 0, 0);
    assert_eq!(frame_of(&[exit]), 0);
    let stored = [instruction(STORE64, 10, 1, -24, 0), exit];
    assert_eq!(frame_of(&stored), 24);
    // a helper is given a buffer: nothing between the move and the sum belongs to it
    let pointer = [
        instruction(MOV64_REG, 2, 10, 0, 0),
        instruction(LOAD64, 1, 6, 0, 0),
        instruction(ADD64_IMM, 2, 0, 0, -104),
        instruction(CALL, 0, 0, 0, 113),
        exit,
    ];
    assert_eq!(frame_of(&pointer), 104);
}

#[test]
fn a_frame_is_followed_through_branches_and_no_further_than_calls() {
    let exit = instruction(EXIT, 0, 0, 0, 0);
    // r6 points into the frame on one of two ways; after both, something is stored below it
    let branches = [
        instruction(MOV64_REG, 6, 1, 0, 0),
        instruction(JUMP_IF_ZERO, 2, 0, 2, 0),
        instruction(MOV64_REG, 6, 10, 0, 0),
        instruction(ADD64_IMM, 6, 0, 0, -64),
        instruction(STORE64, 6, 3, -8, 0),
        exit,
    ];
    assert_eq!(frame_of(&branches), 72);
    // r2 is a number after the call
    let called = [
        instruction(MOV64_REG, 2, 10, 0, 0),
        instruction(CALL, 0, 0, 0, 113),
        instruction(ADD64_IMM, 2, 0, 0, -4000),
        exit,
    ];
    assert_eq!(frame_of(&called), 0);
}

#[test]
fn frames_of_a_chain_count_in_steps_and_the_deepest_branch_counts() {
    let function = |section: &str, stack, calls: &[&str]| Function {
        section: section.to_owned(),
        code: 8,
        stack,
        calls: calls.iter().map(|c| (*c).to_owned()).collect(),
    };
    let functions = BTreeMap::from([
        ("program".to_owned(), function("tp_btf/x", 40, &["leaf", "middle"])),
        ("middle".to_owned(), function(".text", 0, &["leaf"])),
        ("leaf".to_owned(), function(".text", 64, &[])),
    ]);
    assert_eq!(deepest(&functions, "program", 0), (64 + 32 + 64, vec!["program", "middle", "leaf"]));
}
