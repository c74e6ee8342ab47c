//! What would happen if: the recorded dependences, replayed under changes (Saidi and others, ISCA 2009).
//!
//! Data walks through four steps. A recording becomes a [`system::System`] (`derive`): state machines that work,
//! enqueue and dequeue, the queues between them, the stations that serve their work. Changes alter the system
//! (`change`), never the recording. The replay (`replay`) runs it and tells what came of it: latencies, throughput,
//! use of stations and queues, and the critical path by state. What is told to people is the change between two replays,
//! that of the system as recorded and that of the changed one, applied to what was measured (`forecast`).
#![deny(missing_docs)]

pub mod bottleneck;
pub mod calibration;
pub mod change;
mod critical;
pub mod derive;
pub mod derived;
pub mod forecast;
pub mod jobs;
pub mod outcome;
pub mod replay;
pub mod slack;
pub mod system;
pub mod uncertainty;
