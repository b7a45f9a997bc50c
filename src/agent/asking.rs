//! One request, until it has an answer or is given up.
//!
//! Every request of a unit goes this way: through the gate, to the model, and
//! again where that is worth it. No call of a turn has run before its answer
//! is whole, so asking again repeats nothing. What is waited for and what went
//! wrong is told to the line; what to do about it is `model::retry`'s to say.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::answering::WantedAnswer;
use super::repetition::Repetition;
use super::turn::millis;
use super::{Unit, size};
use crate::event::{
    AfterFailure, NoticeLevel, Outcome, Piece, RequestFailed, ThrottleCause, Throttled,
};
use crate::line::{Told, UnitEvent};
use crate::message::{Reply, Usage};
use crate::model::adaptation::ADAPTATIONS_CAP;
use crate::model::adaptation::AdaptationClaim;
use crate::model::gate::{Entry, Lane, Pass, Shut, Throttle};
use crate::model::retry::{self, Decision, Jitter, Tried};
use crate::model::{AdaptationOutcome, Answer, Chunk, Model, ModelError, ModelErrorKind, Request};
use crate::tool::Lead;

/// How many tokens an answer is taken to have before it is there, for the gate
/// to reckon with: most have fewer, and the gate is told the truth afterwards.
const EXPECTED_ANSWER: u64 = 1_000;

/// How a unit asks its model again, and whom it asks instead.
pub struct Persistence {
    /// How often and how soon.
    pub retries: retry::Policy,
    /// The models to ask if its own is overloaded, in this order.
    pub fallbacks: VecDeque<Arc<dyn Model>>,
    /// Spreads what it does over time.
    pub jitter: Jitter,
}

/// Who hears of an answer while it grows.
pub(super) enum Audience<'a> {
    /// The user and programs: it is the answer of a turn.
    Turn {
        /// Other forks that wait for its first piece.
        lead: Option<Lead<'a>>,
        /// What the answer must be.
        wanted: &'a WantedAnswer,
    },
    /// Nobody: it is no answer to the user.
    Nobody,
}

/// What the unit does about a request that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfTooLong {
    /// It compacts its conversation.
    Compact,
    /// It gives up.
    Fail,
}

/// An answer, and how it came.
pub(super) struct Answered {
    pub(super) answer: Answer,
    /// From sending the last attempt to the end of the answer, in milliseconds.
    pub(super) took_ms: u64,
    /// How many attempts that took.
    attempts: u32,
}

/// Why there is no answer.
pub(super) enum Unanswered {
    /// The last attempt failed, or could not be used.
    Failed(ModelError),
    /// The server refused it, but may take it without a part of the conversation.
    Refused(ModelError),
    /// The unit ends: a limit leaves no room for one more attempt.
    Ends(Outcome),
}

impl Unit {
    /// Asks until there is an answer, or until it is hopeless. Its model is the
    /// one that answered from then on.
    ///
    /// # Errors
    ///
    /// The last error, or a limit that was reached. Everything that went wrong
    /// has been told.
    pub(super) async fn ask(
        &mut self,
        mut request: Request,
        mut audience: Audience<'_>,
        if_too_long: IfTooLong,
    ) -> Result<Answered, Unanswered> {
        let mut tried = Tried::default();
        let (mut adapted, mut claim) = (0, None);
        loop {
            let attempts = tried.retries + adapted + 1;
            let Asked { answer, took_ms } = self.attempt(request.clone(), &mut audience).await;
            drop(claim.take());
            let mut failed = match answer {
                Ok(answer) => return Ok(Answered { answer, took_ms, attempts }),
                Err(error) => FailedAttempt { number: attempts, took_ms, error },
            };
            audience.let_others_lead();
            if refuses_schema(&failed.error) && request.text_schema.take().is_some() {
                self.may_go_on(&failed).await?;
                self.wait_to_retry(&failed, Duration::ZERO).await;
                adapted += 1;
                request.asker.attempt += 1;
                continue;
            }
            if let Some(found) = self.adapt(&request, &failed, adapted) {
                self.may_go_on(&failed).await?;
                claim = Some(self.ask_adapted(&failed, found).await);
                adapted += 1;
                request.asker.attempt += 1;
                continue;
            }
            let has_fallback = !self.persistence.fallbacks.is_empty();
            let Persistence { retries, jitter, .. } = &mut self.persistence;
            let decision =
                retry::decide(&failed.error, tried, *retries, has_fallback, jitter.draw());
            match decision {
                Decision::Again { after } => {
                    self.may_go_on(&failed).await?;
                    self.wait_to_retry(&failed, after).await;
                    tried = tried.and(&failed.error);
                    request.asker.attempt += 1;
                }
                Decision::NextModel => {
                    self.may_go_on(&failed).await?;
                    self.fall_back(&failed, &mut request).await;
                    tried = Tried::default();
                }
                Decision::GiveUp(why) => {
                    let is_advised = self.advise(&mut failed.error, &request);
                    let is_too_long = failed.error.kind == ModelErrorKind::Overflow;
                    let next = match if_too_long {
                        IfTooLong::Compact if is_too_long => AfterFailure::Compact,
                        IfTooLong::Fail if is_too_long => AfterFailure::TooLong,
                        IfTooLong::Compact if !is_advised => {
                            self.after_refusal(&failed.error, &audience)
                        }
                        IfTooLong::Compact | IfTooLong::Fail => AfterFailure::Nothing,
                    };
                    let is_over = is_too_long || next == AfterFailure::Nothing;
                    self.tell_failed(&failed, next).await;
                    return Err(Unanswered::new(why.told(failed.error), is_over));
                }
            }
        }
    }

