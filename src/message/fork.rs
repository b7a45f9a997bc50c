//! The conversation that a fork begins with: its parent's, byte for byte.
//!
//! What the parent had sent is shared as it is. Only the answer that asked for
//! the fork is rendered anew, without its arguments: they hold what the
//! siblings were told.

use std::sync::Arc;

use super::{Call, Entry, Message, Output, Prefix, Reply};

/// Returns what a fork of `parent` begins with; its directive follows.
///
/// `placeholder` is the output that each call of an unanswered last message
/// gets. A last user message is left out: the directive takes its place.
#[must_use]
pub fn fork_base(parent: &Prefix, placeholder: &str) -> Prefix {
    let mut base = parent.clone();
    match parent.messages().next_back() {
        Some(Message::Model(reply)) if !reply.calls.is_empty() => {
            base.entries.pop();
            base.push(Message::Model(Arc::new(without_arguments(reply))));
            let output = Arc::new(Output::ok(placeholder));
            for call in &reply.calls {
                base.push(Message::Output { call: call.id.clone(), output: Arc::clone(&output) });
            }
        }
        Some(Message::User(_)) => drop(base.entries.pop()),
        Some(Message::Model(_) | Message::Output { .. }) | None => {}
    }
    base
}

/// Returns what the parent's last request held: all before its last answer.
/// Without an answer it has sent nothing that is known to have arrived.
#[must_use]
pub fn last_sent(parent: &Prefix) -> Option<Prefix> {
    let is_answer = |entry: &Arc<Entry>| matches!(entry.message, Message::Model(_));
    let end = parent.entries.iter().rposition(is_answer)?;
    Some(Prefix { head: Arc::clone(&parent.head), entries: parent.entries[..end].to_vec() })
}

fn without_arguments(reply: &Reply) -> Reply {
    let calls = reply.calls.iter().map(|call| Call { arguments: "{}".to_owned(), ..call.clone() });
    Reply { calls: calls.collect(), ..reply.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Head;

    fn user(text: &str) -> Message {
        Message::User(text.into())
    }

    fn model(text: &str, calls: &[(&str, &str)]) -> Message {
        let calls = calls.iter().map(|(id, arguments)| Call {
            id: (*id).into(),
            tool: "Agent".to_owned(),
            arguments: (*arguments).to_owned(),
        });
        let (text, thinking) = (text.to_owned(), "hm".to_owned());
        Message::Model(Arc::new(Reply { text, thinking, calls: calls.collect(), sealed: None }))
    }

    fn output(call: &str, text: &str) -> Message {
        Message::Output { call: call.into(), output: Arc::new(Output::ok(text)) }
    }

    fn prefix(messages: &[Message]) -> Prefix {
        let mut prefix = Prefix::new(Arc::new(Head::new("be good".to_owned(), Vec::new())));
        messages.iter().for_each(|message| prefix.push(message.clone()));
        prefix
    }

    #[track_caller]
    fn check(parent: &[Message], base: &[Message], sent: Option<usize>) {
        let parent = prefix(parent);
        let forked = fork_base(&parent, "going on");
        assert_eq!(forked.messages().collect::<Vec<_>>(), base.iter().collect::<Vec<_>>());
        assert!(Arc::ptr_eq(&forked.head, &parent.head));
        assert_eq!(last_sent(&parent).map(|prefix| prefix.entries.len()), sent);
    }

    #[test]
    fn a_calling_message_loses_all_arguments_and_each_call_gets_a_placeholder() {
        let calls = [("a", r#"{"prompt":"secret"}"#), ("b", "{}"), ("c", "no json")];
        let elided = [("a", "{}"), ("b", "{}"), ("c", "{}")];
        check(
            &[user("go"), model("two looks", &calls)],
            &[
                user("go"),
                model("two looks", &elided),
                output("a", "going on"),
                output("b", "going on"),
                output("c", "going on"),
            ],
            Some(1),
        );
    }

    #[test]
    fn a_plain_answer_is_kept_and_a_last_user_message_is_left_out() {
        let talk = [user("go"), model("done", &[])];
        check(&talk, &talk, Some(1));
        check(&[user("go"), model("done", &[]), user("and?")], &talk, Some(1));
        check(&[user("go")], &[], None);
        check(&[], &[], None);
    }

    #[test]
    fn outputs_that_were_not_answered_are_kept() {
        let talk = [user("go"), model("", &[("a", "{}")]), output("a", "x")];
        check(&talk, &talk, Some(1));
    }

    #[test]
    fn what_the_parent_sent_is_the_same_memory() {
        let parent = prefix(&[user("go"), model("", &[("a", "{}")])]);
        let forked = fork_base(&parent, "x");
        assert!(Arc::ptr_eq(&forked.entries[0], &parent.entries[0]));
        assert!(!Arc::ptr_eq(&forked.entries[1], &parent.entries[1]));
    }
}
