//! Finds the known key that an unknown one was meant to be.

use crate::slips::distance;

/// Every key there is. `NAME` stands for any name.
pub(super) const KEYS: [&str; 72] = [
    "model",
    "models.NAME.base_url",
    "models.NAME.preset",
    "models.NAME.api",
    "models.NAME.key_env",
    "models.NAME.model",
    "models.NAME.context_window",
    "models.NAME.max_output_tokens",
    "models.NAME.price.input",
    "models.NAME.price.output",
    "models.NAME.price.cache_read",
    "models.NAME.price.cache_write",
    "models.NAME.requests_per_minute",
    "models.NAME.tokens_per_minute",
    "models.NAME.max_in_flight",
    "models.NAME.effort",
    "models.NAME.images",
    "models.NAME.headers",
    "models.NAME.extra_body",
    "models.NAME.headers_s",
    "models.NAME.first_piece_s",
    "models.NAME.idle_s",
    "models.NAME.adaptations",
    "agents.max_concurrent",
    "agents.max_depth",
    "agents.max_turns",
    "agents.timeout_s",
    "agents.prime_ms",
    "agents.confirm_above",
    "agents.worktree",
    "executor.kind",
    "executor.nats.servers",
    "executor.nats.prefix",
    "executor.nats.label",
    "executor.nats.credentials",
    "executor.nats.ca",
    "executor.nats.certificate",
    "executor.nats.key",
    "executor.nats.lease_s",
    "executor.nats.replicas",
    "executor.nats.max_concurrent",
    "background.wait_s",
    "hooks.PreToolUse",
    "permissions.mode",
    "sandbox.hosts",
    "sandbox.mode",
    "sandbox.network",
    "sandbox.write",
    "permissions.allow",
    "permissions.ask",
    "permissions.deny",
    "session.persist",
    "session.max_age_days",
    "session.compact_at",
    "retry.most",
    "retry.base_ms",
    "chat.editing",
    "chat.theme",
    "chat.bell",
    "chat.bell_after_s",
    "chat.title",
    "chat.screen_reader",
    "mcp.startup_ms",
    "mcp.call_ms",
    "mcp.servers.NAME.type",
    "mcp.servers.NAME.command",
    "mcp.servers.NAME.args",
    "mcp.servers.NAME.env",
    "mcp.servers.NAME.cwd",
    "mcp.servers.NAME.url",
    "mcp.servers.NAME.headers",
    "mcp.servers.NAME.enabled",
];

/// Most characters of a segment that are compared; more is no slip of the
/// fingers, and the comparison takes quadratic time.
const SEGMENT_CAP: usize = 64;

/// The cost of a key in a wrong place whose last segment is right. Higher than
/// a few slips, so that a similar key in the right place wins.
const WRONG_PLACE: usize = 4;

/// Returns the known key that is most like `segments`, with its `NAME` filled
/// in, or `None` if none is like it.
pub(super) fn nearest(segments: &[&str]) -> Option<String> {
    KEYS.iter()
        .filter_map(|key| Some((cost(segments, key)?, key)))
        .min_by_key(|&(cost, _)| cost)
        .map(|(_, key)| match segments {
            [_, name, _, ..] => key.replace("NAME", name),
            [_] | [_, _] | [] => (*key).to_owned(),
        })
}

fn cost(segments: &[&str], key: &str) -> Option<usize> {
    let known: Vec<_> = key.split('.').collect();
    let slips = known.len() == segments.len();
    let slips = slips.then(|| {
        let pairs = known.iter().zip(segments).filter(|(known, _)| **known != "NAME");
        pairs.map(|(known, given)| slips_in_segment(known, given)).sum::<Option<usize>>()
    });
    let wrong_place = (known.last() == segments.last()).then_some(WRONG_PLACE);
    slips.flatten().or(wrong_place)
}

/// Returns how many slips of the fingers make `known` of `given`; `None` if it
/// takes so many that another word was meant.
fn slips_in_segment(known: &str, given: &str) -> Option<usize> {
    let given: Vec<char> = given.chars().take(SEGMENT_CAP).collect();
    let known: Vec<char> = known.chars().collect();
    let slips = distance(&known, &given);
    (slips <= known.len().div_ceil(3)).then_some(slips)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(key: &str, expected: Option<&str>) {
        let segments: Vec<_> = key.split('.').collect();
        assert_eq!(nearest(&segments).as_deref(), expected);
    }

    #[test]
    fn a_slip_is_understood() {
        check("modle", Some("model"));
        check("agent.max_concurent", Some("agents.max_concurrent"));
        check("agents.max_turn", Some("agents.max_turns"));
        check("sesion.persits", Some("session.persist"));
        check("model.qwen.baseurl", Some("models.qwen.base_url"));
        check("models.qwen.price.inptu", Some("models.qwen.price.input"));
    }

    #[test]
    fn a_key_in_a_wrong_place_is_understood() {
        check("max_depth", Some("agents.max_depth"));
        check("permissions.rules.allow", Some("permissions.allow"));
        check("base_url", Some("models.NAME.base_url"));
    }

    #[test]
    fn another_word_is_not_taken_for_a_slip() {
        check("colour", None);
        check("agents.speed", None);
        check(&"x".repeat(100_000), None);
    }
}
