//! What providers' documents say of single models: windows, longest answers,
//! whether they see images. No prices, which change without a new name.
//!
//! It holds only at the provider's own address: elsewhere the same name may
//! mean a model with a smaller window, and a window that is taken for too large
//! costs a conversation.

/// What is known of a model, or of several with one beginning of their names.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    name: Name,
    /// Most tokens of a request and its answer together.
    pub context_window: u32,
    /// Most tokens of one answer that it can be asked for; `None` if that
    /// differs within a family.
    pub longest_answer: Option<u32>,
    /// Whether it sees images.
    pub images: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Name {
    /// This model, and versions of it that end in a date.
    Model(&'static str),
    /// Every model whose name begins so.
    Family(&'static str),
}

impl Name {
    fn fits(&self, model: &str) -> bool {
        match self {
            Self::Model(name) => model.strip_prefix(name).is_some_and(is_date_or_nothing),
            Self::Family(beginning) => model.starts_with(beginning),
        }
    }
}

/// Finds what is known of a model in one provider's list.
pub(super) fn find<'a>(known: &'a [Known], model: &str) -> Option<&'a Known> {
    known.iter().find(|known| known.name.fits(model))
}

/// Models that OpenAI serves.
pub(super) static OPENAI: [Known; 12] = [
    seeing(Name::Model("gpt-5.6"), 1_050_000, Some(128_000)),
    seeing(Name::Model("gpt-5.6-sol"), 1_050_000, Some(128_000)),
    seeing(Name::Model("gpt-5.6-terra"), 1_050_000, Some(128_000)),
    seeing(Name::Model("gpt-5.6-luna"), 1_050_000, Some(128_000)),
    seeing(Name::Model("gpt-5.5"), 1_050_000, Some(128_000)),
    seeing(Name::Model("gpt-5.4"), 1_050_000, Some(128_000)),
    seeing(Name::Model("gpt-5.4-mini"), 400_000, Some(128_000)),
    seeing(Name::Model("gpt-5.2"), 400_000, Some(128_000)),
    seeing(Name::Model("gpt-5.1"), 400_000, Some(128_000)),
    seeing(Name::Model("gpt-5"), 400_000, Some(128_000)),
    seeing(Name::Model("gpt-5-mini"), 400_000, Some(128_000)),
    seeing(Name::Model("gpt-4o"), 128_000, Some(16_384)),
];

/// Models that Anthropic serves. The last line is the least that all of its
/// models since the third generation have.
pub(super) static ANTHROPIC: [Known; 8] = [
    seeing(Name::Model("claude-fable-5-1"), 1_000_000, Some(128_000)),
    seeing(Name::Model("claude-fable-5"), 1_000_000, Some(128_000)),
    seeing(Name::Model("claude-opus-5-5"), 1_000_000, Some(128_000)),
    seeing(Name::Model("claude-opus-5"), 1_000_000, Some(128_000)),
    seeing(Name::Model("claude-sonnet-5-5"), 1_000_000, Some(128_000)),
    seeing(Name::Model("claude-sonnet-5"), 1_000_000, Some(128_000)),
    seeing(Name::Model("claude-haiku-4-5"), 200_000, Some(64_000)),
    seeing(Name::Family("claude-"), 200_000, None),
];

/// Models that DeepSeek serves.
pub(super) static DEEPSEEK: [Known; 3] = [
    seeing(Name::Model("deepseek-flash"), 1_000_000, Some(384_000)),
    seeing(Name::Model("deepseek-v4-flash"), 1_000_000, Some(384_000)),
    Known {
        name: Name::Model("deepseek-v4-pro"),
        context_window: 1_000_000,
        longest_answer: Some(384_000),
        images: false,
    },
];

const fn seeing(name: Name, context_window: u32, longest_answer: Option<u32>) -> Known {
    Known { name, context_window, longest_answer, images: true }
}

/// Tells whether a name goes on with nothing or a date: `-20260407`,
/// `-2026-04-07` or `-latest`, which is the newest of them.
fn is_date_or_nothing(rest: &str) -> bool {
    let Some(date) = rest.strip_prefix('-') else { return rest.is_empty() };
    let digits = date.chars().filter(char::is_ascii_digit).count();
    date == "latest" || (digits == 8 && date.chars().all(|c| c.is_ascii_digit() || c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(known: &[Known], model: &str, expected: Option<(u32, Option<u32>, bool)>) {
        let found = find(known, model);
        let found = found.map(|it| (it.context_window, it.longest_answer, it.images));
        assert_eq!(found, expected, "{model}");
    }

    #[test]
    fn a_model_is_known_by_its_name_with_or_without_a_date() {
        let window = Some((400_000, Some(128_000), true));
        for model in ["gpt-5", "gpt-5-2025-08-07", "gpt-5-20250807", "gpt-5-latest", "gpt-5-mini"] {
            check(&OPENAI, model, window);
        }
        for other in ["gpt-5-chat", "gpt-5-pro", "gpt-5.9", "gpt-5-", "gpt", "my-gpt-5", ""] {
            check(&OPENAI, other, None);
        }
    }

    #[test]
    fn a_model_comes_before_its_family() {
        check(&ANTHROPIC, "claude-opus-5-5", Some((1_000_000, Some(128_000), true)));
        check(&ANTHROPIC, "claude-haiku-4-5-20251001", Some((200_000, Some(64_000), true)));
        check(&ANTHROPIC, "claude-opus-4-1", Some((200_000, None, true)));
        check(&DEEPSEEK, "deepseek-v4-pro", Some((1_000_000, Some(384_000), false)));
    }
}
