//! From the list of readers (`mod.rs`): the formats, which of them a file has, and one reader for all kernels' traces.

/// Makes `Format` and `AnyReader` of the list. `KernelEvents` are readers that implement [`super::TraceReader`].
macro_rules! registry {
    (
        KernelEvents { $($trace:ident($trace_reader:ty),)+ }
        Other { $($other:ident($other_reader:ty),)+ }
    ) => {
        /// A format of files that can be read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // its reader says it
        pub enum Format { $($trace,)+ $($other,)+ }

        impl Format {
            /// All formats, in the order in which they are tried.
            pub const ALL: &[Format] = &[$(Format::$trace,)+ $(Format::$other,)+];

            /// What its reader says of itself.
            pub fn about(self) -> &'static About {
                match self {
                    $(Format::$trace => &<$trace_reader as Reader>::ABOUT,)+
                    $(Format::$other => &<$other_reader as Reader>::ABOUT,)+
                }
            }

            /// The format of a file that begins so ([`Reader::fits`]).
            pub fn of(head: &[u8]) -> Option<Format> {
                Format::ALL.iter().copied().find(|format| match format {
                    $(Format::$trace => <$trace_reader as Reader>::fits(head),)+
                    $(Format::$other => <$other_reader as Reader>::fits(head),)+
                })
            }

            /// Opens a trace of a kernel ([`TraceReader::open`]).
            ///
            /// # Errors
            /// It cannot be read, or the format has no events of a kernel.
            pub fn open(self, parts: Vec<Part>) -> Result<AnyReader, Unreadable> {
                match self {
                    $(Format::$trace => TraceReader::open(parts).map(AnyReader::$trace),)+
                    $(Format::$other)|+ => {
                        let name = parts.into_iter().next().map(|p| p.name).unwrap_or_default();
                        Err(Unreadable { name, why: format!("{} hold no events of a kernel", self.about().name) })
                    }
                }
            }
        }

        /// A reader of a kernel's trace of any format; one branch for some thousand events.
        #[allow(missing_docs, clippy::large_enum_variant)] // there is one for each trace
        pub enum AnyReader { $($trace($trace_reader),)+ }

        impl AnyReader {
            /// As [`TraceReader::facts`].
            pub fn facts(&self) -> &HostFacts {
                match self { $(AnyReader::$trace(r) => TraceReader::facts(r),)+ }
            }
            /// As [`TraceReader::trace_id`].
            pub fn trace_id(&self) -> Option<String> {
                match self { $(AnyReader::$trace(r) => TraceReader::trace_id(r),)+ }
            }
            /// As [`TraceReader::is_of_kernel`].
            pub fn is_of_kernel(&self) -> bool {
                match self { $(AnyReader::$trace(r) => TraceReader::is_of_kernel(r),)+ }
            }
            /// As [`TraceReader::next`].
            pub fn next<S: RawSink>(&mut self, sink: &mut S) -> bool {
                match self { $(AnyReader::$trace(r) => TraceReader::next(r, sink),)+ }
            }
            /// As [`TraceReader::run`].
            pub fn run<S: RawSink>(&mut self, sink: &mut S) {
                while self.next(sink) {}
            }
            /// As [`TraceReader::counts`].
            pub fn counts(&self) -> Counts {
                match self { $(AnyReader::$trace(r) => TraceReader::counts(r),)+ }
            }
            /// As [`TraceReader::progress`].
            pub fn progress(&self) -> Progress {
                match self { $(AnyReader::$trace(r) => TraceReader::progress(r),)+ }
            }
        }
    };
}

pub(super) use registry;
