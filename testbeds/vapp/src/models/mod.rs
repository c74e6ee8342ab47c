//! The threading models. Each has one function that serves a listener for ever.

pub mod dispatcher;
pub mod evented;
pub mod eventloop;
pub mod iouring;
pub mod process;
pub mod seda;
pub mod thread;
pub mod tokio_rt;
pub mod workqueue;

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};

use crate::job::Context;
use crate::options::Model;

/// Serves `listener` for ever.
pub fn serve(model: Model, context: &Arc<Context>, listener: TcpListener) -> io::Result<()> {
    match model {
        Model::Process => process::serve(context, &listener),
        Model::Thread => thread::serve(context, &listener),
        Model::Dispatcher => dispatcher::serve(context, listener),
        Model::EventLoop => eventloop::serve(context, &listener),
        Model::Seda => seda::serve(context, listener),
        Model::WorkQueue => workqueue::serve(context, &listener),
        Model::Tokio => tokio_rt::serve(context, listener),
        Model::IoUring => iouring::serve(context, &listener),
    }
}

/// An unbounded queue between threads: a mutex and a condition variable, nothing cleverer.
#[derive(Debug)]
pub struct Queue<T>(Mutex<std::collections::VecDeque<T>>, Condvar);

impl<T> Queue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self(Mutex::default(), Condvar::new())
    }

    /// Adds an item and wakes one taker.
    pub fn push(&self, item: T) {
        self.0.lock().unwrap().push_back(item);
        self.1.notify_one();
    }

    /// Takes the oldest item, waiting for one.
    pub fn pop(&self) -> T {
        let mut items = self.0.lock().unwrap();
        loop {
            match items.pop_front() {
                Some(item) => return item,
                None => items = self.1.wait(items).unwrap(),
            }
        }
    }
}
