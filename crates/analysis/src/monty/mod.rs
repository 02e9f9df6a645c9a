//! Whether monty 0.0.23 runs a program exactly as CPython does: the statements.
//!
//! Answers to: `analyze`. Must not: guess in monty's favour. Each node is either known to be right, surely missing, or
//! doubtful; what isn't listed is doubtful. The lists are in `tables`.

mod expressions;

use std::collections::HashSet;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{ExceptHandler, Expr, ExprContext, ModModule, Operator, Parameters, Stmt, StmtTry};
use ruff_text_size::Ranged;

use crate::kinds::{BOOL, BYTES, DICT, FLOAT, Kinds, LAZY, NUMBER, Names, OTHER, SET, STR};
use crate::{Fit, Lines, tables, top};

/// Nothing found so far, or what ends the search.
type Found = Result<(), Fit>;

pub(crate) fn check(module: &ModModule, lines: &Lines<'_>, known: &[&str]) -> Fit {
    let mut facts = Facts::default();
    facts.visit_body(&module.body);
    let names = Names::of(&module.body, known);
    let check = Check { lines, names: &names, facts: &facts, place: Place::default() };
    check.body(&module.body).err().unwrap_or(Fit::Right)
}

/// What is known of the whole program before it is judged.
#[derive(Default)]
struct Facts<'a> {
    /// Local name of each imported module, and of each name imported from one: `json`, `datetime.date`.
    modules: Vec<(&'a str, String)>,
    functions: HashSet<&'a str>,
    methods: HashSet<&'a str>,
    attributes: HashSet<&'a str>,
    /// A handler would hide the exception that a gap of monty raises.
    hides_gaps: bool,
    /// A function of the program is used as a value, so that it may be called from within a library function.
    escapes: bool,
    mentions_infinity: bool,
    /// A handler names what may be a `KeyError`: monty shows every key as text.
    shows_keys: bool,
    /// A handler names what may be a `ValueError`: monty's dates know fewer forms.
    hides_value_errors: bool,
    /// Coroutines are gathered: an error of a host function passes by their handlers.
    gathers: bool,
}

/// Where in the program the check stands.
#[derive(Clone, Copy, Default)]
struct Place {
    in_function: bool,
    in_class: bool,
    in_lambda: bool,
    in_handler: bool,
    in_coroutine: bool,
}

#[derive(Clone, Copy)]
struct Check<'a> {
    lines: &'a Lines<'a>,
    names: &'a Names<'a>,
    facts: &'a Facts<'a>,
    place: Place,
}

impl<'a> Check<'a> {
    fn unsupported(&self, feature: &str, node: impl Ranged) -> Found {
        Err(Fit::Unsupported { feature: feature.to_owned(), line: self.lines.line(node) })
    }

    fn doubtful(&self, what: &str, node: impl Ranged) -> Found {
        Err(Fit::Doubtful { why: format!("{what} at line {}", self.lines.line(node)) })
    }

    fn body(&self, body: &[Stmt]) -> Found {
        body.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&self, statement: &Stmt) -> Found {
        match statement {
            Stmt::FunctionDef(function) => self.function(function),
            Stmt::ClassDef(class) => self.class(class),
            Stmt::Return(done) => self.values(done.value.as_deref()),
            Stmt::Assign(assign) => {
                assign.targets.iter().try_for_each(|target| self.target(target))?;
                if assign.targets.iter().all(Expr::is_name_expr) {
                    self.unordered(&assign.value)
                } else {
                    self.value(&assign.value)
                }
            }
            Stmt::AugAssign(assign) => {
                self.target(&assign.target)?;
                self.unordered(&assign.value)?;
                self.operation(assign.op, &assign.target, &assign.value, assign)
            }
            Stmt::AnnAssign(assign) => {
                self.annotation(&assign.annotation)?;
                self.target(&assign.target)?;
                self.values(assign.value.as_deref())
            }
            Stmt::For(each) => self.for_loop(each),
            Stmt::While(repeat) => {
                self.unordered(&repeat.test)?;
                self.body(&repeat.body)?;
                self.body(&repeat.orelse)
            }
            Stmt::If(branch) => {
                self.unordered(&branch.test)?;
                self.body(&branch.body)?;
                branch.elif_else_clauses.iter().try_for_each(|clause| {
                    clause.test.iter().try_for_each(|test| self.unordered(test))?;
                    self.body(&clause.body)
                })
            }
            Stmt::Raise(raise) => self.raise(raise),
            Stmt::Try(attempt) => self.attempt(attempt),
            Stmt::Assert(assert) => {
                self.unordered(&assert.test)?;
                self.values(assert.msg.as_deref())
            }
            Stmt::Import(import) => import.names.iter().try_for_each(|alias| self.import(&alias.name, None, import)),
            Stmt::ImportFrom(from) => self.import_from(from),
            Stmt::Expr(expression) => self.value(&expression.value),
            Stmt::Global(_) | Stmt::Nonlocal(_) | Stmt::Pass(_) | Stmt::Break(_) | Stmt::Continue(_) => Ok(()),
            Stmt::Delete(delete) => self.unsupported("the del statement", delete),
            Stmt::TypeAlias(alias) => self.unsupported("type aliases", alias),
            Stmt::Match(matched) => self.unsupported("the match statement", matched),
            Stmt::With(with) if with.is_async => self.unsupported("async with", with),
            Stmt::With(with) => self.doubtful("a with statement", with),
            Stmt::IpyEscapeCommand(escape) => self.unsupported("escape commands", escape),
        }
    }

