//! Rewrites a conversation for a server that refuses its original form.
//!
//! Each step is a function of the messages alone, and the change of a message
//! depends only on earlier ones, so a later request begins with the earlier one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::{Adaptation, Adaptations};
use crate::message::{Call, CallId, Head, Message, Output, Piece, Prefix, Prompt, Reply};
use crate::model::api::calls::{nine_characters, short_id};
use crate::prompt;

/// Returns the conversation with all adaptations. Nothing in it was rendered.
pub(super) fn adapt(adaptations: &Adaptations, prefix: &Prefix) -> Prefix {
    let is_on = |adaptation: Adaptation| adaptations.has(&adaptation);
    let is_text = is_on(Adaptation::CallsAsText) || is_on(Adaptation::NoTools);
    let mut messages: Vec<Message> =
        prefix.messages().map(|message| without_contents(adaptations, message)).collect();
    if is_text {
        messages = calls_as_text(messages);
    }
    if is_on(Adaptation::SingleCalls) {
        messages = single_calls(messages);
    }
    if is_on(Adaptation::NineCharacterCallIds) {
        rename_calls(&mut messages, nine_characters);
    } else if is_on(Adaptation::ShortCallIds) {
        rename_calls(&mut messages, short_id);
    }
    if is_on(Adaptation::NoEmptyMessages) {
        fill_empty(&mut messages);
    }
    if is_on(Adaptation::TextBesideCalls) {
        fill_calls(&mut messages);
    }
    let Head { system, tools, .. } = &*prefix.head;
    let mut system = system.clone();
    if is_on(Adaptation::NoSystemRole) && !system.is_empty() {
        lead_with(&mut messages, &std::mem::take(&mut system));
    }
    if is_on(Adaptation::AlternatingRoles) {
        messages = alternate(messages);
    }
    let mut tools = tools.clone();
    tools.retain(|tool| !is_on(Adaptation::NoTools) && !adaptations.is_without_tool(&tool.name));
    let mut adapted = Prefix::new(Arc::new(Head::new(system, tools)));
    messages.into_iter().for_each(|message| adapted.push(message));
    adapted
}

/// Returns a message without the images and the reasoning that are refused.
fn without_contents(adaptations: &Adaptations, message: &Message) -> Message {
    let is_refused =
        |base64: &str| adaptations.has(&Adaptation::NoImages) || adaptations.is_without(base64);
    match message {
        Message::User(prompt) if prompt.images.iter().any(|it| is_refused(&it.image.base64)) => {
            let piece = |piece: Piece<'_>| match piece {
                Piece::Text(text) => Prompt::from(text),
                Piece::Image(image) if is_refused(&image.base64) => prompt::refused_image().into(),
                Piece::Image(image) => image.clone().into(),
            };
            Message::User(Prompt::joined(prompt.pieces().map(piece)))
        }
        Message::Output { call, output }
            if output.images.iter().any(|image| is_refused(&image.base64)) =>
        {
            let mut output = (**output).clone();
            let before = output.images.len();
            output.images.retain(|image| !is_refused(&image.base64));
            for _ in output.images.len()..before {
                if !output.text.is_empty() {
                    output.text.push('\n');
                }
                output.text.push_str(prompt::refused_image());
            }
            Message::Output { call: call.clone(), output: Arc::new(output) }
        }
        Message::Model(reply)
            if reply.sealed.as_ref().is_some_and(|it| adaptations.is_without(&it.json)) =>
        {
            Message::Model(Arc::new(Reply { sealed: None, ..(**reply).clone() }))
        }
        Message::User(_) | Message::Output { .. } | Message::Model(_) => message.clone(),
    }
}

/// Puts calls into the text of their message, and outputs into user messages.
fn calls_as_text(messages: Vec<Message>) -> Vec<Message> {
    let mut names: HashMap<CallId, String> = HashMap::new();
    let mut adapted: Vec<Message> = Vec::with_capacity(messages.len());
    let mut follows_output = false;
    for message in messages {
        let is_output = matches!(message, Message::Output { .. });
        match message {
            Message::Model(reply) if !reply.calls.is_empty() => {
                let mut texts: Vec<String> = Vec::new();
                texts.extend(Some(reply.text.clone()).filter(|text| !text.trim().is_empty()));
                for call in &reply.calls {
                    texts.push(prompt::call_as_text(&call.tool, &call.arguments));
                    names.insert(call.id.clone(), call.tool.clone());
                }
                let text = texts.join("\n\n");
                adapted.push(Message::Model(Arc::new(Reply { text, ..Reply::default() })));
            }
            Message::Output { call, output } => {
                let tool = names.get(&call).map_or("", String::as_str);
                let text: Prompt = prompt::output_as_text(tool, &output.text).into();
                let images = output.images.iter().cloned().map(Prompt::from);
                let said = Prompt::joined([text].into_iter().chain(images));
                match adapted.last_mut() {
                    // The outputs of one message are one message, too.
                    Some(Message::User(before)) if follows_output => {
                        *before = Prompt::joined([before.clone(), said]);
                    }
                    Some(_) | None => adapted.push(Message::User(said)),
                }
            }
            Message::Model(_) | Message::User(_) => adapted.push(message),
        }
        follows_output = is_output;
    }
    adapted
}

