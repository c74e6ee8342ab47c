//! The HTTP interface of an agent. What it is asked for is none of this crate's knowledge: questions and answers are bytes.

use crate::figures::TEXT;
use crate::guard::{Guard, is_same};
use crate::server::{Limits, accept};
use crate::stream;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::middleware::{self, Next};
use axum::routing::{get, post};
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Clients at the same time. One that sends no head in time is left; so is one after so long altogether.
const LIMITS: Limits =
    Limits { connections: 64, head: Duration::from_secs(5), all: Some(Duration::from_secs(600)), half_close: true };
/// Windows that are sent at the same time; who asks for another is told to come again.
const WINDOWS_AT_ONCE: usize = 4;
/// A client that takes nothing of a window for so long is left.
const TAKES_NOTHING: Duration = Duration::from_secs(20);
/// How long the body of a question may take.
const BODY_TAKES: Duration = Duration::from_secs(5);
/// Bytes of a question's body.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Why something is not answered.
#[derive(Debug)]
pub struct Refused {
    /// As HTTP says it.
    pub status: u16,
    /// For people.
    pub why: String,
}

/// What writes an answer that is too large to be kept.
pub type Writer = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// Who answers.
pub trait Agent: Send + Sync + 'static {
    /// Figures of the agent, in Prometheus' text format.
    fn metrics(&self) -> String;

    /// Whether it records, and a JSON document that says so.
    fn health(&self) -> (bool, String);

    /// Who it is and what time it has, as a JSON document.
    fn about(&self) -> String;

    /// The segments of a time, as an archive. May wait until the time is over.
    fn window(&self, from: &str, to: &str) -> Result<Writer, Refused>;

    /// Keeps a time; gives a JSON document that says what is kept.
    fn trigger(&self, question: &[u8]) -> Result<String, Refused>;

    /// Keeps the times of alerts of Alertmanager.
    fn alerts(&self, question: &[u8]) -> Result<String, Refused>;
}

struct Server {
    agent: Arc<dyn Agent>,
    token: Option<String>,
    /// Without a token: who has one is no page in somebody's browser.
    own: Guard,
    windows: Arc<Semaphore>,
}

/// Answers in a thread of its own, until the process ends. With a token, only who has it is answered; `/health` is for everybody.
///
/// # Errors
/// Where the listener cannot be used, or there is no thread.
pub fn serve(listener: TcpListener, agent: Arc<dyn Agent>, token: Option<String>) -> io::Result<()> {
    let own = Guard::new(listener.local_addr()?, None);
    let server = Arc::new(Server { agent, token, own, windows: Arc::new(Semaphore::new(WINDOWS_AT_ONCE)) });
    let guarded = Router::new()
        .route("/metrics", get(metrics))
        .route("/v1/about", get(about))
        .route("/v1/window", get(window))
        .route("/v1/trigger", post(|s, r| asked(s, r, |a, q| a.trigger(q))))
        .route("/v1/alertmanager", post(|s, r| asked(s, r, |a, q| a.alerts(q))))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&server), guard));
    let router = Router::new()
        .route("/health", get(health))
        .merge(guarded)
        .fallback(|| async {
            problem(404, "There is /health, /metrics, /v1/about, /v1/window, /v1/trigger, /v1/alertmanager.")
        })
        .with_state(server);
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(16).enable_all().build()?;
    let listener = runtime.block_on(async { tokio::net::TcpListener::from_std(listener) })?;
    let work = move || runtime.block_on(accept(listener, router, LIMITS));
    std::thread::Builder::new().name("http".into()).spawn(work)?;
    Ok(())
}

async fn guard(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response<Body> {
    match &server.token {
        Some(token) if !is_known(request.headers(), token) => {
            problem(401, "The token is missing or wrong: send the header `Authorization: Bearer TOKEN`.")
        }
        Some(_) => next.run(request).await,
        None => match server.own.check_origin(request.headers()) {
            Ok(()) => next.run(request).await,
            Err(_) => {
                problem(421, "Without a token, only programs on this machine are answered, by the agent's address.")
            }
        },
    }
}

fn is_known(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok()?.strip_prefix("Bearer "));
    given.is_some_and(|given| is_same(given, token))
}

async fn metrics(State(server): State<Arc<Server>>) -> Response<Body> {
    blocking(move || answer(StatusCode::OK, TEXT, server.agent.metrics())).await
}

async fn health(State(server): State<Arc<Server>>) -> Response<Body> {
    blocking(move || {
        let (is_well, text) = server.agent.health();
        answer(if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, JSON, text)
    })
    .await
}

async fn about(State(server): State<Arc<Server>>) -> Response<Body> {
    blocking(move || answer(StatusCode::OK, JSON, server.agent.about())).await
}

/// A question whose body is for the agent alone.
async fn asked(
    State(server): State<Arc<Server>>,
    request: Request,
    ask: fn(&dyn Agent, &[u8]) -> Result<String, Refused>,
) -> Response<Body> {
    let body = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX);
    let body = match tokio::time::timeout(BODY_TAKES, body).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return problem(413, "The question is cut off, or longer than 1 MiB."),
        Err(_) => return problem(408, "The question did not come in time."),
    };
    blocking(move || match ask(&*server.agent, &body) {
        Ok(text) => answer(StatusCode::ACCEPTED, JSON, text),
        Err(Refused { status, why }) => problem(status, &why),
    })
    .await
}

async fn window(State(server): State<Arc<Server>>, Query(asked): Query<HashMap<String, String>>) -> Response<Body> {
    let Ok(place) = Arc::clone(&server.windows).try_acquire_owned() else {
        return problem(503, "Too many windows are being sent; ask again in a few seconds.");
    };
    let (Some(from), Some(to)) = (asked.get("from").cloned(), asked.get("to").cloned()) else {
        return problem(400, "Give the time, as /v1/window?from=2026-01-31T10:20:00Z&to=2026-01-31T10:30:00Z.");
    };
    let runtime = Handle::current();
    let (mut out, pieces) = stream::pieces(runtime.clone(), TAKES_NOTHING);
    blocking(move || {
        let write = match server.agent.window(&from, &to) {
            Ok(write) => write,
            Err(Refused { status, why }) => return problem(status, &why),
        };
        runtime.spawn_blocking(move || {
            let _place = place;
            match write(&mut out) {
                // a client that went away needs no answer
                Ok(()) => drop(out.finish()),
                Err(e) => out.cut(e),
            }
        });
        answer(StatusCode::OK, "application/x-tar", Body::new(pieces))
    })
    .await
}

const JSON: &str = "application/json";

/// Does what reads files, or waits, where that holds up no other client.
async fn blocking(work: impl FnOnce() -> Response<Body> + Send + 'static) -> Response<Body> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| problem(500, "That part of wakepath failed: a defect of it."))
}

fn answer(status: StatusCode, form: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
    response
}

fn problem(status: u16, why: &str) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(status, JSON, json!({ "error": why }).to_string())
}
