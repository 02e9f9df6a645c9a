//! Whether monty 0.0.23 runs a program exactly as CPython does: the expressions.
//!
//! Answers to: the statements. Must not: let a set or an iterator go where its order or its laziness could show:
//! monty keeps sets in order of insertion, and makes lists of `zip`, `map` and generator expressions.

use ruff_python_ast::{CmpOp, Comprehension, Expr, ExprAttribute, ExprCall, InterpolatedStringElement};
use ruff_text_size::Ranged;

use super::{Check, Found, Place, listed, small_integer};
use crate::kinds::{BOOL, DICT, FLOAT, INT, LAZY, LIST, NONE, NUMBER, SET, STR, TUPLE};
use crate::tables;

/// Built-in functions that take in all of an iterator at once, in order.
const CONSUMERS: &[&str] = &["list", "tuple", "sorted", "sum", "min", "max", "dict", "set", "frozenset", "any", "all"];

/// Those of them, and others, to which the order of a set doesn't show.
const UNORDERED: &[&str] = &["sorted", "len", "min", "max", "set", "frozenset", "any", "all", "isinstance", "bool"];

impl Check<'_> {
    /// An expression whose value may be shown, stored or handed on: no set and no iterator.
    pub(super) fn value(&self, expression: &Expr) -> Found {
        let kinds = self.names.kinds(expression);
        if kinds & SET != 0 {
            return self.doubtful("a set whose order may show", expression);
        }
        self.unordered(expression)
    }

    /// An expression that may be a set.
    pub(super) fn unordered(&self, expression: &Expr) -> Found {
        if self.names.kinds(expression) & LAZY != 0 {
            return self.doubtful("an iterator that is not used up at once", expression);
        }
        self.inside(expression)
    }

    /// What a `for` or a comprehension walks: `zip` and its kind read nothing but their arguments.
    pub(super) fn iterable(&self, expression: &Expr) -> Found {
        match expression {
            Expr::Call(call) => match call.func.as_ref() {
                Expr::Name(name) if matches!(name.id.as_str(), "zip" | "enumerate" | "reversed") => {
                    self.inside(expression)
                }
                _ => self.value(expression),
            },
            _ => self.value(expression),
        }
    }

    /// Longer than most: one arm for each kind of node, so that a new kind does not pass unseen.
    fn inside(&self, expression: &Expr) -> Found {
        match expression {
            Expr::NumberLiteral(number) => match &number.value {
                ruff_python_ast::Number::Complex { .. } => self.unsupported("complex numbers", number),
                ruff_python_ast::Number::Int(int) if int.as_i64().is_none() => {
                    self.doubtful("an integer over 64 bits", number)
                }
                ruff_python_ast::Number::Float(float) if float.is_infinite() || *float >= 1e150 => {
                    self.doubtful("a very large number", number)
                }
                _ => Ok(()),
            },
            Expr::StringLiteral(_) | Expr::BytesLiteral(_) | Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) => Ok(()),
            Expr::EllipsisLiteral(ellipsis) => self.doubtful("the ellipsis", ellipsis),
            Expr::FString(text) => text.value.elements().try_for_each(|element| self.element(element)),
            Expr::TString(text) => self.unsupported("template strings", text),
            Expr::BoolOp(operation) => operation.values.iter().try_for_each(|value| self.unordered(value)),
            Expr::UnaryOp(operation) => self.unordered(&operation.operand),
            Expr::BinOp(operation) => {
                self.unordered(&operation.left)?;
                self.unordered(&operation.right)?;
                self.operation(operation.op, &operation.left, &operation.right, operation)
            }
            Expr::Compare(comparison) => self.comparison(comparison),
            Expr::Named(named) if self.place.in_class && !self.place.in_function => {
                self.unsupported(":= in a class", named)
            }
            Expr::Named(named) => {
                self.target(&named.target)?;
                self.value(&named.value)
            }
            Expr::If(choice) => {
                [&choice.test, &choice.body, &choice.orelse].into_iter().try_for_each(|part| self.unordered(part))
            }
            Expr::Lambda(lambda) => {
                lambda.parameters.iter().try_for_each(|parameters| self.parameters(parameters))?;
                Check { place: Place { in_lambda: true, ..self.place }, ..*self }.value(&lambda.body)
            }
            Expr::List(list) => self.values(&list.elts),
            Expr::Tuple(tuple) => self.values(&tuple.elts),
            Expr::Set(set) => self.values(&set.elts),
            Expr::Dict(dict) => dict.items.iter().try_for_each(|item| {
                item.key.iter().try_for_each(|key| self.key(key))?;
                self.values(item.key.as_ref())?;
                self.value(&item.value)
            }),
            Expr::ListComp(list) => self.comprehension(&[&list.elt], &list.generators),
            Expr::SetComp(set) => self.comprehension(&[&set.elt], &set.generators),
            Expr::Generator(generator) => self.comprehension(&[&generator.elt], &generator.generators),
            Expr::DictComp(dict) => match &dict.key {
                Some(key) => self.key(key).and_then(|()| self.comprehension(&[key, &dict.value], &dict.generators)),
                None => self.doubtful("unpacking in a comprehension", dict),
            },
            Expr::Subscript(subscript) => {
                let keyed = self.names.kinds(&subscript.value) & DICT != 0 && !subscript.slice.is_slice_expr();
                if self.facts.shows_keys && keyed && self.names.kinds(&subscript.slice) != STR {
                    return self.doubtful("a KeyError that may be shown", subscript);
                }
                self.value(&subscript.value)?;
                self.value(&subscript.slice)
            }
            Expr::Slice(slice) => {
                [&slice.lower, &slice.upper, &slice.step].into_iter().flatten().try_for_each(|part| self.value(part))
            }
            Expr::Starred(starred) => self.value(&starred.value),
            Expr::Name(name) => self.name(&name.id, name),
            Expr::Attribute(attribute) => self.attribute(attribute),
            Expr::Call(call) => self.call(call),
            Expr::Await(wait) => match wait.value.as_ref() {
                Expr::Call(call) => self.call(call),
                other => self.doubtful("awaiting what is not called here", other),
            },
            Expr::Yield(generator) => self.unsupported("generators", generator),
            Expr::YieldFrom(generator) => self.unsupported("generators", generator),
            Expr::IpyEscapeCommand(escape) => self.unsupported("escape commands", escape),
        }
    }

    /// A key of a dict: where 1, 1.0 and True meet, monty keeps the last of them and CPython the first.
    pub(super) fn key(&self, key: &Expr) -> Found {
        let kinds = self.names.kinds(key);
        if kinds & !NUMBER == 0 && kinds & !INT != 0 {
            return self.doubtful("a key that may equal another number", key);
        }
        Ok(())
    }

    /// A name by itself. Functions of the host's may only be called; built-in names are no plain values.
    fn name(&self, name: &str, node: impl Ranged) -> Found {
        if name == "__name__" || (self.names.sets(name) && self.module_name(name).is_none()) {
            Ok(())
        } else {
            self.doubtful(&format!("`{name}` used as a value"), node)
        }
    }

    /// A function handed to another one: `key=len`.
    fn callable(&self, expression: &Expr) -> Found {
        match expression {
            Expr::Name(name) if tables::CALLABLE_VALUES.contains(&name.id.as_str()) => Ok(()),
            other => self.value(other),
        }
    }

    fn element(&self, element: &InterpolatedStringElement) -> Found {
        let InterpolatedStringElement::Interpolation(field) = element else { return Ok(()) };
        self.value(&field.expression)?;
        let Some(specification) = &field.format_spec else { return Ok(()) };
        let mut text = String::new();
        for part in &specification.elements {
            match part {
                InterpolatedStringElement::Literal(literal) => text.push_str(&literal.value),
                InterpolatedStringElement::Interpolation(_) => return self.doubtful("a computed format", field),
            }
        }
        if !is_format(&text) {
            return self.doubtful("an unusual format", field);
        }
        let kinds = self.names.kinds(&field.expression);
        let typed = text.ends_with(['d', 'e', 'f', 'g', 'x', 'o', 'b', '%', ',']) && !text.contains('z');
        // Without a type, monty formats what CPython refuses to: `None`, lists and tuples.
        let plain = kinds & !(STR | INT | FLOAT | BOOL) == 0;
        let contained = kinds & (LIST | TUPLE | DICT | NONE) != 0 && kinds & (INT | FLOAT) == 0;
        if (typed && !contained) || plain { Ok(()) } else { self.doubtful("a format without a type", field) }
    }

    fn comparison(&self, comparison: &ruff_python_ast::ExprCompare) -> Found {
        self.unordered(&comparison.left)?;
        comparison.comparators.iter().try_for_each(|side| self.compared(side))?;
        let member = comparison.ops.iter().any(|op| matches!(op, CmpOp::In | CmpOp::NotIn));
        if member && self.names.kinds(&comparison.left) & SET != 0 {
            return self.doubtful("a set looked up in a set", comparison);
        }
        let sides = std::iter::once(comparison.left.as_ref()).chain(comparison.comparators.iter());
        let sets = sides.fold(0, |kinds, side| kinds | self.names.kinds(side)) & SET != 0;
        let ordered = comparison.ops.iter().any(|op| matches!(op, CmpOp::Lt | CmpOp::LtE | CmpOp::Gt | CmpOp::GtE));
        if sets && ordered { self.unsupported("comparing sets by < and >", comparison) } else { Ok(()) }
    }

    fn compared(&self, side: &Expr) -> Found {
        match side {
            Expr::Name(name) if tables::TYPE_NAMES.contains(&name.id.as_str()) => Ok(()),
            other => self.unordered(other),
        }
    }

    fn comprehension(&self, results: &[&Expr], generators: &[Comprehension]) -> Found {
        for generator in generators {
            if generator.is_async {
                return self.unsupported("async comprehensions", generator);
            }
            self.target(&generator.target)?;
            self.iterable(&generator.iter)?;
            generator.ifs.iter().try_for_each(|test| self.unordered(test))?;
        }
        results.iter().try_for_each(|result| self.value(result))
    }

    fn attribute(&self, attribute: &ExprAttribute) -> Found {
        if let Some(dotted) = self.dotted(attribute) {
            let found = self.member_of_module(&dotted);
            return if found.is_some_and(|keywords| keywords.is_empty()) && !dotted.contains("date") {
                Ok(())
            } else {
                self.doubtful(&dotted, attribute)
            };
        }
        let name = attribute.attr.as_str();
        let of_module =
            tables::MODULE_ATTRIBUTES.iter().any(|(module, list)| self.imports(module) && listed(list, name).is_some());
        let of_type =
            name == "__name__" && matches!(attribute.value.as_ref(), Expr::Call(call) if is_call_of(call, "type"));
        if self.facts.attributes.contains(name) || of_module || of_type {
            self.value(&attribute.value)
        } else {
            self.doubtful(&format!("the attribute {name}"), attribute)
        }
    }

    pub(super) fn imports(&self, module: &str) -> bool {
        self.facts.modules.iter().any(|(_, dotted)| crate::top(dotted) == module)
    }

    /// `datetime.date.fromisoformat` for an attribute of something imported.
    fn dotted(&self, attribute: &ExprAttribute) -> Option<String> {
        let base = match attribute.value.as_ref() {
            Expr::Name(name) => self.module_name(&name.id)?.to_owned(),
            Expr::Attribute(inner) => self.dotted(inner)?,
            _ => return None,
        };
        Some(format!("{base}.{}", attribute.attr))
    }

    /// The keywords that a module's function takes, if it is a known one.
    fn member_of_module(&self, dotted: &str) -> Option<&'static str> {
        let (module, name) = dotted.split_once('.')?;
        let (_, list) = tables::MODULES.iter().find(|(known, _)| *known == module)?;
        listed(list, name)
    }

    fn call(&self, call: &ExprCall) -> Found {
        match call.func.as_ref() {
            Expr::Name(name) => match self.module_name(&name.id) {
                Some(dotted) => self.module_call(dotted, call),
                None if self.names.sets(&name.id) => self.arguments(call),
                None if tables::BUILTINS.iter().any(|(builtin, ..)| *builtin == name.id.as_str()) => {
                    self.builtin(&name.id, call)
                }
                None => self.host_function(&name.id, call),
            },
            Expr::Attribute(attribute) => match self.dotted(attribute) {
                Some(dotted) => self.module_call(&dotted, call),
                None => self.method(attribute, call),
            },
            Expr::Lambda(_) | Expr::Call(_) | Expr::Subscript(_) => {
                self.inside(&call.func)?;
                self.arguments(call)
            }
            other => self.doubtful("an unusual call", other),
        }
    }

    /// A name that nobody sets: a host function, unless Python has it built in. Monty can't stop for the host within
    /// a library function's callback.
    fn host_function(&self, name: &str, call: &ExprCall) -> Found {
        match name {
            "eval" | "exec" | "compile" | "input" | "super" | "globals" | "locals" | "vars" | "dir" | "callable"
            | "complex" | "bytearray" | "memoryview" | "issubclass" | "format" | "ascii" | "delattr" | "__import__" => {
                self.unsupported(&format!("{name}()"), call)
            }
            "open" | "iter" | "next" | "hash" | "id" | "getattr" | "setattr" | "hasattr" | "pow" | "bytes"
            | "object" | "slice" | "breakpoint" | "exit" | "quit" | "help" | "property" | "staticmethod"
            | "classmethod" | "aiter" | "anext" => self.doubtful(&format!("{name}()"), call),
            _ if self.is_exception(name) => self.doubtful("an exception as a value", call),
            _ if self.place.in_lambda || self.place.in_class || (self.place.in_function && self.facts.escapes) => {
                self.doubtful(&format!("a call of {name} from within a callback"), call)
            }
            _ => self.arguments(call),
        }
    }

    fn keywords(&self, call: &ExprCall, allowed: &str) -> Found {
        for keyword in &call.arguments.keywords {
            let known =
                keyword.arg.as_ref().is_some_and(|name| allowed.split([' ', ',']).any(|known| known == name.as_str()));
            if !known && allowed != "*" {
                return self.doubtful("an unusual keyword argument", keyword);
            }
        }
        Ok(())
    }

    fn arguments(&self, call: &ExprCall) -> Found {
        call.arguments.args.iter().try_for_each(|arg| self.callable(arg))?;
        call.arguments.keywords.iter().try_for_each(|keyword| self.callable(&keyword.value))
    }

    fn builtin(&self, name: &str, call: &ExprCall) -> Found {
        let allowed =
            tables::BUILTINS.iter().find(|(builtin, ..)| *builtin == name).map_or("", |(_, _, keywords)| keywords);
        self.keywords(call, allowed)?;
        call.arguments.keywords.iter().try_for_each(|keyword| self.callable(&keyword.value))?;
        let args = &call.arguments.args;
        if name == "round" && args.len() > 1 {
            return self.doubtful("round() to digits", call);
        }
        if name == "divmod" && args.get(1).is_none_or(|by| self.names.kinds(by) & FLOAT != 0) {
            return self.doubtful("divmod() by what may be no whole number", call);
        }
        if name == "isinstance" {
            return self.is_instance(call);
        }
        if matches!(name, "map" | "filter") {
            return args
                .iter()
                .enumerate()
                .try_for_each(|(at, arg)| if at == 0 { self.pure(arg) } else { self.iterable(arg) });
        }
        let keyed = call.arguments.find_keyword("key").is_some();
        for arg in args {
            if name == "sum" && self.sums_bools(arg) {
                return self.unsupported("a sum of bools", arg);
            }
            if name == "sum" && self.facts.hides_gaps && !self.sums_numbers(arg) {
                return self.doubtful("a sum of what may be bools", arg);
            }
            if name == "dict" && self.names.kinds(arg) & !(DICT | LIST | LAZY) != 0 {
                return self.doubtful("dict() of what may not be pairs", arg);
            }
            match (self.names.kinds(arg), CONSUMERS.contains(&name), UNORDERED.contains(&name) && !keyed) {
                (kinds, true, _) if kinds & LAZY != 0 => self.consumed(name, arg)?,
                (kinds, _, true) if kinds & SET != 0 => self.unordered(arg)?,
                _ if matches!(name, "zip" | "enumerate" | "reversed") => self.iterable(arg)?,
                _ => self.value(arg)?,
            }
        }
        Ok(())
    }

    /// An iterator that is used up at once. `any` and `all` may stop early, so nothing in theirs may be noticed.
    fn consumed(&self, name: &str, arg: &Expr) -> Found {
        match arg {
            Expr::Generator(generator) if matches!(name, "any" | "all") => {
                self.inside(arg)?;
                let tests = generator.generators.iter().flat_map(|each| &each.ifs);
                std::iter::once(generator.elt.as_ref()).chain(tests).try_for_each(|part| self.harmless(part))
            }
            Expr::Generator(_) => self.inside(arg),
            Expr::Call(call) if matches!(name, "any" | "all") => self.doubtful("an iterator that may stop early", call),
            Expr::Call(_) => self.inside(arg),
            other => self.doubtful("an iterator that is not used up at once", other),
        }
    }

    /// An expression that neither raises nor does anything.
    fn harmless(&self, expression: &Expr) -> Found {
        match expression {
            Expr::Name(_) => Ok(()),
            literal if literal.is_literal_expr() => Ok(()),
            Expr::UnaryOp(operation) => self.harmless(&operation.operand),
            Expr::BoolOp(operation) => operation.values.iter().try_for_each(|value| self.harmless(value)),
            Expr::Tuple(tuple) => tuple.elts.iter().try_for_each(|part| self.harmless(part)),
            Expr::Compare(comparison) => {
                self.harmless(&comparison.left)?;
                comparison.comparators.iter().try_for_each(|side| self.harmless(side))
            }
            Expr::BinOp(operation)
                if operation.op.is_mod() && small_integer(&operation.right).is_some_and(|by| by > 0) =>
            {
                self.harmless(&operation.left)
            }
            Expr::Call(call) => match call.func.as_ref() {
                Expr::Name(name) if matches!(name.id.as_str(), "isinstance" | "len") => Ok(()),
                Expr::Attribute(method) if method.attr.starts_with("is") || method.attr.ends_with("with") => {
                    self.harmless(&method.value)
                }
                other => self.doubtful("a call within any() or all()", other),
            },
            other => self.doubtful("what may fail within any() or all()", other),
        }
    }

    /// What `map` and `filter` call: they do all of it first, so it may neither print nor reach the host.
    fn pure(&self, function: &Expr) -> Found {
        match function {
            Expr::Lambda(_) => self.value(function),
            Expr::NoneLiteral(_) => Ok(()),
            Expr::Name(name) if tables::CALLABLE_VALUES.contains(&name.id.as_str()) => Ok(()),
            other => self.doubtful("map or filter of a function", other),
        }
    }

    /// Monty can't add a bool to a number.
    fn sums_bools(&self, arg: &Expr) -> bool {
        match arg {
            Expr::List(list) => list.elts.iter().any(|item| self.names.kinds(item) == BOOL),
            Expr::Tuple(tuple) => tuple.elts.iter().any(|item| self.names.kinds(item) == BOOL),
            Expr::Generator(generator) => self.names.kinds(&generator.elt) & !(BOOL) == 0,
            Expr::ListComp(list) => self.names.kinds(&list.elt) & !(BOOL) == 0,
            _ => false,
        }
    }

    fn sums_numbers(&self, arg: &Expr) -> bool {
        let number = |item: &Expr| self.names.kinds(item) & BOOL == 0;
        match arg {
            Expr::List(list) => list.elts.iter().all(number),
            Expr::Tuple(tuple) => tuple.elts.iter().all(number),
            Expr::Generator(generator) => number(&generator.elt),
            Expr::ListComp(list) => number(&list.elt),
            _ => false,
        }
    }

    fn is_instance(&self, call: &ExprCall) -> Found {
        let [value, kind] = &*call.arguments.args else { return self.doubtful("an unusual isinstance()", call) };
        let plain = |kind: &Expr| match kind {
            Expr::Name(name) => tables::TYPE_NAMES.contains(&name.id.as_str()) || self.names.sets(&name.id),
            _ => false,
        };
        let known = match kind {
            Expr::Tuple(tuple) => tuple.elts.iter().all(plain),
            other => plain(other),
        };
        if known { self.unordered(value) } else { self.doubtful("isinstance() with an unusual type", call) }
    }

    fn module_call(&self, dotted: &str, call: &ExprCall) -> Found {
        let Some(keywords) = self.member_of_module(dotted) else { return self.doubtful(dotted, call) };
        self.keywords(call, keywords)?;
        let args = &call.arguments.args;
        match dotted {
            "collections.Counter" if args.len() == 1 => {
                return args.iter().try_for_each(|arg| self.consumed_or_value(arg));
            }
            "collections.defaultdict" => {
                let kinds = ["int", "list", "str", "float", "dict"];
                let plain = matches!(&**args, [Expr::Name(name)] if kinds.contains(&name.id.as_str()));
                return if plain { Ok(()) } else { self.doubtful("an unusual defaultdict", call) };
            }
            "datetime.timedelta" | "datetime.datetime.timedelta" => {
                let given = args.iter().chain(call.arguments.keywords.iter().map(|keyword| &keyword.value));
                if given.into_iter().any(|arg| self.names.kinds(arg) & !INT != 0) {
                    return self.doubtful("a timedelta of what may not be whole", call);
                }
            }
            _ if dotted.starts_with("re.") => self.pattern(dotted, call)?,
            _ if dotted.ends_with(".strptime") && !args.get(1).is_some_and(is_full_date) => {
                return self.doubtful("strptime() with other than a full date", call);
            }
            _ if dotted.ends_with(".fromisoformat") && self.facts.hides_value_errors => {
                return self.doubtful("fromisoformat() where a ValueError is caught", call);
            }
            _ => {}
        }
        self.arguments(call)
    }

    fn consumed_or_value(&self, arg: &Expr) -> Found {
        if self.names.kinds(arg) & LAZY != 0 { self.consumed("list", arg) } else { self.value(arg) }
    }

    /// Only patterns that can't match the empty text, in syntax that both engines read alike.
    fn pattern(&self, function: &str, call: &ExprCall) -> Found {
        let args = &call.arguments.args;
        let Some(Expr::StringLiteral(pattern)) = args.first() else { return self.doubtful("a computed pattern", call) };
        let pattern = pattern.value.to_str().replace("(?P<", "(");
        let odd =
            pattern.contains(['*', '?', '$', '^', '|', '&', '~']) || pattern.contains("{0") || pattern.contains("{,");
        let inner_bracket = pattern.matches('[').count() != pattern.matches(']').count();
        let escapes = pattern
            .split('\\')
            .skip(1)
            .all(|rest| rest.starts_with(['d', 'w', 's', '.', '(', ')', '-', '+', '/', '$']));
        if odd || inner_bracket || !escapes || pattern.is_empty() {
            return self.doubtful("a pattern that engines may read differently", call);
        }
        let most = if function == "re.sub" { 3 } else { 2 };
        if args.len() > most {
            self.doubtful("flags of a pattern", call)
        } else {
            self.replacement(function, args, call)
        }
    }

    fn replacement(&self, function: &str, args: &[Expr], call: &ExprCall) -> Found {
        match args.get(1) {
            Some(Expr::StringLiteral(text)) if function == "re.sub" && !text.value.to_str().contains(['\\', '$']) => {
                Ok(())
            }
            _ if function == "re.sub" => self.doubtful("an unusual replacement", call),
            _ => Ok(()),
        }
    }

    fn method(&self, attribute: &ExprAttribute, call: &ExprCall) -> Found {
        let name = attribute.attr.as_str();
        let receiver = self.names.kinds(&attribute.value);
        if name == "format"
            && matches!(attribute.value.as_ref(), Expr::StringLiteral(text) if !text.value.to_str().contains([':', '!', '.', '[']))
        {
            return self.arguments(call);
        }
        if self.facts.methods.contains(name) {
            self.value(&attribute.value)?;
            return self.arguments(call);
        }
        let of_module =
            tables::MODULE_METHODS.iter().any(|(module, list)| self.imports(module) && listed(list, name).is_some());
        let known = tables::METHODS.iter().find(|(method, ..)| *method == name);
        let keywords = match known {
            Some((_, _, keywords)) => keywords,
            None if of_module => "",
            None => return self.doubtful(&format!("the method {name}"), call),
        };
        let refused = match name {
            "splitlines" => !call.arguments.args.is_empty(),
            "pop" | "popitem" if receiver & SET != 0 => true,
            "pop" | "remove" => {
                let text = call.arguments.args.iter().all(|arg| self.names.kinds(arg) == STR);
                self.facts.shows_keys && receiver & (DICT | SET) != 0 && !text
            }
            "strftime" => {
                !matches!(&*call.arguments.args, [Expr::StringLiteral(text)] if !text.value.to_str().contains("%f"))
            }
            _ => false,
        };
        if refused {
            return self.doubtful(&format!("the method {name} used in this way"), call);
        }
        self.keywords(call, keywords)?;
        self.unordered(&attribute.value)?;
        call.arguments.keywords.iter().try_for_each(|keyword| self.callable(&keyword.value))?;
        call.arguments.args.iter().try_for_each(|arg| self.method_argument(name, receiver, arg))
    }

    fn method_argument(&self, method: &str, receiver: crate::kinds::Kinds, arg: &Expr) -> Found {
        let kinds = self.names.kinds(arg);
        let into_set = receiver == SET
            || matches!(method, "union" | "intersection" | "difference" | "issubset" | "issuperset" | "isdisjoint");
        if kinds & LAZY != 0 && matches!(method, "join" | "extend") {
            return self.consumed("list", arg);
        }
        if kinds & SET != 0 && into_set { self.unordered(arg) } else { self.value(arg) }
    }
}

