//! What a session has used: a fold over the events of its log.
//!
//! Tokens, money, requests and waits are summed by model, by prompt, by batch
//! and by agent. The fold keeps a sum for each; what is shown is bounded: those
//! that used the most, and one sum of the rest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;
use std::sync::Arc;

use serde::Serialize;

use crate::event::{AfterFailure, Event, EventKind, Invocation, Seq, SessionId, UnitHead, UnitId};
use crate::message::{CallId, Cost, Usage, Usd, counted, short_number};

use super::lines::{self, Origin};
use super::record::{ResultRecord, SessionUsageRecord, UsageResult};
use super::result::{Ending, FindFacts};
use super::words;

/// Most rows of each list that people read. What used the most is there; a
/// longer list is read by programs.
const ROWS: usize = 10;

/// Most columns of a line, and those of the figures at its end.
const COLUMNS: usize = 80;
const TOKENS_COLUMNS: usize = 9;
const COST_COLUMNS: usize = 11;
const NAME_COLUMNS: usize = COLUMNS - 4 * TOKENS_COLUMNS - COST_COLUMNS;

/// Below what sum costs are written with parts of a cent.
const FINE_BELOW: Usd = Usd(10 * Usd::ONE.0);

/// Most characters that are kept of a prompt.
const PROMPT_CAP: usize = 120;

/// Most agents of a batch whose names are kept; a row has room for few.
const NAMES_KEPT: usize = 4;

/// What was used by something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// The tokens, and what they cost.
    pub usage: Usage,
    /// How many requests were made, those that failed too.
    pub requests: u64,
    /// How many of them were made again after a failure.
    pub retries: u64,
    /// How long requests waited before they went out, in milliseconds.
    pub waited_ms: u64,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, Self { usage, requests, retries, waited_ms }: Self) {
        self.usage += usage;
        self.requests = self.requests.saturating_add(requests);
        self.retries = self.retries.saturating_add(retries);
        self.waited_ms = self.waited_ms.saturating_add(waited_ms);
    }
}

/// What a session has used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionUsage {
    /// The session; empty if its log has no beginning.
    pub session: Option<SessionId>,
    /// The session that it began as a copy of. What that one had used by then
    /// is in all sums.
    pub forked_from: Option<SessionId>,
    /// The last event there is.
    pub last: Seq,
    /// Everything.
    pub total: Spent,
    /// By model.
    pub models: BTreeMap<Arc<str>, Spent>,
    /// By prompt.
    pub prompts: BTreeMap<Invocation, PromptUsage>,
    /// By batch, in the order they were declared.
    pub batches: Vec<BatchUsage>,
    /// By agent, the main conversation too.
    pub units: BTreeMap<UnitId, UnitUsage>,
    /// Where the batch of a call is.
    places: HashMap<(UnitId, CallId), usize>,
}

/// What a prompt and all that followed from it used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PromptUsage {
    /// What was typed: the first line, at most 120 characters of it.
    pub prompt: Arc<str>,
    /// What it used.
    pub spent: Spent,
}

/// What the agents of one call used, with all that they started.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchUsage {
    /// The call.
    pub call: CallId,
    /// Whose call it was.
    pub parent: UnitId,
    /// How many agents it started.
    pub agents: u64,
    /// What the first of them are for.
    pub names: Vec<Arc<str>>,
    /// What they used.
    pub spent: Spent,
}

/// What one agent used, without those that it started.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UnitUsage {
    /// Who it is; `None` for the main conversation.
    pub head: Option<UnitHead>,
    /// What it used.
    pub spent: Spent,
    batch: Option<usize>,
}