    fn values<'b>(&self, values: impl IntoIterator<Item = &'b Expr>) -> Found {
        values.into_iter().try_for_each(|value| self.value(value))
    }

    fn function(&self, function: &ruff_python_ast::StmtFunctionDef) -> Found {
        if let Some(decorator) = function.decorator_list.first() {
            return self.doubtful("a decorator", decorator);
        }
        if function.type_params.is_some() {
            return self.doubtful("type parameters", function);
        }
        self.parameters(&function.parameters)?;
        function.returns.iter().try_for_each(|returns| self.annotation(returns))?;
        let place = Place { in_function: true, in_handler: false, in_coroutine: function.is_async, ..self.place };
        Check { place, ..*self }.body(&function.body)
    }

    fn parameters(&self, parameters: &Parameters) -> Found {
        for parameter in parameters.iter() {
            parameter.annotation().into_iter().try_for_each(|annotation| self.annotation(annotation))?;
            self.values(parameter.default())?;
        }
        Ok(())
    }

    /// CPython evaluates annotations and monty doesn't: only what surely evaluates is right.
    fn annotation(&self, annotation: &Expr) -> Found {
        match annotation {
            Expr::NoneLiteral(_) | Expr::StringLiteral(_) | Expr::EllipsisLiteral(_) => Ok(()),
            Expr::Name(name) if tables::TYPE_NAMES.contains(&name.id.as_str()) => Ok(()),
            Expr::Name(name) if self.names.sets(&name.id) => Ok(()),
            Expr::Subscript(subscript) => {
                self.annotation(&subscript.value)?;
                self.annotation(&subscript.slice)
            }
            Expr::Tuple(tuple) => tuple.elts.iter().try_for_each(|part| self.annotation(part)),
            Expr::List(list) => list.elts.iter().try_for_each(|part| self.annotation(part)),
            Expr::BinOp(either) if either.op == Operator::BitOr => {
                self.annotation(&either.left)?;
                self.annotation(&either.right)
            }
            other => self.doubtful("an annotation that must be evaluated", other),
        }
    }

    fn class(&self, class: &ruff_python_ast::StmtClassDef) -> Found {
        if class.arguments.as_ref().is_some_and(|from| !from.args.is_empty() || !from.keywords.is_empty()) {
            return self.unsupported("class inheritance", class);
        }
        let dataclass = |decorator: &Expr| matches!(decorator, Expr::Name(name) if self.module_name(&name.id) == Some("dataclasses.dataclass"));
        if !class.decorator_list.iter().all(|decorator| dataclass(&decorator.expression)) {
            return self.doubtful("a class decorator", class);
        }
        if class.type_params.is_some() || self.place.in_function || self.place.in_class {
            return self.doubtful("a nested or generic class", class);
        }
        let inside = Check { place: Place { in_class: true, ..self.place }, ..*self };
        class.body.iter().try_for_each(|member| inside.member(member, !class.decorator_list.is_empty()))
    }

    fn member(&self, member: &Stmt, dataclass: bool) -> Found {
        match member {
            Stmt::FunctionDef(method) if !method.decorator_list.is_empty() => {
                self.unsupported("decorators on methods", method)
            }
            Stmt::FunctionDef(method) => {
                let name = method.name.as_str();
                let special = name.starts_with("__");
                if (special && (dataclass || !tables::DUNDERS.contains(&name))) || method.is_async {
                    return self.doubtful(&format!("the method {name}"), method);
                }
                self.function(method)
            }
            Stmt::AnnAssign(field) if field.target.is_name_expr() => {
                self.annotation(&field.annotation)?;
                match field.value.as_deref() {
                    None => Ok(()),
                    Some(value) if value.is_literal_expr() => Ok(()),
                    Some(value) => self.doubtful("a default that is not a literal", value),
                }
            }
            Stmt::Assign(assign) if !dataclass && assign.targets.iter().all(Expr::is_name_expr) => {
                self.value(&assign.value)
            }
            Stmt::Expr(text) if text.value.is_string_literal_expr() || text.value.is_ellipsis_literal_expr() => Ok(()),
            Stmt::Pass(_) => Ok(()),
            other => self.doubtful("a class body with other statements", other),
        }
    }

    fn target(&self, target: &Expr) -> Found {
        match target {
            Expr::Name(name) if name.id.starts_with("__") => self.doubtful("a special name", name),
            Expr::Name(_) => Ok(()),
            Expr::Tuple(tuple) => tuple.elts.iter().try_for_each(|part| self.target(part)),
            Expr::List(list) => list.elts.iter().try_for_each(|part| self.target(part)),
            Expr::Starred(starred) => self.target(&starred.value),
            Expr::Subscript(subscript) if subscript.slice.is_slice_expr() => {
                self.unsupported("assignment to a slice", subscript)
            }
            Expr::Subscript(subscript) => {
                self.value(&subscript.value)?;
                self.key(&subscript.slice)?;
                self.value(&subscript.slice)
            }
            Expr::Attribute(attribute) if attribute.value.is_name_expr() && !attribute.attr.starts_with("__") => {
                self.value(&attribute.value)
            }
            other => self.doubtful("an unusual assignment target", other),
        }
    }

    fn for_loop(&self, each: &ruff_python_ast::StmtFor) -> Found {
        if each.is_async {
            return self.unsupported("async for", each);
        }
        self.target(&each.target)?;
        self.iterable(&each.iter)?;
        if let Some(call) = each.iter.as_call_expr() {
            let walked: Vec<&str> =
                call.arguments.args.iter().filter_map(Expr::as_name_expr).map(|name| name.id.as_str()).collect();
            let mut mutations = Mutations { of: &walked, found: false };
            mutations.visit_body(&each.body);
            if mutations.found {
                return self.doubtful("a list that is changed while it is walked", each);
            }
        }
        self.body(&each.body)?;
        self.body(&each.orelse)
    }

    fn raise(&self, raise: &ruff_python_ast::StmtRaise) -> Found {
        let Some(exception) = &raise.exc else { return Ok(()) };
        if raise.cause.is_some() || self.place.in_handler {
            return self.doubtful("an exception with a cause", raise);
        }
        let (name, args) = match exception.as_ref() {
            Expr::Call(call) if call.arguments.keywords.is_empty() => (call.func.as_ref(), &*call.arguments.args),
            other => (other, &[] as &[Expr]),
        };
        let known = name.as_name_expr().is_some_and(|name| self.is_exception(&name.id));
        let text = args.iter().all(|arg| self.names.kinds(arg) == STR);
        if !known || args.len() > 1 || !text {
            return self.doubtful("an exception that is not a built-in with one text", raise);
        }
        self.values(args)
    }

    fn is_exception(&self, name: &str) -> bool {
        tables::EXCEPTIONS.contains(&name) && !self.names.sets(name)
    }

    fn attempt(&self, attempt: &StmtTry) -> Found {
        if attempt.is_star {
            return self.unsupported("except*", attempt);
        }
        if self.facts.gathers && self.place.in_coroutine && Awaits::in_body(&attempt.body) {
            return self.doubtful("a try around an await, in coroutines that are gathered,", attempt);
        }
        self.body(&attempt.body)?;
        let inside = Check { place: Place { in_handler: true, ..self.place }, ..*self };
        for handler in &attempt.handlers {
            let ExceptHandler::ExceptHandler(handler) = handler;
            let kinds = handler.type_.as_deref().map(alternatives).unwrap_or_default();
            if !kinds.iter().all(|kind| kind.as_name_expr().is_some_and(|name| self.is_exception(&name.id))) {
                return self.doubtful("a handler for an unusual exception", handler);
            }
            inside.body(&handler.body)?;
        }
        self.body(&attempt.orelse)?;
        self.body(&attempt.finalbody)
    }

    fn import(&self, module: &str, name: Option<&str>, node: impl Ranged) -> Found {
        let Some((_, known)) = tables::MODULES.iter().find(|(known, _)| *known == module) else {
            return self.unsupported(&format!("module {}", top(module)), node);
        };
        match name {
            Some(name) if listed(known, name).is_none() => self.doubtful(&format!("{module}.{name}"), node),
            _ => Ok(()),
        }
    }

    fn import_from(&self, from: &ruff_python_ast::StmtImportFrom) -> Found {
        let Some(module) = from.module.as_ref().filter(|_| from.level == 0) else {
            return self.unsupported("relative imports", from);
        };
        for alias in &from.names {
            match alias.name.as_str() {
                "*" => return self.unsupported("import *", from),
                name => self.import(module, Some(name), from)?,
            }
        }
        Ok(())
    }

    /// The dotted name that a local name stands for, if it was imported.
    fn module_name(&self, name: &str) -> Option<&str> {
        self.facts.modules.iter().find(|(local, _)| *local == name).map(|(_, module)| module.as_str())
    }

    /// An operator between two values.
    fn operation(&self, operator: Operator, left: &Expr, right: &Expr, node: impl Ranged) -> Found {
        let (first, second) = (self.names.kinds(left), self.names.kinds(right));
        let both = first | second;
        let only = |kinds: Kinds| first & !kinds == 0 || second & !kinds == 0;
        match operator {
            Operator::MatMult => self.unsupported("matrix multiplication", node),
            Operator::Mod if first & !(STR | BYTES) == 0 => self.unsupported("% formatting", node),
            Operator::Add | Operator::Sub | Operator::Mod if only(BOOL) => {
                self.unsupported("arithmetic with bool", node)
            }
            Operator::Add | Operator::Sub | Operator::Mod
                if both & BOOL != 0 && (self.facts.hides_gaps || !self.vague(left, right)) =>
            {
                self.doubtful("arithmetic that may meet a bool", node)
            }
            Operator::Mod if self.facts.hides_gaps && first & (STR | BYTES) != 0 => {
                self.doubtful("% on what may be text", node)
            }
            Operator::BitOr if only(DICT) => self.unsupported("| between dicts", node),
            Operator::BitOr if self.facts.hides_gaps && both & DICT != 0 => {
                self.doubtful("| on what may be dicts", node)
            }
            Operator::Pow if !small_power(left, right) => self.doubtful("a power that may be large or complex", node),
            Operator::LShift if small_integer(right).is_none() => self.doubtful("a shift that may be large", node),
            Operator::FloorDiv | Operator::Mod if self.facts.mentions_infinity && both & NUMBER != 0 => {
                self.doubtful("division near infinity", node)
            }
            Operator::FloorDiv if second & FLOAT != 0 => self.doubtful("// by what may be no whole number", node),
            Operator::Div | Operator::FloorDiv
                if self.facts.hides_gaps && first & second & OTHER != 0 && self.imports("datetime") =>
            {
                self.doubtful("division of what may be timedeltas", node)
            }
            Operator::Sub | Operator::BitAnd | Operator::BitOr | Operator::BitXor => Ok(()),
            _ if both & (SET | LAZY) != 0 => self.doubtful("an operator on a set", node),
            _ => Ok(()),
        }
    }

    /// Whether nothing at all is known of one side: then a bool is no likelier than anything else.
    fn vague(&self, left: &Expr, right: &Expr) -> bool {
        let unknown = |side: &Expr| {
            let kinds = self.names.kinds(side);
            kinds & BOOL == 0 || kinds & crate::kinds::ANY == crate::kinds::ANY
        };
        unknown(left) && unknown(right)
    }
}

