//! What the commands of a chat set off.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tokio::sync::oneshot;

use super::{Done, Session};
use crate::cli::args::RunFlags;
use crate::cli::chat::commands::{What, look, models, rewind, sessions};
use crate::cli::chat::desk::Seen;
use crate::cli::chat::desk::listing::{Back, Before, Choice, Item, Listing};
use crate::cli::chat::tty;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::undo;
use crate::guard::Mode;
use crate::message::counted;
use crate::report::ink::Ink;
use crate::report::prose::wrapped;
use crate::report::row::Row;
use crate::report::words;
use crate::run::{Asked, FromUser, NoRewind, NoUndo, TakeBack};

/// Most characters of a prompt that is named.
const PROMPT_CAP: usize = 60;

/// What would go back, once that is confirmed.
pub(in crate::cli::chat) struct Plan {
    take_back: Box<TakeBack>,
    /// The conversation goes back, too.
    before: Option<Before>,
}

impl Session {
    /// Carries out a command.
    pub(super) fn command(&mut self, what: What, arguments: String) {
        let columns = tty::size(std::io::stdout()).text_columns();
        match what {
            What::Help => self.look(move |kit| shown(look::help(&kit.skills, columns))),
            What::Model => match &*arguments {
                "" => self.look(|kit| Ok(Seen::Choose(model_list(kit)))),
                name => self.set_model(name),
            },
            What::Models => self.look(|kit| shown(look::models(kit))),
            What::Agents => self.look(|kit| shown(look::agents(kit))),
            What::Skills => self.look(|kit| shown(look::skills(kit))),
            What::Mcp => self.look(|kit| shown(look::mcp(&kit.servers))),
            What::Usage => self.look(|kit| look::usage(kit).map(Seen::Shown)),
            What::Context => self.look(move |kit| look::context(kit, columns).map(Seen::Shown)),
            What::Diff => self.look(|kit| look::diff(kit).map(Seen::Shown)),
            What::Permissions => match &*arguments {
                "" => self.look(|kit| look::permissions(kit).map(Seen::Shown)),
                name => self.set_mode(name),
            },
            What::Rename => {
                // What has a name stays.
                self.place.begins();
                self.look(move |kit| sessions::rename(kit, &arguments).map(Seen::Shown));
            }
            What::Export => self.look(move |kit| export(kit, &arguments)),
            What::Undo => self.undo(&arguments),
            What::Rewind => self.look(|kit| Ok(Seen::Choose(turn_list(&rewind::turns(kit)?)?))),
            What::Resume => match &*arguments {
                "" => self.look(|kit| Ok(Seen::Choose(session_list(kit)?))),
                session => self.resume(session.to_owned()),
            },
            What::Clear => self.open(RunFlags { resume: None, ..self.next_flags() }),
            // The desk's own.
            What::Tasks | What::Theme | What::Fork | What::Compact | What::Quit => {}
        }
    }

    /// Does what was chosen from a list.
    pub(super) fn chosen(&mut self, choice: Choice) {
        match choice {
            Choice::Model(name) => self.set_model(&name),
            Choice::Session(id) => self.resume(id),
            Choice::Turn(before) => self.show(Seen::Choose(back_list(&before))),
            Choice::Back(before, Back::Conversation) => self.rewind(before),
            Choice::Back(Before { to, prompt: _ }, Back::Files) => {
                self.plan(None, move |kit| rewind::plan(kit, to));
            }
            Choice::Back(before, Back::Both) => {
                let to = before.to;
                self.plan(Some(before), move |kit| rewind::plan(kit, to));
            }
            Choice::TakeBack => self.take_back(),
            // The desk's own.
            Choice::Text(_) | Choice::Strand(_) | Choice::Theme(_) | Choice::Nothing => {}
        }
    }

