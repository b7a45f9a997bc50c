//! What commands on workers may reach: no more than the run lets them, however free the
//! worker is.

use serde_json::json;

use super::batches::repository;
use super::{both, call, logged, script, task};

#[test]
fn commands_are_kept_in_what_the_run_asks_for_though_the_worker_asks_for_nothing() {
    both(|side| {
        side.work(&[1], None);
        let place = repository().place;
        let command = json!({"command": "ls"});
        let agents = json!({"looks": [{"calls": [call("Bash", command)]}, {"text": "seen"}]});
        let flags = ["--config", "sandbox.mode=\"best\""];
        side.play(&place, &script(&[task("looks")], agents), &flags).run().exits(0);
        let started = logged(&place, "tool_started");
        started.iter().map(|line| line["body"]["confinement"].clone()).collect::<Vec<_>>()
    });
}
