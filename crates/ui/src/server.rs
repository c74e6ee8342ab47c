//! The server.

use crate::cache::Cache;
use crate::guard::{Guard, Refusal};
use crate::progress::Made;
use crate::{Answering, api, page};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::routing::get;
use serde_json::json;
use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Answers made at the same time; others wait.
const AT_ONCE: usize = 2;
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
    let server = Arc::new(Server { answering, guard, cache: Mutex::default(), at_once, quick, made, version });
    let router = Router::new()
        .route("/api/recording", get(recording))
        .route("/api/progress", get(progress))
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
            served = async { axum::serve(listener, router).await } => served,
            _ = tokio::signal::ctrl_c() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    })?;
    // an answer that is being made is not waited for
    runtime.shutdown_background();
    Ok(())
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
        Err(e @ api::Refused::Unknown(_)) => return problem(StatusCode::NOT_FOUND, &e.to_string()),
        Err(e) => return problem(StatusCode::BAD_REQUEST, &e.to_string()),
    };
    let command = percent_encoded(&server.answering.typed(&arguments));
    let asked = uri.path_and_query().map_or_else(String::new, ToString::to_string);
    let lane = if api::is_quick(&path) { &server.quick } else { &server.at_once };
    let mut response = match answer(&server, lane, asked, arguments).await {
        Ok(answer) => document(StatusCode::OK, answer.to_vec()),
        Err(Failed::Refused(why)) => problem(StatusCode::UNPROCESSABLE_ENTITY, &why),
        Err(Failed::Broken) => {
            problem(StatusCode::INTERNAL_SERVER_ERROR, "That part of wakepath failed: a defect of it.")
        }
    };
    if let Ok(command) = HeaderValue::from_str(&command) {
        response.headers_mut().insert(COMMAND, command);
    }
    response
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
