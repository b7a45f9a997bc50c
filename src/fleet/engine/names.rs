//! Names of subjects, streams, buckets and consumers.

use std::fmt::Write as _;

use super::Job;
use crate::config::Nats;

/// How many streams hold what slots say. A server that writes each message to the disk
/// before the next does so for each stream by itself, and one trip to the disk then
/// serves several of them.
pub(super) const SHARDS: u32 = 4;

/// Everything's name, made of one prefix.
#[derive(Debug)]
pub(super) struct Names {
    prefix: String,
    /// The token of the version of tine that this is.
    version: String,
}

impl Names {
    /// Returns `None` if the prefix is not made of letters, digits, `-` and `_`.
    pub(super) fn new(prefix: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_name = !prefix.is_empty() && prefix.bytes().all(is_plain);
        // No token has a dot or a plus, and no version anything else that a token lacks.
        let version = || env!("CARGO_PKG_VERSION").replace(['.', '+'], "-");
        is_name.then(|| Self { prefix: prefix.to_owned(), version: version() })
    }

    pub(super) fn jobs_stream(&self) -> String {
        format!("{}-jobs", self.prefix)
    }

    /// Returns the stream that holds a shard of what slots say.
    pub(super) fn events_stream(&self, shard: u32) -> String {
        format!("{}-events-{shard}", self.prefix)
    }

    /// Returns all streams of the pool.
    pub(super) fn all_streams(&self) -> Vec<String> {
        let others =
            [self.jobs_stream(), self.control_stream(), self.workers_stream(), self.blobs_stream()];
        others.into_iter().chain((0..SHARDS).map(|shard| self.events_stream(shard))).collect()
    }

    pub(super) fn control_stream(&self) -> String {
        format!("KV_{}-control", self.prefix)
    }

    pub(super) fn workers_stream(&self) -> String {
        format!("KV_{}-workers", self.prefix)
    }

    pub(super) fn blobs_bucket(&self) -> String {
        format!("{}-blobs", self.prefix)
    }

    pub(super) fn blobs_stream(&self) -> String {
        format!("OBJ_{}", self.blobs_bucket())
    }

    pub(super) fn all_jobs(&self) -> String {
        format!("{}.jobs.>", self.prefix)
    }

    /// Returns the subjects of the jobs of this version of tine with a label, or of those
    /// without: workers of another would draw them in vain, and keep them from these.
    pub(super) fn labelled(&self, label: Option<&str>) -> String {
        format!("{}.jobs.{}.{}.>", self.prefix, self.version, label_token(label))
    }

    /// Returns the name of the consumer of these.
    pub(super) fn consumer(&self, label: Option<&str>) -> String {
        format!("{}_{}", self.version, label_token(label))
    }

    pub(super) fn job(&self, job: &Job) -> String {
        let (prefix, version) = (&self.prefix, &self.version);
        let label = label_token(job.label.as_deref());
        format!("{prefix}.jobs.{version}.{label}.{}.{}", token(&job.run), job.unit)
    }

    /// Returns the jobs of a run, whichever tine gave them out.
    pub(super) fn jobs_of(&self, run: &str) -> String {
        format!("{}.jobs.*.*.{}.>", self.prefix, token(run))
    }

    /// Returns the job that a ticket's subject names.
    pub(super) fn parse_job(&self, subject: &str) -> Option<Job> {
        let rest = subject.strip_prefix(&self.prefix)?.strip_prefix(".jobs.")?;
        let mut tokens = rest.split('.');
        let (_version, label) = (tokens.next()?, tokens.next()?);
        let (run, unit) = (tokens.next()?, tokens.next()?);
        let label = (label != Nats::ANY).then(|| untoken(label)).map(Into::into);
        let job = Job { run: untoken(run).into(), unit: unit.parse().ok()?, label };
        tokens.next().is_none().then_some(job)
    }

    pub(super) fn all_events(&self, shard: u32) -> Vec<String> {
        let prefix = &self.prefix;
        vec![format!("{prefix}.events.{shard}.>"), format!("{prefix}.results.{shard}.>")]
    }

    pub(super) fn events_of(&self, run: &str, shard: u32) -> Vec<String> {
        let run = token(run);
        let prefix = &self.prefix;
        vec![
            format!("{prefix}.events.{shard}.{run}.>"),
            format!("{prefix}.results.{shard}.{run}.>"),
        ]
    }

    pub(super) fn event(&self, run: &str, unit: u32) -> String {
        format!("{}.events.{}.{}.{unit}", self.prefix, shard_of(unit), token(run))
    }

    pub(super) fn result(&self, run: &str, unit: u32) -> String {
        format!("{}.results.{}.{}.{unit}", self.prefix, shard_of(unit), token(run))
    }

