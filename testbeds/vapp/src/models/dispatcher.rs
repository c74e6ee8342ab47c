//! One dispatcher thread reads requests with epoll; a worker does everything else, the reply included.

use std::collections::HashMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};

use super::Queue;
use crate::calls::{self, Caller};
use crate::job::{Context, Job};
use crate::net::{self, Epoll, ONE_SHOT, READ, WRITE};
use crate::wire::{Decoder, Message};

const LISTENER: u64 = 0;

#[derive(Debug)]
struct Client {
    token: u64,
    stream: TcpStream,
    decoder: Mutex<Decoder>,
}

/// Serves for ever.
pub fn serve(context: &Arc<Context>, listener: TcpListener) -> io::Result<()> {
    let epoll = Arc::new(Epoll::new()?);
    let queue = Arc::new(Queue::<(Arc<Client>, Message)>::new());
    let pool = calls::pool(context);
    for _ in 0..context.workers(64) {
        let (context, queue, epoll) = (Arc::clone(context), Arc::clone(&queue), Arc::clone(&epoll));
        let mut caller = Caller::new(&context, pool.clone());
        std::thread::spawn(move || {
            loop {
                let (client, message) = queue.pop();
                answer(&context, &mut caller, &client, &message, &epoll);
            }
        });
    }

    listener.set_nonblocking(true)?;
    epoll.add(listener.as_raw_fd(), LISTENER, READ)?;
    let (mut clients, mut next_token, mut events) = (HashMap::new(), LISTENER + 1, Vec::new());
    loop {
        epoll.wait(None, &mut events)?;
        for &(token, _) in &events {
            if token == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    let Ok(()) = stream.set_nodelay(true) else {
                        continue;
                    };
                    let fd = stream.as_raw_fd();
                    let decoder = Mutex::new(Decoder::new(context.style.wire));
                    clients.insert(next_token, Arc::new(Client { token: next_token, stream, decoder }));
                    epoll.add(fd, next_token, READ | ONE_SHOT)?;
                    next_token += 1;
                }
            } else if let Some(client) = clients.get(&token) {
                match read_request(client, context) {
                    Ok(Some(message)) => queue.push((Arc::clone(client), message)),
                    Ok(None) => epoll.modify(client.stream.as_raw_fd(), token, READ | ONE_SHOT)?,
                    Err(_) => drop(clients.remove(&token)),
                }
            }
        }
    }
}

/// A complete request if there is one now. The socket blocks, but it is ready when this is called, or nothing is read.
fn read_request(client: &Client, context: &Context) -> io::Result<Option<Message>> {
    let mut decoder = client.decoder.lock().unwrap();
    if let Some(message) = decoder.next()? {
        return Ok(Some(message));
    }
    let mut probe = libc::pollfd { fd: client.stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    if decoder.has_rest() && unsafe { libc::poll(&mut probe, 1, 0) } == 0 {
        return Ok(None); // woken for the rest of what was read, and that is no complete request
    }
    if !net::read_some(&client.stream, &mut decoder, context.style)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(decoder.next()?)
}

/// What a worker does with a request. Until it has replied, the connection is disarmed, so replies stay in order.
fn answer(context: &Arc<Context>, caller: &mut Caller, client: &Client, message: &Message, epoll: &Epoll) {
    let served = Job::new(context, message)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
        .and_then(|mut job| caller.run(&mut job, |frame| net::write_frame(&client.stream, &frame, context.style)));
    if served.is_err() {
        let _ = client.stream.shutdown(std::net::Shutdown::Both); // the dispatcher then reads the end and forgets it
    }
    // With a pipelined request in the buffer no byte may ever arrive again: being writable wakes the dispatcher.
    let rest = if client.decoder.lock().unwrap().has_rest() { WRITE } else { 0 };
    let _ = epoll.modify(client.stream.as_raw_fd(), client.token, READ | rest | ONE_SHOT);
}
