//! What an editor chooses for a session: its mode and its model.

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    ConfigOptionUpdate, CurrentModeUpdate, SessionConfigOptionValue, SessionUpdate,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse,
};

use super::{Loading, Session, Stage, sent};
use crate::cli::acp::{offer, refused};
use crate::cli::kit::Kit;
use crate::guard::Mode;
use crate::run::FromUser;

impl Session {
    pub(super) fn set_mode(
        &mut self,
        request: &SetSessionModeRequest,
        responder: Responder<SetSessionModeResponse>,
    ) {
        match self.change_mode(&request.mode_id.0) {
            Ok(()) => {
                sent(responder.respond(SetSessionModeResponse::new()));
                self.tell_options();
            }
            Err(error) => sent(responder.respond_with_error(error)),
        }
    }

    pub(super) fn set_option(
        &mut self,
        request: &SetSessionConfigOptionRequest,
        responder: Responder<SetSessionConfigOptionResponse>,
    ) {
        let SessionConfigOptionValue::ValueId { value } = &request.value else {
            let error = Error::invalid_params().data("this takes one of its values");
            return sent(responder.respond_with_error(error));
        };
        let changed = match &*request.config_id.0 {
            offer::MODE => self.change_mode(&value.0),
            offer::MODEL => self.change_model(&value.0),
            other => Err(Error::invalid_params().data(format!("there is no option `{other}`"))),
        };
        let options = changed.and_then(|()| self.kit().map(offer::options).ok_or_else(gone));
        match options {
            Ok(options) => sent(responder.respond(SetSessionConfigOptionResponse::new(options))),
            Err(error) => sent(responder.respond_with_error(error)),
        }
    }

    /// From the next call on of whatever unit works, this much runs unasked.
    fn change_mode(&mut self, name: &str) -> Result<(), Error> {
        let mode = Mode::from_name(name)
            .ok_or_else(|| Error::invalid_params().data(format!("there is no mode `{name}`")))?;
        let kit = self.kit_mut().ok_or_else(gone)?;
        if kit.policy.mode() == mode {
            return Ok(());
        }
        kit.set_mode(mode);
        self.tell(FromUser::Mode(mode));
        let update = CurrentModeUpdate::new(mode.as_str());
        self.send(SessionUpdate::CurrentModeUpdate(update));
        Ok(())
    }

    /// From the next prompt on, this model answers.
    fn change_model(&mut self, name: &str) -> Result<(), Error> {
        let kit = self.kit_mut().ok_or_else(gone)?;
        if **kit.model.name() == *name {
            return Ok(());
        }
        kit.set_model(Some(name)).map_err(|refusal| refused(&refusal))
    }

    fn tell_options(&mut self) {
        if let Some(kit) = self.kit() {
            let update = ConfigOptionUpdate::new(offer::options(kit));
            self.send(SessionUpdate::ConfigOptionUpdate(update));
        }
    }

    fn kit_mut(&mut self) -> Option<&mut Kit> {
        match &mut self.stage {
            Stage::Loading(Loading { start, .. }) | Stage::Ready(start) => Some(&mut start.kit),
            Stage::Sat(sat) => Some(Arc::make_mut(&mut sat.kit)),
            Stage::Over => None,
        }
    }
}

fn gone() -> Error {
    Error::invalid_request().data("this session has ended; load it again")
}
