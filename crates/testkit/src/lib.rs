//! Fixtures for tests: recordings of hosts that never were, with the truth about them.
//!
//! [`script`] makes a recording from a text in which every step has its time: small cases with a known tree.
//! [`world`] simulates hosts, tasks and flows in virtual time, and [`shapes`] puts the usual architectures into it: many
//! requests at once, any seed, the same rows each time; [`reactor`] a program that runs them all in one loop, [`crowd`] one with
//! as many open at once as is asked for. All write what happened as rows of a [`recording::Recording`],
//! and whose doing each call was into its [`truth::Truth`], against which what a linker claims can be judged.
#![deny(missing_docs)]

pub mod crowd;
pub mod data;
pub mod fleet;
pub mod golden;
pub mod marks;
pub mod random;
pub mod reactor;
pub mod recording;
pub mod script;
pub mod shapes;
pub mod sniffed;
pub mod tap;
pub mod truth;
pub mod wired;
pub mod world;
