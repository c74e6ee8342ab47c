//! Flags of `wakepath ui`.

use super::Folders;
use clap::Args;
use std::net::SocketAddr;

/// Browse recordings in a web page: services, requests, where their time went, and the evidence
///
/// Serves the page on this machine until interrupted, and prints its address. It loads nothing from elsewhere and
/// changes nothing in the folders except caches. Every view names the command that prints the same.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath ui shop                                 then open the address that it prints
  wakepath ui web db                               two hosts
  wakepath ui shop --bind 127.0.0.1:0              on any free port
  wakepath ui shop --bind 192.0.2.7:7411 --token   from elsewhere, with the token

Traffic to another machine is not encrypted. Instead of --bind, prefer this on your own machine:
  ssh -L 7411:127.0.0.1:7411 HOST wakepath ui shop")]
pub struct UiArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// Address and port to serve on; an address that other machines reach needs --token
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7411")]
    pub bind: SocketAddr,
    /// Answer only clients with the token that is printed with the address
    #[arg(long)]
    pub token: bool,
}
