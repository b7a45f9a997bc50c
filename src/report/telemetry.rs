//! The run as spans that are sent to a collector.

use std::io;

use super::spans::Spans;
use crate::event::{Delta, Event};
use crate::run::Reporter;
use crate::telemetry::{Exporter, Lost};

/// Sends the spans of a run away. It never waits and never fails.
pub struct Telemetry {
    spans: Spans,
    exporter: Exporter,
}

impl Telemetry {
    /// The spans of one session, which go to where `exporter` brings them.
    #[must_use]
    pub fn new(spans: Spans, exporter: Exporter) -> Self {
        Self { spans, exporter }
    }
}

impl Reporter for Telemetry {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        for span in self.spans.take(event) {
            self.exporter.send(span);
        }
        Ok(())
    }

    fn delta(&mut self, _: &Delta) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns what to say of spans that did not arrive.
#[must_use]
pub fn lost_spans(lost: &Lost) -> String {
    let Lost { spans, endpoint, why } = lost;
    let spans = if *spans == 1 { "1 span".to_owned() } else { format!("{spans} spans") };
    let why = why.as_deref().unwrap_or("it took too long");
    format!("{spans} did not get to `{endpoint}`: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_counted_and_has_its_reason() {
        let lost = |spans, why: Option<&str>| {
            let endpoint = "http://c/v1/traces".to_owned();
            lost_spans(&Lost { spans, endpoint, why: why.map(str::to_owned) })
        };
        assert_eq!(lost(1, None), "1 span did not get to `http://c/v1/traces`: it took too long");
        assert_eq!(lost(3, Some("no")), "3 spans did not get to `http://c/v1/traces`: no");
    }
}
