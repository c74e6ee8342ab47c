//! A service on Tokio whose handlers call another one: `tokio_service down`, or `tokio_service KIND DOWN`. Prints its port. GET
//! /x/NAME leads to GET /down/NAME, on one of few connections that whoever is first takes. KIND says by which task:
//!
//! - `own`: by the task of the client's connection.
//! - `client`: by a task for each of the connections, which has one request at a time, as hyper's client.
//! - `shared`: by one task for one connection, which sends all that it is asked without waiting for answers, as clients of Redis.
//! - `limited`: by a task for each request, which waits for a place that another one sets free.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex as Queue, Semaphore, mpsc, oneshot};

/// Connections to the other service that nobody uses.
type Pool = Arc<Mutex<VecDeque<TcpStream>>>;

/// What a task of a client's own is asked, and how it tells that this was answered.
type Asked = (String, oneshot::Sender<()>);

/// How handlers call the other service.
#[derive(Clone)]
enum Client {
    Own(Pool),
    /// By one of these tasks: whoever takes it from the queue has it.
    Tasks(mpsc::Sender<mpsc::Sender<Asked>>, Arc<Queue<mpsc::Receiver<mpsc::Sender<Asked>>>>),
    Shared(mpsc::Sender<Asked>),
    Limited(Pool, Arc<Semaphore>),
}

/// Connections that a client has.
const CONNECTIONS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let kind = words.get(1).cloned().unwrap_or_default();
    let down: Option<u16> = words.get(2).map(|port| port.parse()).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        let other = client(&kind, down).await?;
        loop {
            let (client, _) = listener.accept().await?;
            tokio::spawn(serve(client, down, other.clone()));
        }
    })
}

async fn client(kind: &str, down: Option<u16>) -> std::io::Result<Client> {
    let connect = || TcpStream::connect(("127.0.0.1", down.unwrap_or_default()));
    Ok(match kind {
        "client" => {
            let (free, frees) = mpsc::channel(CONNECTIONS);
            for _ in 0..CONNECTIONS {
                let (asks, asked) = mpsc::channel(1);
                tokio::spawn(one_at_a_time(connect().await?, asked));
                let _ = free.send(asks).await;
            }
            Client::Tasks(free, Arc::new(Queue::new(frees)))
        }
        "shared" => {
            let (asks, asked) = mpsc::channel(64);
            tokio::spawn(all_at_once(connect().await?, asked));
            Client::Shared(asks)
        }
        "limited" => Client::Limited(Pool::default(), Arc::new(Semaphore::new(CONNECTIONS))),
        _ => Client::Own(Pool::default()),
    })
}

/// A client's task for a connection: a request, its answer, the next request.
async fn one_at_a_time(mut connection: TcpStream, mut asked: mpsc::Receiver<Asked>) -> std::io::Result<()> {
    while let Some((name, answered)) = asked.recv().await {
        ask(&mut connection, &name).await?;
        let _ = answered.send(());
    }
    Ok(())
}

/// One that sends what it is asked at once, and reads the answers in order.
async fn all_at_once(connection: TcpStream, mut asked: mpsc::Receiver<Asked>) -> std::io::Result<()> {
    let (reads, mut writes) = connection.into_split();
    let mut reads = BufReader::new(reads);
    let (mut waiting, mut line) = (VecDeque::new(), String::new());
    loop {
        tokio::select! {
            Some((name, answered)) = asked.recv() => {
                waiting.push_back((name.clone(), answered));
                let mut all = request(&name);
                while let Ok((name, answered)) = asked.try_recv() {
                    all.push_str(&request(&name));
                    waiting.push_back((name, answered));
                }
                writes.write_all(all.as_bytes()).await?;
            }
            read = reads.read_line(&mut line) => {
                if read? == 0 {
                    return Ok(());
                }
                // the body is the name, and has no end of line
                if line.trim_end().is_empty() && let Some((name, answered)) = waiting.pop_front() {
                    reads.read_exact(&mut vec![0; name.len()]).await?;
                    let _ = answered.send(());
                }
                line.clear();
            }
        }
    }
}

async fn asks(by: &mpsc::Sender<Asked>, name: &str) -> std::io::Result<()> {
    let (answered, answer) = oneshot::channel();
    let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    by.send((name.to_owned(), answered)).await.map_err(|_| gone(()))?;
    answer.await.map_err(|_| gone(()))
}

impl Client {
    async fn call(&self, port: u16, name: &str) -> std::io::Result<()> {
        match self {
            Client::Own(pool) => call(port, name, pool).await,
            Client::Shared(by) => asks(by, name).await,
            Client::Tasks(free, frees) => {
                let Some(by) = frees.lock().await.recv().await else { return Ok(()) };
                let done = asks(&by, name).await;
                let _ = free.send(by).await;
                done
            }
            Client::Limited(pool, places) => {
                let (name, pool, places) = (name.to_owned(), Arc::clone(pool), Arc::clone(places));
                let calls = tokio::spawn(async move {
                    let _place = places.acquire().await;
                    call(port, &name, &pool).await
                });
                calls.await.unwrap_or(Ok(()))
            }
        }
    }
}

async fn serve(client: TcpStream, down: Option<u16>, other: Client) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if client.read_until(b'\n', &mut head).await? == 0 {
                return Ok(());
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let name = head.split(' ').nth(1).and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        match down {
            Some(port) => other.call(port, name).await?,
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
        let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
        client.write_all(reply.as_bytes()).await?;
    }
}

async fn call(port: u16, name: &str, pool: &Pool) -> std::io::Result<()> {
    let kept = pool.lock().map_or(None, |mut kept| kept.pop_front());
    let mut connection = match kept {
        Some(connection) => connection,
        None => TcpStream::connect(("127.0.0.1", port)).await?,
    };
    ask(&mut connection, name).await?;
    if let Ok(mut kept) = pool.lock() {
        kept.push_back(connection);
    }
    Ok(())
}

fn request(name: &str) -> String {
    format!("GET /down/{name} HTTP/1.1\r\nHost: down\r\n\r\n")
}

/// A request on a connection, and its answer.
async fn ask(connection: &mut TcpStream, name: &str) -> std::io::Result<()> {
    connection.write_all(request(name).as_bytes()).await?;
    let (mut reply, mut part) = (Vec::new(), [0; 512]);
    while !reply.ends_with(format!("\r\n\r\n{name}").as_bytes()) {
        match connection.read(&mut part).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => reply.extend_from_slice(&part[..n]),
        }
    }
    Ok(())
}