/// A format that has a year, a month and a day, and nothing that monty drops or takes for something else.
fn is_full_date(format: &Expr) -> bool {
    let Expr::StringLiteral(text) = format else { return false };
    let mut letters = text.value.to_str().chars();
    let mut directives = String::new();
    while let Some(letter) = letters.next() {
        if letter == '%' {
            directives.extend(letters.next());
        }
    }
    let has = |wanted: &[char]| directives.contains(wanted);
    directives.chars().all(|each| "YmdHMSbB".contains(each)) && has(&['Y']) && has(&['d']) && has(&['m', 'b', 'B'])
}

/// `[[fill]align][sign][#][0][width][,][.precision][type]`, without looking at the order in the middle.
fn is_format(text: &str) -> bool {
    let align = |letter: char| matches!(letter, '<' | '>' | '^' | '=');
    let mut letters = text.chars();
    let middle = match (letters.next(), letters.next()) {
        (_, Some(second)) if align(second) => letters.as_str(),
        (Some(first), _) if align(first) => text.get(1..).unwrap_or_default(),
        _ => text,
    };
    let middle = middle.strip_suffix(['d', 'e', 'f', 'g', 'x', 'o', 'b', 's', '%']).unwrap_or(middle);
    middle.chars().all(|letter| letter.is_ascii_digit() || matches!(letter, '+' | '-' | '#' | ',' | '_' | '.' | ' '))
}

fn is_call_of(call: &ExprCall, function: &str) -> bool {
    call.func.as_name_expr().is_some_and(|name| name.id.as_str() == function)
}