    /// Returns the unit of an event or a result, and whether it is a result.
    pub(super) fn parse_event(&self, subject: &str) -> Option<(u32, bool)> {
        let rest = subject.strip_prefix(&self.prefix)?;
        let (kind, rest) = rest.strip_prefix('.')?.split_once('.')?;
        let (_shard, rest) = rest.split_once('.')?;
        let unit = rest.split_once('.')?.1.parse().ok()?;
        match kind {
            "events" => Some((unit, false)),
            "results" => Some((unit, true)),
            _ => None,
        }
    }

    pub(super) fn all_control(&self) -> String {
        format!("$KV.{}-control.>", self.prefix)
    }

    pub(super) fn control(&self, run: &str, unit: Option<u32>) -> String {
        let key = format!("$KV.{}-control.{}", self.prefix, token(run));
        unit.map_or_else(|| key.clone(), |unit| format!("{key}.{unit}"))
    }

    /// Returns the run, and the unit of it, that a key of the control bucket names.
    pub(super) fn parse_control(&self, subject: &str) -> Option<(String, Option<u32>)> {
        let rest = subject.strip_prefix("$KV.")?.strip_prefix(&self.prefix)?;
        let key = rest.strip_prefix("-control.")?;
        match key.split_once('.') {
            None => Some((untoken(key), None)),
            Some((run, unit)) => Some((untoken(run), Some(unit.parse().ok()?))),
        }
    }

    pub(super) fn all_workers(&self) -> String {
        format!("$KV.{}-workers.>", self.prefix)
    }

    pub(super) fn worker(&self, worker: &str) -> String {
        format!("$KV.{}-workers.{}", self.prefix, token(worker))
    }

    pub(super) fn parse_worker(&self, subject: &str) -> Option<String> {
        let rest = subject.strip_prefix("$KV.")?.strip_prefix(&self.prefix)?;
        rest.strip_prefix("-workers.").map(untoken)
    }

    pub(super) fn claim(&self, run: &str) -> String {
        format!("{}.claim.{}", self.prefix, token(run))
    }

    pub(super) fn beat(&self, run: &str) -> String {
        format!("{}.beat.{}", self.prefix, token(run))
    }

    pub(super) fn rate(&self, run: &str) -> String {
        format!("{}.rate.{}", self.prefix, token(run))
    }

    pub(super) fn inbox(&self, worker: &str) -> String {
        format!("{}.to.{}", self.prefix, token(worker))
    }
}

/// Returns which shard holds what a slot says: all of it is in order there.
pub(super) fn shard_of(unit: u32) -> u32 {
    unit % SHARDS
}

fn label_token(label: Option<&str>) -> String {
    label.map_or_else(|| Nats::ANY.to_owned(), token)
}

/// Writes a name so that it is one token of a subject: what may not be in one is
/// `=` and two digits.
fn token(name: &str) -> String {
    let mut token = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            token.push(char::from(byte));
        } else {
            write!(token, "={byte:02x}").expect("a string takes everything");
        }
    }
    token
}

/// Reads what [`token`] has written.
fn untoken(token: &str) -> String {
    unescape(token, b'=')
}

/// Reads bytes that are written as two digits after a mark. What is no such byte
/// stays as it is.
pub(super) fn unescape(text: &str, mark: u8) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(char::from(mark)) {
        bytes.extend(before.bytes());
        let byte = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = match byte {
            Some(byte) => {
                bytes.push(byte);
                &after[2..]
            }
            None => {
                bytes.push(mark);
                after
            }
        };
    }
    bytes.extend(rest.bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new("tine").unwrap()
    }

    #[test]
    fn a_name_of_any_letters_comes_back_from_its_token() {
        for name in ["gpu", "a.b", "*", ">", "two words", "größe", "=41", "a="] {
            let written = token(name);
            assert!(!written.contains(['.', '*', '>', ' ']), "{written}");
            assert_eq!(untoken(&written), name);
        }
    }

    #[test]
    fn what_is_in_a_subject_comes_back_from_it() {
        for label in [None, Some("gpu.big".into())] {
            let job = Job { run: "0192-ab".into(), unit: 7, label };
            assert_eq!(names().parse_job(&names().job(&job)), Some(job));
        }
        assert_eq!(names().parse_event(&names().event("r", 3)), Some((3, false)));
        assert_eq!(names().parse_event(&names().result("r", 3)), Some((3, true)));
        for unit in [None, Some(4)] {
            let expected = Some(("r".to_owned(), unit));
            assert_eq!(names().parse_control(&names().control("r", unit)), expected);
        }
        assert_eq!(names().parse_worker(&names().worker("a.b")), Some("a.b".to_owned()));
    }

    #[test]
    fn a_prefix_is_one_word() {
        for prefix in ["", "a.b", "a b", "ä"] {
            assert!(Names::new(prefix).is_none(), "{prefix}");
        }
    }
}
