//! Prints the table of statuses and errors as Markdown: `cargo xtask generate` writes it into `docs/exit-codes.md`.
#![expect(clippy::print_stdout, reason = "it prints")]

use ringfence_api::{Row, rows};

fn main() {
    println!(
        "What a run, or a request that comes to no run, means to each front door. Exit codes are the command line's."
    );
    println!(
        "An MCP code of 0 means that the tool's result carries the status; no Python class means that nothing is raised.\n"
    );
    println!("| status or error | exit code | HTTP | MCP | Python exception |");
    println!("| --- | --- | --- | --- | --- |");
    for Row { name, exit, http, mcp, python } in rows() {
        let python = if python.is_empty() { "-".to_owned() } else { format!("`{python}`") };
        println!("| `{name}` | {exit} | {http} | {mcp} | {python} |");
    }
    println!("\n## A program that leaves by itself\n");
    println!("`sys.exit()` and `sys.exit(0)` are `raised` with exit code 0: the program did not fail. Any other");
    println!(
        "`sys.exit(n)` is `raised` with exit code 1, so that a program can't pose as one of the codes above. Its own"
    );
    println!("code is `exception.exit_code` of the outcome, which `--json` prints; text given to `sys.exit` is on the");
    println!("program's standard error, and the code is 1.\n");
    println!(
        "`output_failed` takes the place of the outcome's own code: what was to be said of it is lost. A reader of a"
    );
    println!("pipe that went away is no fault.");
}
