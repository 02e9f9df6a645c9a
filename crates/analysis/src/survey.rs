//! Imports, features and names of a program.
//!
//! Answers to: `analyze`. Must not: judge. What an engine makes of these is said elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, ExprContext, ModModule, Parameters, Stmt};
use ruff_text_size::Ranged;

use crate::{Feature, FeatureKind, Import, Lines, tables, top};

/// What was found.
pub(crate) struct Survey {
    pub imports: Vec<Import>,
    pub features: Vec<Feature>,
    pub names_used: Vec<String>,
    pub names_set: Vec<String>,
}

pub(crate) fn survey(module: &ModModule, lines: &Lines<'_>) -> Survey {
    let mut walk = Walk {
        lines,
        imports: Vec::new(),
        tries: 0,
        features: BTreeMap::new(),
        read: BTreeSet::new(),
        set: BTreeSet::new(),
        functions: 0,
    };
    walk.visit_body(&module.body);
    let mut features: Vec<Feature> =
        walk.features.iter().map(|(kind, line)| Feature { kind: *kind, line: *line }).collect();
    features.sort_by_key(|feature| (feature.line, feature.kind));
    let names_used = walk.read.difference(&walk.set).map(|name| (*name).to_owned()).collect();
    let names_set = walk.set.iter().map(|name| (*name).to_owned()).collect();
    Survey { imports: walk.imports, features, names_used, names_set }
}

struct Walk<'a> {
    lines: &'a Lines<'a>,
    /// How many `try` statements are around.
    tries: u32,
    imports: Vec<Import>,
    features: BTreeMap<FeatureKind, u32>,
    read: BTreeSet<&'a str>,
    set: BTreeSet<&'a str>,
    functions: usize,
}

impl<'a> Walk<'a> {
    fn feature(&mut self, kind: FeatureKind, node: impl Ranged) {
        let line = self.lines.line(node);
        let first = self.features.entry(kind).or_insert(line);
        *first = line.min(*first);
    }

    fn import(&mut self, module: &str, node: impl Ranged) {
        let line = self.lines.line(&node);
        if let Some((_, kind)) = tables::MODULE_FEATURES.iter().find(|(name, _)| *name == top(module)) {
            self.feature(*kind, node);
        }
        self.imports.push(Import { module: module.to_owned(), guarded: self.tries > 0, line });
    }

    fn parameters(&mut self, parameters: &'a Parameters) {
        self.set.extend(parameters.iter().map(|parameter| parameter.name().as_str()));
    }

    fn call(&mut self, call: &'a ruff_python_ast::ExprCall) {
        let literal = match call.arguments.args.first() {
            Some(Expr::StringLiteral(text)) => Some(text.value.to_str()),
            _ => None,
        };
        match (call.func.as_ref(), literal) {
            (Expr::Name(name), Some(module)) if name.id == "__import__" => self.import_by_call(module, call),
            (Expr::Attribute(attribute), Some(module)) if attribute.attr.as_str() == "import_module" => {
                self.import_by_call(module, call);
            }
            (Expr::Name(name), _) => {
                if let Some((_, kind)) = tables::CALL_FEATURES.iter().find(|(called, _)| *called == name.id.as_str()) {
                    self.feature(*kind, call);
                }
            }
            _ => {}
        }
    }

    fn class(&mut self, class: &'a ruff_python_ast::StmtClassDef) {
        self.set.insert(&class.name);
        if class
            .arguments
            .as_ref()
            .is_some_and(|arguments| !arguments.args.is_empty() || !arguments.keywords.is_empty())
        {
            self.feature(FeatureKind::Inheritance, class);
        }
        if !class.decorator_list.is_empty() {
            self.feature(FeatureKind::Decorators, class);
        }
        for statement in &class.body {
            if let Stmt::FunctionDef(method) = statement
                && !method.decorator_list.is_empty()
            {
                self.feature(FeatureKind::MethodDecorators, method);
            }
        }
    }

    /// A module that is fetched by a call may never be, or its lack may be looked for.
    fn import_by_call(&mut self, module: &str, call: &ruff_python_ast::ExprCall) {
        self.tries += 1;
        self.import(module, call);
        self.tries -= 1;
    }

    fn import_from(&mut self, from: &'a ruff_python_ast::StmtImportFrom) {
        if from.level == 0
            && let Some(module) = &from.module
        {
            self.import(module, from);
        }
        for alias in &from.names {
            if alias.name.as_str() == "*" {
                self.feature(FeatureKind::StarImport, from);
                continue;
            }
            self.set.insert(alias.asname.as_ref().unwrap_or(&alias.name));
        }
    }
}

impl<'a> Visitor<'a> for Walk<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => {
                self.set.insert(&function.name);
                self.parameters(&function.parameters);
                if !function.decorator_list.is_empty() {
                    self.feature(FeatureKind::Decorators, function);
                }
                self.functions += 1;
                walk_stmt(self, statement);
                self.functions -= 1;
                return;
            }
            Stmt::ClassDef(class) => self.class(class),
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.import(&alias.name, import);
                    self.set.insert(alias.asname.as_ref().map_or_else(|| top(&alias.name), |name| name.as_str()));
                }
            }
            Stmt::ImportFrom(from) => self.import_from(from),
            Stmt::Delete(delete) => self.feature(FeatureKind::Delete, delete),
            Stmt::Match(matched) => self.feature(FeatureKind::Match, matched),
            Stmt::TypeAlias(alias) => self.feature(FeatureKind::TypeAlias, alias),
            Stmt::Try(attempt) if attempt.is_star => self.feature(FeatureKind::ExceptionGroups, attempt),
            Stmt::With(with) if with.is_async => self.feature(FeatureKind::AsyncBlocks, with),
            Stmt::For(each) if each.is_async => self.feature(FeatureKind::AsyncBlocks, each),
            _ => {}
        }
        if let Stmt::Try(attempt) = statement {
            self.tries += 1;
            for handler in &attempt.handlers {
                let ruff_python_ast::ExceptHandler::ExceptHandler(handler) = handler;
                self.set.extend(handler.name.as_ref().map(|name| name.as_str()));
            }
            walk_stmt(self, statement);
            self.tries -= 1;
            return;
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) => {
                match name.ctx {
                    ExprContext::Load => self.read.insert(&name.id),
                    ExprContext::Store | ExprContext::Del | ExprContext::Invalid => self.set.insert(&name.id),
                };
            }
            Expr::Lambda(lambda) => {
                if let Some(parameters) = &lambda.parameters {
                    self.parameters(parameters);
                }
            }
            Expr::Yield(_) | Expr::YieldFrom(_) => self.feature(FeatureKind::Generators, expression),
            Expr::Await(_) if self.functions == 0 => self.feature(FeatureKind::TopLevelAwait, expression),
            Expr::Call(call) => self.call(call),
            Expr::Attribute(attribute) if tables::REFLECTION.contains(&attribute.attr.as_str()) => {
                self.feature(FeatureKind::Reflection, expression);
            }
            _ => {}
        }
        walk_expr(self, expression);
    }
}
