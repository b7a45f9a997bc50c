//! A model whose requests pass the gate of another process, too.

use std::num::NonZeroU64;
use std::sync::Arc;

use futures_util::stream::BoxStream;

use super::super::adaptation::RefusedRequest;
use super::super::gate::Lane;
use super::super::{AdaptationOutcome, Chunk, Facts, Model, ModelError, Request};
use crate::message::Prefix;

/// An open model with another way to its provider. Its connections are the same.
pub(super) struct Through {
    pub(super) model: Arc<dyn Model>,
    pub(super) lane: Lane,
}

impl Model for Through {
    fn name(&self) -> &Arc<str> {
        self.model.name()
    }

    fn body(&self, prefix: &Prefix) -> Vec<u8> {
        self.model.body(prefix)
    }

    fn lane(&self) -> Option<&Lane> {
        Some(&self.lane)
    }

    fn facts(&self) -> &Facts {
        self.model.facts()
    }

    fn learn_window(&self, tokens: NonZeroU64) -> bool {
        self.model.learn_window(tokens)
    }

    fn adapt(&self, request: &Request, refused: &RefusedRequest) -> Option<AdaptationOutcome> {
        self.model.adapt(request, refused)
    }

    fn advise(&self, request: &Request, refused: &RefusedRequest) -> Option<String> {
        self.model.advise(request, refused)
    }

    fn respond(&self, request: Request) -> BoxStream<'static, Result<Chunk, ModelError>> {
        self.model.respond(request)
    }
}