    fn set_model(&mut self, name: &str) {
        match Arc::make_mut(&mut self.kit).set_model(Some(name)) {
            Ok(()) => {
                self.changed("from the next message on");
                if let Some(warning) = self.kit.price_warning() {
                    self.tell_people(Ink::Caution, &warning);
                }
            }
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// Shows what main answers with, from when on.
    fn changed(&self, from: &str) {
        let about = self.about();
        let text = format!("{from}: {}, {}", about.model, about.mode);
        self.show(Seen::Changed(about));
        self.tell_people(Ink::Dim, &text);
    }

    fn set_mode(&mut self, name: &str) {
        let Some(mode) = Mode::from_name(name) else {
            let names: Vec<&str> = Mode::ALL.iter().map(|mode| mode.as_str()).collect();
            let refusal = Refusal::new(Exit::Usage, format!("there is no mode `{name}`"));
            return self.refuse(refusal.hint(format!("there are: {}", names.join(", "))));
        };
        Arc::make_mut(&mut self.kit).set_mode(mode);
        self.tell(FromUser::Mode(mode));
        self.changed("from now on");
    }

    fn tell_people(&self, ink: Ink, text: &str) {
        let columns = tty::size(std::io::stdout()).text_columns();
        self.show(Seen::Shown(wrapped(ink, text, columns, 2)));
    }

    /// Returns the flags of another session: those of this one, but for what
    /// chose it.
    fn next_flags(&self) -> RunFlags {
        RunFlags {
            continue_latest: false,
            resume: None,
            fork_session: false,
            session_id: None,
            name: None,
            ..self.kit.flags.clone()
        }
    }

    fn resume(&mut self, session: String) {
        if *session == *self.kit.session.0 {
            return self.refuse(Refusal::new(Exit::BadInput, "this is that session"));
        }
        self.open(RunFlags { resume: Some(session), ..self.next_flags() });
    }

    fn undo(&mut self, arguments: &str) {
        let flags = match undo::asked(&format!("/undo {arguments}")) {
            Some(Ok(flags)) => flags,
            Some(Err(refusal)) => return self.refuse(refusal),
            None => return,
        };
        self.plan(None, move |kit| rewind::plan_flags(kit, &flags));
    }

    /// Finds out what of the files would go back, and asks.
    fn plan(
        &mut self,
        before: Option<Before>,
        plan: impl FnOnce(&Kit) -> Result<(Vec<Row>, Option<TakeBack>), Refusal> + Send + 'static,
    ) {
        let kit = Arc::clone(&self.kit);
        self.work.push(Box::pin(async move {
            let planning = tokio::task::spawn_blocking(move || plan(&kit));
            let planned = planning.await.expect("a plan is made without panics");
            Done::Planned(planned.map(|(rows, plan)| (rows, plan.map(Box::new))), before)
        }));
    }

    /// Shows what would go back, and asks.
    pub(super) fn planned(
        &mut self,
        (rows, take_back): (Vec<Row>, Option<Box<TakeBack>>),
        before: Option<Before>,
    ) {
        self.show(Seen::Shown(rows));
        let Some(take_back) = take_back else {
            return before.into_iter().for_each(|before| self.rewind(before));
        };
        let item = |text: &str, choice| Item { row: Row::new().text(Ink::Plain, text), choice };
        let others = match &before {
            Some(before) => {
                item("the conversation alone", Choice::Back(before.clone(), Back::Conversation))
            }
            None => item("leave them as they are", Choice::Nothing),
        };
        let items = vec![item("put the files back", Choice::TakeBack), others];
        self.plan = Some(Plan { take_back, before });
        self.show(Seen::Choose(Listing::new("shall they go back?", items)));
    }

    fn take_back(&mut self) {
        let Some(Plan { take_back, before }) = self.plan.take() else { return };
        let (reply, replied) = oneshot::channel();
        if self.asks(Asked::Undo(take_back, reply)) {
            self.work.push(Box::pin(async move { Done::Undone(replied.await.ok(), before) }));
        }
    }

    /// Takes note of what became of the files.
    pub(super) fn undone(&mut self, result: Option<Result<(), NoUndo>>, before: Option<Before>) {
        match result {
            Some(Ok(())) => before.into_iter().for_each(|before| self.rewind(before)),
            Some(Err(error)) => self.refuse(Refusal::because(Exit::Error, &error)),
            // The session is over.
            None => {}
        }
    }

    fn rewind(&mut self, before: Before) {
        let (reply, replied) = oneshot::channel();
        if self.asks(Asked::Rewind(before.to, reply)) {
            let Before { to: _, prompt } = before;
            self.work.push(Box::pin(async move { Done::Rewound(replied.await.ok(), prompt) }));
        }
    }

    /// Takes note of what became of the conversation. What was typed then can be
    /// changed and sent again.
    pub(super) fn rewound(&mut self, result: Option<Result<(), NoRewind>>, prompt: String) {
        match result {
            Some(Ok(())) => {
                let turn = words::short_line(prompt.trim(), PROMPT_CAP);
                let text = match &*turn {
                    "" => "the conversation is as it was before".to_owned(),
                    turn => format!("the conversation is as it was before `{turn}`"),
                };
                self.tell_people(Ink::Dim, &text);
                self.show(Seen::Rewound(prompt));
            }
            Some(Err(error)) => self.refuse(Refusal::because(Exit::Error, &error)),
            // The session is over.
            None => {}
        }
    }

    /// Asks something of the run; tells whether it will hear it.
    fn asks(&mut self, asked: Asked) -> bool {
        let sent = self.asking.as_ref().map(|run| run.try_send(asked));
        let is_heard = matches!(sent, Some(Ok(())));
        if !is_heard {
            self.refuse(Refusal::new(Exit::Error, "the turn before is not over yet"));
        }
        is_heard
    }
}

fn shown(rows: Vec<Row>) -> Result<Seen, Refusal> {
    Ok(Seen::Shown(rows))
}

fn export(kit: &Kit, file: &str) -> Result<Seen, Refusal> {
    let file = Some(file).filter(|file| !file.is_empty());
    let (_, rows): (PathBuf, _) = sessions::export(kit, file)?;
    shown(rows)
}

fn model_list(kit: &Kit) -> Listing {
    let items = models::items(kit).into_iter().map(|item| {
        // Of a preset the name of a model is to follow.
        let choice = match item.typed.ends_with(':') {
            true => Choice::Text(format!("/model {}", item.typed)),
            false => Choice::Model(item.typed),
        };
        Item { row: item.row, choice }
    });
    Listing::new("model", items.collect())
}

fn turn_list(turns: &[rewind::Turn]) -> Result<Listing, Refusal> {
    let zone = TimeZone::system();
    let items: Vec<Item> = turns
        .iter()
        .filter_map(|turn| {
            let before = Before { to: turn.to?, prompt: turn.typed.to_string() };
            Some(Item { row: turn.row(zone.clone()), choice: Choice::Turn(before) })
        })
        .collect();
    if items.is_empty() {
        return Err(Refusal::new(Exit::BadInput, "there is no turn to go back before"));
    }
    let summed_up = turns.iter().filter(|turn| turn.to.is_none()).count();
    let title = match summed_up {
        0 => "go back to before".to_owned(),
        count => {
            let turns = counted(count as u64, "turn");
            format!("go back to before ({turns} summed up since)")
        }
    };
    Ok(Listing::new(title, items))
}

fn back_list(before: &Before) -> Listing {
    let item = |text: &str, what| Item {
        row: Row::new().text(Ink::Plain, text),
        choice: Choice::Back(before.clone(), what),
    };
    let items = vec![
        item("conversation and files", Back::Both),
        item("conversation only", Back::Conversation),
        item("files only", Back::Files),
    ];
    Listing::new("what goes back?", items)
}

fn session_list(kit: &Kit) -> Result<Listing, Refusal> {
    let now = crate::run::now();
    let others = sessions::others(kit)?;
    if others.is_empty() {
        return Err(Refusal::new(Exit::BadInput, "there is no other session of this directory"));
    }
    let item = |listed: sessions::Listed| Item {
        row: listed.row(now),
        choice: Choice::Session(listed.id),
    };
    Ok(Listing::new("resume", others.into_iter().map(item).collect()))
}
