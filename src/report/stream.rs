//! One answer as it grows: from pieces to `stream_event` records.
//!
//! A client rebuilds a message from these, so they always form a whole one:
//! whatever was opened is closed, also when the answer fails or is cancelled
//! midway, and what was never streamed comes in one piece at the end.

use std::io;

use crate::event::{Piece, Replied, Seq};
use crate::message::{Call, Usage};

use super::lines::Origin;
use super::record::{Block, BlockDelta, MessageEnd, ModelMessage, Streamed, tool_input};

/// Takes the records of a stream.
pub(super) type Emit<'a> = dyn FnMut(Origin, Streamed<'_>) -> io::Result<()> + 'a;

/// What was streamed of the answer of one turn.
#[derive(Debug)]
pub(super) struct Stream {
    /// The id that all records of the answer share.
    pub(super) message_id: String,
    /// The event that began the turn; names the records.
    turn: Seq,
    /// How many records were written.
    written: u32,
    /// How many blocks were opened.
    blocks: u32,
    /// The block that is open.
    open: Option<Kind>,
    has_text: bool,
    has_thinking: bool,
}

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

impl Stream {
    /// The stream of a turn that began with the event `turn`.
    pub(super) fn new(message_id: String, turn: Seq) -> Self {
        Self {
            message_id,
            turn,
            written: 0,
            blocks: 0,
            open: None,
            has_text: false,
            has_thinking: false,
        }
    }

    /// Writes a piece, in the block for its kind.
    pub(super) fn piece(
        &mut self,
        piece: &Piece,
        model: &str,
        emit: &mut Emit<'_>,
    ) -> io::Result<()> {
        self.start(model, emit)?;
        match piece {
            Piece::Text(text) => self.text(text, emit),
            Piece::Thinking(thinking) => self.thinking(thinking, emit),
        }
    }

    /// Writes what is still missing of a whole answer and ends it.
    pub(super) fn finish(mut self, replied: &Replied, emit: &mut Emit<'_>) -> io::Result<()> {
        self.start(&replied.model, emit)?;
        let reply = &replied.reply;
        if !self.has_thinking && !reply.thinking.is_empty() {
            self.thinking(&reply.thinking, emit)?;
        }
        if !self.has_text && !reply.text.is_empty() {
            self.text(&reply.text, emit)?;
        }
        self.close(emit)?;
        for call in &reply.calls {
            self.call(call, emit)?;
        }
        self.end(Some(replied.stop.as_str()), replied.usage, emit)?;
        self.write(Streamed::MessageStop, emit)
    }

    /// Ends an answer that will not come; `usage` is what was counted of it.
    pub(super) fn break_off(self, usage: Usage, emit: &mut Emit<'_>) -> io::Result<()> {
        self.cut(usage, Streamed::MessageStop, emit)
    }

    /// Ends an answer that does not count: another attempt follows.
    pub(super) fn void(self, usage: Usage, emit: &mut Emit<'_>) -> io::Result<()> {
        self.cut(usage, Streamed::MessageVoid, emit)
    }

    /// Tells whether anything of the answer was written.
    pub(super) fn has_begun(&self) -> bool {
        self.written > 0
    }

    fn cut(mut self, usage: Usage, last: Streamed<'_>, emit: &mut Emit<'_>) -> io::Result<()> {
        if !self.has_begun() {
            return Ok(());
        }
        self.close(emit)?;
        self.end(None, usage, emit)?;
        self.write(last, emit)
    }

    fn start(&mut self, model: &str, emit: &mut Emit<'_>) -> io::Result<()> {
        if self.has_begun() {
            return Ok(());
        }
        let id = self.message_id.clone();
        let message = ModelMessage {
            id: &id,
            role: "assistant",
            model,
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: Usage::default().into(),
        };
        self.write(Streamed::MessageStart { message: Box::new(message) }, emit)
    }

    fn text(&mut self, text: &str, emit: &mut Emit<'_>) -> io::Result<()> {
        self.has_text = true;
        self.switch_to(Kind::Text, emit)?;
        self.grow(BlockDelta::Text { text }, emit)
    }

    fn thinking(&mut self, thinking: &str, emit: &mut Emit<'_>) -> io::Result<()> {
        self.has_thinking = true;
        self.switch_to(Kind::Thinking, emit)?;
        self.grow(BlockDelta::Thinking { thinking }, emit)
    }

    fn call(&mut self, call: &Call, emit: &mut Emit<'_>) -> io::Result<()> {
        let input = tool_input("");
        self.open_block(Block::ToolUse { id: &call.id.0, name: &call.tool, input }, emit)?;
        let whole = tool_input(&call.arguments);
        self.grow(BlockDelta::InputJson { partial_json: whole.get() }, emit)?;
        self.write(Streamed::ContentBlockStop { index: self.blocks - 1 }, emit)
    }

    fn switch_to(&mut self, kind: Kind, emit: &mut Emit<'_>) -> io::Result<()> {
        if self.open == Some(kind) {
            return Ok(());
        }
        self.close(emit)?;
        let block = match kind {
            Kind::Text => Block::Text { text: "" },
            Kind::Thinking => Block::Thinking { thinking: "", signature: "" },
        };
        self.open = Some(kind);
        self.open_block(block, emit)
    }

    fn open_block(&mut self, content_block: Block<'_>, emit: &mut Emit<'_>) -> io::Result<()> {
        let index = self.blocks;
        self.blocks += 1;
        self.write(Streamed::ContentBlockStart { index, content_block }, emit)
    }

    fn grow(&mut self, delta: BlockDelta<'_>, emit: &mut Emit<'_>) -> io::Result<()> {
        self.write(Streamed::ContentBlockDelta { index: self.blocks - 1, delta }, emit)
    }

    fn close(&mut self, emit: &mut Emit<'_>) -> io::Result<()> {
        match self.open.take() {
            Some(_) => self.write(Streamed::ContentBlockStop { index: self.blocks - 1 }, emit),
            None => Ok(()),
        }
    }

    fn end(
        &mut self,
        stop_reason: Option<&'static str>,
        usage: Usage,
        emit: &mut Emit<'_>,
    ) -> io::Result<()> {
        let delta = MessageEnd { stop_reason, stop_sequence: None };
        self.write(Streamed::MessageDelta { delta, usage: usage.into() }, emit)
    }

    fn write(&mut self, streamed: Streamed<'_>, emit: &mut Emit<'_>) -> io::Result<()> {
        let origin = Origin::Stream(self.turn, self.written);
        self.written += 1;
        emit(origin, streamed)
    }
}
