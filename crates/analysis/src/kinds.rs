//! Which kinds of value an expression may have, told without running it.
//!
//! Answers to: the check for monty. Must not: be sure of anything that depends on the run: names are looked at over the
//! whole program at once, parameters and host values may be anything.

use std::collections::HashMap;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, Number, Operator, Parameters, Stmt, UnaryOp};

use crate::tables;

/// A set of kinds, one bit each.
pub(crate) type Kinds = u16;

pub(crate) const INT: Kinds = 1;
pub(crate) const FLOAT: Kinds = 2;
pub(crate) const BOOL: Kinds = 4;
pub(crate) const STR: Kinds = 8;
pub(crate) const BYTES: Kinds = 16;
pub(crate) const LIST: Kinds = 32;
pub(crate) const TUPLE: Kinds = 64;
pub(crate) const DICT: Kinds = 128;
pub(crate) const NONE: Kinds = 256;
pub(crate) const OTHER: Kinds = 512;
/// A set: its order differs between the engines.
pub(crate) const SET: Kinds = 1024;
/// What is an iterator in CPython and a list in monty.
pub(crate) const LAZY: Kinds = 2048;
/// Anything, except sets and iterators: the check lets those nowhere from where they could come back unseen.
pub(crate) const ANY: Kinds = INT | FLOAT | BOOL | STR | BYTES | LIST | TUPLE | DICT | NONE | OTHER;
pub(crate) const NUMBER: Kinds = INT | FLOAT | BOOL;

/// What each name of a program may hold, in whatever scope.
#[derive(Default)]
pub(crate) struct Names<'a> {
    kinds: HashMap<&'a str, Kinds>,
    changed: bool,
}

impl<'a> Names<'a> {
    /// `known` names are set beforehand, to anything.
    pub(crate) fn of(body: &'a [Stmt], known: &[&'a str]) -> Self {
        let mut names = Self::default();
        known.iter().for_each(|name| names.learn(name, ANY));
        // Kinds only grow, by at most 12 bits a name. Programs settle in two or three rounds.
        for _ in 0..8 {
            names.changed = false;
            names.visit_body(body);
            if !names.changed {
                return names;
            }
        }
        names.kinds.values_mut().for_each(|kinds| *kinds |= ANY);
        names
    }

    /// Whether the program sets this name anywhere.
    pub(crate) fn sets(&self, name: &str) -> bool {
        self.kinds.contains_key(name)
    }

    fn learn(&mut self, name: &'a str, kinds: Kinds) {
        let known = self.kinds.entry(name).or_insert(0);
        self.changed |= *known | kinds != *known;
        *known |= kinds;
    }

    fn assign(&mut self, target: &'a Expr, kinds: Kinds) {
        match target {
            Expr::Name(name) => self.learn(&name.id, kinds),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|target| self.assign(target, ANY)),
            Expr::List(list) => list.elts.iter().for_each(|target| self.assign(target, ANY)),
            Expr::Starred(starred) => self.assign(&starred.value, LIST),
            _ => {}
        }
    }

    fn parameters(&mut self, parameters: &'a Parameters) {
        parameters.iter().for_each(|parameter| self.learn(parameter.name(), ANY));
    }

    /// The kinds of what iterating over `iterable` gives.
    fn item(&self, iterable: &Expr) -> Kinds {
        match iterable {
            Expr::Call(call) => match call.func.as_ref() {
                Expr::Name(name) if !self.sets(&name.id) => match name.id.as_str() {
                    "range" => INT,
                    "enumerate" | "zip" => TUPLE,
                    _ => ANY,
                },
                _ => ANY,
            },
            Expr::List(list) => list.elts.iter().fold(0, |kinds, item| kinds | self.kinds(item)),
            _ => ANY,
        }
    }

    /// The kinds that `expression` may have.
    pub(crate) fn kinds(&self, expression: &Expr) -> Kinds {
        match expression {
            Expr::NumberLiteral(number) => match number.value {
                Number::Int(_) => INT,
                Number::Float(_) => FLOAT,
                Number::Complex { .. } => OTHER,
            },
            Expr::StringLiteral(_) | Expr::FString(_) => STR,
            Expr::BytesLiteral(_) => BYTES,
            Expr::BooleanLiteral(_) | Expr::Compare(_) => BOOL,
            Expr::NoneLiteral(_) => NONE,
            Expr::List(_) | Expr::ListComp(_) => LIST,
            Expr::Tuple(_) => TUPLE,
            Expr::Dict(_) | Expr::DictComp(_) => DICT,
            Expr::Set(_) | Expr::SetComp(_) => SET,
            Expr::Generator(_) => LAZY,
            Expr::BoolOp(operation) => operation.values.iter().fold(0, |kinds, value| kinds | self.kinds(value)),
            Expr::Named(named) => self.kinds(&named.value),
            Expr::If(choice) => self.kinds(&choice.body) | self.kinds(&choice.orelse),
            Expr::UnaryOp(operation) => match operation.op {
                UnaryOp::Not => BOOL,
                UnaryOp::Invert | UnaryOp::UAdd | UnaryOp::USub => number(self.kinds(&operation.operand)),
            },
            Expr::BinOp(operation) => binary(operation.op, self.kinds(&operation.left), self.kinds(&operation.right)),
            Expr::Name(name) => self.kinds.get(name.id.as_str()).copied().filter(|kinds| *kinds != 0).unwrap_or(ANY),
            Expr::Call(call) => self.call(&call.func),
            Expr::Subscript(subscript) => {
                let base = self.kinds(&subscript.value);
                if base == STR || matches!(subscript.slice.as_ref(), Expr::Slice(_)) { base } else { ANY }
            }
            Expr::Starred(starred) => self.kinds(&starred.value),
            Expr::Lambda(_) | Expr::EllipsisLiteral(_) | Expr::Slice(_) | Expr::TString(_) => OTHER,
            Expr::Attribute(_) | Expr::Await(_) | Expr::Yield(_) | Expr::YieldFrom(_) | Expr::IpyEscapeCommand(_) => {
                ANY
            }
        }
    }

    fn call(&self, function: &Expr) -> Kinds {
        match function {
            Expr::Name(name) if !self.sets(&name.id) => {
                let known = tables::BUILTINS.iter().find(|(builtin, ..)| *builtin == name.id.as_str());
                known.map_or(ANY, |(_, kinds, _)| *kinds)
            }
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                if matches!(name, "copy") {
                    return self.kinds(&attribute.value);
                }
                tables::METHODS.iter().find(|(method, ..)| *method == name).map_or(ANY, |(_, kinds, _)| *kinds)
            }
            _ => ANY,
        }
    }
}

