//! The functions that the program calls instead of the C library's, by family.
//!
//! All are `C-unwind`: a cancelled thread unwinds through them, and none holds anything that would need to be undone.

macro_rules! hooks {
    ($($(#[$m:meta])* fn $name:ident($($a:ident: $t:ty),* $(,)?) -> $r:ty $body:block)*) => {
        $(
            $(#[$m])*
            ///
            /// # Safety
            /// As the C function's own.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, non_snake_case)]
            pub unsafe extern "C-unwind" fn $name($($a: $t),*) -> $r {
                // SAFETY: the program's own arguments are used as the C function would use them
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

pub mod descriptors;
pub mod environment;
pub mod io;
pub mod limits;
pub mod loader;
pub mod sockets;
pub mod tasks;
pub mod timers;
pub mod tls;
pub mod waits;
