//! The run as one JSON object: its result, when it is over.

use std::io::{self, Write};

use crate::event::{Delta, Event, SessionId};
use crate::run::Reporter;

use super::lines::Lines;
use super::record::{Record, ResultRecord};
use super::result::{FindFacts, Tally};

/// Writes the `result` of each invocation as one line and nothing else.
pub struct Json {
    output: Lines,
    tally: Tally,
    models: FindFacts,
}

impl Json {
    /// The result of a run of `session`, to `output`; `models` knows the models.
    #[must_use]
    pub fn new(output: Box<dyn Write + Send>, session: SessionId, models: FindFacts) -> Self {
        Self { output: Lines::new(output, session), tally: Tally::default(), models }
    }
}

impl Reporter for Json {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let Some(ending) = self.tally.take(event) else { return Ok(()) };
        self.output.begin(event.seq);
        self.output.write(Record::Result(Box::new(ResultRecord::new(&ending, &self.models))))?;
        self.output.flush()
    }

    fn delta(&mut self, _: &Delta) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use insta::assert_snapshot;

    use super::*;
    use crate::report::story::{Paper, Story, tell};

    #[test]
    fn the_result_is_all_there_is() {
        let paper = Paper::default();
        let session = SessionId("s-1".into());
        let mut json = Json::new(paper.writer(), session, Arc::new(|_| None));
        tell(&mut json, &Story::batch_of_three());
        assert_snapshot!(paper.text(), @r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":2000,"duration_api_ms":150,"num_turns":2,"result":"All fine.","stop_reason":"end_turn","total_cost_usd":0.0,"usage":{"input_tokens":250,"output_tokens":25,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard"},"modelUsage":{"m":{"inputTokens":450,"outputTokens":45,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.0,"contextWindow":0,"maxOutputTokens":0,"webSearchRequests":0}},"permission_denials":[],"terminal_reason":"completed","uuid":"30065dea-cca5-82c5-943a-55e51c9fdd41","session_id":"s-1"}"#);
    }
}
