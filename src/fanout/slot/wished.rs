//! What definitions and skills wish for an agent, and what becomes of it where
//! there is no such thing: the agent works all the same, and people are told.

use std::sync::Arc;

use super::Slot;
use crate::definition::AgentDefinition;
use crate::event::NoticeLevel;
use crate::line::Told;
use crate::model::Model;
use crate::skill::Followed;

impl Slot {
    /// Returns the model that the skill wishes for, else the definition, else
    /// the caller's. Both may come from people who use other models; then the
    /// caller's does the work.
    pub(super) async fn wished_model(
        &self,
        followed: Option<&Followed>,
        definition: &AgentDefinition,
    ) -> Arc<dyn Model> {
        let of_skill = followed
            .and_then(|followed| Some(("skill", &followed.skill, followed.model.as_deref()?)));
        let own = || Some(("agent", &definition.name, definition.model.as_deref()?));
        let Some((what, whose, name)) = of_skill.or_else(own) else {
            return Arc::clone(&self.caller_model);
        };
        match (self.fanout.find_model)(name) {
            Ok(model) => model,
            Err(_) => {
                let own = self.caller_model.name();
                self.warn(format!(
                    "{what} `{whose}` asks for the model `{name}`, which is not configured; it \
                     uses `{own}`"
                ))
                .await;
                Arc::clone(&self.caller_model)
            }
        }
    }

    /// Returns what an agent is told, with the skills that it has read before.
    pub(super) async fn with_skills(&self, definition: &AgentDefinition) -> String {
        let (prompt, missing) = definition.prompt_with(&self.fanout.skills);
        for warning in missing {
            self.warn(warning).await;
        }
        prompt
    }

    async fn warn(&self, text: String) {
        let level = NoticeLevel::Warning;
        self.line.tell(Told::Notice { level, text: text.into() }).await;
    }
}