    /// Returns the adaptation with which a refused request is to be repeated.
    fn adapt(
        &self,
        request: &Request,
        failed: &FailedAttempt,
        adapted: u32,
    ) -> Option<AdaptationOutcome> {
        let may_help = failed.error.kind == ModelErrorKind::Request && adapted < ADAPTATIONS_CAP;
        let refused = failed.error.refused.as_ref().filter(|_| may_help)?;
        self.model.adapt(request, refused)
    }

    /// Reports a new adaptation, and repeats the request at once, under the claim.
    async fn ask_adapted(
        &mut self,
        failed: &FailedAttempt,
        found: AdaptationOutcome,
    ) -> AdaptationClaim {
        self.wait_to_retry(failed, Duration::ZERO).await;
        match found {
            AdaptationOutcome::Now { notice: text, claim } => {
                let notice = Told::Notice { level: NoticeLevel::Warning, text: text.into() };
                self.context.line.tell(notice).await;
                claim
            }
            AdaptationOutcome::Before { claim } => claim,
        }
    }

    /// Adds to a refusal what the user can do about it. Returns whether that is known.
    fn advise(&self, error: &mut ModelError, request: &Request) -> bool {
        let refused = error.refused.as_ref();
        let advice = refused.and_then(|refused| self.model.advise(request, refused));
        let is_known = advice.is_some();
        if let Some(advice) = advice {
            error.message = format!("{} ({advice})", error.message);
        }
        is_known
    }

    /// Decides what follows a refusal that no adaptation resolves. If the conversation has
    /// unanswered messages, the server may be refusing one of them, as content filters do.
    fn after_refusal(&self, error: &ModelError, audience: &Audience<'_>) -> AfterFailure {
        // Other statuses are about the address, the key or the account.
        let may_mean_content = matches!(error.status, None | Some(400 | 403 | 422 | 451 | 500));
        if error.kind != ModelErrorKind::Request || error.refused.is_none() || !may_mean_content {
            return AfterFailure::Nothing;
        }
        match audience {
            Audience::Turn { .. } if self.history.follows_given_up() => AfterFailure::LeaveOut,
            Audience::Turn { .. } => AfterFailure::Nothing,
            // A shorter try follows.
            Audience::Nobody => AfterFailure::Compact,
        }
    }

    /// Asks leave for one more attempt: what failed may have to be paid for,
    /// too.
    async fn may_go_on(&mut self, failed: &FailedAttempt) -> Result<(), Unanswered> {
        match self.may_request(None).await {
            Ok(_) => Ok(()),
            Err(outcome) => {
                self.tell_failed(failed, AfterFailure::Nothing).await;
                Err(Unanswered::Ends(outcome))
            }
        }
    }

    /// Tells of a request whose answer came but cannot be used.
    pub(super) async fn tell_unusable(&mut self, error: &ModelError, answered: &Answered) {
        let failed = FailedAttempt {
            number: answered.attempts,
            took_ms: answered.took_ms,
            error: ModelError { spent: answered.answer.usage, ..error.clone() },
        };
        self.tell_failed(&failed, AfterFailure::Nothing).await;
    }