/// The exception types of a handler.
fn alternatives(kind: &Expr) -> Vec<&Expr> {
    match kind {
        Expr::Tuple(tuple) => tuple.elts.iter().collect(),
        other => vec![other],
    }
}

/// The keywords of a name in a list such as `dumps(indent) pi`, or `None` where it isn't there.
fn listed<'t>(list: &'t str, name: &str) -> Option<&'t str> {
    list.split_whitespace().find_map(|entry| match entry.split_once('(') {
        Some((known, keywords)) if known == name => Some(keywords.trim_end_matches(')')),
        None if entry == name => Some(""),
        _ => None,
    })
}

fn small_integer(expression: &Expr) -> Option<u8> {
    match expression {
        Expr::NumberLiteral(literal) => match &literal.value {
            ruff_python_ast::Number::Int(number) => number.as_u8().filter(|number| *number <= 64),
            _ => None,
        },
        _ => None,
    }
}

fn small_power(left: &Expr, right: &Expr) -> bool {
    match (small_integer(left), small_integer(right)) {
        (_, Some(power)) if power <= 3 => true,
        (Some(base), Some(power)) => base <= 10 && power <= 18,
        _ => false,
    }
}

/// Whether something is awaited other than `gather` itself, whose errors arrive where it is awaited.
#[derive(Default)]
struct Awaits(bool);

