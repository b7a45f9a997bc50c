//! Finds the tools that a provider blames for a refused request.
//!
//! Providers give the tool's index (`tools.3.custom.input_schema`,
//! `tools[3].function.parameters`, `function_declarations[3]`) or its name.

use crate::mcp::name::PREFIX;
use crate::message::ToolSchema;

/// Names of the list that an index follows. Gemini has all declarations within one tool, so their
/// index counts.
const LISTS: [&str; 3] = ["function_declarations", "functiondeclarations", "tools"];

/// Characters between the name of a list and the index: `tools.3`, `tools[3]`,
/// `"tools", 3`, `tools -> 3`, `/tools/3`.
const BETWEEN: [char; 10] = ['.', '[', '/', ' ', '"', '\'', ',', '-', '>', ':'];

/// Returns the indexes of the tools that a refusal names, in ascending order; none if the refusal is
/// about something else.
///
/// `tools` are those that were sent. Matching ignores case, since some callers lowercase the text.
#[must_use]
pub fn blamed_tools(words: &str, tools: &[ToolSchema]) -> Vec<usize> {
    let words = words.to_ascii_lowercase();
    let is_about_tools = LISTS.iter().chain(&["schema", "function", "parameters"]);
    if !is_about_tools.into_iter().any(|word| words.contains(word)) {
        return Vec::new();
    }
    let named = tools.iter().enumerate().filter(|(_, tool)| is_named(&words, &tool.name));
    let mut places: Vec<usize> = named.map(|(place, _)| place).collect();
    // A name is reliable, an index may belong to something else.
    if places.is_empty() {
        let list = LISTS.iter().map(|list| indexes_after(&words, list));
        places = list.into_iter().find(|places| !places.is_empty()).unwrap_or_default();
        places.retain(|place| *place < tools.len());
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Names a tool and its MCP server for the user; `None` for a tool of tine.
#[must_use]
pub fn describe_mcp_tool(name: &str) -> Option<String> {
    let (server, tool) = name.strip_prefix(PREFIX)?.split_once("__")?;
    Some(format!("the tool `{tool}` of the MCP server `{server}`"))
}

/// Returns whether a text contains a tool's name as a whole. A name that may be an ordinary word
/// counts only in quotes.
fn is_named(words: &str, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_word = !name.contains('_');
    words.match_indices(&name).any(|(at, _)| {
        let (before, behind) = (&words[..at], &words[at + name.len()..]);
        let is_quoted = before.ends_with(['"', '\'', '`', '“'])
            && behind.starts_with(['"', '\'', '`', '”', '\\']);
        let is_whole = !before.ends_with(is_letter) && !behind.starts_with(is_letter);
        is_whole && (is_quoted || !is_word)
    })
}

/// Returns each index that follows the name of a list.
fn indexes_after(words: &str, list: &str) -> Vec<usize> {
    let behind = words.match_indices(list).map(|(at, _)| &words[at + list.len()..]);
    behind
        .filter_map(|rest| {
            let number = rest.trim_start_matches(BETWEEN);
            let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
            // `toolset 3` has no separator.
            let is_place = rest.starts_with(['.', '[', '/', '"', '\'', ' ']);
            number[..end].parse().ok().filter(|_| is_place)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of the words of many providers")]
    fn the_tools_that_a_refusal_names_are_found_in_the_words_of_many_providers() {
        let names = ["Read", "Edit", "mcp__s__get", "mcp__s__get_all", "mcp__other-one__put"];
        let tools: Vec<ToolSchema> = names
            .iter()
            .map(|name| ToolSchema {
                name: (*name).to_owned(),
                description: String::new(),
                parameters: RawValue::from_string("{}".to_owned()).unwrap(),
            })
            .collect();
        for (words, expected) in [
            // Anthropic.
            (
                "tools.3.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
                &[3][..],
            ),
            ("tools.4.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", &[4]),
            (
                "tools.2.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
                &[2],
            ),
            (
                "tools.2.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
                &[2],
            ),
            (
                "The model returned the following errors: tools.3.input_schema.type: Field required",
                &[3],
            ),
            // OpenAI.
            (
                "Invalid schema for function 'mcp__s__get': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
                &[2],
            ),
            (
                "Invalid schema for function 'mcp__s__get_all': In context=('properties', 'a'), array schema missing items. tools[3].function.parameters invalid_function_parameters",
                &[3],
            ),
            (
                "Invalid 'tools[4].function.name': string too long. Expected a string with maximum length 64",
                &[4],
            ),
            ("Invalid value for 'tools[3].parameters': schema is not valid", &[3]),
            // Gemini, each place once.
            (
                "* GenerateContentRequest.tools[0].function_declarations[2].parameters.properties: should be non-empty for OBJECT type\n* GenerateContentRequest.tools[0].function_declarations[4].parameters.required[0]: property is not defined\n* GenerateContentRequest.tools[0].function_declarations[2].parameters",
                &[2, 4],
            ),
            (
                "Invalid JSON payload received. Unknown name \"const\" at 'tools[0].functionDeclarations[3].parameters.properties[0].value': Cannot find field.",
                &[3],
            ),
            (
                "Unable to submit request because `mcp__s__get` functionDeclaration `parameters.a` schema didn't specify the schema type field",
                &[2],
            ),
            // vLLM, LiteLLM and others that validate with Pydantic.
            (
                "[{'type': 'dict_type', 'loc': ('body', 'tools', 3, 'function', 'parameters'), 'msg': 'Input should be a valid dictionary'}]",
                &[3],
            ),
            ("{\"loc\":[\"body\",\"tools\",2,\"function\"],\"msg\":\"field required\"}", &[2]),
            (
                "1 validation error for ChatCompletionRequest\nbody -> tools -> 4 -> function -> parameters",
                &[4],
            ),
            ("request/body/tools/3/function/parameters must be object", &[3]),
            (
                "litellm.BadRequestError: tool schema error: mcp__other-one__put: unsupported keyword",
                &[4],
            ),
            // Ones that blame no tool, or none that was sent.
            ("tools.9.custom.input_schema: too deep", &[]),
            ("messages.3.content: text content blocks must be non-empty", &[]),
            ("This model supports at most 128 tools", &[]),
            ("schema of the tool is too long to read or edit", &[]),
            ("prompt is too long: 210000 tokens > 200000 maximum", &[]),
            ("", &[]),
        ] {
            assert_eq!(blamed_tools(words, &tools), expected, "{words}");
            assert_eq!(blamed_tools(&words.to_lowercase(), &tools), expected, "{words}");
        }
        let described = "the tool `get_all` of the MCP server `s`";
        assert_eq!(describe_mcp_tool(names[3]).as_deref(), Some(described));
        assert_eq!(describe_mcp_tool("Read"), None);
    }
}