fn number(kinds: Kinds) -> Kinds {
    if kinds & BOOL == 0 { kinds } else { (kinds & !BOOL) | INT }
}

fn binary(operator: Operator, left: Kinds, right: Kinds) -> Kinds {
    let both = left | right;
    let whole = |kinds: Kinds| kinds & !(INT | BOOL) == 0;
    match operator {
        // Of lists only the views of a dict have these, and give sets.
        Operator::Sub | Operator::BitAnd | Operator::BitOr | Operator::BitXor if left == LIST || right == LIST => SET,
        Operator::BitAnd | Operator::BitOr | Operator::BitXor => both,
        Operator::Div => FLOAT | (both & OTHER),
        Operator::LShift | Operator::RShift => INT,
        Operator::Pow if whole(both) => INT | FLOAT,
        Operator::FloorDiv | Operator::Mod if whole(both) => INT,
        Operator::Mod if left == STR => STR,
        _ => number(both),
    }
}

impl<'a> Visitor<'a> for Names<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => {
                self.learn(&function.name, OTHER);
                self.parameters(&function.parameters);
            }
            Stmt::ClassDef(class) => self.learn(&class.name, OTHER),
            Stmt::Assign(assign) => {
                let kinds = self.kinds(&assign.value);
                assign.targets.iter().for_each(|target| self.assign(target, kinds));
            }
            Stmt::AugAssign(assign) => {
                let kinds = binary(assign.op, self.kinds(&assign.target), self.kinds(&assign.value));
                self.assign(&assign.target, kinds);
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    let kinds = self.kinds(value);
                    self.assign(&assign.target, kinds);
                }
            }
            Stmt::For(each) => {
                let kinds = self.item(&each.iter);
                self.assign(&each.target, kinds);
            }
            Stmt::With(with) => with.items.iter().for_each(|item| {
                item.optional_vars.iter().for_each(|target| self.assign(target, OTHER));
            }),
            Stmt::Import(import) => import.names.iter().for_each(|alias| {
                self.learn(alias.asname.as_ref().map_or_else(|| crate::top(&alias.name), |name| name.as_str()), OTHER);
            }),
            Stmt::ImportFrom(from) => {
                from.names.iter().for_each(|alias| self.learn(alias.asname.as_ref().unwrap_or(&alias.name), OTHER));
            }
            Stmt::Try(attempt) => attempt.handlers.iter().for_each(|handler| {
                let ruff_python_ast::ExceptHandler::ExceptHandler(handler) = handler;
                handler.name.iter().for_each(|name| self.learn(name, OTHER));
            }),
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Named(named) => {
                let kinds = self.kinds(&named.value);
                self.assign(&named.target, kinds);
            }
            Expr::Lambda(lambda) => lambda.parameters.iter().for_each(|parameters| self.parameters(parameters)),
            _ => {}
        }
        walk_expr(self, expression);
    }

    fn visit_comprehension(&mut self, comprehension: &'a ruff_python_ast::Comprehension) {
        let kinds = self.item(&comprehension.iter);
        self.assign(&comprehension.target, kinds);
        ruff_python_ast::visitor::walk_comprehension(self, comprehension);
    }
}
