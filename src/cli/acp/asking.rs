//! Putting a question to whoever sits at the editor.

use std::sync::Arc;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema;
use agent_client_protocol::{Client, Error};
use tokio_util::sync::CancellationToken;

use crate::event::{Entry, Form, Question, Verdict};
use crate::report::acp::{Ask, Asked, Chosen, Filling, chosen, elicitation, filled, permission};

/// An editor, and a session in it.
#[derive(Clone)]
pub(super) struct At {
    pub(super) editor: ConnectionTo<Client>,
    pub(super) session: schema::SessionId,
    /// Whether it has forms of its own.
    pub(super) has_forms: bool,
}

/// What became of a question.
#[derive(Debug)]
pub(super) enum Said {
    /// It has this answer.
    Verdict(Verdict),
    /// No, and to all like it.
    Never,
    /// Nobody waits for an answer any more.
    Withdrawn,
}

/// Asks, and waits for an answer as long as it takes, or until the question is
/// withdrawn: then the editor is told, too.
pub(super) async fn ask(at: At, asked: Arc<Asked>, withdrawn: CancellationToken) -> Said {
    tokio::select! {
        biased;
        () = withdrawn.cancelled() => Said::Withdrawn,
        said = put(&at, &asked) => said,
    }
}

async fn put(at: &At, asked: &Asked) -> Said {
    let Question::Form(form) = &asked.question else {
        return match request(at, asked, Ask::Leave).await {
            Ok(Chosen::Verdict(verdict)) => Said::Verdict(verdict),
            Ok(Chosen::Never) => Said::Never,
            Ok(Chosen::Picked(_) | Chosen::Cancelled) => Said::Verdict(Verdict::No),
            Err(error) => Said::Verdict(unable(&error)),
        };
    };
    Said::Verdict(match Filling::of(form, at.has_forms) {
        Filling::Whole => {
            let asking = at.editor.send_request(elicitation(&at.session, asked, form));
            match asking.block_task().await {
                Ok(response) => filled(form, &response.action),
                Err(error) => unable(&error),
            }
        }
        Filling::ByOptions => option_by_option(at, asked, form).await,
        Filling::Impossible => {
            Verdict::NoBecause("the user's editor cannot show a form; ask in plain text".into())
        }
    })
}

async fn option_by_option(at: &At, asked: &Asked, form: &Form) -> Verdict {
    let mut entries = Vec::new();
    for field in &form.fields {
        match request(at, asked, Ask::Field(field)).await {
            Ok(Chosen::Picked(number)) => entries.push(Entry::Picked(vec![number])),
            Ok(Chosen::Verdict(_) | Chosen::Never | Chosen::Cancelled) => return Verdict::No,
            Err(error) => return unable(&error),
        }
    }
    Verdict::Filled(entries.into())
}

async fn request(at: &At, asked: &Asked, ask: Ask<'_>) -> Result<Chosen, Error> {
    let request = permission(&at.session, asked, ask);
    let response = at.editor.send_request(request).block_task().await?;
    Ok(chosen(&response.outcome))
}

fn unable(error: &Error) -> Verdict {
    Verdict::NoBecause(format!("the user's editor could not ask: {}", error.message).into())
}
