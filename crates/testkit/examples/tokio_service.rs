//! A service on Tokio whose handlers call another one: `tokio_service down`, or `tokio_service own DOWN`. Prints its port. GET
//! /x/NAME leads to GET /down/NAME, on one of few connections that whoever is first takes, by the task of the client's connection.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Connections to the other service that nobody uses.
type Pool = Arc<Mutex<VecDeque<TcpStream>>>;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let down: Option<u16> = words.get(2).map(|port| port.parse()).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        let pool = Pool::default();
        loop {
            let (client, _) = listener.accept().await?;
            tokio::spawn(serve(client, down, Arc::clone(&pool)));
        }
    })
}

async fn serve(client: TcpStream, down: Option<u16>, pool: Pool) -> std::io::Result<()> {
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
            Some(port) => call(port, name, &pool).await?,
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
    connection.write_all(format!("GET /down/{name} HTTP/1.1\r\nHost: down\r\n\r\n").as_bytes()).await?;
    let (mut reply, mut part) = (Vec::new(), [0; 512]);
    while !reply.ends_with(format!("\r\n\r\n{name}").as_bytes()) {
        match connection.read(&mut part).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => reply.extend_from_slice(&part[..n]),
        }
    }
    if let Ok(mut kept) = pool.lock() {
        kept.push_back(connection);
    }
    Ok(())
}
