//! From a snippet to code: the last expression's value is kept, and `await` works at the top.
//!
//! Answers to: the engine. Must not: let a source nest deeper than the native stack can follow.

use rustpython_vm::builtins::PyCode;
use rustpython_vm::compiler::ast::visitor::{self, Visitor};
use rustpython_vm::compiler::ast::{self, Expr, Stmt};
use rustpython_vm::compiler::codegen::compile::compile_top;
use rustpython_vm::compiler::codegen::error::CodegenErrorType;
use rustpython_vm::compiler::core::SourceFileBuilder;
use rustpython_vm::compiler::{CompileError, CompileOpts, Mode, parser};
use rustpython_vm::{PyRef, VirtualMachine};

use super::await_at_top;
use super::nesting;

/// The deepest tree of expressions and blocks; CPython gives up at a few thousand too.
const DEEPEST: usize = 2_500;

/// Where the code puts the last expression's value: no name that a program could write.
pub const VALUE: &str = "<value>";

/// Code that can be run.
pub struct Program {
    /// The module's code. Its last expression's value is put under [`VALUE`].
    pub code: PyRef<PyCode>,
    /// Running the code defines a coroutine function called [`await_at_top::NAME`], which is the program.
    pub awaits: bool,
}

/// Why there is none.
pub enum NoProgram {
    /// As the compiler said it.
    Wrong(CompileError),
    /// Nested too deep.
    TooDeep(u32),
    /// The compiler doesn't know a construct.
    Unknown(Option<u32>),
}

/// Compiles a snippet.
pub fn compile(source: &str, file: &str, vm: &VirtualMachine) -> Result<Program, NoProgram> {
    if let Some(line) = nesting::too_deep(source) {
        return Err(NoProgram::TooDeep(line));
    }
    let source_file = SourceFileBuilder::new(file, source).finish();
    let parsed = parser::parse_module(source)
        .map_err(|error| NoProgram::Wrong(CompileError::from_ruff_parse_error(error, &source_file)))?;
    let mut module = parsed.into_syntax();
    let mut depth = Depth::default();
    depth.visit_body(&module.body);
    if depth.over {
        // Dropping the tree recurses too, over frames far smaller than those that were spared.
        return Err(NoProgram::TooDeep(1));
    }
    let awaits = await_at_top::found(&module.body);
    if awaits {
        await_at_top::wrap(&mut module);
    } else {
        keep_value(&mut module);
    }
    let options = CompileOpts::default();
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        compile_top(ast::Mod::Module(module), source_file, Mode::Exec, options)
    }));
    match made {
        Ok(Ok(code)) => Ok(Program { code: vm.ctx.new_code(code), awaits }),
        Ok(Err(error)) if matches!(error.error, CodegenErrorType::NotImplementedYet) => {
            Err(NoProgram::Unknown(error.location.and_then(|at| u32::try_from(at.line.get()).ok())))
        }
        Ok(Err(error)) => Err(NoProgram::Wrong(error.into())),
        Err(_) => Err(NoProgram::Unknown(None)),
    }
}

/// Turns an expression at the end into an assignment to [`VALUE`].
fn keep_value(module: &mut ast::ModModule) {
    let Some(Stmt::Expr(last)) = module.body.pop_if(|last| matches!(last, Stmt::Expr(_))) else { return };
    let target = Expr::Name(ast::ExprName {
        node_index: Default::default(),
        range: last.range,
        id: VALUE.into(),
        ctx: ast::ExprContext::Store,
    });
    let (node_index, range, value) = (last.node_index, last.range, last.value);
    module.body.push(Stmt::Assign(ast::StmtAssign { node_index, range, targets: vec![target], value }));
}

/// Measures the tree without ever going deeper than it allows.
#[derive(Default)]
struct Depth {
    now: usize,
    over: bool,
}

impl Depth {
    fn within(&mut self, walk: impl FnOnce(&mut Self)) {
        if self.now >= DEEPEST {
            self.over = true;
        }
        if !self.over {
            self.now += 1;
            walk(self);
            self.now -= 1;
        }
    }
}

impl<'a> Visitor<'a> for Depth {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.within(|depth| visitor::walk_stmt(depth, stmt));
    }
    fn visit_expr(&mut self, expr: &'a Expr) {
        self.within(|depth| visitor::walk_expr(depth, expr));
    }
    fn visit_pattern(&mut self, pattern: &'a ast::Pattern) {
        self.within(|depth| visitor::walk_pattern(depth, pattern));
    }
}
