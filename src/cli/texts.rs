//! Longer words of the command line.

/// What to do when no model is configured: four lines, one way each.
pub(super) const NO_MODEL: &str = "no model is configured; choose one of these:
  provider:    export OPENROUTER_API_KEY=…, then `tine -m openrouter:MODEL -p …`; `tine models` lists them all
  environment: export OPENAI_API_KEY=… (and OPENAI_BASE_URL=… for another server), then `tine -m MODEL -p …`
  Ollama:      ollama pull qwen3, then `tine -m ollama:qwen3 -p …`
  config:      set `model` and `[models.NAME]` in {config}; see config.example.toml";

/// The hint below [`NO_MODEL`].
pub(super) const TRY_OFFLINE: &str =
    "to try things out without a model, use `-m offline`: fixed rules, no understanding";

/// Said before a review that nobody chose a model for.
pub(super) const OFFLINE_REVIEWS: &str = "note: no model is configured, so the offline rules \
    review; `tine doctor` says how to get a model";

/// Said before a review where the environment has a key but nobody named a
/// model.
pub(super) const OFFLINE_CHOSEN: &str =
    "note: no model is chosen, so the offline rules review; `-m MODEL` chooses one";
