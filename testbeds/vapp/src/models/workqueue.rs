//! Reader threads hand work items to a few busy workers, which do the blocking calls. The worker sends the reply, or
//! hands it back to the reader, which waits for it as a Java thread waits in `Future.get`.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

use super::Queue;
use crate::calls::{self, Caller};
use crate::job::{Context, Job};
use crate::net;
use crate::options::ReplyBy;
use crate::wire::{Decoder, Frame};

struct Item {
    job: Job,
    stream: Arc<TcpStream>,
    future: Arc<Queue<Outcome>>,
}

enum Outcome {
    /// The reader shall send this.
    Send(Frame),
    /// The item is done.
    Done,
}

/// Serves for ever.
pub fn serve(context: &Arc<Context>, listener: &TcpListener) -> io::Result<()> {
    let queue = Arc::new(Queue::<Item>::new());
    let pool = calls::pool(context);
    for _ in 0..context.workers(4) {
        let (context, queue) = (Arc::clone(context), Arc::clone(&queue));
        let mut caller = Caller::new(&context, pool.clone());
        std::thread::spawn(move || {
            loop {
                work(&context, &mut caller, queue.pop());
            }
        });
    }
    loop {
        let stream = Arc::new(net::accept(listener));
        let (context, queue) = (Arc::clone(context), Arc::clone(&queue));
        std::thread::spawn(move || {
            let _ = read_requests(&context, &stream, &queue);
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

fn work(context: &Context, caller: &mut Caller, mut item: Item) {
    let sent = caller.run(&mut item.job, |frame| match context.shape.reply_by {
        ReplyBy::Worker => net::write_frame(&item.stream, &frame, context.style),
        ReplyBy::Reader => {
            item.future.push(Outcome::Send(frame));
            Ok(())
        }
    });
    if sent.is_err() {
        let _ = item.stream.shutdown(Shutdown::Both);
    }
    item.future.push(Outcome::Done);
}

/// Reads the requests of one connection and queues them, one at a time.
fn read_requests(context: &Arc<Context>, stream: &Arc<TcpStream>, queue: &Queue<Item>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut decoder = Decoder::new(context.style.wire);
    let future = Arc::new(Queue::new());
    let mut under_way = false;
    loop {
        while let Some(message) = decoder.next()? {
            let job = Job::new(context, &message).ok_or(io::ErrorKind::InvalidData)?;
            if under_way {
                wait(context, stream, &future)?; // only for pipelined requests, so that replies stay in order
            }
            queue.push(Item { job, stream: Arc::clone(stream), future: Arc::clone(&future) });
            match context.shape.reply_by {
                ReplyBy::Worker => under_way = true,
                ReplyBy::Reader => wait(context, stream, &future)?,
            }
        }
        if !net::read_some(stream, &mut decoder, context.style)? {
            if under_way {
                wait(context, stream, &future)?;
            }
            return Ok(());
        }
    }
}

fn wait(context: &Context, stream: &TcpStream, future: &Queue<Outcome>) -> io::Result<()> {
    loop {
        match future.pop() {
            Outcome::Send(frame) => net::write_frame(stream, &frame, context.style)?,
            Outcome::Done => return Ok(()),
        }
    }
}
