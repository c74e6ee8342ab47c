//! Networks that do to datagrams and connections what networks do.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Loses every fourth datagram, doubles every fifth and puts every seventh after the next.
pub struct UdpRelay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl UdpRelay {
    pub fn start(to: SocketAddr) -> UdpRelay {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("it is bound");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time-out");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            let mut held: Option<Vec<u8>> = None;
            let mut count = 0;
            loop {
                match socket.recv(&mut buffer) {
                    Ok(n) => {
                        count += 1;
                        let datagram = &buffer[..n];
                        let send = |bytes: &[u8]| drop(socket.send_to(bytes, to));
                        // hellos pass, so that the collector knows whose rows these are
                        if datagram[3] != 1 {
                            send(datagram);
                        } else if count % 7 == 0 && held.is_none() {
                            held = Some(datagram.to_vec());
                        } else if count % 4 != 0 {
                            send(datagram);
                            if count % 5 == 0 {
                                send(datagram);
                            }
                            held.take().iter().for_each(|h| send(h));
                        }
                    }
                    Err(_) if stopped.load(Ordering::Relaxed) => break,
                    Err(_) => {}
                }
            }
        });
        UdpRelay { address, stop, thread }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes on what is left.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it ends");
    }
}

/// Breaks its first connections, each after so many bytes.
pub struct TcpRelay {
    address: SocketAddr,
}

impl TcpRelay {
    pub fn start(to: SocketAddr, breaks_after: Vec<usize>) -> TcpRelay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            let mut breaks = breaks_after.into_iter();
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(to).expect("the collector is there");
                pass(client, server, breaks.next().unwrap_or(usize::MAX));
            }
        });
        TcpRelay { address }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Passes at most so many bytes from the client to the server, and everything back; then closes both.
fn pass(mut client: TcpStream, mut server: TcpStream, mut bytes_max: usize) {
    let back = {
        let (mut from, mut to) = (server.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
        std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)))
    };
    let mut buffer = [0; 4096];
    while let Ok(n) = client.read(&mut buffer)
        && n > 0
        && bytes_max > 0
    {
        let part = n.min(bytes_max);
        bytes_max -= part;
        if server.write_all(&buffer[..part]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
    back.join().expect("it ends");
}
