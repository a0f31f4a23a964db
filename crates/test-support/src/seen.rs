//! The spans and events of a test: one subscriber for all threads, since subscribers of single threads race for the
//! callsites.

use std::sync::OnceLock;

use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;

use super::keeper::{Keeper, statements};

static SEEN: OnceLock<InMemorySpanExporter> = OnceLock::new();

/// Sets the run's subscriber, which keeps statements and collects OpenTelemetry spans.
pub(crate) fn install() -> &'static InMemorySpanExporter {
    SEEN.get_or_init(|| {
        let exporter = InMemorySpanExporter::default();
        // Spans outside of a test's trace are not kept.
        let sampler = Sampler::ParentBased(Box::new(Sampler::AlwaysOff));
        let provider =
            SdkTracerProvider::builder().with_sampler(sampler).with_simple_exporter(exporter.clone()).build();
        let collect = tracing_opentelemetry::layer().with_tracer(provider.tracer("it"));
        let ours = filter_fn(|metadata| metadata.target().starts_with("uniqueue") || metadata.target() == "traced");
        let subscriber =
            tracing_subscriber::registry().with(Keeper.with_filter(statements())).with(collect.with_filter(ours));
        tracing::subscriber::set_global_default(subscriber).expect("the only subscriber");
        exporter
    })
}

/// A trace from afar, as a request brings it.
pub struct Trace {
    pub id: TraceId,
    exporter: &'static InMemorySpanExporter,
}

impl Trace {
    /// Begins a trace that is kept, with a span in it.
    pub fn begin() -> (Self, Span) {
        let exporter = install();
        let id = TraceId::from_bytes(*uuid::Uuid::now_v7().as_bytes());
        let state = TraceState::from_key_value([("vendor", "of-the-caller")]).expect("a trace state");
        let caller = SpanContext::new(id, SpanId::from(7), TraceFlags::SAMPLED, true, state);
        let span = tracing::info_span!(target: "traced", "request");
        let context = opentelemetry::Context::new().with_remote_span_context(caller);
        span.set_parent(context).expect("a span that is collected");
        (Self { id, exporter }, span)
    }

    /// The trace's spans of this name that have ended.
    pub fn ended(&self, name: &str) -> Vec<SpanData> {
        let spans = self.exporter.get_finished_spans().expect("the exporter");
        spans.into_iter().filter(|span| span.span_context.trace_id() == self.id && span.name == name).collect()
    }
}

/// An attribute of a span as text.
pub fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.as_str().into_owned())
}