    /// Makes one request, as soon as the gate lets it through.
    async fn attempt(&self, request: Request, audience: &mut Audience<'_>) -> Asked {
        let estimate = self.history.tokens().saturating_add(EXPECTED_ANSWER);
        let passed = match self.model.lane() {
            Some(lane) => self.pass(lane, estimate).await.map(Some),
            None => Ok(None),
        };
        let passed = match passed {
            Ok(passed) => passed,
            Err(error) => return Asked { answer: Err(error), took_ms: 0 },
        };
        let started = Instant::now();
        let waited_ms = passed.as_ref().and_then(|passed| passed.waited_ms);
        let answer = self.stream(request, audience, waited_ms).await;
        let mut answer = answer.and_then(|answer| audience.check(answer));
        let price = self.model.facts().price.as_ref();
        match &mut answer {
            Ok(answer) => {
                let is_uncounted = answer.usage.total() == 0 && passed.is_some();
                if is_uncounted {
                    answer.usage = self.estimated(&answer.reply);
                }
                answer.usage = answer.usage.priced(price);
                // What it cost is known in part at best.
                answer.usage.cost.is_partial |= is_uncounted;
            }
            Err(error) => {
                error.spent = error.spent.priced(price);
                // It was read, and partly answered; nobody says for how much.
                let is_uncounted = error.spent.total() == 0;
                error.spent.cost.is_partial |= is_uncounted && error.broke_off();
            }
        }
        if let Some(passed) = passed {
            give_back(passed.pass, &answer, estimate);
        }
        Asked { answer, took_ms: millis(started) }
    }

    /// Returns about what an answer took that its provider has not counted, so
    /// that limits hold there too.
    fn estimated(&self, reply: &Reply) -> Usage {
        let (input, output) = (self.history.tokens(), size::of_reply(reply));
        Usage { input, output, ..Usage::default() }
    }

    /// Passes the gate. Waiting there costs no attempt.
    async fn pass(&self, lane: &Lane, estimate: u64) -> Result<Passed, ModelError> {
        let held = match lane.ask(estimate).await {
            Entry::Passed(pass) => return Ok(Passed { pass, waited_ms: None }),
            Entry::Shut(shut) => return Err(self.shut(shut)),
            Entry::Held(held) => held,
        };
        let started = Instant::now();
        let throttled = Told::Throttled(self.throttled(held.cause()));
        self.context.line.tell(throttled).await;
        let pass = held.wait().await.map_err(|shut| self.shut(shut))?;
        Ok(Passed { pass, waited_ms: Some(millis(started)) })
    }

    fn throttled(&self, throttle: Throttle) -> Throttled {
        let wait = throttle.until().map(|until| until.saturating_duration_since(Instant::now()));
        Throttled {
            model: Arc::clone(self.model.name()),
            cause: match throttle {
                Throttle::InFlight => ThrottleCause::InFlight,
                Throttle::Provider { until: _ } => ThrottleCause::Provider,
                Throttle::Requests { until: _ } => ThrottleCause::Requests,
                Throttle::Tokens { until: _ } => ThrottleCause::Tokens,
            },
            wait_ms: wait.map(whole_millis),
        }
    }

    fn shut(&self, Shut { until }: Shut) -> ModelError {
        let message = format!("the provider of `{}` takes no requests for now", self.model.name());
        let after = until.saturating_duration_since(Instant::now());
        let error = ModelError::new(ModelErrorKind::RateLimited, message);
        ModelError { retry_after: Some(after), ..error }
    }

    /// Sends the request, and tells that it is sent if it had to wait.
    async fn stream(
        &self,
        request: Request,
        audience: &mut Audience<'_>,
        waited_ms: Option<u64>,
    ) -> Result<Answer, ModelError> {
        let mut chunks = self.model.respond(request);
        let admitted = async {
            if let Some(waited_ms) = waited_ms {
                self.context.line.tell(Told::Admitted { waited_ms }).await;
            }
        };
        // Side by side: what the gate has let through goes out in this moment,
        // and not after something else that closes it.
        let (mut next, ()) = tokio::join!(chunks.next(), admitted);
        let mut repetition = Repetition::default();
        while let Some(chunk) = next {
            let piece = match chunk? {
                Chunk::Text(text) => Piece::Text(text),
                Chunk::Thinking(text) => Piece::Thinking(text),
                Chunk::SentTwice(text) => {
                    let notice = Told::Notice { level: NoticeLevel::Warning, text };
                    self.context.line.tell(notice).await;
                    next = chunks.next().await;
                    continue;
                }
                Chunk::Finished(answer) => {
                    audience.has_begun();
                    return Ok(*answer);
                }
            };
            audience.has_begun();
            let (Piece::Text(text) | Piece::Thinking(text)) = &piece;
            if let Some(repeated) = repetition.push(text) {
                return Err(repeats(repeated));
            }
            if let Audience::Turn { .. } = audience {
                self.context.line.tell(UnitEvent::Delta(piece)).await;
            }
            next = chunks.next().await;
        }
        Err(ModelError::new(ModelErrorKind::Cut, "the answer broke off before its end"))
    }

