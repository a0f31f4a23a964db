//! Faktory's wire protocol, version 2, in front of uniqueue: clients and workers of Faktory in any language push jobs and work
//! them, and unique jobs are exact.
//!
//! ```no_run
//! use tokio::net::TcpListener;
//! use uniqueue::{Client, shutdown_signal};
//! use uniqueue_faktory::Faktory;
//!
//! # async fn run(client: Client) -> std::io::Result<()> {
//! let listener = TcpListener::bind("127.0.0.1:7419").await?;
//! Faktory::new(client).serve(listener, shutdown_signal()).await;
//! # Ok(()) }
//! ```
//!
//! A runner in Rust can work the jobs that a client of Faktory pushes, and a worker of Faktory can fetch the jobs that Rust
//! inserts. `docs/operate/faktory.md` names what is spoken and what is not.
//!
//! ```text
//! connection ─▶ session ─▶ command ─┬─ push ─────────▶ Client::insert
//!                                   ├─ fetches ──────▶ Remote::fetch_jobs, one call for all that wait
//!                                   ├─ results ──────▶ Remote::finish_jobs, likewise
//!                                   └─ mutate, info
//! ```

mod ack;
mod command;
mod door;
mod faktory;
mod fetches;
mod fuzz;
mod glob;
mod hello;
mod info;
mod limits;
mod line;
mod mutate;
mod payload;
mod push;
mod reply;
mod reserved;
mod sent;
mod session;
mod workers;

pub use self::faktory::Faktory;
#[doc(hidden)]
pub use self::fuzz::fuzz;
pub use self::hello::{Guard, Rights};
pub use self::limits::Limits;
