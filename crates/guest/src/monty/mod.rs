//! The monty engine: a small Python that starts in microseconds and can be written down whole.
//!
//! Answers to: the worker, through [`Interpreter`]. Must not: do I/O itself. Monty stops at every host function, OS
//! call and unresolved future; each stop is answered here through [`Host`], and monty goes on.
//! INVARIANT: what monty lacks ends as [`Ended::Unsupported`], never as a value of another kind.

mod convert;
mod dates;
mod gaps;
mod raise;
mod saved;
mod system;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use monty::{MontyRepl, ReplFunctionCall, ReplProgress, ReplResolveFutures, ReplStartError};
use monty_types::{
    AssertMessageAnnotations, CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyObject,
    NameLookupResult, PrintWriter, PrintWriterCallback, ResourceLimits, ResourceTracker,
};
use ringfence_types::{
    Call, CallId, FunctionSpec, GuestError, GuestException, Nesting, Source, Stream, TooDeep, TraceFrame, Value,
};
use serde::{Deserialize, Serialize};

use crate::engine::{Ended, Host, Interpreter, Unsupported};
use convert::Lacking;
use saved::{Here, Session};

/// Calls within calls, as in CPython. Each level costs monty at most 32 KiB of native stack, so that the worker's
/// 64 MiB hold with room to spare.
const RECURSION: usize = 1_000;

/// An interpreter session in monty.
pub struct Monty {
    /// Absent while a snippet runs, and before the first.
    repl: Option<MontyRepl>,
    session: Session,
}

/// A host function's name, as far as the engine needs to know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Declared {
    name: String,
    is_async: bool,
}

/// A call that was handed to the host without waiting, kept whole so that it can be asked again after a restore.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Deferred {
    /// Monty's number for its future.
    future: u32,
    /// The host's number for the call.
    id: CallId,
    function: String,
    args: Vec<MontyObject>,
    kwargs: Vec<(MontyObject, MontyObject)>,
}

type Step = Result<ReplProgress, Box<ReplStartError>>;

/// What monty is told, to go on from a stop.
enum Reply {
    Result(ExtFunctionResult),
    Later,
    Futures(Vec<(u32, ExtFunctionResult)>),
    Unknown,
    /// Don't go on: the snippet ends here.
    Stop(Ended),
}

impl Default for Monty {
    fn default() -> Self {
        Self::new()
    }
}

impl Monty {
    /// An empty session without host functions.
    pub fn new() -> Self {
        Self { repl: None, session: Session::default() }
    }

    /// The host's functions, on the first run, and the snippet's inputs.
    fn inputs(&mut self, source: &Source) -> Result<Vec<(String, MontyObject)>, Unsupported> {
        let mut inputs = Vec::new();
        if !std::mem::replace(&mut self.session.functions_set, true) {
            let function = |name: &String| MontyObject::Function { name: name.clone(), docstring: None };
            inputs.extend(self.session.functions.iter().map(|each| (each.name.clone(), function(&each.name))));
        }
        for (name, value) in &source.inputs {
            inputs.push((name.clone(), convert::to_monty(value).map_err(unsupported)?));
        }
        Ok(inputs)
    }

    /// Answers monty's stops until the snippet ends.
    fn drive(&mut self, mut step: Step, host: &mut dyn Host) -> Ended {
        loop {
            let progress = match step {
                Ok(progress) => progress,
                Err(failed) => {
                    let ReplStartError { repl, error } = *failed;
                    let ended = raise::ended(&error, &self.session.files);
                    if let Ended::Raised(exception) = &ended
                        && let Some(text) = raise::last_words(exception)
                    {
                        host.print(Stream::Stderr, format!("{text}\n").as_bytes());
                    }
                    return self.end(repl, ended);
                }
            };
            if let ReplProgress::Complete { repl, value } = progress {
                let ended = convert::to_value(&value, "value").map_or_else(Ended::NoValue, Ended::Done);
                for forgotten in &self.session.deferred {
                    let name = &forgotten.function;
                    let warning = format!("RuntimeWarning: coroutine '{name}' was never awaited\n");
                    host.print(Stream::Stderr, warning.as_bytes());
                }
                return self.end(repl, ended);
            }
            let reply = self.answer(&progress, host);
            step = match go_on(progress, reply, host) {
                Ok(step) => step,
                Err(stopped) => return self.end(stopped.0, stopped.1),
            };
        }
    }