impl SessionUsage {
    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        self.last = event.seq;
        match &event.kind {
            EventKind::SessionOpened(head) => {
                self.session = Some(head.session.clone());
                self.forked_from.clone_from(&head.forked_from);
            }
            EventKind::InvocationStarted { prompt, .. } => {
                let line = prompt.trim().lines().next().unwrap_or_default();
                let prompt = line.chars().take(PROMPT_CAP).collect::<String>().into();
                self.prompts.entry(event.invocation).or_default().prompt = prompt;
            }
            EventKind::UnitQueued(head) => self.queued(event.unit, head),
            EventKind::Replied(replied) => self.asked(event, &replied.model, replied.usage, 0),
            EventKind::Compacted(compaction) => {
                self.asked(event, &compaction.model, compaction.usage, 0);
            }
            EventKind::RequestFailed(failed) => {
                let is_retried = matches!(failed.next, AfterFailure::Retry { .. });
                self.asked(event, &failed.model, failed.usage, u64::from(is_retried));
            }
            EventKind::Admitted { waited_ms } => {
                self.add(event, Spent { waited_ms: *waited_ms, ..Spent::default() });
            }
            EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UnitEnded(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. }
            | EventKind::Notice { .. }
            | EventKind::InvocationEnded(_) => {}
        }
    }

    fn queued(&mut self, unit: UnitId, head: &UnitHead) {
        let batch = match (&head.call, head.slot) {
            (Some(call), Some(_)) => Some(self.place_of(head.parent, call)),
            (Some(_), None) | (None, _) => None,
        };
        if let Some(batch) = batch.and_then(|place| self.batches.get_mut(place)) {
            batch.agents += 1;
            if batch.names.len() < NAMES_KEPT {
                batch.names.push(Arc::clone(&head.description));
            }
        }
        let row = self.units.entry(unit).or_default();
        (row.head, row.batch) = (Some(head.clone()), batch);
    }

    fn place_of(&mut self, parent: UnitId, call: &CallId) -> usize {
        *self.places.entry((parent, call.clone())).or_insert_with(|| {
            let (call, spent) = (call.clone(), Spent::default());
            self.batches.push(BatchUsage { call, parent, agents: 0, names: Vec::new(), spent });
            self.batches.len() - 1
        })
    }

    fn asked(&mut self, event: &Event, model: &Arc<str>, usage: Usage, retries: u64) {
        let spent = Spent { usage, requests: 1, retries, waited_ms: 0 };
        *self.models.entry(Arc::clone(model)).or_default() += spent;
        self.add(event, spent);
    }

    fn add(&mut self, event: &Event, spent: Spent) {
        self.total += spent;
        self.prompts.entry(event.invocation).or_default().spent += spent;
        self.units.entry(event.unit).or_default().spent += spent;
        let mut unit = event.unit;
        while let Some(UnitUsage { head: Some(head), batch, .. }) = self.units.get(&unit) {
            if let Some(batch) = batch.and_then(|place| self.batches.get_mut(place)) {
                batch.spent += spent;
            }
            // A unit is declared after its parent. In a log that says
            // otherwise, the way up need not end.
            if head.parent >= unit {
                break;
            }
            unit = head.parent;
        }
    }

    /// Returns the lines that tell people what was used, each at most 80
    /// columns wide and safe for a terminal.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.sentence()];
        if self.total.requests == 0 {
            return lines;
        }
        if let Some(origin) = &self.forked_from {
            let origin = words::short_line(&origin.0, NAME_COLUMNS + TOKENS_COLUMNS);
            lines.push(format!("with what {origin} had used before it was copied"));
        }
        let table = Table { digits: digits(self.total.usage.cost.usd) };
        lines.extend([String::new(), heading(), table.row("in all", self.total)]);
        let models = self.models.iter().map(|(name, spent)| (name.to_string(), *spent));
        lines.extend(table.section("by model", models));
        let prompts = self.prompts.iter();
        let prompts =
            prompts.map(|(number, used)| (format!("{}  {}", number.0, used.prompt), used.spent));
        lines.extend(table.section("by prompt", prompts));
        lines.extend(
            table.section("by batch", self.batches.iter().map(|used| (used.name(), used.spent))),
        );
        let units = self.units.iter().map(|(unit, used)| (used.name(*unit), used.spent));
        lines.extend(table.section("by agent", units));
        if self.total.usage.cost.is_partial {
            lines.extend([String::new(), PARTIAL.to_owned()]);
        }
        lines
    }

    /// Returns it as one JSON object and a line feed.
    #[must_use]
    pub fn record(&self) -> Vec<u8> {
        written(&SessionUsageRecord::from(self))
    }

    /// Returns it as the `result` of a command that asked no model. `message` is
    /// what a client calls the message with it.
    #[must_use]
    pub fn result(&self, message: Option<&str>) -> Vec<u8> {
        let message = message.map(Into::into);
        let ending = Ending { message, ..Ending::of_text(&self.lines().join("\n")) };
        let find_facts: FindFacts = Arc::new(|_| None);
        let session = SessionId(self.session_id().into());
        written(&UsageResult {
            kind: "result",
            result: ResultRecord::new(&ending, &find_facts),
            session_usage: SessionUsageRecord::from(self),
            uuid: Origin::Look(self.last).uuid(&session),
            session_id: &session.0,
        })
    }

    pub(super) fn session_id(&self) -> &str {
        self.session.as_ref().map_or("", |session| &session.0)
    }

    fn sentence(&self) -> String {
        let Spent { usage: _, requests, retries, waited_ms } = self.total;
        let session = match self.session_id() {
            "" => "without a beginning".to_owned(),
            id => words::short_line(id, NAME_COLUMNS + TOKENS_COLUMNS),
        };
        let requests = match requests {
            0 => "no model was asked yet".to_owned(),
            _ => counted(requests, "request"),
        };
        let waited = (waited_ms > 0).then(|| format!("waited {}", words::duration(waited_ms)));
        let parts = [Some(requests), words::retries(retries), waited].into_iter().flatten();
        format!("session {session}: {}", parts.collect::<Vec<_>>().join(", "))
    }
}

