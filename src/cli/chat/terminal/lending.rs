//! Others that have the terminal for a while: an editor, a shell, whoever
//! stopped us; and what calls for somebody meanwhile.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::ControlFlow;
use std::process::{Command, ExitStatus};

use super::{MEANWHILE, Terminal, ToTerminal};
use crate::cli::chat::decode::PASTE_CAP;
use crate::cli::chat::desk::Seen;
use crate::cli::chat::tty::{self, Ahead};
use crate::config::Bell;
use crate::report::ink::Ink;

impl Terminal {
    /// Lets another program have the terminal until it ends; `None` if the chat
    /// is over before.
    fn lend(&mut self, command: &mut Command) -> io::Result<Option<ExitStatus>> {
        self.paint()?;
        self.give_screen()?;
        self.is_away = true;
        let mut wanted = None;
        let ended = tty::lend(io::stdin(), command, || {
            match self.inbox.recv_timeout(MEANWHILE) {
                Ok(ToTerminal::Seen(seen)) => self.see(seen),
                // It was typed before, for the chat.
                Ok(ToTerminal::Typed(typed)) => self.typed.push_back(typed),
                Ok(ToTerminal::Over) => self.is_over = true,
                // Whoever wants the screen gets it from that program.
                Ok(ToTerminal::Away(given)) => wanted = Some(given),
                Ok(
                    ToTerminal::Back
                    | ToTerminal::Resized
                    | ToTerminal::Readable
                    | ToTerminal::Interrupted,
                )
                | Err(_) => {}
            }
            if self.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(given) = wanted {
            // As above.
            let _ = given.send(());
            return ended;
        }
        self.is_away = false;
        self.take_screen(Ahead::Other)?;
        self.call_again()?;
        ended
    }

    pub(super) fn edit(&mut self, text: &str) -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix("tine-").suffix(".md").tempfile()?;
        file.write_all(text.as_bytes())?;
        let mut command = tty::editor(&self.environment, file.path());
        let Some(status) = self.lend(&mut command)? else { return Ok(()) };
        if !status.success() {
            self.show(Ink::Caution, "the editor failed; the text is as it was");
            return Ok(());
        }
        // Under its name: editors put another file in its place.
        let mut edited = Vec::new();
        let most = u64::try_from(PASTE_CAP).unwrap_or(u64::MAX);
        File::open(file.path())?.take(most + 1).read_to_end(&mut edited)?;
        if edited.len() > PASTE_CAP {
            self.show(Ink::Caution, "the text has more than 1 MiB; it is as it was");
            return Ok(());
        }
        let edited = String::from_utf8_lossy(&edited).into_owned();
        self.see(Seen::Edited(edited.trim_end_matches('\n').to_owned()));
        Ok(())
    }

    pub(super) fn shell(&mut self, line: &str) -> io::Result<()> {
        for (number, line) in line.lines().enumerate() {
            let mark = if number == 0 { "! " } else { "  " };
            self.show(Ink::Typed, &format!("{mark}{line}"));
        }
        let mut command = tty::shell(&self.environment, line);
        let Some(status) = self.lend(&mut command)? else { return Ok(()) };
        if !status.success() {
            self.show(Ink::Caution, &format!("it ended with {status}"));
        }
        Ok(())
    }

    pub(super) fn suspend(&mut self) -> io::Result<()> {
        self.paint()?;
        self.give_screen()?;
        let stopped = tty::stop();
        self.take_screen(Ahead::Other)?;
        stopped
    }

    /// Calls for what came while another program had the terminal.
    pub(super) fn call_again(&mut self) -> io::Result<()> {
        self.missed_call.take().map_or(Ok(()), |why| self.call(&why))
    }

    pub(super) fn call(&mut self, why: &str) -> io::Result<()> {
        if self.is_away {
            self.missed_call = Some(why.to_owned());
            return Ok(());
        }
        match self.bell {
            Bell::Off => Ok(()),
            Bell::Bell => self.screen.ring(),
            Bell::Osc9 => self.screen.notify(&format!("tine: {why}")),
        }
    }
}
