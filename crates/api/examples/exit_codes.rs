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
}
