//! One request and its answer, followed from the first byte to the last.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Endpoint;
use super::second::Sent;
use crate::message::Prefix;
use crate::model::adaptation::{Adaptations, RefusedRequest};
use crate::model::api::Assembly;
use crate::model::blame::{blamed_tools, describe_mcp_tool};
use crate::model::http::awake::timeout_awake;
use crate::model::http::body::let_go;
use crate::model::http::exchange::{Break, Response};
use crate::model::http::fault;
use crate::model::http::sse::{Decoder, EVENT_CAP, TooLong};
use crate::model::http::{self, Opened};
use crate::model::{Chunk, ModelError, ModelErrorKind, Request};

/// Longest wait for the token counts once the answer itself has ended. Some
/// servers never send them and never close the stream.
const COUNTS_LIMIT: Duration = Duration::from_secs(3);

/// A request and what has come of it.
pub(super) struct Talk {
    endpoint: Arc<Endpoint>,
    request: Request,
    /// The adaptations that the request is sent with.
    adaptations: Arc<Adaptations>,
    /// The conversation with them.
    sent: Prefix,
    stage: Stage,
    /// `true` if the request was sent twice. The provider may charge for the dropped one,
    /// whose tokens are unknown.
    is_twice: bool,
    /// What was said and not yet taken.
    said: VecDeque<Result<Chunk, ModelError>>,
}

enum Stage {
    Asking,
    Listening(Box<Listening>),
    Over,
}

impl Talk {
    /// A request that is sent when the first piece is asked for.
    pub(super) fn new(endpoint: Arc<Endpoint>, request: Request) -> Self {
        let adaptations = endpoint.learned.known();
        let sent = adaptations.prefix(&request.prefix);
        let (stage, said) = (Stage::Asking, VecDeque::new());
        Self { endpoint, request, adaptations, sent, stage, is_twice: false, said }
    }

    /// Returns the next piece; `None` after the answer or an error.
    pub(super) async fn next(&mut self) -> Option<Result<Chunk, ModelError>> {
        while self.said.is_empty() {
            let next = match mem::replace(&mut self.stage, Stage::Over) {
                Stage::Asking => self.ask().await,
                Stage::Listening(listening) => self.listen(listening).await,
                Stage::Over => return None,
            };
            match next {
                Ok(stage) => self.stage = stage,
                Err(error) => {
                    let error = self.name_blamed_tools(self.endpoint.address.redact(error));
                    let mut error = self.refused(error);
                    error.spent.cost.is_partial |= self.is_twice;
                    tracing::debug!(unit = %self.request.asker.unit, %error, "it has no answer");
                    self.said.push_back(Err(error));
                }
            }
        }
        self.said.pop_front()
    }

    /// Adds the MCP tools that the provider blames to the message of a refusal.
    fn name_blamed_tools(&self, error: ModelError) -> ModelError {
        if error.kind != ModelErrorKind::Request || error.status.is_none() {
            return error;
        }
        // An index counts the tools that were sent; a name may be in the conversation.
        let named_in = |prefix: &Prefix| {
            let tools = &prefix.head.tools;
            let blamed = blamed_tools(&error.message, tools).into_iter();
            blamed.filter_map(|place| describe_mcp_tool(&tools[place].name)).collect::<Vec<_>>()
        };
        let mut named = named_in(&self.sent);
        if named.is_empty() {
            named = named_in(&self.request.prefix);
        }
        match named.is_empty() {
            true => error,
            false => {
                let message = format!("{} (refused for {})", error.message, named.join(", "));
                ModelError { message, ..error }
            }
        }
    }

    /// Adds to a refusal what the request was sent with.
    fn refused(&self, error: ModelError) -> ModelError {
        let refused = error.refused.map(|refused| {
            let (said, adaptations) = (Arc::clone(&refused.said), (*self.adaptations).clone());
            Arc::new(RefusedRequest { said, adaptations })
        });
        ModelError { refused, ..error }
    }

