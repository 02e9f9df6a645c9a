//! What a program needs, told from its source: imports, syntax, names, and which engine runs it right.
//!
//! Answers to: `session`, which chooses a tier and an engine. Must not: do I/O, run anything, or trust the source: it
//! is measured before it is parsed, so that neither its size nor its nesting can hurt the host.
//! INVARIANT: [`Fit::Right`] is said only of programs made of what was seen to run exactly as in CPython.
#![forbid(unsafe_code)]

mod kinds;
mod monty;
mod name;
mod stdlib;
mod survey;
mod tables;
#[cfg(test)]
mod tests;

use ringfence_types::{Engine, Nesting, TooDeep};
use ruff_python_ast::ModModule;
use ruff_text_size::{Ranged, TextRange};

pub use name::{InputNameFault, input_name};
pub use stdlib::{is_stdlib, stdlib_modules};

/// The largest source that is looked at.
pub const MAX_SOURCE: usize = 8 << 20;

/// Source that is too large or too deep to be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SourceFault {
    /// Over [`MAX_SOURCE`].
    #[error("the program has {bytes} bytes, at most {MAX_SOURCE} are allowed; pass large data as a file or an input")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Brackets, indentation or operators nest too deeply.
    #[error("the program nests too deeply: {0}")]
    TooDeep(#[from] TooDeep),
}

/// A module that a program imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The dotted name: `os.path`.
    pub module: String,
    /// Whether it stands under `try`: the program is ready for a module that is not there.
    pub guarded: bool,
    /// The line, from 1.
    pub line: u32,
}

/// Something in a program that an engine or a tier may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// What it is.
    pub kind: FeatureKind,
    /// The line of its first use, from 1.
    pub line: u32,
}

macro_rules! feature_kinds {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// The kinds of [`Feature`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FeatureKind {
            $($(#[$doc])* $name,)*
        }
        impl FeatureKind {
            /// As a user would say it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}
feature_kinds! {
    /// `class A(B)`.
    Inheritance => "class inheritance",
    /// `yield`, `yield from`.
    Generators => "generators",
    /// A decorator on a method.
    MethodDecorators => "decorators on methods",
    /// A decorator on a function or class.
    Decorators => "decorators",
    /// `async with`, `async for`.
    AsyncBlocks => "async with and async for",
    /// `del`.
    Delete => "the del statement",
    /// `except*`.
    ExceptionGroups => "except*",
    /// `match`.
    Match => "the match statement",
    /// `from m import *`.
    StarImport => "import *",
    /// `type X = …`.
    TypeAlias => "type aliases",
    /// `eval`, `exec`, `compile`.
    Eval => "eval and exec",
    /// `open`, and the modules that reach files.
    Files => "file access",
    /// `input`.
    Input => "input()",
    /// `threading` and its kind.
    Threads => "threads",
    /// Modules that reach the network.
    Network => "network access",
    /// Modules that start processes.
    Processes => "starting processes",
    /// `await` outside of any function.
    TopLevelAwait => "await at the top level",
    /// `__subclasses__`, `__globals__` and others that lead out of an object.
    Reflection => "walking the interpreter's internals",
}

/// Invalid syntax, for the engine to report the Python way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxFault {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// The parser's message.
    pub message: String,
}

/// How an engine would do on a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// It does all of it as CPython does.
    Right,
    /// It surely lacks something.
    Unsupported {
        /// What, as a user would say it.
        feature: String,
        /// The line, from 1.
        line: u32,
    },
    /// It may do something differently.
    Doubtful {
        /// What, and where.
        why: String,
    },
}

/// What a program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Absent where the program parses.
    pub syntax_error: Option<SyntaxFault>,
    /// Every import, in order.
    pub imports: Vec<Import>,
    /// Each kind of feature once, at its first line, in order of line.
    pub features: Vec<Feature>,
    /// Names that the program reads and nowhere sets: built-ins and host functions. Sorted.
    pub names_used: Vec<String>,
    /// Names that the program sets, in whatever scope. Sorted.
    pub names_set: Vec<String>,
    /// Whether a run has a value to show.
    pub last_is_expression: bool,
    monty: Fit,
}

/// Looks a program over. Invalid syntax is not a fault: the engine reports it.
pub fn analyze(code: &str) -> Result<Program, SourceFault> {
    analyze_in(code, &[])
}