    fn end(&mut self, repl: MontyRepl, ended: Ended) -> Ended {
        self.repl = Some(repl);
        self.session.deferred.clear();
        ended
    }

    fn answer(&mut self, progress: &ReplProgress, host: &mut dyn Host) -> Reply {
        match progress {
            ReplProgress::FunctionCall(call) => self.answer_call(call, progress, host),
            ReplProgress::ResolveFutures(wait) => self.answer_wait(wait, progress, host),
            ReplProgress::OsCall(call) => Reply::Result(system::answer(&call.function_call, host.files())),
            // Host functions are ordinary names of the session, so a name that monty asks for is not there.
            ReplProgress::NameLookup(_) => Reply::Unknown,
            ReplProgress::Complete { .. } => Reply::Stop(Ended::Done(Value::None)),
        }
    }

    fn answer_call(&mut self, stopped: &ReplFunctionCall, progress: &ReplProgress, host: &mut dyn Host) -> Reply {
        let name = &stopped.function_name;
        let declared = self.session.functions.iter().find(|function| function.name == *name);
        let (Some(declared), None) = (declared, stopped.object_id) else {
            return Reply::Result(ExtFunctionResult::NotFound(name.clone()));
        };
        let deferred = declared.is_async;
        let mut call = match host_call(name, &stopped.args, &stopped.kwargs) {
            Ok(call) => call,
            Err(refused) => return Reply::Result(refused.into()),
        };
        call.id = host.next_call();
        call.deferred = deferred;
        if deferred {
            self.session.deferred.push(Deferred {
                future: stopped.call_id,
                id: call.id,
                function: name.clone(),
                args: stopped.args.clone(),
                kwargs: stopped.kwargs.clone(),
            });
            host.defer(call);
            return Reply::Later;
        }
        let answer = host.call(call, &Here { session: &self.session, progress });
        host_result(answer).map_or_else(Reply::Stop, Reply::Result)
    }

    fn answer_wait(&mut self, stopped: &ReplResolveFutures, progress: &ReplProgress, host: &mut dyn Host) -> Reply {
        let wanted = stopped.pending_call_ids();
        let deferred = self.session.deferred.iter().filter(|each| wanted.contains(&each.future));
        let ids: Vec<CallId> = deferred.map(|each| each.id).collect();
        let answer = host.wait(&ids, None, &Here { session: &self.session, progress });
        let at = answer.as_ref().and_then(|(id, _)| self.session.deferred.iter().position(|each| each.id == *id));
        let (Some((_, answer)), Some(at)) = (answer, at) else {
            let feature = "waiting for a call that nobody answers".to_owned();
            return Reply::Stop(Ended::Unsupported(Unsupported { feature, line: None }));
        };
        let future = self.session.deferred.swap_remove(at).future;
        host_result(answer).map_or_else(Reply::Stop, |result| Reply::Futures(vec![(future, result)]))
    }
}

impl Interpreter for Monty {
    fn declare(&mut self, functions: &[FunctionSpec]) {
        let declared = functions.iter().map(|spec| Declared { name: spec.name.clone(), is_async: spec.is_async });
        self.session.functions = declared.collect();
    }

    fn run(&mut self, source: &Source, host: &mut dyn Host) -> Ended {
        if let Err(deep) = Nesting::measure(&source.code) {
            return Ended::Raised(syntax_error(&deep, source));
        }
        let inputs = match self.inputs(source) {
            Ok(inputs) => inputs,
            Err(lacking) => return Ended::Unsupported(lacking),
        };
        // Monty takes no notice of the inputs of an empty snippet.
        let code = if source.code.is_empty() { "pass" } else { &source.code };
        self.session.files.push(source.file.clone());
        let repl = self.repl.take().unwrap_or_else(new_repl);
        let step = repl.feed_start(code, inputs, PrintWriter::Callback(&mut Printer(host)));
        self.drive(step, host)
    }

    fn snapshot(&mut self) -> Result<Vec<u8>, Unsupported> {
        saved::idle(&self.session, self.repl.get_or_insert_with(new_repl))
    }

