//! A thread per connection.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use crate::calls::{self, Caller};
use crate::job::Context;
use crate::net;

/// Serves for ever.
pub fn serve(context: &Arc<Context>, listener: &TcpListener) -> io::Result<()> {
    let pool = calls::pool(context);
    loop {
        let stream = net::accept(listener);
        let mut caller = Caller::new(context, pool.clone());
        std::thread::spawn(move || caller.serve(&stream));
    }
}
