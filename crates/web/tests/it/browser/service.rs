//! A service with the dashboard under `/queue`, on a port of its own.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::post;
use fantoccini::Client as Browser;
use test_support::Database;
use test_support::prelude::*;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uniqueue_web::{Access, Web};

use super::driver::Driver;

/// As the dashboard's own policy, with reports.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'; report-uri /csp-report";

/// The reports of violations.
pub(super) type Reports = Arc<Mutex<Vec<String>>>;

type Requests = Arc<Mutex<Vec<(String, String)>>>;

pub(super) struct Service {
    pub(super) address: SocketAddr,
    pub(super) reports: Reports,
    /// The requests so far: method, and path within the dashboard.
    pub(super) requests: Requests,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Service {
    /// Serves on a port, or on any free one.
    pub(super) async fn start(client: Client, port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ended, at_end) = oneshot::channel::<()>();
        let dashboard = Web::new(client)
            .access(|_| Access::all().user("ada"))
            .content_security_policy(CSP)
            .shutdown(async move {
                let _ = at_end.await;
            })
            .router();
        let reports = Reports::default();
        let kept = Arc::clone(&reports);
        let report = post(async move |body: String| kept.lock().unwrap().push(body));
        let requests = Requests::default();
        let seen = Arc::clone(&requests);
        let note = from_fn(move |request: Request, next: Next| {
            let path = request.uri().path().to_owned();
            seen.lock().unwrap().push((request.method().to_string(), path));
            next.run(request)
        });
        let dashboard = dashboard.layer(note);
        let app = Router::new().route("/csp-report", report).nest("/queue", dashboard);
        let served = tokio::spawn(async move {
            let shutdown = async move {
                let _ = stopped.await;
                let _ = ended.send(());
            };
            axum::serve(listener, app).with_graceful_shutdown(shutdown).await.unwrap();
        });
        Self { address, reports, requests, stop, served }
    }

    /// The address of a page.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}/queue{path}", self.address)
    }

    /// Stops, and waits for the end of the requests.
    pub(super) async fn stop(self) {
        let _ = self.stop.send(());
        self.served.await.unwrap();
    }
}

/// A dashboard in front of a database of its own, and a browser that has opened nothing yet.
pub(super) struct Stage {
    pub(super) driver: Driver,
    pub(super) database: Database,
    pub(super) service: Service,
    pub(super) browser: Browser,
}

impl Stage {
    /// Sets it, with a window of this height. `None`: there is no browser.
    pub(super) async fn new(height: u32, has_scripts: bool) -> Option<Self> {
        let driver = Driver::start().await?;
        let database = Database::new().await;
        let service = Service::start(database.client.clone(), 0).await;
        let browser = driver.session(1280, height, has_scripts).await;
        Some(Self { driver, database, service, browser })
    }
}
