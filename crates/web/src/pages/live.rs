//! The stream that tells open pages of a new sample.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_core::Stream;
use tokio::sync::mpsc;

use crate::page::Page;

/// A stream of one event a sample. It ends when the dashboard stops, and the browser then tries again until the service is
/// back.
pub(crate) async fn stream(page: Page) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (sender, receiver) = mpsc::channel(1);
    let mut samples = page.app.sampler.subscribe();
    let stop = page.app.stopped().clone();
    drop(page);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                changed = samples.changed() => if changed.is_err() { return },
                () = stop.cancelled() => return,
                () = sender.closed() => return,
            }
            // A browser that is behind misses the event: the next one says the same.
            let _ = sender.try_send(());
        }
    });
    Sse::new(Ticks(receiver)).keep_alive(KeepAlive::default())
}

struct Ticks(mpsc::Receiver<()>);

impl Stream for Ticks {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|tick| tick.map(|()| Ok(Event::default().event("sample").data("new"))))
    }
}
