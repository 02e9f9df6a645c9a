//! The command line: its commands, options and help texts. Parsed once, into types that can't be wrong.
//!
//! Answers to: `lib`, which dispatches. Must not: open a file, or decide anything.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ringfence_audit::event_names;
use ringfence_policy::LimitOverrides;
use ringfence_types::{ByteSize, Engine as Interpreter, EnvironmentName, Span, Tenant, TierName};

use crate::loading::USUAL;

/// Runs Python that AI agents wrote, without trusting it.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, max_term_width = 100, propagate_version = false, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 completed, 1 raised, 2 usage or bad policy, 3 denied, 4 limited, 5 unsupported or tier unavailable,
6 crashed, 7 audit failed, 8 output can't be written, 9 audit log not anchored, 130 killed or cancelled.

Examples:
  ringfence run -c \"print('hi'); 6*7\"
  ringfence run report.py --policy policy.toml --exports tools.py
  ringfence explain report.py
  ringfence kill --all";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program: its output as it comes, then its value, as in a notebook
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run a command that is not Python in the process tier's jail: its output as bytes, its exit code as this one's
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(ExecArgs),
    /// Run line after line in one session, with history
    #[command(after_help = "Commands inside: :help, :files, :snapshot FILE, :quit")]
    Repl(ReplArgs),
    /// Show which tier would run a program, and why not the others; runs nothing
    #[command(after_help = "Example:\n  ringfence explain report.py --policy policy.toml")]
    Explain(ExplainArgs),
    /// Try every tier and folder for real: ready, degraded or unusable, with the remedy
    Doctor(JsonFlag),
    /// List the sessions of every Ringfence process of this user
    Ps(JsonFlag),
    /// Show what every session of this user uses, live; `k` ends one
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArgs),
    /// End sessions in every Ringfence process of this user, at once
    #[command(after_help = KILL_EXAMPLES)]
    Kill(KillArgs),
    /// Make sessions stand still: no processor time, wall and idle clocks stopped, until `thaw`
    #[command(after_help = FREEZE_EXAMPLES)]
    Freeze(FreezeArgs),
    /// Let sessions go on that `freeze` made stand still
    Thaw(FreezeArgs),
    /// Release kill switches that `kill --hold` set
    Resume(ResumeArgs),
    /// List the kill switches that are set
    Holds(JsonFlag),
    /// Make, list and remove locked environments of packages, which policies name
    #[command(subcommand)]
    Env(EnvCommand),
    /// Check and show policies
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Show, verify and export audit logs
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Write a completion script for a shell
    #[command(
        after_help = "Example:\n  ringfence completions bash > ~/.local/share/bash-completion/completions/ringfence"
    )]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Serve the Python package: frames over standard input and output, or at a socket
    #[command(hide = true)]
    Stdio {
        /// Listen at this unix socket instead of standard input and output
        #[arg(long)]
        listen: Option<PathBuf>,
    },
    /// Write the manual page
    #[command(after_help = "Example:\n  ringfence man > ringfence.1 && man ./ringfence.1")]
    Man,
}

const RUN_EXAMPLES: &str = "\
Examples:
  ringfence run -c \"print('hi'); 6*7\"
  ringfence run report.py --policy policy.toml --input 'city=\"Oslo\"' --input days=3
  ringfence run report.py --exports tools.py --wall 10s --memory 128MiB
  ringfence run report.py --file data.csv:/workspace/data.csv --json
  echo '1+1' | ringfence run -

Without --policy nothing is allowed but computing: no functions, no files, no network, 5 s, 64 MiB.
With --exports and no --policy, the functions of that file may be called.";

const EXEC_EXAMPLES: &str = "\
Examples:
  ringfence exec -- ls -l /
  ringfence exec --file data.csv:/workspace/data.csv -- sort -n data.csv
  tar c . | ringfence exec --wall 1min -- sh -c 'tar x && grep -rc TODO .'
  ringfence exec --policy policy.toml --json -- make test

It sees the system's tools under /usr and /bin, read-only, and what the policy mounts. PATH is
the folder of the tier's CPython, /usr/bin and /bin; no variable of this shell is passed on; it
starts in /workspace. Standard input is passed on; there is no terminal inside. Without
--policy: no network, 5 s, 64 MiB, 64 KiB of output, 16 processes, and a /workspace of 64 MiB in
memory.

Exit code: the command's own where it ended by itself, 128 and the signal's number where a
signal ended it. A limit, a refusal or output that was cut keeps the codes of `ringfence run`; 5
where there is no such command inside. Each comes with a line on standard error; --json has both
apart.";

