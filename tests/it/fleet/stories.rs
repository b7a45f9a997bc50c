//! What a log and the records of a run tell, without what is never the same.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Side;
use crate::support::records::Records;
use crate::support::tine::Place;

/// Fields that hold times, sizes of times and names that are made anew each time.
const FLEETING: [&str; 12] = [
    "uuid",
    "session_id",
    "timestamp",
    "duration_ms",
    "duration_api_ms",
    "end_time",
    "took_ms",
    "summary",
    "seq",
    "at",
    "inv",
    "base",
];

/// What each unit of a run tells, in its order.
pub(super) type Story = BTreeMap<String, Vec<Value>>;

/// Returns what each unit told the log.
pub(super) fn of_log(side: &Side, place: &Place) -> Story {
    let mut story = Story::new();
    for line in place.log().iter().filter(|line| line["kind"] != "session_opened") {
        let unit = line["path"].as_str().expect("a unit has a path").to_owned();
        story.entry(unit).or_default().push(plain(side, place, line));
    }
    story
}

/// Returns what each unit told whoever reads the records.
pub(super) fn of_records(side: &Side, place: &Place, records: &Records) -> Story {
    let mut story = Story::new();
    for record in records.0.iter().filter(|record| record["subtype"] != "init") {
        let unit = record["agent_id"].as_str().unwrap_or("main").to_owned();
        story.entry(unit).or_default().push(plain(side, place, record));
    }
    story
}

/// Returns how many slots were at work at once, by a log in which all have ended.
pub(super) fn most_at_work(place: &Place) -> usize {
    let (mut at_work, mut most) = (0_usize, 0);
    for line in place.log() {
        match line["kind"].as_str() {
            Some("unit_started") => at_work += 1,
            Some("unit_ended") => at_work -= 1,
            _ => {}
        }
        most = most.max(at_work);
    }
    assert_eq!(at_work, 0, "all have ended");
    most
}

fn plain(side: &Side, place: &Place, value: &Value) -> Value {
    match value {
        Value::String(text) => side.plain(place, text).into(),
        Value::Array(values) => values.iter().map(|value| plain(side, place, value)).collect(),
        Value::Object(fields) => {
            let lasts = |name: &str, value: &Value| {
                let is_message = value.as_str().is_some_and(|text| text.starts_with("msg_"));
                !FLEETING.contains(&name) && !is_message
            };
            let kept = fields.iter().filter(|(name, value)| lasts(name, value));
            kept.map(|(name, value)| (side.plain(place, name), plain(side, place, value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
