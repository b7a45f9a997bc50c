//! The WebFetch tool: a page of the web as text.
//!
//! Other harnesses have a small model answer a question about the page and give
//! that. Here the page itself is the output, so that nothing stands between
//! what it says and who asked for it; a `prompt` is taken and makes no
//! difference.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::message::{Output, ToolSchema};
use crate::web::{Fetched, Page};

use super::arguments;
use super::{Effect, Granted, Tool, ToolContext, ToolError};

/// Fetches pages.
#[derive(Debug, Clone, Copy)]
pub struct WebFetch;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "url":{"type":"string","description":"A whole URL; http becomes https."}
    },"required":["url"]}"#;

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    url: Value,
}

impl Tool for WebFetch {
    fn schema(&self) -> ToolSchema {
        let description = include_str!("../../prompts/tools/web_fetch.md");
        arguments::schema("WebFetch", description, PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Fetches
    }

    fn subject(&self, arguments: &Value) -> String {
        arguments::subject(arguments, "url")
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        _call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let Raw { url } = arguments::parse(arguments)?;
            let url = arguments::text("url", url)?;
            let began = Instant::now();
            let fetched = tokio::select! {
                biased;
                () = context.cancel.cancelled() => {
                    return Err(ToolError::Cancelled { after: began.elapsed() });
                }
                fetched = context.workspace.web.fetch(&url) => fetched,
            };
            match fetched {
                Ok(Fetched::Page(page)) => Ok(Output::ok(rendered(&page))),
                Ok(Fetched::Moved(to)) => Ok(Output::ok(moved(&url, to.as_str()))),
                Err(error) => Err(ToolError::tell(format!("Not fetched: {error}."))),
            }
        })
    }
}

/// Returns a page below what is known of it.
fn rendered(page: &Page) -> String {
    let Page { url, title, text, left_out } = page;
    let title = title.as_ref().map(|title| format!("Title: {title}\n")).unwrap_or_default();
    let left_out = left_out.as_ref().map(|why| format!("Not all of it: {why}\n"));
    let text = if text.trim().is_empty() { "(the page holds no text)" } else { text };
    format!("URL: {url}\n{title}{}\n{text}", left_out.unwrap_or_default())
}

fn moved(from: &str, to: &str) -> String {
    let template = include_str!("../../prompts/moved.md").trim_end();
    template.replace("{from}", from).replace("{to}", to)
}
