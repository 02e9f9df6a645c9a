//! `ringfence completions` and `ringfence man`: made from the command line itself.
//!
//! Answers to: `lib`. Must not: hold a second list of commands.

use clap::CommandFactory;
use clap_complete::Shell;
use ringfence_api::Code;

use crate::args::Cli;
use crate::fault::Fault;
use crate::printer::Printer;
use crate::root::Root;

/// The completion script of a shell.
pub fn completions(shell: Shell, printer: &mut Printer) -> Result<u8, Fault> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ringfence", &mut script);
    printer.text(&String::from_utf8_lossy(&script));
    Ok(0)
}

/// The manual page, with every command.
pub fn man(root: &Root, printer: &mut Printer) -> Result<u8, Fault> {
    let mut command = Cli::command().version(root.version);
    command.build();
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command.clone()).render(&mut page).and_then(|()| {
        command.get_subcommands().filter(|sub| sub.get_name() != "help").try_for_each(|sub| {
            let man = clap_mangen::Man::new(sub.clone());
            page.extend_from_slice(format!(".SH RINGFENCE {}\n", sub.get_name().to_uppercase()).as_bytes());
            man.render_description_section(&mut page)?;
            man.render_synopsis_section(&mut page)?;
            man.render_options_section(&mut page)
        })
    });
    rendered.map_err(|error| Fault::new(Code::Internal, format!("no manual page: {error}")))?;
    printer.text(&String::from_utf8_lossy(&page));
    Ok(0)
}