    async fn ask(&mut self) -> Result<Stage, ModelError> {
        let endpoint = &self.endpoint;
        let api = endpoint.api(&self.adaptations, self.request.text_schema.as_ref());
        let (unit, url) = (self.request.asker.unit, endpoint.address.shown());
        tracing::debug!(%unit, model = %endpoint.route.model, url, "a request is sent");
        let Sent { result, is_twice } = endpoint.send(api.sent(&self.sent).into()).await;
        if is_twice {
            self.is_twice = true;
            self.said.push_back(Ok(Chunk::SentTwice(endpoint.sent_twice().into())));
        }
        let Some(response) = result? else { return Err(endpoint.no_headers()) };
        let mut deadline = Instant::now() + endpoint.timeouts.first_piece;
        let opened = http::open(response, &endpoint.address, endpoint.timeouts.idle);
        let opened =
            timeout_awake(&mut deadline, opened).await.map_err(|_| endpoint.no_first_piece())??;
        tracing::debug!(%unit, "its answer begins");
        let mut assembly = api.assembly();
        match opened {
            Opened::Stream(response, start) => {
                let mut decoder = Decoder::default();
                decoder.feed(start.into());
                let (is_first, is_read) = (true, false);
                let listening =
                    Listening { response, decoder, assembly, deadline, is_first, is_read };
                Ok(Stage::Listening(Box::new(listening)))
            }
            Opened::Silence => Err(endpoint.no_first_piece()),
            Opened::Whole(bytes) if bytes.trim_ascii().is_empty() => Err(endpoint.no_end()),
            Opened::Whole(bytes) => {
                let said = &mut self.said;
                let taken = assembly.take_whole(&bytes, &mut |chunk| said.push_back(Ok(chunk)));
                self.finish(assembly, taken).await
            }
        }
    }

    async fn listen(&mut self, mut listening: Box<Listening>) -> Result<Stage, ModelError> {
        let is_over = listening.go_on(&self.endpoint, &mut self.said).await;
        if is_over == Ok(false) {
            return Ok(Stage::Listening(listening));
        }
        let Listening { response, assembly, is_read, .. } = *listening;
        // An answer that went wrong may go on for ever: its connection goes.
        if is_over.is_ok() && !is_read {
            let_go(response).await;
        }
        self.finish(assembly, is_over.map(|_| ())).await
    }

    /// Says the whole answer, or why there is none.
    async fn finish(
        &mut self,
        assembly: Assembly,
        ended: Result<(), ModelError>,
    ) -> Result<Stage, ModelError> {
        let asker = &self.request.asker;
        let spent = assembly.usage();
        let mut answer = ended
            .and_then(|()| assembly.finish(asker, &self.sent))
            .map_err(|error| ModelError { spent, ..error })?;
        answer.usage.cost.is_partial |= self.is_twice;
        self.endpoint.address.note_answer();
        if self.endpoint.learned.answered(&self.adaptations) {
            let learned = Arc::clone(&self.endpoint.learned);
            // It is a cache: what is not written is learned again.
            let _ = tokio::task::spawn_blocking(move || learned.save()).await;
        }
        self.said.push_back(Ok(Chunk::Finished(Box::new(answer))));
        Ok(Stage::Over)
    }
}

/// A stream of events that is being read.
struct Listening {
    response: Response,
    decoder: Decoder,
    assembly: Assembly,
    /// When the wait for something that counts is over.
    deadline: Instant,
    /// Whether nothing that counts has come yet.
    is_first: bool,
    /// Whether the body was read to its end.
    is_read: bool,
}

