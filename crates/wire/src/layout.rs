//! One source for both languages: the macro makes the Rust struct and a description to print C from.

/// A field of a layout, as C spells it.
pub struct CField {
    /// Name in C and Rust.
    pub name: &'static str,
    /// Element type in C (`__u32` …).
    pub ctype: &'static str,
    /// Array length, 1 for a scalar.
    pub count: usize,
}

/// A layout.
pub struct CStruct {
    /// Name in C.
    pub name: &'static str,
    /// Fields in order.
    pub fields: &'static [CField],
    /// Size in bytes, asserted on both sides.
    pub bytes: usize,
}

/// A constant that both sides know.
pub struct CConst {
    /// Name in C.
    pub name: &'static str,
    /// Value.
    pub value: u64,
}

macro_rules! ctype {
    (u8) => {
        ("__u8", 1)
    };
    (u16) => {
        ("__u16", 1)
    };
    (u32) => {
        ("__u32", 1)
    };
    (i32) => {
        ("__s32", 1)
    };
    (u64) => {
        ("__u64", 1)
    };
    (Head) => {
        ("struct wp_head", 1)
    };
    ([u8; $n:literal]) => {
        ("__u8", $n)
    };
    ([u64; $n:literal]) => {
        ("__u64", $n)
    };
}

macro_rules! layouts {
    ($($(#[$m:meta])* struct $name:ident as $c:literal { $($(#[$fm:meta])* $f:ident : $t:tt),* $(,)? })*) => {
        $(
            $(#[$m])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name { $($(#[$fm])* pub $f: $t),* }
            // SAFETY: integers only; the assertion below shows that there is no padding.
            unsafe impl crate::Record for $name {}
            const _: () = assert!(core::mem::size_of::<$name>() == 0 $(+ core::mem::size_of::<$t>())*);
            const _: () = assert!(core::mem::size_of::<$name>() % 8 == 0);
        )*
        /// Every layout, in the order in which the C header needs them.
        pub const LAYOUTS: &[crate::CStruct] = &[$(crate::CStruct {
            name: $c,
            fields: &[$({ let (ctype, count) = ctype!($t); crate::CField { name: stringify!($f), ctype, count } }),*],
            bytes: core::mem::size_of::<$name>(),
        }),*];
    };
}

macro_rules! constants {
    ($($(#[$m:meta])* $name:ident : $t:ty = $v:expr;)*) => {
        $($(#[$m])* pub const $name: $t = $v;)*
        /// Every constant of the header.
        pub const CONSTANTS: &[crate::CConst] = &[$(crate::CConst { name: stringify!($name), value: $name as u64 }),*];
    };
}
