//! The server.

use crate::cache::Cache;
use crate::downloads::{self, Remembered, Wanted, Written};
use crate::guard::{Guard, Refusal};
use crate::progress::Made;
use crate::stream::{self, Pieces};
use crate::{Answering, api, page};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Answers made at the same time; others wait.
const AT_ONCE: usize = 2;
/// Connections at the same time.
const CONNECTIONS_MAX: usize = 128;
/// Files written at the same time, beside the answers; others wait.
const DOWNLOADS_AT_ONCE: usize = 1;
/// A client that takes nothing of a file for so long is left.
const TAKES_NOTHING: Duration = Duration::from_secs(60);
/// How long a request's head may take, and a connection be idle.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// When to accept again where that failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// The command that gives the same answer.
const COMMAND: HeaderName = HeaderName::from_static("wakepath-command");

/// What serves.
struct Server {
    answering: Arc<dyn Answering>,
    guard: Guard,
    cache: Mutex<Cache>,
    at_once: Arc<Semaphore>,
    /// For those that are answered at once.
    quick: Arc<Semaphore>,
    made: Arc<Made>,
    /// For files.
    writing: Arc<Semaphore>,
    downloads: Remembered,
    version: &'static str,
}

impl Server {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer that was made before and is still right.
    fn kept(&self, arguments: &[String]) -> Option<Arc<[u8]>> {
        let stamp = self.answering.stamp();
        if let Some(answer) = self.cache().get(stamp, arguments) {
            return Some(answer);
        }
        let answer: Arc<[u8]> = self.answering.kept(arguments)?.into();
        self.cache().put(stamp, arguments, &answer);
        Some(answer)
    }
}

/// Whether the page is in this binary, or only the answers.
pub fn has_page() -> bool {
    page::is_built()
}

/// Whether only this machine reaches an address.
pub fn is_loopback(at: SocketAddr) -> bool {
    at.ip().to_canonical().is_loopback()
}

/// Serves until SIGINT or SIGTERM. With a token, only who has it is answered.
///
/// # Errors
/// Where the listener cannot be used.
pub fn serve(
    listener: TcpListener,
    answering: Arc<dyn Answering>,
    token: Option<String>,
    version: &'static str,
) -> io::Result<()> {
    let guard = Guard::new(listener.local_addr()?, token);
    let [at_once, quick] = [(); 2].map(|()| Arc::new(Semaphore::new(AT_ONCE)));
    let made = Arc::default();
    let server = Arc::new(Server {
        answering,
        guard,
        cache: Mutex::default(),
        at_once,
        quick,
        made,
        writing: Arc::new(Semaphore::new(DOWNLOADS_AT_ONCE)),
        downloads: Remembered::default(),
        version,
    });
    let router = Router::new()
        .route("/api/recording", get(recording))
        .route("/api/progress", get(progress))
        .route("/api/downloads", get(downloads))
        .route("/api/download/{file}", get(download))
        .route("/api/{question}", get(question))
        .fallback(file)
        .layer(middleware::from_fn_with_state(Arc::clone(&server), guarded))
        .with_state(server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            () = accept(listener, router, Limits::default()) => {}
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        io::Result::Ok(())
    })?;
    // an answer that is being made is not waited for
    runtime.shutdown_background();
    Ok(())
}

/// What clients may hold.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at the same time; further ones wait until one of these ends.
    pub(crate) connections: usize,
    /// How long a client may take to send a request's head, and do nothing between two requests.
    pub(crate) head: Duration,
    /// How long a connection may last.
    pub(crate) all: Option<Duration>,
    /// Who has asked may close its side, and still waits for the answer. Else that gives up what it asked for.
    pub(crate) half_close: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: CONNECTIONS_MAX, head: HEAD_MAX, all: None, half_close: false }
    }
}

/// Accepts connections and answers on each.
pub(crate) async fn accept(listener: tokio::net::TcpListener, router: Router, limits: Limits) {
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // no descriptor is free, or the client has gone
            Err(_) => {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(limits.head).half_close(limits.half_close);
        let connection = server.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // how it ends is the client's affair
            match limits.all {
                Some(all) => drop(tokio::time::timeout(all, connection).await),
                None => drop(connection.await),
            }
            drop(place);
        });
    }
}

/// Stands before everything: who is not to be answered gets a reason, and every answer has the page's headers.
async fn guarded(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response<Body> {
    let mut response = match refusal(&server, &request) {
        Some(response) => response,
        None => next.run(request).await,
    };
    for (name, value) in page::HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
}

fn refusal(server: &Server, request: &Request) -> Option<Response<Body>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Some(problem(StatusCode::METHOD_NOT_ALLOWED, "Only GET is answered: nothing can be changed here."));
    }
    if let Some(cookie) = entry(server, request) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
        response.headers_mut().insert(SET_COOKIE, cookie);
        return Some(response);
    }
    let Refusal { status, why } = server.guard.check(request.headers()).err()?;
    Some(problem(status, why))
}

