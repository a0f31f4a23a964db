//! Trace context, which a job's meta carries from the span of the insert to the span of the work.
//!
//! The meta members are those of the W3C recommendation *Trace Context*: `traceparent`, and
//! `tracestate` if there is one. Any language can write and read them. The feature `opentelemetry`
//! writes and reads them automatically. Without it they are ordinary meta.

/// The meta member with trace, span and flags.
pub(crate) const TRACEPARENT: &str = "traceparent";

#[cfg(feature = "opentelemetry")]
pub(crate) use self::context::{adopt, carry};

/// The jobs as they are: without the feature no span is theirs.
#[cfg(not(feature = "opentelemetry"))]
pub(crate) fn carry(jobs: Vec<crate::words::job::NewJob>) -> Vec<crate::words::job::NewJob> {
    jobs
}

#[cfg(feature = "opentelemetry")]
mod context {
    use std::str::FromStr;

    use opentelemetry::Context;
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
    use serde_json::{Map, Value};
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    use super::TRACEPARENT;
    use crate::words::job::NewJob;

    /// The meta member with the vendors' own data.
    const TRACESTATE: &str = "tracestate";

    /// Stores the current span's context in the meta of jobs that have none of their own.
    pub(crate) fn carry(mut jobs: Vec<NewJob>) -> Vec<NewJob> {
        let context = Span::current().context();
        let span_context = match context.span().span_context() {
            inner if inner.is_valid() => inner.clone(),
            // The caller may use OpenTelemetry without `tracing`.
            _ => Context::current().span().span_context().clone(),
        };
        if !span_context.is_valid() {
            return jobs;
        }
        let parent = written(&span_context);
        let state = span_context.trace_state().header();
        for job in jobs.iter_mut().filter(|job| !job.options.meta.contains_key(TRACEPARENT)) {
            job.options.meta.insert(TRACEPARENT.to_owned(), Value::String(parent.clone()));
            if !state.is_empty() {
                job.options.meta.insert(TRACESTATE.to_owned(), Value::String(state.clone()));
            }
        }
        jobs
    }

    /// Makes the span of a job a child of the span that its meta names.
    pub(crate) fn adopt(span: &Span, meta: &Map<String, Value>) {
        let text = |name| meta.get(name).and_then(Value::as_str);
        let Some(mut parent) = text(TRACEPARENT).and_then(read) else {
            return;
        };
        if let Some(state) = text(TRACESTATE).and_then(|state| TraceState::from_str(state).ok()) {
            let (trace, span, flags) = (parent.trace_id(), parent.span_id(), parent.trace_flags());
            parent = SpanContext::new(trace, span, flags, true, state);
        }
        // It fails if no OpenTelemetry layer collects this span.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }

    fn written(context: &SpanContext) -> String {
        let flags = context.trace_flags() & TraceFlags::SAMPLED;
        format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), flags.to_u8())
    }

    /// Reads version 00, and of later versions the parts that 00 has, as the recommendation requires.
    /// Returns `None` for texts that it requires to be ignored.
    fn read(text: &str) -> Option<SpanContext> {
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            let is_hex =
                |part: &&str| part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            parts.next().filter(is_hex)
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        Some(SpanContext::new(trace, span, flags, true, TraceState::NONE)).filter(SpanContext::is_valid)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn traceparent_is_read_as_it_is_written() {
            let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            assert_eq!(written(&read(text).unwrap()), text);
            // The known parts of a later version are read.
            let later = text.replacen("00", "cc", 1) + "-more";
            assert_eq!(written(&read(&later).unwrap()), text);
            // Unknown flags are not passed on.
            assert_eq!(written(&read(&text.replace("-01", "-03")).unwrap()), text);
        }

        #[test]
        fn an_invalid_traceparent_is_ignored() {
            for text in [
                "",
                "00",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
            ] {
                assert!(read(text).is_none(), "{text}");
            }
        }
    }
}
