//! Requests as whole texts, answers as whole values.

mod answers;
mod requests;

use std::sync::Arc;

use super::Responses;
use crate::model::api::Options;

const TAG: &str = "responses http://localhost m";

fn options() -> Options {
    Options { takes_images: true, sealed_by: Arc::from(TAG), ..Options::new("m") }
}

fn api() -> Responses {
    Responses::new(options()).expect("nothing extra is configured")
}
