//! What a prompt that was typed asks of servers: one of their prompts, as
//! `/mcp__server__prompt arguments`, and resources, as `@server:uri`.
//!
//! Only what the user typed is looked at. A task that a model writes gets what
//! it needs by calls, which the guard decides about.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::event::{FailureKind, Outcome};
use crate::guard::{Decision, Effect, Policy};
use crate::mcp::{self, NoAnswer, PromptOffer, Server, Servers};
use crate::prompt;

/// Most resources of one prompt, as of files.
const RESOURCES_CAP: usize = prompt::ATTACHED_FILES_CAP;

/// Most prompts that are named where one is not found.
const NAMED_CAP: usize = 20;

/// Returns the prompt with what it asks of servers put in.
///
/// # Errors
///
/// The outcome of main: there is no such prompt, its server does not answer, or
/// a cancel came meanwhile. A resource that cannot be read is said to be, in the
/// prompt.
pub(super) async fn fill(
    servers: &Servers,
    policy: &Policy,
    typed: &Arc<str>,
    cancel: &CancellationToken,
) -> Result<Arc<str>, Outcome> {
    let failed = |why: String| Outcome::failed(FailureKind::Setup, why);
    let text = match command(typed) {
        Some((name, arguments)) => {
            let (server, offer) =
                servers.find_prompt(name).ok_or_else(|| failed(unknown(servers, name)))?;
            let arguments = given(&offer, arguments).map_err(failed)?;
            let got = server.prompt(&offer.remote, arguments, cancel).await;
            let got = got.map_err(|why| match why {
                NoAnswer::Cancelled => Outcome::Cancelled { ran: true },
                why @ (NoAnswer::TooLong
                | NoAnswer::Gone(_)
                | NoAnswer::Refused(_)
                | NoAnswer::NotStarted(_)) => failed(format!("the prompt `/{name}`: {why}")),
            })?;
            mcp::prompt(&got).map_err(|why| failed(format!("the prompt `/{name}`: {why}")))?.into()
        }
        None => Arc::clone(typed),
    };
    let mentioned = mentions(servers, typed);
    if mentioned.is_empty() {
        return Ok(text);
    }
    let mut filled = text.to_string();
    for (count, (server, uri)) in mentioned.into_iter().enumerate() {
        filled.push_str("\n\n");
        filled.push_str(&match read(servers, (server, uri), policy, count, cancel).await {
            Ok(all) => prompt::resource(&server.label, uri, &all),
            Err(Some(why)) => prompt::no_resource(&server.label, uri, &why),
            Err(None) => return Err(Outcome::Cancelled { ran: true }),
        });
    }
    Ok(filled.into())
}

/// Returns the name and the arguments of a prompt of a server.
fn command(typed: &str) -> Option<(&str, &str)> {
    let line = typed.strip_prefix('/')?;
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let is_served = name.to_ascii_lowercase().starts_with(mcp::name::PREFIX);
    is_served.then_some((name, arguments.trim()))
}

fn unknown(servers: &Servers, name: &str) -> String {
    let known = servers.prompts();
    let shown: Vec<String> =
        known.iter().take(NAMED_CAP).map(|it| format!("/{}", it.name)).collect();
    match shown.is_empty() {
        true => format!("there is no prompt `/{name}`: no server that answers offers any"),
        false => format!("there is no prompt `/{name}`; there are: {}", shown.join(", ")),
    }
}

/// Gives a prompt's arguments what was typed, word by word; the last one gets
/// the rest.
fn given(offer: &PromptOffer, typed: &str) -> Result<Map<String, Value>, String> {
    let mut given = Map::new();
    let mut rest = typed.trim();
    for (place, (name, required)) in offer.arguments.iter().enumerate() {
        let is_last = place + 1 == offer.arguments.len();
        let word = match rest.split_once(char::is_whitespace) {
            Some((word, after)) if !is_last => {
                rest = after.trim_start();
                word
            }
            Some(_) | None => std::mem::take(&mut rest),
        };
        match word {
            "" if *required => {
                return Err(format!("the prompt `/{}` needs its argument `{name}`", offer.name));
            }
            "" => {}
            word => {
                given.insert(name.clone(), json!(word));
            }
        }
    }
    Ok(given)
}

/// Returns the resources that a text names, in order and each once.
fn mentions<'a>(servers: &'a Servers, text: &'a str) -> Vec<(&'a Arc<Server>, &'a str)> {
    let mut found: Vec<(&Arc<Server>, &str)> = Vec::new();
    for word in text.split_whitespace() {
        let named = word.strip_prefix('@').and_then(|word| word.split_once(':'));
        let Some((server, uri)) = named.filter(|(_, uri)| !uri.is_empty()) else { continue };
        let Some(server) = servers.find(server) else { continue };
        let uri = uri.trim_end_matches([',', '.', ';', ')', '?', '!']);
        if !found.iter().any(|(known, its)| Arc::ptr_eq(known, server) && *its == uri) {
            found.push((server, uri));
        }
    }
    found
}

/// The error is why there is no text; `None` after a cancel.
async fn read(
    servers: &Servers,
    (server, uri): (&Server, &str),
    policy: &Policy,
    count: usize,
    cancel: &CancellationToken,
) -> Result<String, Option<String>> {
    if count >= RESOURCES_CAP {
        return Err(Some(format!("at most {RESOURCES_CAP} are")));
    }
    // The user asks for it; what is denied stays denied.
    let Some(tool) = servers.reading(server) else {
        return Err(Some("no rule could mean this: there are too many names already".to_owned()));
    };
    if let Decision::Deny { reason } = policy.decide(&tool, Effect::Reads, &json!({ "uri": uri })) {
        return Err(Some(reason));
    }
    match server.read(uri, cancel).await {
        Ok(result) => mcp::resource(&result).map_err(Some),
        Err(NoAnswer::Cancelled) => Err(None),
        Err(
            why @ (NoAnswer::TooLong
            | NoAnswer::Gone(_)
            | NoAnswer::Refused(_)
            | NoAnswer::NotStarted(_)),
        ) => Err(Some(why.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(arguments: &[(&str, bool)]) -> PromptOffer {
        PromptOffer {
            name: "mcp__a__p".to_owned(),
            remote: "p".to_owned(),
            description: String::new(),
            arguments: arguments.iter().map(|(name, must)| ((*name).to_owned(), *must)).collect(),
        }
    }

    #[test]
    fn a_prompts_arguments_are_words_and_the_last_gets_the_rest() {
        let two = offer(&[("city", true), ("words", false)]);
        let expected = json!({"city": "Rome", "words": "by train, soon"});
        assert_eq!(Value::from(given(&two, " Rome  by train, soon ").unwrap()), expected);
        assert_eq!(Value::from(given(&two, "Rome").unwrap()), json!({"city": "Rome"}));
        let missing = given(&two, " ").unwrap_err();
        assert_eq!(missing, "the prompt `/mcp__a__p` needs its argument `city`");
        assert_eq!(given(&offer(&[]), "what ever").unwrap(), Map::new());
    }

    #[test]
    fn only_a_servers_name_makes_a_command() {
        assert_eq!(command("/mcp__a__p x y"), Some(("mcp__a__p", "x y")));
        assert_eq!(command("/MCP__a__p"), Some(("MCP__a__p", "")));
        assert_eq!(command("/review x"), None);
        assert_eq!(command("say /mcp__a__p"), None);
    }
}
