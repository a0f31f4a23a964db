//! The table of routes. The router is made from it, and so are the tests of rights.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};

use crate::access::Needs;
use crate::app::App;
use crate::guard::{Gate, gate};
use crate::{assets, health, metrics, pages};

/// A route of the dashboard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Route {
    /// `GET` (and `HEAD`) or `POST`.
    pub method: &'static str,
    /// Its path, as axum writes it.
    pub path: &'static str,
    /// What a request needs.
    pub needs: Needs,
}

macro_rules! routes {
    ($($method:ident $path:literal $needs:expr => $handler:path,)*) => {
        /// Every route.
        pub(crate) const ROUTES: &[Route] =
            &[$(Route { method: stringify!($method), path: $path, needs: $needs }),*];

        /// The router of the table.
        pub(crate) fn router(app: &Arc<App>) -> Router {
            let gate_of = |needs| from_fn_with_state(Gate { app: Arc::clone(app), needs }, gate);
            Router::new()
                $(.route($path, on(MethodFilter::$method, $handler).layer(gate_of($needs))))*
                .with_state(Arc::clone(app))
        }
    };
}

routes! {
    GET "/" Needs::Read => pages::overview::show,
    GET "/live" Needs::Read => pages::live::stream,
    POST "/settings" Needs::Read => pages::settings::change,
    GET "/metrics" Needs::Read => metrics::show,
    GET "/health/live" Needs::Nothing => health::live,
    GET "/health/ready" Needs::Nothing => health::ready,
    GET "/assets/{version}/{name}" Needs::Nothing => assets::serve,
}
