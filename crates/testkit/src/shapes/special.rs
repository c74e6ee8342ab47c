//! Recordings of one situation each.

use super::{Service, serve_backend, thread_per_connection};
use crate::recording::Recording;
use crate::world::World;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Pipelined requests on one flow: a client sends several at once, the server answers them in order.
pub fn pipelined(seed: u64, requests: u64) -> Recording {
    let w = World::new(seed);
    let web = w.host("web", 0);
    let db = w.process(Some(web), "db", 1);
    let backend = db.listen(5432);
    serve_backend(&db, backend);
    let app = w.process(Some(web), "app", 1);
    let front = app.listen(80);
    thread_per_connection(&app, front, Service { backend, partial_percent: 0.0 });
    let outside = w.process(None, "client", 1);
    outside.main(move |t| async move {
        let c = t.connect(front).await;
        let sent: Rc<RefCell<VecDeque<usize>>> = Rc::default();
        let mut left = requests;
        while left > 0 {
            for _ in 0..left.min(t.world().within(1, 4)) {
                left -= 1;
                let call = t.request(c, "/p", 90, None).await;
                sent.borrow_mut().push_back(call);
            }
            while !sent.borrow().is_empty() {
                if t.recv(c).await.is_none() {
                    return;
                }
                sent.borrow_mut().pop_front();
            }
        }
        t.close(c).await;
    });
    w.run(u64::MAX - 1);
    w.finish()
}

/// Two network namespaces with the same loopback address and port, each with a client and a server of its own, and the
/// same client ports.
pub fn namespaces(seed: u64, requests: u64) -> Recording {
    let w = World::new(seed);
    w.ports(2);
    let host = w.host("web", 0);
    let outside = w.process(None, "client", 1);
    for netns in [2, 3] {
        let db = w.process(Some(host), "db", netns);
        let backend = db.listen(5432);
        serve_backend(&db, backend);
        let app = w.process(Some(host), "app", 1);
        let front = app.listen(80 + netns as u16);
        thread_per_connection(&app, front, Service { backend, partial_percent: 0.0 });
        outside.thread(move |t| async move {
            for _ in 0..requests {
                let c = t.connect(front).await;
                t.call(c, "/n", None).await;
                t.close(c).await;
                t.sleep(t.world().within(50, 80)).await;
            }
        });
    }
    w.run(u64::MAX - 1);
    w.finish()
}