    async fn wait_to_retry(&mut self, failed: &FailedAttempt, after: Duration) {
        let started = Instant::now();
        let most = self.persistence.retries.most;
        let next = AfterFailure::Retry { delay_ms: whole_millis(after), most };
        self.tell_failed(failed, next).await;
        tokio::time::sleep_until(started + after).await;
        self.context.line.tell(Told::Admitted { waited_ms: millis(started) }).await;
    }

    /// Asks the next model from now on, with the same conversation. Its bytes
    /// are rendered anew: another API has others.
    async fn fall_back(&mut self, failed: &FailedAttempt, request: &mut Request) {
        let next = self.persistence.fallbacks.pop_front();
        let next = next.expect("the next model is decided for only if there is one");
        let name = Arc::clone(next.name());
        self.tell_failed(failed, AfterFailure::Fallback { model: name }).await;
        self.context.takes_images = next.facts().takes_images;
        self.model = next;
        request.prefix = self.history.render_anew(&request.prefix);
        request.asker.is_afresh = true;
        request.asker.forked_from = None;
        request.asker.attempt = 1;
    }

    async fn tell_failed(&mut self, failed: &FailedAttempt, next: AfterFailure) {
        self.history.failed(&next);
        let FailedAttempt { number, took_ms, error } = failed;
        let failed = RequestFailed {
            model: Arc::clone(self.model.name()),
            attempt: *number,
            status: error.status,
            message: error.message.as_str().into(),
            usage: error.spent,
            took_ms: *took_ms,
            next,
        };
        self.context.line.tell(Told::RequestFailed(Arc::new(failed))).await;
    }
}

/// What came of one request.
struct Asked {
    answer: Result<Answer, ModelError>,
    /// From sending it to its end, in milliseconds.
    took_ms: u64,
}

/// The right to send a request.
struct Passed {
    pass: Pass,
    /// How long it waited for that; `None` if it passed at once.
    waited_ms: Option<u64>,
}

/// A request that was made in vain.
struct FailedAttempt {
    /// From 1, for each model.
    number: u32,
    took_ms: u64,
    error: ModelError,
}

/// Returns whether the error may mean that the server does not take the schema of the answer.
fn refuses_schema(error: &ModelError) -> bool {
    // Servers that fail to convert a schema call that their own error.
    error.kind == ModelErrorKind::Request || matches!(error.status, Some(500 | 501))
}

impl Unanswered {
    fn new(error: ModelError, is_over: bool) -> Self {
        if is_over { Self::Failed(error) } else { Self::Refused(error) }
    }
}

impl Audience<'_> {
    /// Rejects an answer that is not what was asked for.
    fn check(&self, answer: Answer) -> Result<Answer, ModelError> {
        match self {
            Self::Turn { lead: _, wanted } => wanted.check_not_empty(answer),
            Self::Nobody => Ok(answer),
        }
    }

    /// The answer's first piece is there.
    fn has_begun(&mut self) {
        if let Self::Turn { lead, wanted: _ } = self
            && let Some(lead) = lead.take()
        {
            lead.warm();
        }
    }

    /// The request failed; whoever waits for its first piece need not wait for
    /// the next attempt.
    fn let_others_lead(&mut self) {
        if let Self::Turn { lead, wanted: _ } = self {
            drop(lead.take());
        }
    }
}

/// Tells the gate how a request ended.
fn give_back(pass: Pass, answer: &Result<Answer, ModelError>, estimate: u64) {
    match answer {
        Ok(answer) => pass.answered(counted_or(answer.usage, estimate)),
        Err(error) if error.is_refusal() => pass.refused(error.retry_after),
        Err(error) if error.broke_off() => {
            pass.failed(counted_or(error.spent, estimate), error.retry_after);
        }
        // Nothing was answered, and mostly nothing read.
        Err(error) => pass.failed(error.spent.total(), error.retry_after),
    }
}

/// The error of an answer that was stopped because it repeats one text. Asked again, the
/// model would most likely do the same.
fn repeats(repeated: &str) -> ModelError {
    let message = format!("the model repeated {repeated:?} without end; its answer was stopped");
    ModelError { should_retry: Some(false), ..ModelError::new(ModelErrorKind::Cut, message) }
}

/// A provider that counts nothing leaves the estimate as it is.
fn counted_or(usage: Usage, estimate: u64) -> u64 {
    match usage.total() {
        0 => estimate,
        counted => counted,
    }
}

fn whole_millis(time: Duration) -> u64 {
    // Rounded up: what is not yet over is not 0.
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
