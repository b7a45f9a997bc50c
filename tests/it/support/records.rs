//! The stream-json records of a run, read back.

use serde_json::Value;

/// Every record of a run, in order.
#[derive(Debug)]
pub(crate) struct Records(pub(crate) Vec<Value>);

/// An output as a record tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputRecord {
    pub(crate) call: String,
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

impl Records {
    /// Reads the lines of a run.
    ///
    /// Panics unless each is a record with its name and its session, and
    /// exactly one is a result: the last.
    #[track_caller]
    pub(crate) fn parse(text: &str) -> Self {
        let parse = |line| -> Value { serde_json::from_str(line).expect("a record is JSON") };
        let records: Vec<Value> = text.lines().map(parse).collect();
        for record in &records {
            let is_whole =
                ["type", "uuid", "session_id"].iter().all(|name| record[*name].is_string());
            assert!(is_whole, "a record without its name: {record}");
        }
        let results = records.iter().filter(|record| record["type"] == "result").count();
        let last = records.last().map(|record| &record["type"]);
        assert_eq!((results, last), (1, Some(&"result".into())), "{text}");
        Self(records)
    }

    /// Returns the result.
    pub(crate) fn result(&self) -> &Value {
        self.0.last().expect("parsing has found a result")
    }

    /// Returns the `system` records of a subtype.
    pub(crate) fn system(&self, subtype: &str) -> Vec<&Value> {
        self.0.iter().filter(|record| record["subtype"] == subtype).collect()
    }

    /// Returns the records of a unit.
    pub(crate) fn of_unit(&self, unit: &str) -> Vec<&Value> {
        self.0.iter().filter(|record| record["agent_id"] == unit).collect()
    }

    /// Returns the status patches of a unit, in order.
    pub(crate) fn states(&self, unit: &str) -> Vec<&str> {
        let updates = self.system("task_updated").into_iter();
        let own = updates.filter(|record| record["task_id"] == unit);
        own.filter_map(|record| record["patch"]["status"].as_str()).collect()
    }

    /// Returns the outputs of main's calls.
    pub(crate) fn outputs(&self) -> Vec<OutputRecord> {
        let of_main = |record: &&Value| record["parent_tool_use_id"].is_null();
        let messages = self.0.iter().filter(|record| record["type"] == "user").filter(of_main);
        messages.flat_map(outputs).collect()
    }

    /// Returns the most units that ran at one moment.
    pub(crate) fn most_running(&self) -> usize {
        let (mut running, mut most) = (0_usize, 0);
        for update in self.system("task_updated") {
            match update["patch"]["status"].as_str() {
                Some("running") => running += 1,
                Some("completed" | "failed" | "killed") => running = running.saturating_sub(1),
                Some(_) | None => {}
            }
            most = most.max(running);
        }
        most
    }
}

fn outputs(record: &Value) -> Vec<OutputRecord> {
    let content = record["message"]["content"].as_array();
    let blocks = content.into_iter().flatten().filter(|block| block["type"] == "tool_result");
    blocks
        .map(|block| OutputRecord {
            call: text(&block["tool_use_id"]),
            text: text(&block["content"]),
            is_error: block["is_error"] == true,
        })
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("the field is a text").to_owned()
}
