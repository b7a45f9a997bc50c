//! Questions of slots that workers run: a program that speaks for a person answers.

use serde_json::{Value, json};

use super::batches::repository;
use super::unheard::small;
use super::{LONG, Side, both, call, logged, script, task, write};
use crate::support::repository::Repository;
use crate::support::tine::{Place, Running};

fn answer(running: &mut Running, question: &Value, response: &Value) {
    let response = json!({"subtype": "success", "request_id": question["request_id"],
        "response": response});
    running.say(&json!({"type": "control_response", "response": response}).to_string());
}

/// Sends the first prompt.
fn begin(running: &mut Running) {
    let prompt = json!({"type": "user", "message": {"role": "user", "content": "go"}});
    running.say(&prompt.to_string());
}

#[test]
fn a_question_names_its_agent_and_a_no_is_that_slots_alone() {
    both(|side| {
        side.work(&[2, 2], None);
        let repository = Repository::new();
        repository.write("here.txt", "here\n");
        repository.commit("Begin");
        let place = &repository.place;
        let agents = json!({
            "denied": [write("a.txt", "a\n"), {"text": "I could not."}],
            "allowed": [write("b.txt", "b\n"), {"text": "I could."}],
            "looks": [{"text": "I looked."}],
        });
        let playing = script(&["denied", "allowed", "looks"].map(task), agents);
        let model = place.script("script.json", &playing);
        let talking = ["--input-format", "stream-json", "-o", "stream-json", "-m", &model];
        let mut running = side.tine(place, &talking).silent_stdin().start();
        begin(&mut running);
        let mut asked = Vec::new();
        for _ in 0..2 {
            let question = running.read_until(|record| record["type"] == "control_request");
            let request = &question["request"];
            let facts = ["subtype", "tool_name", "agent_id", "input"].map(|it| request[it].clone());
            let response = match request["agent_id"].as_str() {
                Some("agent-1") => json!({"behavior": "deny", "message": "not there"}),
                Some("agent-2") => json!({"behavior": "allow", "updatedInput": request["input"]}),
                other => panic!("{other:?} asks"),
            };
            asked.push(facts);
            answer(&mut running, &question, &response);
        }
        asked.sort_by_key(|facts| facts[2].to_string());
        running.read_until(|record| record["type"] == "result");
        running.hang_up();
        let finished = running.wait().exits(0);
        let denied: Vec<Value> = place
            .log()
            .into_iter()
            .filter(|line| line["unit"] == "agent-1" && line["kind"] == "tool_finished")
            .map(|line| line["body"]["text"].clone())
            .collect();
        let ended = finished.stdout.matches("\"status\":\"completed\"").count();
        (asked, denied, ended, place.read("a.txt"), place.read("b.txt"))
    });
}

#[test]
fn an_agent_is_told_what_the_user_answers() {
    both(|side| {
        side.work(&[1], None);
        let place = Place::new();
        let option = |label: &str| json!({"label": label, "description": "it is there"});
        let options = ["Postgres", "SQLite"].map(option);
        let question = json!({"question": "Which database?", "header": "h", "options": options});
        let asks = call("AskUserQuestion", json!({ "questions": [question] }));
        let agents = json!({"asker": [{"calls": [asks]}, {"text": "I know."}]});
        let model = place.script("script.json", &script(&[task("asker")], agents));
        let talking = ["--input-format", "stream-json", "-o", "stream-json", "-m", &model];
        let mut running = side.tine(&place, &talking).silent_stdin().start();
        begin(&mut running);
        let asked = running.read_until(|record| record["type"] == "control_request");
        let request = &asked["request"];
        assert_eq!(request["tool_name"], "AskUserQuestion");
        let mut input = request["input"].clone();
        input["answers"] = json!({"Which database?": "SQLite"});
        answer(&mut running, &asked, &json!({"behavior": "allow", "updatedInput": input}));
        running.read_until(|record| record["type"] == "result");
        running.hang_up();
        running.wait().exits(0);
        let finished = logged(&place, "tool_finished");
        let told = finished.iter().find(|line| line["unit"] == "agent-1");
        let told = told.expect("its call has an output")["body"]["text"].clone();
        assert_eq!(told, "The user has answered:\n\nWhich database?\n> SQLite");
        (request["agent_id"].clone(), request["input"].clone(), told)
    });
}

#[test]
fn an_answer_that_finds_no_room_on_its_way_fails_the_slot_that_asked() {
    let Some(fleet) = small(LONG) else { return };
    let mut side = Side { fleet: Some(fleet), most: 0 };
    side.work(&[1], None);
    let place = repository().place;
    let agents = json!({"asks": [write("a.txt", "a\n"), {"text": "I could not."}]});
    let model = place.script("script.json", &script(&[task("asks")], agents));
    let talking = ["--input-format", "stream-json", "-o", "stream-json", "-m", &model];
    let mut running = side.tine(&place, &talking).silent_stdin().start();
    begin(&mut running);
    let question = running.read_until(|record| record["type"] == "control_request");
    // More than a message may be.
    let input = json!({"file_path": "a.txt", "content": "a".repeat(1_200_000)});
    answer(&mut running, &question, &json!({"behavior": "allow", "updatedInput": input}));
    running.read_until(|record| record["type"] == "result");
    running.hang_up();
    running.wait().exits(0);
    let ended = logged(&place, "unit_ended");
    let why = ended[0]["body"]["outcome"].to_string();
    assert!(why.contains("cannot be sent: the NATS server has no room left"), "{why}");
    assert_eq!(logged(&place, "lost"), [json!(null); 0]);
}