impl BatchUsage {
    fn name(&self) -> String {
        let names: Vec<&str> = self.names.iter().map(|name| &**name).collect();
        format!("{}: {}", words::agents(self.agents), names.join(", "))
    }
}

impl UnitUsage {
    fn name(&self, unit: UnitId) -> String {
        match &self.head {
            Some(head) => format!("{unit}  {}", head.description.trim()),
            None => unit.to_string(),
        }
    }
}

/// Returns those of `all` that used the most, the costliest first, and how many
/// others used something, and how much.
pub(super) fn top<T>(
    all: impl Iterator<Item = (T, Spent)>,
    most: usize,
) -> (Vec<(T, Spent)>, u64, Spent) {
    let mut all: Vec<(T, Spent)> = all.filter(|(_, spent)| *spent != Spent::default()).collect();
    all.sort_by_key(|(_, spent)| Reverse((spent.usage.cost.usd, spent.usage.total())));
    let rest = all.split_off(most.min(all.len()));
    let mut sum = Spent::default();
    rest.iter().for_each(|(_, spent)| sum += *spent);
    (all, rest.len() as u64, sum)
}

fn written(record: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    lines::write(record, &mut line)
        .expect("text and numbers are always JSON, and a buffer takes every write");
    line
}

/// What the signs in the column of costs mean.
const PARTIAL: &str = "+ at least that much, ? not known: not every model has a price";

/// How figures are written.
struct Table {
    /// The digits behind the point of a cost: the same everywhere, so that they
    /// stand below each other.
    digits: usize,
}

impl Table {
    fn section(&self, title: &str, rows: impl Iterator<Item = (String, Spent)>) -> Vec<String> {
        let (rows, others, rest) = top(rows, ROWS);
        if rows.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![String::new(), title.to_owned()];
        lines.extend(rows.iter().map(|(name, spent)| self.row(&format!("  {name}"), *spent)));
        if others > 0 {
            lines.push(self.row(&format!("  and {others} more"), rest));
        }
        lines
    }

    fn row(&self, name: &str, spent: Spent) -> String {
        let Usage { input, output, cache_read, cache_creation, cost } = spent.usage;
        let tokens = [input, cache_read, cache_creation, output].map(short_number);
        figures(name, &tokens, &self.cost(cost))
    }

