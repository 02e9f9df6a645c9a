//! `await` at the top of a program: the program becomes the body of a coroutine whose names are the module's.
//!
//! Answers to: `compile`. Must not: move anything to another line; it changes the parsed tree and no text.

use std::collections::BTreeSet;

use rustpython_vm::compiler::ast::visitor::transformer::{self, Transformer};
use rustpython_vm::compiler::ast::visitor::{self, Visitor};
use rustpython_vm::compiler::ast::{self, Expr, ExprContext, Identifier, Pattern, Stmt};

/// What the coroutine function is called, as tracebacks call a module's body.
pub const NAME: &str = "<module>";

/// Whether the program awaits outside of any function.
pub fn found(body: &[Stmt]) -> bool {
    let mut top = Awaits(false);
    top.visit_body(body);
    top.0
}

struct Awaits(bool);

impl<'a> Visitor<'a> for Awaits {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => return,
            Stmt::For(at) if at.is_async => self.0 = true,
            Stmt::With(at) if at.is_async => self.0 = true,
            _ => {}
        }
        if !self.0 {
            visitor::walk_stmt(self, stmt);
        }
    }
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Lambda(_) => return,
            Expr::Await(_) => self.0 = true,
            _ => {}
        }
        if !self.0 {
            visitor::walk_expr(self, expr);
        }
    }
    fn visit_comprehension(&mut self, comprehension: &'a ast::Comprehension) {
        self.0 |= comprehension.is_async;
        visitor::walk_comprehension(self, comprehension);
    }
}

/// Wraps the program. What must stand at a module's start stays there.
pub fn wrap(module: &mut ast::ModModule) {
    let mut names = Names::default();
    names.visit_body(&module.body);
    let (kept, mut body): (Vec<Stmt>, Vec<Stmt>) = std::mem::take(&mut module.body).into_iter().partition(is_future);
    for stmt in &mut body {
        Unannotated.visit_stmt(stmt);
    }
    if let Some(Stmt::Expr(last)) = body.pop_if(|last| matches!(last, Stmt::Expr(_))) {
        let value = Some(last.value);
        body.push(Stmt::Return(ast::StmtReturn { node_index: last.node_index, range: last.range, value }));
    }
    let range = module.range;
    let named = |name: &str| Identifier::new(name, range);
    if !names.0.is_empty() {
        let names = names.0.iter().map(|name| named(name)).collect();
        body.insert(0, Stmt::Global(ast::StmtGlobal { node_index: Default::default(), range, names }));
    }
    module.body = kept;
    module.body.push(Stmt::FunctionDef(ast::StmtFunctionDef {
        node_index: Default::default(),
        range,
        is_async: true,
        decorator_list: Vec::new(),
        name: named(NAME),
        type_params: None,
        parameters: Box::default(),
        returns: None,
        body,
    }));
}

fn is_future(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::ImportFrom(import) if import.module.as_ref().is_some_and(|name| name.as_str() == "__future__"))
}

/// The names that the program binds outside of any function or class.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    fn add(&mut self, name: &Identifier) {
        self.0.insert(name.as_str().to_owned());
    }
}

impl<'a> Visitor<'a> for Names {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => self.add(&def.name),
            Stmt::ClassDef(def) => self.add(&def.name),
            _ => visitor::walk_stmt(self, stmt),
        }
    }
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Lambda(_) => {}
            Expr::Name(name) if !matches!(name.ctx, ExprContext::Load) => {
                self.0.insert(name.id.as_str().to_owned());
            }
            _ => visitor::walk_expr(self, expr),
        }
    }
    /// A comprehension's own names are its own.
    fn visit_comprehension(&mut self, comprehension: &'a ast::Comprehension) {
        self.visit_expr(&comprehension.iter);
        for condition in &comprehension.ifs {
            self.visit_expr(condition);
        }
    }
    fn visit_alias(&mut self, alias: &'a ast::Alias) {
        match &alias.asname {
            Some(name) => self.add(name),
            None => {
                let first = alias.name.as_str().split('.').next().unwrap_or_default();
                if first != "*" {
                    self.0.insert(first.to_owned());
                }
            }
        }
    }
    fn visit_except_handler(&mut self, handler: &'a ast::ExceptHandler) {
        let ast::ExceptHandler::ExceptHandler(inner) = handler;
        if let Some(name) = &inner.name {
            self.add(name);
        }
        visitor::walk_except_handler(self, handler);
    }
    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(at) => at.name.as_ref(),
            Pattern::MatchStar(at) => at.name.as_ref(),
            Pattern::MatchMapping(at) => at.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.add(name);
        }
        visitor::walk_pattern(self, pattern);
    }
}

/// Takes annotations off the module's own names: a function may not annotate a global.
struct Unannotated;

impl Transformer for Unannotated {
    fn visit_stmt(&self, stmt: &mut Stmt) {
        match stmt {
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {}
            Stmt::AnnAssign(at) => {
                let range = at.range;
                *stmt = match at.value.take() {
                    Some(value) => Stmt::Assign(ast::StmtAssign {
                        node_index: Default::default(),
                        range,
                        targets: vec![(*at.target).clone()],
                        value,
                    }),
                    None => Stmt::Pass(ast::StmtPass { node_index: Default::default(), range }),
                };
            }
            _ => transformer::walk_stmt(self, stmt),
        }
    }
}
