use super::*;
use crate::made::{Types, types};

#[test]
fn members_of_unnamed_structs_are_found_in_the_one_around_them() {
    let btf = crate::made::btf();
    assert_eq!(btf.place("mm_struct", "arg_end"), Some(Place { at: 0x110, bytes: 8 }));
    assert_eq!(btf.place("sock_common", "skc_rcv_saddr"), Some(Place { at: 4, bytes: 4 }));
    assert_eq!(btf.place("net", "ns.inum"), Some(Place { at: 0x50, bytes: 4 }));
    assert_eq!(btf.place("net", "ns.other"), None);
    assert_eq!(btf.place("net", "inum"), None, "a named member's are its own");
    assert_eq!(btf.place("nothing", "at_all"), None);
    assert_eq!(btf.of_each_processor("current_task"), Some(0x1000));
}

#[test]
fn fields_of_bits_are_no_places() {
    let mut t = Types::new();
    let int = t.add("int", 1 << 24, 4, &[32]);
    let (bits, plain) = (3 << 24 | 8, 32);
    let (a, b) = (t.add("flags", 1 << 24, 4, &[32]), t.add("word", 1 << 24, 4, &[32]));
    let _ = (a, b);
    // names of the two integers serve for the members: "int" begins at 1, "flags" at 5, "word" at 11
    t.add("both", 1 << 31 | 4 << 24 | 2, 8, &[5, int, bits, 11, int, plain]);
    let btf = Btf::new(t.bytes()).expect("whole");
    assert_eq!(btf.place("both", "flags"), None);
    assert_eq!(btf.place("both", "word"), Some(Place { at: 4, bytes: 4 }));
}

#[test]
fn a_struct_that_is_in_itself_ends_the_search() {
    let mut t = Types::new();
    // number 1 has two unnamed members, both of type 1
    t.add("loop", 4 << 24 | 2, 8, &[0, 1, 0, 0, 1, 0]);
    // number 2 names itself
    t.add("name", 8 << 24, 2, &[]);
    t.add("of", 4 << 24 | 1, 8, &[1, 2, 0]);
    let btf = Btf::new(t.bytes()).expect("whole");
    assert_eq!(btf.place("loop", "missing"), None);
    assert_eq!(btf.place("of", "loop"), None, "its size is not known");
}

#[test]
fn cut_and_changed_bytes_are_refused_or_read_without_harm() {
    let bytes = types().bytes();
    for cut in 0..bytes.len() {
        assert!(Btf::new(bytes[..cut].to_vec()).is_none(), "cut at {cut}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        if let Some(btf) = Btf::new(changed) {
            let _ = crate::layout::Layout::of(&btf);
        }
    }
}

#[test]
fn a_kernel_without_a_member_says_which() {
    let mut t = Types::new();
    t.structure("task_struct", "task_struct", 8, &[("pid", 0, Ok(4))]);
    let btf = Btf::new(t.bytes()).expect("whole");
    assert_eq!(crate::layout::Layout::of(&btf).err(), Some("current_task"));
    assert!(crate::layout::Layout::of(&crate::made::btf()).is_ok());
}