    /// Returns a cost for its column. A `+` says that it is more than that, a
    /// `?` that nothing is known.
    fn cost(&self, cost: Cost) -> String {
        let digits = self.digits;
        match cost {
            Cost { usd: Usd(0), is_partial: true } => "?".to_owned(),
            Cost { usd, is_partial: true } => format!("${:.digits$}+", usd.dollars()),
            Cost { usd, is_partial: false } => format!("${:.digits$}", usd.dollars()),
        }
    }
}

/// Returns with how many digits costs are written that add up to this.
fn digits(total: Usd) -> usize {
    if (Usd(1)..FINE_BELOW).contains(&total) { 4 } else { 2 }
}

fn heading() -> String {
    figures("", &["input", "cached", "written", "output"].map(str::to_owned), "cost")
}

fn figures(name: &str, tokens: &[String; 4], cost: &str) -> String {
    let indent = name.len() - name.trim_start_matches(' ').len();
    let cut = words::in_columns(&name[indent..], NAME_COLUMNS - indent);
    let name = words::padded(&format!("{}{cut}", " ".repeat(indent)), NAME_COLUMNS);
    let tokens: String = tokens.iter().map(|tokens| format!("{tokens:>TOKENS_COLUMNS$}")).collect();
    format!("{name}{tokens}{cost:>COST_COLUMNS$}")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::Value;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;
    use crate::event::testing::{Log, queued};
    use crate::event::{Origin, SessionHead, ThrottleCause};
    use crate::message::Reply;
    use crate::report::story::{Story, paid, usage};

    const PAGE: &str = include_str!("../../docs/json.md");

    fn head(forked_from: Option<&str>) -> EventKind {
        EventKind::SessionOpened(SessionHead {
            session: SessionId("0198-a".into()),
            version: "0.1.0".into(),
            cwd: "/repo".into(),
            model: "m".into(),
            mode: "default".into(),
            forked_from: forked_from.map(|id| SessionId(id.into())),
            sandbox: None,
        })
    }

    fn used(events: &[Event]) -> SessionUsage {
        let mut usage = SessionUsage::default();
        events.iter().for_each(|event| usage.take(event));
        usage
    }

    /// A session with a batch, of which an agent has trouble and another model.
    fn session() -> Story {
        let mut story = Story::new();
        let cached = Usage { cache_read: 96_000, cache_creation: 1_200, ..paid(3_000, 400, 42) };
        story.push(0, head(None)).invocation("Where is the retry logic?\nAll of it.").turn(0, 1);
        story.replied(0, Reply::default(), cached).batch("call-1", &["north", "south", "east"]);
        story.start(1).start(2).start(3).retried(1, 1, Some(529)).admitted(1, 3_000);
        story.replied(1, Reply::default(), paid(2_000, 100, 3));
        story.replied_by(2, "local", Reply::default(), usage(50_000, 9));
        story.throttled(3, ThrottleCause::InFlight, None).admitted(3, 12_000);
        story.replied(3, Reply::default(), paid(1_000, 100, 5)).queue("alone", "call-2", None);
        story.start(4).replied(4, Reply::default(), paid(10, 1, 1));
        story
    }

    #[test]
    fn people_read_who_used_how_much_the_costliest_first() {
        assert_snapshot!(used(session().events()).lines().join("\n"), @"
        session 0198-a: 6 requests, 1 retry, waited 15.0 s

                                             input   cached  written   output       cost
        in all                               56.0k    96.0k     1.2k      610    $0.5100

        by model
          m                                   6.0k    96.0k     1.2k      601    $0.5100
          local                              50.0k        0        0        9    $0.0000

        by prompt
          1  Where is the retry logic?       56.0k    96.0k     1.2k      610    $0.5100

        by batch
          3 agents: north, south, east       53.0k        0        0      209    $0.0800

        by agent
          main                                3.0k    96.0k     1.2k      400    $0.4200
          agent-3  east                       1.0k        0        0      100    $0.0500
          agent-1  north                      2.0k        0        0      100    $0.0300
          agent-4  alone                        10        0        0        1    $0.0100
          agent-2  south                     50.0k        0        0        9    $0.0000
        ");
    }

    #[test]
    fn programs_read_the_same() {
        let usage = used(session().events());
        assert_snapshot!(String::from_utf8(usage.record()).unwrap(), @r#"{"session_id":"0198-a","total":{"requests":6,"input_tokens":56015,"output_tokens":610,"cache_read_input_tokens":96000,"cache_creation_input_tokens":1200,"cost_usd":0.51,"api_retries":1,"throttled_ms":15000},"models":[{"model":"m","requests":5,"input_tokens":6015,"output_tokens":601,"cache_read_input_tokens":96000,"cache_creation_input_tokens":1200,"cost_usd":0.51,"api_retries":1},{"model":"local","requests":1,"input_tokens":50000,"output_tokens":9,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.0}],"prompts":[{"number":1,"prompt":"Where is the retry logic?","requests":6,"input_tokens":56015,"output_tokens":610,"cache_read_input_tokens":96000,"cache_creation_input_tokens":1200,"cost_usd":0.51,"api_retries":1,"throttled_ms":15000}],"batches":[{"tool_use_id":"call-1","agent_id":"main","agents":3,"requests":4,"input_tokens":53005,"output_tokens":209,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.08,"api_retries":1,"throttled_ms":15000}],"agents":[{"agent_id":"main","requests":1,"input_tokens":3000,"output_tokens":400,"cache_read_input_tokens":96000,"cache_creation_input_tokens":1200,"cost_usd":0.42},{"agent_id":"agent-3","description":"east","subagent_type":"reviewer","requests":1,"input_tokens":1000,"output_tokens":100,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.05,"throttled_ms":12000},{"agent_id":"agent-1","description":"north","subagent_type":"reviewer","requests":2,"input_tokens":2005,"output_tokens":100,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.03,"api_retries":1,"throttled_ms":3000},{"agent_id":"agent-4","description":"alone","subagent_type":"reviewer","requests":1,"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.01},{"agent_id":"agent-2","description":"south","subagent_type":"reviewer","requests":1,"input_tokens":50000,"output_tokens":9,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.0}]}"#);
        assert_snapshot!(String::from_utf8(usage.result(None)).unwrap(), @r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":0,"duration_api_ms":0,"num_turns":0,"result":"session 0198-a: 6 requests, 1 retry, waited 15.0 s\n\n                                     input   cached  written   output       cost\nin all                               56.0k    96.0k     1.2k      610    $0.5100\n\nby model\n  m                                   6.0k    96.0k     1.2k      601    $0.5100\n  local                              50.0k        0        0        9    $0.0000\n\nby prompt\n  1  Where is the retry logic?       56.0k    96.0k     1.2k      610    $0.5100\n\nby batch\n  3 agents: north, south, east       53.0k        0        0      209    $0.0800\n\nby agent\n  main                                3.0k    96.0k     1.2k      400    $0.4200\n  agent-3  east                       1.0k        0        0      100    $0.0500\n  agent-1  north                      2.0k        0        0      100    $0.0300\n  agent-4  alone                        10        0        0        1    $0.0100\n  agent-2  south                     50.0k        0        0        9    $0.0000","stop_reason":null,"total_cost_usd":0.0,"usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard"},"modelUsage":{},"permission_denials":[],"terminal_reason":"completed","session_usage":{"session_id":"0198-a","total":{"requests":6,"input_tokens":56015,"output_tokens":610,"cache_read_input_tokens":96000,"cache_creation_input_tokens":1200,"cost_usd":0.51,"api_retries":1,"throttled_ms":15000},"models":[{"model":"m","requests":5,"input_tokens":6015,"output_tokens":601,"cache_read_input_tokens":96000,"cache_creation_input_tokens":1200,"cost_usd":0.51,"api_retries":1},{"model":"local","requests":1,"input_tokens":50000,"output_tokens":9,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.0}],"prompts":[{"number":1,"prompt":"Where is the retry logic?","requests":6,"input_tokens":56015,"output_tokens":610,"cache_read_input_tokens":96000,"cache_creation_input_tokens":1200,"cost_usd":0.51,"api_retries":1,"throttled_ms":15000}],"batches":[{"tool_use_id":"call-1","agent_id":"main","agents":3,"requests":4,"input_tokens":53005,"output_tokens":209,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.08,"api_retries":1,"throttled_ms":15000}],"agents":[{"agent_id":"main","requests":1,"input_tokens":3000,"output_tokens":400,"cache_read_input_tokens":96000,"cache_creation_input_tokens":1200,"cost_usd":0.42},{"agent_id":"agent-3","description":"east","subagent_type":"reviewer","requests":1,"input_tokens":1000,"output_tokens":100,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.05,"throttled_ms":12000},{"agent_id":"agent-1","description":"north","subagent_type":"reviewer","requests":2,"input_tokens":2005,"output_tokens":100,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.03,"api_retries":1,"throttled_ms":3000},{"agent_id":"agent-4","description":"alone","subagent_type":"reviewer","requests":1,"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.01},{"agent_id":"agent-2","description":"south","subagent_type":"reviewer","requests":1,"input_tokens":50000,"output_tokens":9,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cost_usd":0.0}]},"uuid":"e94ff82b-5e88-8278-be45-73c9f88a37f9","session_id":"0198-a"}"#);
    }

    #[test]
    fn the_example_of_the_json_page_is_such_an_object() {
        let mut usage = used(session().events());
        usage.session = Some(SessionId("019a9f3c-5d2e-7c41-9b60-2f8f6a1d4e77".into()));
        let record = String::from_utf8(usage.record()).unwrap();
        assert!(PAGE.contains(&format!("```jsonl\n{record}```")), "{record}");
    }

    #[test]
    fn every_list_adds_up_to_the_whole() {
        let usage = used(session().events());
        let sum = |all: &mut dyn Iterator<Item = Spent>| {
            let mut sum = Spent::default();
            all.for_each(|spent| sum += spent);
            sum
        };
        let without_waits = Spent { waited_ms: 0, ..usage.total };
        assert_eq!(sum(&mut usage.models.values().copied()), without_waits);
        assert_eq!(sum(&mut usage.prompts.values().map(|prompt| prompt.spent)), usage.total);
        assert_eq!(sum(&mut usage.units.values().map(|unit| unit.spent)), usage.total);
        let of_batch = [1, 2, 3].map(|unit| usage.units[&UnitId(unit)].spent);
        assert_eq!(usage.batches[0].spent, sum(&mut of_batch.into_iter()));
    }

    #[test]
    fn a_batch_counts_what_its_agents_started() {
        let mut story = Story::new();
        story.batch("outer", &["a", "b"]).start(1);
        let EventKind::UnitQueued(outer) = story.events()[0].kind.clone() else {
            panic!("it declares one")
        };
        let inner = UnitHead { call: Some("inner".into()), parent: UnitId(1), ..outer };
        story.push(3, EventKind::UnitQueued(inner));
        story.replied(1, Reply::default(), usage(1, 0)).replied(2, Reply::default(), usage(10, 0));
        story.replied(3, Reply::default(), usage(100, 0)).replied(0, Reply::default(), usage(7, 0));
        let used = used(story.events());
        let batches = used.batches.iter().map(|batch| (&*batch.call.0, batch.agents));
        assert_eq!(batches.collect::<Vec<_>>(), [("outer", 2), ("inner", 1)]);
        let spent = used.batches.iter().map(|batch| batch.spent.usage.input);
        assert_eq!(spent.collect::<Vec<_>>(), [111, 100]);
    }

    #[test]
    fn a_log_in_which_a_unit_is_its_own_ancestor_is_read_to_its_end() {
        let mut log = Log::default();
        log.put(1, "1", queued("a", 2, Origin::Prompt, Some("c")));
        log.put(2, "2", queued("b", 1, Origin::Prompt, Some("d")));
        log.put(1, "1", EventKind::Admitted { waited_ms: 5 });
        assert_eq!(used(&log.events).total.waited_ms, 5);
    }

    #[test]
    fn of_ten_thousand_agents_the_costliest_are_named_and_the_rest_is_one_sum() {
        let mut story = Story::new();
        let names: Vec<String> = (1..=10_000).map(|number| format!("s{number}")).collect();
        story.invocation("go").batch("c", &names.iter().map(|name| &**name).collect::<Vec<_>>());
        for unit in 1..=10_000 {
            story.replied(unit, Reply::default(), paid(10, 1, u64::from(unit)));
        }
        let usage = used(story.events());
        let lines = usage.lines();
        assert_snapshot!(lines[lines.len() - 12..].join("\n"), @"
        by agent
          agent-10000  s10000                   10        0        0        1    $100.00
          agent-9999  s9999                     10        0        0        1     $99.99
          agent-9998  s9998                     10        0        0        1     $99.98
          agent-9997  s9997                     10        0        0        1     $99.97
          agent-9996  s9996                     10        0        0        1     $99.96
          agent-9995  s9995                     10        0        0        1     $99.95
          agent-9994  s9994                     10        0        0        1     $99.94
          agent-9993  s9993                     10        0        0        1     $99.93
          agent-9992  s9992                     10        0        0        1     $99.92
          agent-9991  s9991                     10        0        0        1     $99.91
          and 9990 more                      99.9k        0        0     9.9k $499050.45
        ");
        let record: Value = serde_json::from_slice(&usage.record()).unwrap();
        let agents = record["agents"].as_array().unwrap();
        assert_eq!((agents.len(), &agents[0]["description"]), (1_000, &"s10000".into()));
        let left_out = &record["left_out"]["agents"];
        assert_eq!((&left_out["count"], &left_out["requests"]), (&9_000.into(), &9_000.into()));
    }

    #[test]
    fn a_line_is_never_wider_than_a_terminal_and_hostile_text_is_shown() {
        const HOSTILE: &str =
            "世界\u{1b}[2J\n\u{9b}H\u{202e}世界世界世界世界世界世界世界世界世界世界世界世界";
        let mut story = Story::new();
        let most = Usage { input: 999_999_999, output: 99_999, ..paid(0, 0, 99_999_999) };
        story.push(0, head(Some("0197-b"))).invocation(HOSTILE).batch("c", &[HOSTILE; 9]).start(1);
        story.replied_by(1, HOSTILE, Reply::default(), most);
        let usage = used(story.events());
        for line in usage.lines() {
            assert!(line.width() <= COLUMNS, "{} columns: {line}", line.width());
            assert!(!line.chars().any(crate::report::sanitise::is_hidden), "{line:?}");
        }
        let record = String::from_utf8(usage.record()).unwrap();
        assert!(!record.trim_end().chars().any(crate::report::sanitise::is_hidden));
    }

    #[test]
    fn a_session_in_which_no_model_was_asked_says_so() {
        let mut story = Story::new();
        story.push(0, head(Some("0197-b")));
        assert_snapshot!(used(story.events()).lines().join("\n"), @"session 0198-a: no model was asked yet");
    }

    #[test]
    fn what_no_price_is_known_of_has_a_mark() {
        let cost = |cents: u64, is_partial| Cost { usd: paid(0, 0, cents).cost.usd, is_partial };
        let mut story = Story::new();
        let unknown = Usage { cost: cost(0, true), ..usage(900, 30) };
        story.invocation("go").replied(0, Reply::default(), paid(100, 1, 42));
        story.replied_by(0, "local", Reply::default(), unknown);
        assert_snapshot!(used(story.events()).lines().join("\n"), @"
        session without a beginning: 2 requests

                                             input   cached  written   output       cost
        in all                                1.0k        0        0       31   $0.4200+

        by model
          m                                    100        0        0        1    $0.4200
          local                                900        0        0       30          ?

        by prompt
          1  go                               1.0k        0        0       31   $0.4200+

        by agent
          main                                1.0k        0        0       31   $0.4200+

        + at least that much, ? not known: not every model has a price
        ");
    }
}
