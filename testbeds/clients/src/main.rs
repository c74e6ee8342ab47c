//! A server on axum that calls others by the clients of Tokio that people use. `clients KIND[+KIND…]`: `GET /x?rid=R` makes the calls of
//! these kinds in turn; their ids are the ground truth, for the scorer only.
//!
//! - `http`: reqwest, whose connections have a task each, which has one request at a time.
//! - `http-at-once`: two of these at the same time, by the request's own task.
//! - `http-spawned`: the same by tasks of their own, which wait for one of two places that all share.
//! - `sqlx`: a pool of five connections to PostgreSQL, each of which is checked when it is taken and when it comes back.
//! - `redis`: one connection of redis-rs that all requests share.
//! - `postgres`: one connection of tokio-postgres that all requests share.
//!
//! Settings come by environment: PORT, LOG, and the ports DOWN, PG, REDIS.

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use std::collections::HashMap;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;
use tokio::sync::Semaphore;

type Failure = Box<dyn Error + Send + Sync>;

const POOLED: u32 = 5;
const PLACES: usize = 2;

struct Service {
    kinds: Vec<String>,
    log: File,
    down: String,
    http: reqwest::Client,
    places: Semaphore,
    pool: Option<sqlx::PgPool>,
    redis: Option<redis::aio::MultiplexedConnection>,
    postgres: Option<tokio_postgres::Client>,
}

fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

impl Service {
    async fn begin(kinds: &str) -> Result<Service, Failure> {
        let has = |kind: &str| kinds.split('+').any(|k| k == kind);
        let database = format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", setting("PG"));
        let pool = match has("sqlx") {
            true => Some(sqlx::postgres::PgPoolOptions::new().max_connections(POOLED).connect(&database).await?),
            false => None,
        };
        let redis = match has("redis") {
            true => {
                let client = redis::Client::open(format!("redis://127.0.0.1:{}/", setting("REDIS")))?;
                Some(client.get_multiplexed_async_connection().await?)
            }
            false => None,
        };
        let postgres = match has("postgres") {
            true => {
                let (client, connection) = tokio_postgres::connect(&database, tokio_postgres::NoTls).await?;
                tokio::spawn(connection);
                Some(client)
            }
            false => None,
        };
        Ok(Service {
            kinds: kinds.split('+').map(str::to_owned).collect(),
            log: OpenOptions::new().append(true).open(setting("LOG"))?,
            down: format!("http://127.0.0.1:{}/down", setting("DOWN")),
            http: reqwest::Client::new(),
            places: Semaphore::new(PLACES),
            pool,
            redis,
            postgres,
        })
    }

    async fn get(&self, rid: &str) -> Result<(), Failure> {
        self.http.get(format!("{}?rid={rid}", self.down)).send().await?.bytes().await?;
        Ok(())
    }

    async fn call(self: &Arc<Self>, kind: &str, rid: &str) -> Result<(), Failure> {
        let query = format!("/* rid={rid} */ SELECT 1");
        match kind {
            "http" => self.get(rid).await,
            "http-at-once" => {
                let (first, second) = tokio::join!(self.get(rid), self.get(rid));
                first.and(second)
            }
            "http-spawned" => {
                let calls: Vec<_> = (0..2)
                    .map(|_| {
                        let (service, rid) = (Arc::clone(self), rid.to_owned());
                        tokio::spawn(async move {
                            let _place = service.places.acquire().await?;
                            service.get(&rid).await
                        })
                    })
                    .collect();
                for call in calls {
                    call.await??;
                }
                Ok(())
            }
            "sqlx" => {
                let pool = self.pool.as_ref().ok_or("no pool")?;
                sqlx::query(&query).persistent(false).fetch_all(pool).await?;
                Ok(())
            }
            "redis" => {
                let mut shared = self.redis.clone().ok_or("no Redis")?;
                redis::cmd("INCR").arg(format!("rid:{rid}")).query_async::<i64>(&mut shared).await?;
                Ok(())
            }
            "postgres" => {
                self.postgres.as_ref().ok_or("no database")?.simple_query(&query).await?;
                Ok(())
            }
            _ => Err(format!("no kind {kind}").into()),
        }
    }
}

async fn answer(
    State(service): State<Arc<Service>>,
    Query(words): Query<HashMap<String, String>>,
) -> Result<String, (StatusCode, String)> {
    let rid = words.get("rid").cloned().unwrap_or_default();
    for kind in &service.kinds {
        service.call(kind, &rid).await.map_err(|e| (StatusCode::BAD_GATEWAY, e.to_string()))?;
    }
    // one write, so that lines of several requests do not mix
    (&service.log)
        .write_all(format!("rid={rid} 200\n").as_bytes())
        .map_err(|e| (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    Ok(rid)
}

fn main() -> Result<(), Failure> {
    let kinds = std::env::args().nth(1).ok_or("which kinds of calls?")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    runtime.block_on(async {
        let service = Arc::new(Service::begin(&kinds).await?);
        let routes = Router::new().fallback(get(answer)).with_state(service);
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", setting("PORT").parse::<u16>()?)).await?;
        axum::serve(listener, routes).await?;
        Ok(())
    })
}
