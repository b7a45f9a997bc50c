//! Tests at the seams: the binary, its streams, the bodies on the wire.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test looks at the events it is about; a new kind does not concern it"
)]

/// An editor that speaks the Agent Client Protocol.
mod acp;
/// The Agent call: its shapes, the pool, and slots that end badly.
mod agents;
/// Anthropic's API: the client on a socket, the binary behind its cache marks.
mod anthropic;
/// Three APIs, one behaviour.
mod apis;
/// Calls that only a person may allow: who asks, what an answer holds for.
mod approvals;
/// The layers and the sizes of the source.
mod architecture;
/// Prompts from every side, models by every way, and the tool loop on the wire.
mod ask;
/// Attacks, each alive where nothing stands in its way, and then stopped.
mod attacks;
/// Who sees what: flows, their branches and the requests of their agents.
mod branches;
/// Limits on money, tokens, calls and time.
mod budgets;
/// Signals: everything ends, nothing new begins, the log stays whole.
mod cancel;
/// Faults that users of other harnesses reported, each with its input in `tests/cases`.
mod cases;
/// `tine skills` and `tine agents`: lists and checks.
mod catalogue;
/// The chat on a pseudo-terminal, and the screen as it is then.
mod chat;
/// The chat without a screen: lines in, lines out.
mod chat_lines;
/// What a chat tells its terminal besides text: bell, title, colours.
mod chat_signs;
/// Summaries that take the place of a conversation.
mod compact;
/// What completes the command line, and the manual page.
mod completions;
/// A program that speaks for a person, over standard input.
mod control;
/// Processes that die: the session opens again, and nothing is lost or run
/// twice.
mod crash;
/// What `--debug` tells, and what it does not.
mod debug;
/// Agent definitions: what each key comes to.
mod definitions;
/// `tine doctor`, and what a newcomer without a model is told.
mod doctor;
/// Sessions as text, lines and documents: whole, one strand of them, cut off.
mod documents;
/// NATS: a real server that is killed and comes back, and nothing lost or doubled.
#[cfg(feature = "nats")]
mod engine;
/// Batches on paused time.
mod fanout;
/// Everything that goes wrong between a server and us, for each API.
mod faults;
/// Command lines that were written for other harnesses.
mod flags;
/// Slots that workers run: as if they ran here, whoever is killed meanwhile.
#[cfg(feature = "nats")]
mod fleet;
/// Flow files: checked, shown and run, and hostile ones.
mod flow_files;
/// Skills that are flows: bundled ones, those of a repository, and chats that go
/// on after them.
mod flow_skills;
/// Random flows on paused time, held against rules that are written twice.
mod flow_trees;
/// Flows: items, rounds, conditions, flows in flows, and walks that go on.
mod flows;
/// Skills that are followed: what holds, and agents that do them.
mod following;
/// Forks: the bytes they share, what they may not do, how they come back.
mod forks;
/// What a unit sends is what its events say.
mod history;
/// Hooks: what they are told, what they may decide, whose are asked.
mod hooks;
/// Sessions that are named, looked for, deleted, and grow old.
mod housekeeping;
/// Images that models are shown.
mod images;
/// Whatever ends tine, no process that it has started lives on.
mod leftovers;
/// Units that make the same call over and over.
mod loops;
/// The documents against the binary.
mod manual;
/// `tine map`: an agent for each row of a table, killed and gone on with.
mod map;
/// Servers of tools, and tine as one.
mod mcp;
/// The Chat Completions client against a real socket.
mod model_http;
/// Models by name: configured, of a preset, of the environment; their list.
mod models;
/// Calls that cannot do what they ask for, and the outputs they get.
mod outputs;
/// What a run may do.
mod permissions;
/// Permits: the gate of a coordinator, before which the requests of workers stand, too.
#[cfg(feature = "nats")]
mod permits;
/// Questions that only a person may answer.
mod questions;
/// Readers that are slow, gone, or never there.
mod readers;
/// Runs that are recorded, and answered from their recording.
mod recordings;
/// What cannot be worked on: one line, a hint, the right exit code.
mod refusals;
/// The Responses client against a real socket, against the provider's own types,
/// and behind the binary.
mod responses;
/// Going on with a session, however it ended.
mod resume;
/// Requests that fail: made again, of another model, shorter, or given up.
mod retries;
/// `tine review` on every sort of change.
mod review;
/// Reviews that a flow walks, whatever models would do by themselves.
mod review_flow;
/// What a review must not let pass.
mod review_gates;
/// A review of a change that is large and of every sort at once.
mod review_sizes;
/// `/review` in a session: the same flow, whose report the conversation holds.
mod review_typed;
/// The sandbox under attack.
mod sandbox;
/// A hosted server that sends no headers gets a second request.
mod second_request;
/// What is kept of a session, and how it is found again.
mod sessions;
/// The short set-up, and what `tine init` writes.
mod setup;
/// Bad days of a provider, simulated: one seed decides everything.
mod simulation;
/// A run that lives on from one prompt to the next.
mod sittings;
/// Skills: typed, opened by the model, found in the project.
mod skills;
/// Many agents on one provider that takes less than they would send.
mod storm;
/// What programs see of a run: stream-json, json, text, and files.
mod stream;
/// Answers that fit a schema.
mod structured;
/// Spans as a collector gets them.
mod telemetry;
/// The live region on a pseudo-terminal.
mod terminal;
/// Sessions as a page, for Perfetto, as JSON, and served while they run.
mod trace;
/// Files that go back as they were.
mod undo;
/// What a session has used, in tokens and money.
mod usage;
/// Pages of the web: what is fetched, and what is not reached.
mod web;
/// Agents in worktrees of their own: what comes back of their work.
mod worktrees;