/// Looks over a program in which `known` names are set already: its inputs, and what earlier snippets of the session
/// set. All other names that it doesn't set are taken for built-ins and host functions.
pub fn analyze_in(code: &str, known: &[&str]) -> Result<Program, SourceFault> {
    /// Deeper than this, the tree is walked on a thread with a stack of its own.
    const SHALLOW: usize = 150;
    const STACK: usize = 256 << 20;
    if code.len() > MAX_SOURCE {
        return Err(SourceFault::TooLarge { bytes: code.len() });
    }
    let nesting = Nesting::measure(code)?;
    if nesting.chain + nesting.brackets + nesting.indents <= SHALLOW {
        return Ok(look_over(code, known));
    }
    let deep = std::thread::scope(|scope| {
        let walk = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || look_over(code, known));
        walk.ok().and_then(|walk| walk.join().ok())
    });
    let too_deep = TooDeep { what: "too many operators in one expression", line: 1, allowed: SHALLOW };
    deep.ok_or(SourceFault::TooDeep(too_deep))
}

/// How `engine` would do on `program`.
pub fn fit(program: &Program, engine: Engine) -> Fit {
    match engine {
        Engine::Monty => program.monty.clone(),
        Engine::Rustpython => fit_rustpython(program),
    }
}

impl Program {
    /// The top-level modules that are not of the standard library, sorted.
    pub fn packages(&self) -> Vec<&str> {
        packages_of(self.imports.iter())
    }

    /// Those of them that the program can't do without: imports under `try` are left out.
    pub fn packages_needed(&self) -> Vec<&str> {
        packages_of(self.imports.iter().filter(|import| !import.guarded))
    }
}

fn packages_of<'a>(imports: impl Iterator<Item = &'a Import>) -> Vec<&'a str> {
    let mut packages: Vec<&str> = imports.map(|import| top(&import.module)).filter(|name| !is_stdlib(name)).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn fit_rustpython(program: &Program) -> Fit {
    let lacking = |import: &Import| {
        let is = |name: &str| name == top(&import.module) || name == import.module;
        tables::RUSTPYTHON_LACKS.iter().find(|(module, _)| is(module))
    };
    for import in program.imports.iter().filter(|import| !import.guarded) {
        if let Some((module, reason)) = lacking(import) {
            return Fit::Unsupported { feature: format!("module {module}: {reason}"), line: import.line };
        }
        if !is_stdlib(top(&import.module)) {
            let feature = format!("module {}: not in the standard library", top(&import.module));
            return Fit::Unsupported { feature, line: import.line };
        }
    }
    Fit::Right
}

fn look_over(code: &str, known: &[&str]) -> Program {
    let lines = Lines::new(code);
    match ruff_python_parser::parse_module(code) {
        Ok(parsed) => {
            let module: ModModule = parsed.into_syntax();
            let survey = survey::survey(&module, &lines);
            Program {
                syntax_error: None,
                monty: monty::check(&module, &lines, known),
                imports: survey.imports,
                features: survey.features,
                names_used: survey.names_used,
                names_set: survey.names_set,
                last_is_expression: module.body.last().is_some_and(ruff_python_ast::Stmt::is_expr_stmt),
            }
        }
        Err(error) => {
            let (line, column) = lines.place(error.location);
            let message = error.error.to_string();
            Program {
                // Monty's parser is the same one, so it says the same.
                monty: Fit::Doubtful { why: format!("line {line} is not valid Python: {message}") },
                syntax_error: Some(SyntaxFault { line, column, message }),
                imports: Vec::new(),
                features: Vec::new(),
                names_used: Vec::new(),
                names_set: Vec::new(),
                last_is_expression: false,
            }
        }
    }
}

/// The part of a dotted name before the first dot.
fn top(module: &str) -> &str {
    module.split('.').next().unwrap_or(module)
}

/// Where lines begin, to turn offsets into lines.
struct Lines<'a> {
    code: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(code: &'a str) -> Self {
        let bytes = code.as_bytes();
        let after = |(at, byte): (usize, &u8)| match byte {
            b'\n' => Some(at + 1),
            b'\r' if bytes.get(at + 1) != Some(&b'\n') => Some(at + 1),
            _ => None,
        };
        Self { code, starts: std::iter::once(0).chain(bytes.iter().enumerate().filter_map(after)).collect() }
    }

    fn line(&self, node: impl Ranged) -> u32 {
        self.place(node.range()).0
    }

    fn place(&self, range: TextRange) -> (u32, u32) {
        let at = range.start().to_usize();
        let line = self.starts.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|line| self.starts.get(line)).copied().unwrap_or(0);
        let column = self.code.get(start..at).map_or(0, |text| text.chars().count());
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column + 1).unwrap_or(u32::MAX))
    }
}