/// Makes a message with several calls as many messages, each with its output.
fn single_calls(messages: Vec<Message>) -> Vec<Message> {
    let mut adapted = Vec::with_capacity(messages.len());
    let mut rest = messages.into_iter().peekable();
    while let Some(message) = rest.next() {
        let reply = match message {
            Message::Model(reply) if reply.calls.len() > 1 => reply,
            Message::Model(_) | Message::User(_) | Message::Output { .. } => {
                adapted.push(message);
                continue;
            }
        };
        let mut outputs = Vec::new();
        while let Some(output) = rest.next_if(|next| matches!(next, Message::Output { .. })) {
            outputs.push(output);
        }
        for (place, call) in reply.calls.iter().enumerate() {
            let text = if place == 0 { reply.text.clone() } else { String::new() };
            let thinking = if place == 0 { reply.thinking.clone() } else { String::new() };
            let calls = vec![call.clone()];
            // What is sealed is sealed together with all calls.
            let single = Reply { text, thinking, calls, sealed: None };
            adapted.push(Message::Model(Arc::new(single)));
            let is_its =
                |it: &Message| matches!(it, Message::Output { call: id, .. } if *id == call.id);
            if let Some(found) = outputs.iter().position(is_its) {
                adapted.push(outputs.remove(found));
            }
        }
        adapted.extend(outputs);
    }
    adapted
}

/// Gives each call and its output another id.
fn rename_calls(messages: &mut [Message], rename: fn(&str) -> Cow<'_, str>) {
    for message in messages {
        match message {
            Message::Model(reply) if !reply.calls.is_empty() => {
                let mut renamed = (**reply).clone();
                for Call { id, .. } in &mut renamed.calls {
                    *id = CallId(rename(&id.0).into());
                }
                *reply = Arc::new(renamed);
            }
            Message::Output { call, output: _ } => *call = CallId(rename(&call.0).into()),
            Message::Model(_) | Message::User(_) => {}
        }
    }
}

/// Gives each message without content a note as its text.
fn fill_empty(messages: &mut [Message]) {
    let note = prompt::empty_message();
    for message in messages {
        match message {
            Message::User(prompt) if prompt.is_blank() => *prompt = note.into(),
            Message::Model(reply) if reply.calls.is_empty() && reply.text.trim().is_empty() => {
                *reply = Arc::new(Reply { text: note.to_owned(), ..Reply::default() });
            }
            Message::Output { call: _, output }
                if output.text.trim().is_empty() && output.images.is_empty() =>
            {
                *output = Arc::new(Output { text: note.to_owned(), ..(**output).clone() });
            }
            Message::User(_) | Message::Model(_) | Message::Output { .. } => {}
        }
    }
}

/// Gives each message of calls alone a text.
fn fill_calls(messages: &mut [Message]) {
    for message in messages {
        if let Message::Model(reply) = message
            && !reply.calls.is_empty()
            && reply.text.trim().is_empty()
        {
            let text = prompt::acknowledged().to_owned();
            *reply = Arc::new(Reply { text, sealed: None, ..(**reply).clone() });
        }
    }
}

/// Puts the system prompt before the first message of the user.
fn lead_with(messages: &mut Vec<Message>, system: &str) {
    match messages.first_mut() {
        Some(Message::User(prompt)) => {
            *prompt = Prompt::joined([Prompt::from(system), prompt.clone()]);
        }
        Some(Message::Model(_) | Message::Output { .. }) | None => {
            messages.insert(0, Message::User(system.into()));
        }
    }
}

/// Makes user and assistant messages take turns, apart from calls and their
/// outputs.
fn alternate(messages: Vec<Message>) -> Vec<Message> {
    let mut turns = AlternatingTurns::default();
    let mut images = Vec::new();
    let mut rest = messages.into_iter().peekable();
    while let Some(message) = rest.next() {
        match message {
            Message::User(prompt) => turns.user(prompt),
            Message::Model(reply) if reply.calls.is_empty() => turns.assistant(&reply),
            Message::Model(reply) => turns.calls(reply),
            Message::Output { call, output } => {
                let mut output = (*output).clone();
                // A client would send them as a user message of its own.
                if !output.images.is_empty() {
                    images.push(Prompt::from(prompt::shown_images(&call.0)));
                    images.extend(output.images.drain(..).map(Prompt::from));
                }
                turns.all.push(Message::Output { call, output: Arc::new(output) });
                let is_last = !matches!(rest.peek(), Some(Message::Output { .. }));
                if is_last && !images.is_empty() {
                    turns.user(Prompt::joined(images.drain(..)));
                }
            }
        }
    }
    turns.all
}

/// Messages that take turns.
#[derive(Default)]
struct AlternatingTurns {
    all: Vec<Message>,
    /// Set if the last message that is neither a call nor an output is the user's.
    is_after_user: bool,
}

impl AlternatingTurns {
    fn user(&mut self, prompt: Prompt) {
        match self.all.last_mut() {
            Some(Message::User(before)) => {
                *before = Prompt::joined([before.clone(), prompt]);
                return;
            }
            Some(Message::Model(_) | Message::Output { .. }) if self.is_after_user => {
                let text = prompt::acknowledged().to_owned();
                self.all.push(Message::Model(Arc::new(Reply { text, ..Reply::default() })));
            }
            Some(Message::Model(_) | Message::Output { .. }) | None => {}
        }
        self.all.push(Message::User(prompt));
        self.is_after_user = true;
    }

    fn assistant(&mut self, reply: &Arc<Reply>) {
        match self.all.last_mut() {
            Some(Message::Model(before)) if before.calls.is_empty() => {
                let text = format!("{}\n\n{}", before.text, reply.text);
                *before = Arc::new(Reply { text, ..Reply::default() });
                return;
            }
            Some(_) | None => self.lead_in(),
        }
        self.all.push(Message::Model(Arc::clone(reply)));
        self.is_after_user = false;
    }

    fn calls(&mut self, reply: Arc<Reply>) {
        self.lead_in();
        self.all.push(Message::Model(reply));
    }

    /// Inserts a user message before an answer that follows another answer.
    fn lead_in(&mut self) {
        if !self.is_after_user {
            self.all.push(Message::User(prompt::acknowledged().into()));
            self.is_after_user = true;
        }
    }
}