    fn restore(&mut self, bytes: &[u8], host: &mut dyn Host) -> Result<Option<Ended>, Unsupported> {
        let (session, state) = saved::read(bytes)?;
        self.session = session;
        let progress = match state {
            monty::Session::Idle(repl) => {
                self.repl = Some(*repl);
                return Ok(None);
            }
            monty::Session::Suspended(progress) => *progress,
            monty::Session::Running(_) => return Err(saved::unreadable("it holds no session")),
        };
        for each in &mut self.session.deferred {
            let asked = host_call(&each.function, &each.args, &each.kwargs);
            let mut call = asked.map_err(|_| saved::unreadable("a pending call is damaged"))?;
            each.id = host.next_call();
            call.id = each.id;
            call.deferred = true;
            host.defer(call);
        }
        Ok(Some(self.drive(Ok(progress), host)))
    }
}

fn new_repl() -> MontyRepl {
    let limits = ResourceLimits::default().max_recursion_depth(RECURSION);
    let options = CompileOptions { assert_message_annotations: AssertMessageAnnotations::Off };
    MontyRepl::new("main.py", ResourceTracker::new(limits), options)
}

/// Tells monty the reply to its stop, or ends the snippet and hands the session back.
fn go_on(progress: ReplProgress, reply: Reply, host: &mut dyn Host) -> Result<Step, Box<(MontyRepl, Ended)>> {
    let mut printer = Printer(host);
    let print = PrintWriter::Callback(&mut printer);
    Ok(match (progress, reply) {
        (ReplProgress::FunctionCall(call), Reply::Result(result)) => call.resume(result, print),
        (ReplProgress::FunctionCall(call), Reply::Later) => call.resume_pending(print),
        (ReplProgress::OsCall(call), Reply::Result(result)) => call.resume(result, print),
        (ReplProgress::ResolveFutures(wait), Reply::Futures(results)) => wait.resume(results, print),
        (ReplProgress::NameLookup(lookup), _) => lookup.resume(NameLookupResult::Undefined, print),
        (progress, Reply::Stop(ended)) => return Err(Box::new((progress.into_repl(), ended))),
        (progress, _) => {
            let feature = "a stop of the interpreter that the engine does not know".to_owned();
            let ended = Ended::Unsupported(Unsupported { feature, line: None });
            return Err(Box::new((progress.into_repl(), ended)));
        }
    })
}

/// A call as the host sees it. Arguments that can't cross are a `TypeError` at the call.
fn host_call(
    function: &str,
    args: &[MontyObject],
    kwargs: &[(MontyObject, MontyObject)],
) -> Result<Call, MontyException> {
    let refuse = |error: ringfence_types::ValueError| MontyException::new(ExcType::TypeError, Some(error.to_string()));
    let convert = |object: &MontyObject, path: &str| convert::to_value(object, path).map_err(refuse);
    let positional = args.iter().enumerate().map(|(index, arg)| convert(arg, &format!("args[{index}]")));
    let named = kwargs.iter().map(|(key, value)| {
        let key = key.to_string();
        let value = convert(value, &key)?;
        Ok((key, value))
    });
    Ok(Call {
        id: CallId(0),
        function: function.to_owned(),
        args: positional.collect::<Result<_, MontyException>>()?,
        kwargs: named.collect::<Result<_, MontyException>>()?,
        deferred: false,
    })
}

/// The host's answer for monty, or the end of the snippet where monty has no such type.
fn host_result(answer: Result<Value, GuestError>) -> Result<ExtFunctionResult, Ended> {
    match answer {
        Ok(value) => convert::to_monty(&value)
            .map(ExtFunctionResult::Return)
            .map_err(|lacking| Ended::Unsupported(unsupported(lacking))),
        Err(error) => Ok(ExtFunctionResult::Error(raise::from_host(&error))),
    }
}

fn unsupported(lacking: Lacking) -> Unsupported {
    Unsupported { feature: lacking.0.to_owned(), line: None }
}

fn syntax_error(deep: &TooDeep, source: &Source) -> GuestException {
    let frame =
        TraceFrame { file: source.file.clone(), line: deep.line, function: "<module>".to_owned(), source: None };
    GuestException {
        kind: "SyntaxError".to_owned(),
        message: deep.what.to_owned(),
        frames: vec![frame],
        cause: None,
        notes: Vec::new(),
        exit_code: None,
    }
}

/// Sends what `print` writes to the host.
struct Printer<'a>(&'a mut dyn Host);

impl PrintWriterCallback for Printer<'_> {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.0.print(Stream::Stdout, output.as_bytes());
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.0.print(Stream::Stdout, end.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}