impl Listening {
    /// Reads on until something was said; tells whether the answer is over.
    async fn go_on(
        &mut self,
        endpoint: &Endpoint,
        said: &mut VecDeque<Result<Chunk, ModelError>>,
    ) -> Result<bool, ModelError> {
        loop {
            loop {
                let event = match self.decoder.next_event() {
                    Ok(Some(event)) if event.is_blank() => continue,
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(TooLong) => return self.unless_ended(endpoint.too_long()),
                };
                let had_ended = self.assembly.has_ended();
                match self.assembly.take(event, &mut |chunk| said.push_back(Ok(chunk))) {
                    Ok(()) => {}
                    Err(error) if error.kind == ModelErrorKind::Cut => {
                        return self.unless_ended(error);
                    }
                    Err(error) => return Err(error),
                }
                if self.assembly.is_over() {
                    return self.ended(endpoint);
                }
                // Some servers name the role before they read the prompt, or
                // send empty pieces to keep the connection open. Once the
                // answer has ended, nothing gives its counts more time.
                if self.assembly.grew() && !had_ended {
                    self.wait_for_more(endpoint);
                }
                if !said.is_empty() {
                    return Ok(false);
                }
            }
            if self.is_read {
                return self.ended(endpoint);
            }
            // A server that keeps sending nothing never lets a wait reach its
            // end.
            if Instant::now() >= self.deadline {
                return self.unless_ended(self.silent(endpoint));
            }
            match timeout_awake(&mut self.deadline, self.response.chunk()).await {
                Ok(Ok(Some(piece))) => self.decoder.feed(piece),
                Ok(Ok(None)) => {
                    self.decoder.end();
                    self.is_read = true;
                }
                Ok(Err(Break::Broken(why))) => {
                    return self.unless_ended(fault::broken(&why, &endpoint.address));
                }
                Ok(Err(Break::Silent)) | Err(_) => {
                    return self.unless_ended(self.silent(endpoint));
                }
            }
        }
    }

    fn wait_for_more(&mut self, endpoint: &Endpoint) {
        let has_ended = self.assembly.has_ended();
        let limit = if has_ended {
            endpoint.timeouts.idle.min(COUNTS_LIMIT)
        } else {
            endpoint.timeouts.idle
        };
        self.deadline = Instant::now() + limit;
        self.is_first = false;
    }

    /// Passes over what went wrong behind an answer's end.
    fn unless_ended(&self, error: ModelError) -> Result<bool, ModelError> {
        if self.assembly.has_ended() { Ok(true) } else { Err(error) }
    }

    fn ended(&self, endpoint: &Endpoint) -> Result<bool, ModelError> {
        if self.assembly.is_complete() { Ok(true) } else { Err(endpoint.no_end()) }
    }

    fn silent(&self, endpoint: &Endpoint) -> ModelError {
        if self.is_first { endpoint.no_first_piece() } else { endpoint.no_more() }
    }
}

impl Endpoint {
    fn too_long(&self) -> ModelError {
        let (url, limit) = (self.address.shown(), EVENT_CAP >> 20);
        let message = format!("`{url}` sent a piece of more than {limit} MiB");
        ModelError::new(ModelErrorKind::Request, message)
    }

    fn no_end(&self) -> ModelError {
        let message = format!("the answer of `{}` broke off before its end", self.address.shown());
        ModelError::new(ModelErrorKind::Cut, message)
    }

    fn no_first_piece(&self) -> ModelError {
        let (url, seconds) = (self.address.shown(), self.timeouts.first_piece.as_secs_f32());
        let message = format!("no piece of an answer from `{url}` within {seconds} s");
        ModelError::new(ModelErrorKind::Silent, message)
    }

    /// Returns the sentence for the user about a request that was sent twice.
    fn sent_twice(&self) -> String {
        let seconds = self.timeouts.second_request.unwrap_or_default().as_secs_f32();
        format!(
            "`{}` sent no response headers within {seconds} s; tine sent the request a second \
             time and uses the first answer (the provider may charge for both)",
            self.address.shown()
        )
    }

    fn no_more(&self) -> ModelError {
        let (url, seconds) = (self.address.shown(), self.timeouts.idle.as_secs_f32());
        let message = format!("the answer of `{url}` stopped: nothing came for {seconds} s");
        ModelError::new(ModelErrorKind::Silent, message)
    }
}
