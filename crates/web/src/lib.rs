//! The dashboard of uniqueue: an [`axum::Router`] that a service mounts under any prefix, in its own application and
//! behind its own authentication.
//!
//! ```no_run
//! use axum::Router;
//! use uniqueue_web::{Access, Checks, Web};
//!
//! # fn run(client: uniqueue::Client) {
//! let dashboard = Web::new(client)
//!     .checks(Checks::new().host("admin.example.com"))
//!     .access(|request| match request.headers.get("x-user").and_then(|user| user.to_str().ok()) {
//!         Some(user) => Access::all().user(user),
//!         None => Access::none(),
//!     })
//!     .router();
//! let service: Router = Router::new().nest("/queue", dashboard);
//! # }
//! ```
//!
//! Without further options a dashboard answers only to the names of the local machine, and shows everything but
//! changes nothing. [`Web::access`] grants more, [`Checks::host`] adds names.

mod access;
mod app;
mod asked;
mod assets;
mod bulk;
mod failure;
mod fields;
mod health;
mod html;
mod metrics;
mod page;
mod pages;
mod routes;
mod sampler;
mod shared;
mod web;

pub use self::access::{Access, Needs, Right};
pub use self::routes::Route;
pub use self::web::{Web, router};
pub use uniqueue_http::Checks;
