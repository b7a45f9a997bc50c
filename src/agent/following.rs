//! Skills that a unit follows: what holds meanwhile, and those that an agent of
//! its own does.

use std::sync::Arc;

use super::calls::Ready;
use super::{Unit, attached};
use crate::event::{FailureKind, NoticeLevel, Outcome};
use crate::line::Told;
use crate::message::Output;
use crate::prompt;
use crate::skill::{Followed, Skill};
use crate::tool::{AgentCall, Task, ToolError, skill};
use crate::tool_name::SKILL;

impl Unit {
    /// Has what a skill says hold from now on until the unit ends: in the main
    /// conversation that is until the next prompt.
    pub(super) async fn follow(&mut self, followed: &Followed) {
        let Followed { skill, leave, model } = followed;
        if !leave.is_empty() {
            self.policy = Arc::new(self.policy.with_leave(leave));
            self.context.policy = Arc::clone(&self.policy);
            let rules: Vec<String> = leave.iter().map(|rule| format!("`{rule}`")).collect();
            let text = format!("the skill `{skill}` allows {} for this turn", rules.join(", "));
            self.tell(NoticeLevel::Info, text).await;
        }
        let Some(name) = model else { return };
        match self.context.delegate.find_model(name) {
            Ok(model) => {
                self.context.takes_images = model.facts().takes_images;
                self.model = model;
            }
            Err(why) => {
                let own = self.model.name();
                let text = format!(
                    "the skill `{skill}` asks for the model `{name}`, and `{own}` goes on: {why}"
                );
                self.tell(NoticeLevel::Warning, text).await;
            }
        }
    }

    /// Returns the skill that a call opens for the unit itself to follow.
    pub(super) fn opens(&self, ready: &Ready<'_>) -> Option<&Skill> {
        let name = (&*ready.tool == SKILL).then(|| skill::name_in(&ready.arguments))?;
        let delegate = &self.context.delegate;
        self.context.skills.find(name).filter(|it| !skill::is_delegated(it, &**delegate))
    }

    /// Has what a skill says that a call has opened hold from the end of the
    /// calls beside it, and returns its text with the files that it names.
    pub(super) async fn with_skill(
        &self,
        ready: &mut Ready<'_>,
        opened: Option<Skill>,
        output: Output,
    ) -> Output {
        match opened.filter(|_| !output.is_error) {
            Some(skill) => {
                ready.followed = Some(skill.followed);
                Output { text: self.with_files(&output.text).await, ..output }
            }
            None => output,
        }
    }

    /// Puts the files into a skill's text that it names.
    pub(super) async fn with_files(&self, text: &str) -> String {
        attached::with_files(&self.context.workspace, &self.policy, text).await
    }

    /// Has an agent do what a skill says. Its report is the answer, and main's
    /// conversation holds it for what is asked next.
    pub(super) async fn have_done(
        &mut self,
        task: Task,
        request: Arc<str>,
    ) -> Result<Arc<str>, Outcome> {
        let (name, is_background) = (Arc::clone(&task.description), task.is_background);
        let output = self.start(AgentCall::One(task), request).await?;
        if is_background {
            return Ok(begun(&output));
        }
        let report: Arc<str> = prompt::skill_report(&format!("/{name}"), &output.text).into();
        self.prompted(report.into()).await;
        match output.is_error {
            true => Err(Outcome::failed(FailureKind::Setup, output.text.as_str())),
            false => Ok(output.text.into()),
        }
    }

    /// Starts units that the user asked for, and waits for those that do not run
    /// beside the conversation.
    pub(super) async fn start(
        &mut self,
        call: AgentCall,
        request: Arc<str>,
    ) -> Result<Output, Outcome> {
        // A fork leaves a last user message out: it has its directive.
        self.prompted(request.into()).await;
        self.context.fork_point = Arc::new(self.fork_point());
        let context = &self.context;
        match context.delegate.delegate(context, None, call).await {
            Ok(output) => Ok(output),
            Err(ToolError::TellModel { message }) => {
                Err(Outcome::failed(FailureKind::Setup, message))
            }
            Err(ToolError::Cancelled { after: _ }) => Err(Outcome::Cancelled { ran: true }),
        }
    }

    async fn tell(&self, level: NoticeLevel, text: String) {
        self.context.line.tell(Told::Notice { level, text: text.into() }).await;
    }
}

/// Returns what is said of an agent that runs beside its caller: the rest of the
/// output says what a model can call.
pub(super) fn begun(output: &Output) -> Arc<str> {
    output.text.split(". ").next().unwrap_or_default().into()
}
