//! What shells and `man` know of the command line: both are made from the flags
//! themselves, and printed.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use super::args::Arguments;
use super::exit::{Exit, Refusal};

/// Prints what completes the command line in a shell.
pub(super) fn run(shell: Shell) -> Result<Exit, Refusal> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "tine", &mut script);
    Ok(print(&script))
}

/// Prints the manual page: all commands on one.
pub(super) fn manual() -> Result<Exit, Refusal> {
    let page = page().map_err(|error| {
        Refusal::new(Exit::Error, format!("the manual page cannot be made: {error}"))
    })?;
    Ok(print(&page))
}

fn print(bytes: &[u8]) -> Exit {
    let mut stdout = io::stdout().lock();
    // Nobody reads: then there is nobody to tell.
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
    Exit::Done
}

fn page() -> io::Result<Vec<u8>> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let main = Man::new(command.clone());
    let mut page = Vec::new();
    main.render_title(&mut page)?;
    main.render_name_section(&mut page)?;
    main.render_synopsis_section(&mut page)?;
    main.render_description_section(&mut page)?;
    main.render_options_section(&mut page)?;
    writeln!(page, ".SH COMMANDS")?;
    for command in command.get_subcommands() {
        describe(command.clone(), &mut page)?;
    }
    Ok(page)
}

/// Writes a command and those below it, each with its own flags: those of all
/// commands stand above.
fn describe(command: clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    let command = command.mut_args(|arg| match arg.is_global_set() {
        true => arg.hide(true),
        false => arg,
    });
    let man = Man::new(command.clone());
    let mut parts = Vec::new();
    man.render_synopsis_section(&mut parts)?;
    man.render_description_section(&mut parts)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut parts)?;
    }
    let name = command.get_bin_name().unwrap_or(command.get_name());
    writeln!(page, ".SS {name}")?;
    // Their headings would be those of the page.
    for line in String::from_utf8_lossy(&parts).lines().filter(|line| !line.starts_with(".SH")) {
        writeln!(page, "{line}")?;
    }
    for below in command.get_subcommands() {
        describe(below.clone(), page)?;
    }
    Ok(())
}