/// What the tests share.
mod support {
    /// Anthropic's side of a conversation, and its cache.
    pub(crate) mod anthropic;
    /// The proof that requests are what events say.
    pub(crate) mod bodies;
    /// Certificates, and whoever vouches for them.
    #[cfg(feature = "nats")]
    pub(crate) mod certificates;
    /// A place where calls are judged and run without a model.
    pub(crate) mod desk;
    pub(crate) mod dice;
    /// Faults that strace injects into the binary.
    pub(crate) mod faults;
    /// Workers of a test.
    #[cfg(feature = "nats")]
    pub(crate) mod fleet;
    /// A run inside the test's process.
    pub(crate) mod inside;
    /// Whether processes live that a test did not start itself.
    pub(crate) mod life;
    /// The binary where other things are mounted than on the machine.
    pub(crate) mod mounts;
    /// A NATS server that can be killed.
    #[cfg(feature = "nats")]
    pub(crate) mod nats;
    /// What a test keeps of a screen.
    pub(crate) mod picture;
    /// A case whose files a server plays.
    pub(crate) mod play;
    /// A provider on paused time that takes so much and no more.
    pub(crate) mod provider;
    /// The records of stream-json, read back.
    pub(crate) mod records;
    /// A stretch of network that can be cut.
    #[cfg(feature = "nats")]
    pub(crate) mod relay;
    /// Small git repositories.
    pub(crate) mod repository;
    /// A model behind the Responses API.
    pub(crate) mod responses;
    /// What a terminal shows of what is written to it.
    pub(crate) mod screen;
    /// A scripted HTTP server.
    pub(crate) mod server;
    /// What a request says.
    pub(crate) mod talk;
    /// A pseudo-terminal and somebody at it.
    pub(crate) mod terminal;
    /// A directory to run anything in.
    pub(crate) mod throwaway;
    /// The real binary in a place of its own.
    pub(crate) mod tine;
    /// Users whom a server of NATS takes at an operator's word.
    #[cfg(feature = "nats")]
    pub(crate) mod vouched;
    /// Waiting for what nothing tells of.
    pub(crate) mod wait;
    /// All that passes a NATS server.
    #[cfg(feature = "nats")]
    pub(crate) mod wire;
}