impl Awaits {
    fn in_body(body: &[Stmt]) -> bool {
        let mut awaits = Self::default();
        awaits.visit_body(body);
        awaits.0
    }
}

impl<'a> Visitor<'a> for Awaits {
    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Await(wait) = expression {
            self.0 |= !wait.value.as_call_expr().is_some_and(|call| is_named(&call.func, "gather"));
        }
        walk_expr(self, expression);
    }
}

/// Whether an expression is that name, or ends in it: `gather`, `asyncio.gather`.
fn is_named(expression: &Expr, name: &str) -> bool {
    match expression {
        Expr::Name(found) => found.id.as_str() == name,
        Expr::Attribute(found) => found.attr.as_str() == name,
        _ => false,
    }
}

/// Changes of the lists with these names.
struct Mutations<'a> {
    of: &'a [&'a str],
    found: bool,
}

impl<'a> Visitor<'a> for Mutations<'a> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        let changed = match expression {
            Expr::Call(call) => match call.func.as_ref() {
                Expr::Attribute(method) => method.value.as_name_expr(),
                _ => None,
            },
            Expr::Subscript(subscript) if subscript.ctx != ExprContext::Load => subscript.value.as_name_expr(),
            Expr::Name(name) if name.ctx != ExprContext::Load => Some(name),
            _ => None,
        };
        self.found |= changed.is_some_and(|name| self.of.contains(&name.id.as_str()));
        walk_expr(self, expression);
    }
}