const KILL_EXAMPLES: &str = "\
Examples:
  ringfence kill run_0123…          one run (see `ringfence ps`)
  ringfence kill --all --hold       everything, and nothing new until `ringfence resume --all`
  ringfence kill --function send_mail --hold --reason \"wrong recipients\"";

const FREEZE_EXAMPLES: &str = "\
Examples:
  ringfence freeze run_0123…          one run (see `ringfence ps`)
  ringfence freeze --all --reason \"a look first\"
  ringfence thaw --all

A frozen session keeps its memory and its files; its lifetime goes on. `kill` ends it all the same.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  ringfence audit verify                                       the log of this user, with the key and head beside it
  ringfence audit verify copy.jsonl --key kept-elsewhere.pub   with a key that whoever wrote the log can't replace
  ringfence audit verify part.jsonl --unanchored               a part of a log: what is there, and no more

A log is anchored by its signed head (audit.jsonl.head) and the public key that signed it (audit.jsonl.pub).";

/// What every command with a session takes.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// Policy file; without one nothing is allowed but computing
    #[arg(long, short, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The one tier to use: embedded, wasm, process, container, microvm, remote, cluster
    #[arg(long, value_name = "TIER")]
    pub tier: Option<TierName>,
    /// The interpreter of the embedded tier
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    pub engine: EngineChoice,
    /// The CPython of the process tier, where the policy names none [default: python3]
    #[arg(long, value_name = "PYTHON")]
    pub python: Option<String>,
    /// Python file whose `@sandbox_export` functions the program may call; it runs outside, trusted
    #[arg(long, value_name = "TOOLS.py")]
    pub exports: Option<PathBuf>,
    /// Put a file of this machine into the session
    #[arg(long = "file", value_name = "HOST:GUEST")]
    pub files: Vec<String>,
    /// Whose work it is; limits, rates and kill switches are kept apart by tenant
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub tenant: Tenant,
    /// Audit log, a file; `-` is refused [default: the policy's, else audit.jsonl in the state folder]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Let the program's control sequences reach the terminal
    #[arg(long)]
    pub raw: bool,
    /// Limits that replace the policy's.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Limits on the command line.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Real time of one run, such as 5s
    #[arg(long, value_name = "SPAN")]
    pub wall: Option<Span>,
    /// Processor time of one run, such as 5s
    #[arg(long, value_name = "SPAN")]
    pub cpu: Option<Span>,
    /// Memory, such as 64MiB
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,
    /// Output and value together, such as 64KiB
    #[arg(long, value_name = "SIZE")]
    pub output: Option<ByteSize>,
    /// Processes and threads at once
    #[arg(long, value_name = "COUNT")]
    pub processes: Option<u32>,
    /// Calls of host functions in one run
    #[arg(long, value_name = "COUNT")]
    pub host_calls: Option<u32>,
    /// One call of a host function, such as 30s
    #[arg(long, value_name = "SPAN")]
    pub call: Option<Span>,
    /// Reading the program, and loading the file of host functions
    #[arg(long, value_name = "SPAN", default_value_t = USUAL)]
    pub load: Span,
}

impl LimitArgs {
    /// As the policy takes them.
    pub fn overrides(&self) -> LimitOverrides {
        LimitOverrides {
            wall: self.wall,
            cpu: self.cpu,
            memory: self.memory,
            output: self.output,
            processes: self.processes,
            host_calls: self.host_calls,
            call: self.call,
            ..LimitOverrides::default()
        }
    }
}

/// The interpreter, or the one that fits the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// Picked by what the program needs
    Auto,
    /// Starts fastest, knows a subset of Python, can be snapshotted
    Monty,
    /// Knows most of the language and its standard library
    Rustpython,
}

impl EngineChoice {
    /// The interpreter that is insisted on.
    pub fn wanted(self) -> Option<Interpreter> {
        match self {
            Self::Auto => None,
            Self::Monty => Some(Interpreter::Monty),
            Self::Rustpython => Some(Interpreter::Rustpython),
        }
    }
}

/// Where the program is.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ProgramArgs {
    /// Python file; `-` reads the program from standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The program itself
    #[arg(short = 'c', value_name = "CODE")]
    pub code: Option<String>,
}

/// `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The program.
    #[command(flatten)]
    pub program: ProgramArgs,
    /// The session.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Set a name in the program to a value before it runs
    #[arg(long = "input", value_name = "NAME=JSON")]
    pub inputs: Vec<String>,
    /// What the program reads as its standard input; `-` is this command's
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// Keep what it changed in copy-on-write mounts in this new or empty folder
    #[arg(long, value_name = "DIR")]
    pub changes: Option<PathBuf>,
    /// Print the outcome as JSON and nothing else
    #[arg(long)]
    pub json: bool,
    /// Don't show the value
    #[arg(long, short)]
    pub quiet: bool,
}