/// Who opens the page with the token gets it as a cookie, so that it leaves the address.
fn entry(server: &Server, request: &Request) -> Option<HeaderValue> {
    server.guard.check_origin(request.headers()).ok()?;
    let token = request.uri().query().filter(|_| request.uri().path() == "/")?.strip_prefix("token=")?;
    HeaderValue::from_str(&server.guard.cookie(token)?).ok()
}

async fn file(request: Request) -> Response<Body> {
    page::file(request.uri().path()).unwrap_or_else(|| problem(StatusCode::NOT_FOUND, "There is no such file."))
}

async fn recording(State(server): State<Arc<Server>>) -> Response<Body> {
    let stamp = format!("{:016x}", server.answering.stamp());
    let answering = &server.answering;
    let body = json!({
        "folders": answering.folders(),
        "stamp": stamp,
        "live": answering.is_live(),
        "version": server.version,
    });
    document(StatusCode::OK, body.to_string())
}

async fn progress(State(server): State<Arc<Server>>) -> Response<Body> {
    let shares = server.made.shares().into_iter();
    let body: Vec<_> = shares.map(|(question, read)| json!({ "question": question, "read": read })).collect();
    document(StatusCode::OK, json!(body).to_string())
}

async fn question(
    State(server): State<Arc<Server>>,
    uri: Uri,
    Path(path): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response<Body> {
    let arguments = match api::arguments(&path, &pairs) {
        Ok(arguments) => arguments,
        Err(e) => return refused(&e),
    };
    let command = server.answering.typed(&arguments);
    let asked = uri.path_and_query().map_or_else(String::new, ToString::to_string);
    let lane = if api::is_quick(&path) { &server.quick } else { &server.at_once };
    let mut response = match answer(&server, lane, asked, arguments).await {
        Ok(answer) => document(StatusCode::OK, answer.to_vec()),
        Err(Failed::Refused(why)) => problem(StatusCode::UNPROCESSABLE_ENTITY, &why),
        Err(Failed::Broken) => problem(StatusCode::INTERNAL_SERVER_ERROR, BROKEN),
    };
    name_command(&mut response, &command);
    response
}

/// What a defect of ours is called.
const BROKEN: &str = "That part of wakepath failed: a defect of it.";

fn refused(e: &api::Refused) -> Response<Body> {
    let is_unknown = matches!(e, api::Refused::Unknown(_));
    problem(if is_unknown { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST }, &e.to_string())
}

fn name_command(response: &mut Response<Body>, command: &str) {
    if let Ok(command) = HeaderValue::from_str(&percent_encoded(command)) {
        response.headers_mut().insert(COMMAND, command);
    }
}

async fn downloads(State(server): State<Arc<Server>>) -> Response<Body> {
    document(StatusCode::OK, server.downloads.document())
}

/// A file, sent as it is written. What fails before its first bytes gets a reason; what fails later is cut off.
async fn download(
    State(server): State<Arc<Server>>,
    Path(path): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response<Body> {
    let Wanted { file, arguments, mark } = match downloads::wanted(&path, &pairs) {
        Ok(wanted) => wanted,
        Err(e) => return refused(&e),
    };
    let command = server.answering.typed(&arguments);
    let mut download = Sent { written: server.downloads.begin(mark), is_over: false };
    let Ok(permit) = Arc::clone(&server.writing).acquire_owned().await else {
        return problem(StatusCode::INTERNAL_SERVER_ERROR, BROKEN);
    };
    let (pieces, mut body) = stream::pieces(Handle::current(), TAKES_NOTHING);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        download.write(&*server.answering, &arguments, pieces);
    });
    let mut response = match body.begin().await {
        Ok(()) => Response::new(Body::new(body)),
        Err(why) => problem(StatusCode::UNPROCESSABLE_ENTITY, &why.to_string()),
    };
    name_command(&mut response, &command);
    if response.status() == StatusCode::OK {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(file.media));
        // what it is called is said by the page, which knows what it is of
        response.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    }
    response
}

/// A download, which ends however its writing ends.
struct Sent {
    written: Arc<Written>,
    is_over: bool,
}

