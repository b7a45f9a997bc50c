//! A conversation at both ends of its way, without a server.

use super::*;
use crate::config::Api;
use crate::fleet::wire::samples::conversation;
use crate::model::served::{Served, ServedSettings};

fn settings() -> ServedSettings {
    ServedSettings { takes_images: true, ..ServedSettings::new("m", "big", "http://localhost/v1") }
}

fn model(settings: ServedSettings) -> Arc<dyn Model> {
    Arc::new(Served::new(settings).unwrap())
}

#[track_caller]
fn read_by(reader: ServedSettings) -> Result<Arc<ForkPoint>, String> {
    let prefix = conversation();
    let body = rendered(&*model(settings()), &prefix);
    read(&Conversation(prefix).encode(), &body, model(reader))
}

#[test]
fn a_conversation_is_sent_as_the_same_bytes_whoever_has_it() {
    for api in [Api::Chat, Api::Responses, Api::Anthropic] {
        let model = model(ServedSettings { api, ..settings() });
        let prefix = conversation();
        let bytes = Conversation(prefix.clone()).encode();
        let point = read(&bytes, &rendered(&*model, &prefix), Arc::clone(&model)).unwrap();
        assert_eq!(model.body(point.base()), model.body(&prefix), "{api:?}");
        assert_eq!(Conversation(point.base().clone()).encode(), bytes, "{api:?}");
    }
}

#[test]
fn a_model_that_would_be_sent_other_bytes_is_sent_none() {
    assert!(read_by(settings()).is_ok());
    let others = [
        ServedSettings { max_output_tokens: Some(9), ..settings() },
        ServedSettings { effort: Some("high".to_owned()), ..settings() },
        ServedSettings { takes_images: false, ..settings() },
        ServedSettings { model: "small".to_owned(), ..settings() },
        ServedSettings { api: Api::Responses, ..settings() },
    ];
    for other in others {
        let shown = format!("{other:?}");
        let why = read_by(other).expect_err(&shown);
        assert!(why.starts_with("this worker would send `m` other bytes than"), "{why}");
    }
}

#[test]
fn where_it_is_sent_to_and_with_which_key_makes_no_difference() {
    let elsewhere = ServedSettings { base_url: "http://box/v1".to_owned(), ..settings() };
    let key = Some("sk-other".to_owned().into());
    assert!(read_by(ServedSettings { key, ..elsewhere }).is_ok());
}