/// `exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
    /// Policy file; without one nothing is allowed but computing
    #[arg(long, short, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The CPython whose environment the command sees, where the policy names none [default: python3]
    #[arg(long, value_name = "PYTHON")]
    pub python: Option<String>,
    /// Put a file of this machine into the session
    #[arg(long = "file", value_name = "HOST:GUEST")]
    pub files: Vec<String>,
    /// Set a variable of the command's environment
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub environment: Vec<String>,
    /// Where the command starts [default: /workspace, or /tmp where there is none]
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<String>,
    /// Whose work it is; limits and kill switches are kept apart by tenant
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub tenant: Tenant,
    /// Audit log [default: the policy's, else audit.jsonl in the state folder]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Keep what it changed in copy-on-write mounts in this new or empty folder
    #[arg(long, value_name = "DIR")]
    pub changes: Option<PathBuf>,
    /// Let the command's control sequences reach the terminal
    #[arg(long)]
    pub raw: bool,
    /// Print the outcome as JSON and nothing else
    #[arg(long)]
    pub json: bool,
    /// Limits that replace the policy's.
    #[command(flatten)]
    pub limits: ExecLimits,
}

/// The limits that mean something for a command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct ExecLimits {
    /// Real time, such as 5s
    #[arg(long, value_name = "SPAN")]
    pub wall: Option<Span>,
    /// Processor time, such as 5s
    #[arg(long, value_name = "SPAN")]
    pub cpu: Option<Span>,
    /// Memory, files in memory included, such as 64MiB
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,
    /// Output that is passed on, such as 64KiB
    #[arg(long, value_name = "SIZE")]
    pub output: Option<ByteSize>,
    /// Processes and threads at once
    #[arg(long, value_name = "COUNT")]
    pub processes: Option<u32>,
}

impl ExecArgs {
    /// As a session is asked for.
    pub fn session(&self) -> SessionArgs {
        SessionArgs {
            policy: self.policy.clone(),
            tier: Some(TierName::Process),
            engine: EngineChoice::Auto,
            python: self.python.clone(),
            exports: None,
            files: self.files.clone(),
            tenant: self.tenant.clone(),
            audit: self.audit.clone(),
            raw: self.raw,
            limits: LimitArgs {
                wall: self.limits.wall,
                cpu: self.limits.cpu,
                memory: self.limits.memory,
                output: self.limits.output,
                processes: self.limits.processes,
                host_calls: None,
                call: None,
                load: USUAL,
            },
        }
    }
}

/// `repl`.
#[derive(Debug, Args)]
pub struct ReplArgs {
    /// The session.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Go on from a snapshot that `:snapshot` wrote
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
}

/// `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The program.
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Policy file
    #[arg(long, short, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The one tier to look at
    #[arg(long, value_name = "TIER")]
    pub tier: Option<TierName>,
    /// The interpreter of the embedded tier
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    pub engine: EngineChoice,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A command that can print JSON.
#[derive(Debug, Args)]
pub struct JsonFlag {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const TOP_EXAMPLES: &str = "\
Examples:
  ringfence top
  ringfence top --once            one table, for scripts
  ringfence top --json            the same as JSON

CPU% is of one processor, since the last look. Keys: arrows choose a session, k ends it, q quits.";

/// `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print one table and end
    #[arg(long)]
    pub once: bool,
    /// Print JSON and end
    #[arg(long)]
    pub json: bool,
    /// Between two looks, such as 1s
    #[arg(long, value_name = "SPAN", default_value = "1s")]
    pub interval: Span,
}

