//! A multi-threaded Tokio server, whose tasks move between threads, with hyper's pool of connections to the service
//! after it; and that service.
//!
//! `pools up PORT`: a thread a connection answers each request within some milliseconds.
//! `pools tokio PORT UPSTREAM_PORT CONNECTIONS`: `GET /in-turn/N?rid=R` makes N calls one after the other, `GET
//! /at-once/N?rid=R` makes them together; each is `GET /up?rid=R`. The ids are the ground truth, for the scorer only.
//! Both listen on loopback; PORT 0 takes a free one, and the first line that they print tells which.

mod up;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::error::Error;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const WORKERS: usize = 4;

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Clone)]
struct Pool {
    client: Client<HttpConnector, Empty<Bytes>>,
    upstream: u16,
    places: Arc<Semaphore>,
}

impl Pool {
    async fn call(self, query: String) -> Result<(), Failure> {
        let _place = self.places.acquire().await?;
        let uri: Uri = format!("http://127.0.0.1:{}/up?{query}", self.upstream).parse()?;
        self.client.get(uri).await?.into_body().collect().await?;
        Ok(())
    }

    async fn calls(self, path: &str, query: &str) -> Result<(), Failure> {
        let (kind, number) = path.trim_matches('/').split_once('/').ok_or("no number of calls")?;
        let number: usize = number.parse()?;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..number {
            let call = self.clone().call(query.to_owned());
            if kind == "at-once" {
                tasks.spawn(call);
            } else {
                call.await?;
            }
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }
}

async fn answer(pool: Pool, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::http::Error> {
    let uri = request.uri();
    let (status, text) = match pool.calls(uri.path(), uri.query().unwrap_or_default()).await {
        Ok(()) => (StatusCode::OK, "done\n".to_owned()),
        Err(e) => (StatusCode::BAD_GATEWAY, format!("{e}\n")),
    };
    Response::builder().status(status).body(Full::new(text.into()))
}

async fn serve(port: u16, upstream: u16, connections: usize) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("ready {}", listener.local_addr()?.port());
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(connections).build_http();
    let pool = Pool { client, upstream, places: Arc::new(Semaphore::new(connections)) };
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let pool = pool.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(pool.clone(), request));
            // a client that goes away in the middle is no business of the server's
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["up", port] => Ok(up::serve(port.parse()?)?),
        ["tokio", port, upstream, connections] => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
            runtime.block_on(serve(port.parse()?, upstream.parse()?, connections.parse()?))
        }
        _ => Err("usage: pools up PORT | pools tokio PORT UPSTREAM_PORT CONNECTIONS".into()),
    }
}