impl Sent {
    fn write(&mut self, answering: &dyn Answering, arguments: &[String], pieces: Pieces) {
        self.written.begins();
        let mut out = Counted { pieces, written: &self.written };
        let made = answering.download(arguments, &self.written.progress, &mut out);
        let sent = made.and_then(|said| out.flush().map(|()| said).map_err(|e| e.to_string()));
        // before the client sees the end, so that whoever then asks how it ended is told
        self.written.ends(sent.clone());
        self.is_over = true;
        match sent {
            // a client that went away needs no end
            Ok(_) => drop(out.pieces.finish()),
            Err(why) => out.pieces.cut(io::Error::other(why)),
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if !self.is_over {
            self.written.ends(Err("It was given up, or that part of wakepath failed.".into()));
        }
    }
}

/// What is sent of a download, counted.
struct Counted<'a> {
    pieces: Pieces,
    written: &'a Written,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.pieces.write(bytes)?;
        self.written.add(n);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pieces.flush()
    }
}

/// Why there is no answer.
enum Failed {
    /// The command says why.
    Refused(String),
    /// It panicked.
    Broken,
}

async fn answer(
    server: &Arc<Server>,
    lane: &Arc<Semaphore>,
    asked: String,
    arguments: Vec<String>,
) -> Result<Arc<[u8]>, Failed> {
    // what is kept waits for nothing that is being made
    let found = {
        let (server, arguments) = (Arc::clone(server), arguments.clone());
        tokio::task::spawn_blocking(move || server.kept(&arguments)).await.unwrap_or(None)
    };
    if let Some(answer) = found {
        return Ok(answer);
    }
    // before it is looked again, so that of two that ask the same the second finds it
    let permit = Arc::clone(lane).acquire_owned().await.map_err(|_| Failed::Broken)?;
    let server = Arc::clone(server);
    let made = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        if let Some(answer) = server.kept(&arguments) {
            return Ok(answer);
        }
        let stamp = server.answering.stamp();
        let making = server.made.begin(asked);
        let answer: Arc<[u8]> = server.answering.answer(&arguments, &making.progress).map_err(Failed::Refused)?.into();
        server.cache().put(stamp, &arguments, &answer);
        Ok(answer)
    });
    made.await.unwrap_or(Err(Failed::Broken))
}

fn document(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn problem(status: StatusCode, why: &str) -> Response<Body> {
    document(status, json!({ "error": why }).to_string())
}

/// A header holds visible ASCII only.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b"-_.~/= ".contains(&b) {
            out.push(b as char);
        } else {
            let _ = write!(out, "%{b:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpStream;
    use std::time::Instant;

    /// A server that lasts as long as the test.
    fn server(limits: Limits) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                listener.set_nonblocking(true).expect("it can be");
                let listener = tokio::net::TcpListener::from_std(listener).expect("it listens");
                accept(listener, Router::new().route("/", get(|| async { "here" })), limits).await;
            });
        });
        address
    }

    fn connect(to: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(to).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be");
        stream
    }

    fn ask(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is open");
        let mut got = vec![0; 4096];
        let mut n = 0;
        while !got[..n].ends_with(b"here") {
            let more = stream.read(&mut got[n..]).expect("it answers");
            assert!(more > 0, "{:?}", String::from_utf8_lossy(&got[..n]));
            n += more;
        }
        String::from_utf8_lossy(&got[..n]).into_owned()
    }

    /// How long a connection stays open on which a client says this and no more.
    fn lasts(to: SocketAddr, said: &[u8]) -> Duration {
        let mut stream = connect(to);
        let begun = Instant::now();
        stream.write_all(said).expect("it is open");
        let _ = stream.read_to_end(&mut Vec::new());
        begun.elapsed()
    }

    #[test]
    fn who_says_nothing_or_half_a_request_is_not_waited_for() {
        let to = server(Limits { connections: 8, head: Duration::from_millis(300), ..Limits::default() });
        for said in [&b""[..], b"GET / HTTP/1.1\r\nHost:", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"] {
            let lasted = lasts(to, said);
            assert!(lasted >= Duration::from_millis(250) && lasted < Duration::from_secs(10), "{said:?}: {lasted:?}");
        }
    }

    #[test]
    fn many_idle_connections_keep_nobody_out_for_long() {
        let to = server(Limits { connections: 4, head: Duration::from_millis(500), ..Limits::default() });
        let mut own = connect(to);
        ask(&mut own);
        let mut idle: Vec<TcpStream> = (0..20).map(|_| connect(to)).collect();
        idle.iter_mut().for_each(|stream| stream.write_all(b"GET").expect("it is open"));
        // one that has its place is answered meanwhile, and a new one once others were given up
        assert!(ask(&mut own).starts_with("HTTP/1.1 200"));
        assert!(ask(&mut connect(to)).starts_with("HTTP/1.1 200"));
    }
}
