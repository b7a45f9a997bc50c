//! A cancel of many: those at work stop, and nobody who waits is started.

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{LONG, SESSION, logged, map, table};
use crate::support::fleet::Fleet;
use crate::support::server::Reaction;
use crate::support::talk::serve;

#[test]
fn of_a_thousand_rows_those_at_work_stop_and_no_other_is_started() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (place, model) = (table(1_000), serve(|_| Reaction::Hang));
    fleet.work(8, Some(&model));
    fleet.work(8, Some(&model));
    let running = map(&fleet, &place, &model, &["--session-id", SESSION]).start();
    model.wait_until_came(16);
    running.signal(Signal::SIGINT);
    let finished = running.wait().exits(130);
    model.wait_until_hung_up(16);
    let said = "1000 rows: 1000 not done";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
    let text = place.read("out.jsonl").expect("it was written");
    let status = |line: &str| -> Value {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        line["status"].clone()
    };
    let (stopped, skipped): (Vec<_>, Vec<_>) =
        text.lines().map(status).partition(|status| status == "cancelled");
    assert_eq!((stopped.len(), skipped), (16, vec![Value::from("skipped"); 984]));
    assert_eq!(logged(&place, "unit_started").len(), 16);
    assert_eq!(logged(&place, "unit_ended").len(), 1_000);
    assert_eq!(model.finish().len(), 16, "nobody else has asked");
}
