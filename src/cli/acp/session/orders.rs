//! What an editor wants of a session, and how it is left.

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    CloseSessionResponse, PromptRequest, PromptResponse, SessionId, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse, StopReason,
};

use super::{AtWork, Prompt, Session, Stage, sent};
use crate::cli::acp::{no_session, prompt};
use crate::run::{FromUser, Signal};

/// What a session says that takes nothing more.
pub(super) const CLOSED: &str = "this session is being closed";

/// Most who are told that a session was left.
const CLOSING_CAP: usize = 64;

/// What an editor wants of a session.
pub(in crate::cli::acp) enum Order {
    Prompt(Box<PromptRequest>, Responder<PromptResponse>),
    Cancel,
    SetMode(SetSessionModeRequest, Responder<SetSessionModeResponse>),
    SetOption(SetSessionConfigOptionRequest, Responder<SetSessionConfigOptionResponse>),
    /// The session is to be left.
    Close(Responder<CloseSessionResponse>),
}

impl Order {
    /// Says why it is not carried out.
    pub(in crate::cli::acp) fn refuse(self, error: Error) {
        sent(match self {
            Self::Prompt(_, responder) => responder.respond_with_error(error),
            Self::SetMode(_, responder) => responder.respond_with_error(error),
            Self::SetOption(_, responder) => responder.respond_with_error(error),
            Self::Close(responder) => responder.respond_with_error(error),
            Self::Cancel => Ok(()),
        });
    }

    /// Answers what names a session that is not open here. To close one that is
    /// closed succeeds: nobody can tell which of two closes comes first.
    pub(in crate::cli::acp) fn miss(self, session: &SessionId) {
        match self {
            Self::Close(responder) => sent(responder.respond(CloseSessionResponse::new())),
            Self::Prompt(..) | Self::SetMode(..) | Self::SetOption(..) | Self::Cancel => {
                self.refuse(no_session(session));
            }
        }
    }
}

impl Session {
    pub(super) fn order(&mut self, order: Order) {
        match order {
            Order::Prompt(request, responder) => self.prompted(&request, responder),
            Order::Cancel => self.cancel(),
            Order::SetMode(request, responder) => self.set_mode(&request, responder),
            Order::SetOption(request, responder) => self.set_option(&request, responder),
            Order::Close(responder) => self.close(Some(responder)),
        }
    }

    /// Answers what came too late to be carried out.
    pub(super) fn too_late(&mut self, order: Order) {
        match order {
            Order::Close(responder) => self.closing.get_or_insert_default().push(responder),
            Order::Prompt(..) | Order::Cancel | Order::SetMode(..) | Order::SetOption(..) => {
                order.miss(&self.at.session);
            }
        }
    }

    fn prompted(&mut self, request: &PromptRequest, responder: Responder<PromptResponse>) {
        let busy = match (&self.prompt, &self.stage) {
            (Some(_), _) => Some("a prompt of this session is being answered; cancel it, or wait"),
            (None, Stage::Loading(_)) => Some("this session is being loaded"),
            (None, Stage::Ready(_) | Stage::Sat(_) | Stage::Over) => {
                self.is_leaving().then_some(CLOSED)
            }
        };
        if let Some(why) = busy {
            return sent(responder.respond_with_error(Error::invalid_request().data(why)));
        }
        match prompt::text(&request.prompt) {
            Ok(text) => {
                self.prompt = Some(Prompt { responder, text: Some(text), is_cancelled: false });
            }
            Err(why) => sent(responder.respond_with_error(Error::invalid_params().data(why))),
        }
    }

    pub(super) fn cancel(&mut self) {
        if let Some(prompt) = &mut self.prompt {
            prompt.is_cancelled = true;
        }
        match self.at_work {
            AtWork::Answers => {
                self.end_turn();
                let has_begun = |prompt: &Prompt| prompt.text.is_none();
                if !self.prompt.as_ref().is_some_and(has_begun) {
                    self.answer(Ok(StopReason::Cancelled));
                }
            }
            AtWork::FindsOut(_) | AtWork::Nothing => {
                self.at_work = AtWork::Nothing;
                self.answer(Ok(StopReason::Cancelled));
            }
        }
    }

    /// Leaves the session; whoever wanted that may want to know.
    pub(super) fn close(&mut self, responder: Option<Responder<CloseSessionResponse>>) {
        let closing = self.closing.get_or_insert_default();
        match responder {
            Some(responder) if closing.len() >= CLOSING_CAP => {
                let error = Error::invalid_request().data(CLOSED);
                return sent(responder.respond_with_error(error));
            }
            responder => closing.extend(responder),
        }
        self.tell(FromUser::EndAll);
        self.let_go();
    }

    /// The process is about to end.
    pub(super) fn leave(&mut self, signal: Option<Signal>) {
        let signal = signal.unwrap_or(Signal::Hangup);
        self.signal = Some(signal);
        if let Stage::Sat(sat) = &self.stage {
            // A run that has so many of them is about to end.
            let _ = sat.signals.try_send(signal);
        }
        self.let_go();
    }

    /// Lets the run come to its end, and begins nothing more.
    fn let_go(&mut self) {
        if let Stage::Sat(sat) = &mut self.stage {
            sat.asking = None;
        }
        if self.at_work != AtWork::Answers {
            self.at_work = AtWork::Nothing;
            self.answer(Ok(StopReason::Cancelled));
        }
    }
}