impl<'a> Visitor<'a> for Facts<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => {
                self.functions.insert(&function.name);
            }
            Stmt::ClassDef(class) => {
                for member in &class.body {
                    match member {
                        Stmt::FunctionDef(method) => {
                            self.methods.insert(&method.name);
                        }
                        Stmt::AnnAssign(field) => self.attribute(&field.target),
                        Stmt::Assign(assign) => assign.targets.iter().for_each(|target| self.attribute(target)),
                        _ => {}
                    }
                }
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    let local = alias.asname.as_ref().map_or_else(|| top(&alias.name), |name| name.as_str());
                    self.modules.push((local, alias.name.to_string()));
                }
            }
            Stmt::ImportFrom(from) => {
                for alias in &from.names {
                    let module = from.module.as_ref().map(ToString::to_string).unwrap_or_default();
                    self.gathers |= alias.name.as_str() == "gather";
                    self.modules
                        .push((alias.asname.as_ref().unwrap_or(&alias.name), format!("{module}.{}", alias.name)));
                }
            }
            Stmt::Try(attempt) => self.handlers(attempt),
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Attribute(attribute) if attribute.ctx == ExprContext::Store => {
                self.attributes.insert(&attribute.attr);
            }
            Expr::Attribute(attribute) => {
                self.mentions_infinity |= attribute.attr.as_str() == "inf";
                self.gathers |= attribute.attr.as_str() == "gather";
            }
            Expr::StringLiteral(text) => {
                let text = text.value.to_str().trim_start_matches(['-', '+']);
                self.mentions_infinity |= text.eq_ignore_ascii_case("inf") || text.eq_ignore_ascii_case("infinity");
            }
            Expr::Call(call) => {
                // The callee itself is no use as a value.
                if !call.func.is_name_expr() {
                    self.visit_expr(&call.func);
                }
                self.visit_arguments(&call.arguments);
                return;
            }
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                self.escapes |= self.functions.contains(name.id.as_str());
            }
            _ => {}
        }
        walk_expr(self, expression);
    }
}

impl<'a> Facts<'a> {
    fn attribute(&mut self, target: &'a Expr) {
        self.attributes.extend(target.as_name_expr().map(|name| name.id.as_str()));
    }

    fn handlers(&mut self, attempt: &'a StmtTry) {
        for handler in &attempt.handlers {
            let ExceptHandler::ExceptHandler(handler) = handler;
            let broad =
                |kind: &&Expr| kind.as_name_expr().is_none_or(|name| tables::HIDES_GAPS.contains(&name.id.as_str()));
            let kinds = handler.type_.as_deref().map(alternatives);
            let among =
                |kind: &&Expr, list: &[&str]| kind.as_name_expr().is_none_or(|name| list.contains(&name.id.as_str()));
            let key = |kind: &&Expr| among(kind, tables::MAY_BE_KEY_ERROR);
            let value = |kind: &&Expr| among(kind, tables::MAY_BE_VALUE_ERROR);
            self.shows_keys |= handler.name.is_some() && kinds.iter().flatten().any(key);
            self.hides_value_errors |= kinds.as_ref().is_none_or(|kinds| kinds.iter().any(value));
            self.hides_gaps |= kinds.is_none_or(|kinds| kinds.iter().any(broad));
        }
    }
}