/// `kill`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("target").required(true).multiple(false).args(["id", "all", "tenant", "function"]))]
pub struct KillArgs {
    /// A run or a session, as `ringfence ps` lists them
    #[arg(value_name = "RUN|SESSION")]
    pub id: Option<String>,
    /// Every session
    #[arg(long)]
    pub all: bool,
    /// Every session of a tenant
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<Tenant>,
    /// Every session that is in a call of this host function
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// Keep the kill switch set until `ringfence resume`
    #[arg(long, conflicts_with = "id")]
    pub hold: bool,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// `freeze` and `thaw`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("target").required(true).multiple(false).args(["id", "all", "tenant"]))]
pub struct FreezeArgs {
    /// A run or a session, as `ringfence ps` lists them
    #[arg(value_name = "RUN|SESSION")]
    pub id: Option<String>,
    /// Every session
    #[arg(long)]
    pub all: bool,
    /// Every session of a tenant
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<Tenant>,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// `resume`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("target").required(true).multiple(false).args(["id", "all", "tenant", "function"]))]
pub struct ResumeArgs {
    /// What is held, as `ringfence holds` lists it: `all`, `tenant:NAME` or `function:NAME`
    #[arg(value_name = "TARGET")]
    pub id: Option<String>,
    /// Every kill switch that is set
    #[arg(long)]
    pub all: bool,
    /// The one on a tenant
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<Tenant>,
    /// The one on a host function
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// `env`.
#[derive(Debug, Subcommand)]
pub enum EnvCommand {
    /// Make an environment: every package fetched as a wheel, hashed, and installed from exactly that
    #[command(after_help = ENV_EXAMPLES)]
    Create(EnvCreateArgs),
    /// List the environments of this user
    List(JsonFlag),
    /// Remove an environment; sessions that are in it may fail
    Remove {
        /// Its name
        name: EnvironmentName,
    },
}

const ENV_EXAMPLES: &str = "\
Examples:
  ringfence env create data --requirements requirements.txt
  ringfence env create data --requirements requirements.txt --wheels ./wheels
  ringfence env create data --requirements requirements.txt --python python3.12 --replace

A policy names it:
  [python]
  env = \"data\"

Packages come from the registry that pip is set up for, as wheels only, so that none of their
code runs meanwhile. What was installed is in `requirements.lock` with its hashes; the digest
over it is in the audit log of each session that uses it.";

/// `env create`.
#[derive(Debug, Args)]
pub struct EnvCreateArgs {
    /// Its name, as policies have it
    pub name: EnvironmentName,
    /// What it holds: a file of requirements, as pip reads them
    #[arg(long, short, value_name = "FILE")]
    pub requirements: PathBuf,
    /// Take packages from this folder of wheels, and from nowhere else
    #[arg(long, value_name = "DIR")]
    pub wheels: Option<PathBuf>,
    /// The CPython that it is made from
    #[arg(long, value_name = "PYTHON", default_value = "python3")]
    pub python: String,
    /// Make it anew where there is one of that name
    #[arg(long)]
    pub replace: bool,
}

/// `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check a policy file; every fault with its line
    Check {
        /// The file
        file: PathBuf,
    },
    /// Write the JSON Schema of policy files
    Schema,
    /// Write what every key of a policy file means, its default, and which tiers keep it, as Markdown
    Reference,
    /// Show a policy with every default written out
    Show {
        /// The file; the closed policy where none is given
        file: Option<PathBuf>,
    },
}

/// `audit`.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Show a log, one line a record
    Show(AuditShowArgs),
    /// Verify a log: 0 where it is whole, 7 where it was changed, 9 where nothing proves that it is whole
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify {
        /// The log [default: the one in the state folder]
        file: Option<PathBuf>,
        /// The public key, or a file that holds it [default: the one beside the log]
        #[arg(long, value_name = "HEX|FILE")]
        key: Option<String>,
        /// Take what is there for the whole, where the signed head beside the log is gone: 0 instead of 9
        #[arg(long)]
        unanchored: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a log in a format of other tools, one event a line
    Export {
        /// The log [default: the one in the state folder]
        file: Option<PathBuf>,
        /// Which format
        #[arg(long, value_enum, default_value_t = ExportFormat::Ocsf)]
        format: ExportFormat,
    },
}

/// `audit show`.
#[derive(Debug, Args)]
pub struct AuditShowArgs {
    /// The log [default: the one in the state folder]
    pub file: Option<PathBuf>,
    /// Print each record as JSON
    #[arg(long)]
    pub json: bool,
    /// Only records of this run or session
    #[arg(long, value_name = "RUN|SESSION")]
    pub run: Option<String>,
    /// Only records of this event, such as call_denied
    #[arg(long, value_name = "EVENT", value_parser = event)]
    pub event: Option<String>,
    /// Only the last records
    #[arg(long, value_name = "COUNT")]
    pub tail: Option<usize>,
}

/// An event by its name in logs.
fn event(given: &str) -> Result<String, String> {
    if event_names().any(|name| name == given) {
        return Ok(given.to_owned());
    }
    let shown: String = given.chars().take(80).collect();
    let distance = |name: &&str| strsim::damerau_levenshtein(&given.replace('-', "_").to_lowercase(), name);
    Err(match event_names().min_by_key(distance) {
        Some(name) if distance(&name) <= 4 => format!("there is no event `{shown}`; did you mean `{name}`?"),
        _ => format!("there is no event `{shown}`; use one of: {}", event_names().collect::<Vec<_>>().join(", ")),
    })
}

/// A format of other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Open Cybersecurity Schema Framework
    Ocsf,
}
