//! Asks the person at the terminal before a call goes ahead, where the policy wants that.
//!
//! Answers to: `run` and `repl`. Must not: ask where nobody sits, or show a character that steers the terminal.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};

use ringfence_bridge::{ApprovalRequest, Approve, Verdict};

use crate::repr::repr;

/// Longest text of one argument in the question.
const SHOWN_MAX: usize = 500;

/// Asks at the controlling terminal.
#[derive(Debug)]
pub struct AtTerminal;

/// The person at the terminal; none where there is no terminal.
pub fn at_terminal() -> Option<AtTerminal> {
    OpenOptions::new().read(true).write(true).open("/dev/tty").ok().map(|_| AtTerminal)
}

impl Approve for AtTerminal {
    fn ask(&self, request: ApprovalRequest) -> std::pin::Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        let question = question(&request);
        Box::pin(async move {
            // A thread of its own: the run's clock and its kill switch go on while the person thinks.
            let answered = tokio::task::spawn_blocking(move || ask(&question)).await;
            match answered {
                Ok(Ok(true)) => Verdict::Approve { by: Some("the terminal".to_owned()) },
                Ok(Ok(false)) => Verdict::Deny { reason: Some("refused at the terminal".to_owned()) },
                Ok(Err(_)) | Err(_) => Verdict::Deny { reason: Some("the terminal could not be asked".to_owned()) },
            }
        })
    }
}

fn question(request: &ApprovalRequest) -> String {
    let argument = |(name, value): &(String, ringfence_types::Value)| {
        format!("{name}={}", ringfence_audit::escape(&repr(value), SHOWN_MAX))
    };
    let arguments: Vec<String> = request.arguments.iter().map(argument).collect();
    format!("ringfence: allow {}({})? [y/N] ", request.function, arguments.join(", "))
}

fn ask(question: &str) -> std::io::Result<bool> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    terminal.write_all(question.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(terminal).read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
