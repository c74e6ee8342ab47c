//! `vapp server`: one server of one tier, as a process of its own.

use std::io::{self, Write};
use std::sync::Arc;

use clap::Args;

use crate::job::Context;
use crate::options::{Model, Shape};
use crate::{models, net, plan};

/// Options of one server.
#[derive(Args, Debug)]
pub struct ServerArgs {
    #[command(flatten)]
    shape: Shape,
    /// Threading model
    #[arg(long, value_enum)]
    model: Model,
    /// Own tier, from 1
    #[arg(long)]
    tier: usize,
    /// Own number in the tier, from 1
    #[arg(long)]
    index: usize,
    /// End when this parent process ends
    #[arg(long, hide = true)]
    parent_pid: Option<u32>,
}

/// Listens, says `ready` on standard output, serves until killed.
pub fn run(args: ServerArgs) -> io::Result<()> {
    if let Some(parent) = args.parent_pid {
        net::die_with(parent);
    }
    let shape = args.shape;
    let fits = |n: usize, most: u64| (1..=most as usize).contains(&n);
    if shape.base_port == 0 || !fits(args.tier, shape.tiers) || !fits(args.index, shape.servers) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a server needs --base-port, and a tier and an index within the shape",
        ));
    }
    net::set_comm(&plan::component(args.tier, args.index - 1));
    let listener = net::listen(shape.address(args.tier, args.index - 1))?;
    println!("ready");
    io::stdout().flush()?;
    let context = Arc::new(Context::new(shape, args.tier, args.index - 1));
    models::serve(args.model, &context, listener)
}
