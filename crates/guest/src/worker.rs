//! One session's worker: reads frames from the host, runs the interpreter, sends frames back.
//!
//! Answers to: the host, over the one socket that is left. Must not: outlive the host, or read a guest byte before
//! the lock is on (the zygote puts it on before this starts).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringfence_types::{
    Call, CallId, Engine, FileOp, FunctionSpec, GuestError, LimitKind, MimeBundle, Source, Stream, Value,
};
use ringfence_wire::{FromGuest, HEADER, Header, Setup, ToGuest, VERSION};

use crate::engine::{Ended, Host, Interpreter, Pause, Unsupported, universal_newlines};
use crate::files::Files;
use crate::socket::Socket;
use crate::sys;

/// Output is gathered up to this many bytes.
const GATHER: usize = 16 << 10;
/// Whole lines are sent at once, up to [`LINES_AT_ONCE`] of them in this time; then they are gathered.
const WINDOW: Duration = Duration::from_millis(50);
/// A program that prints this many lines in a [`WINDOW`] is printing in bulk.
const LINES_AT_ONCE: u32 = 64;

/// Makes an interpreter of the kind asked for.
pub type MakeInterpreter<'a> = dyn FnMut(Engine) -> Box<dyn Interpreter> + 'a;

/// Address space beyond the memory limit: the stack, and what the allocator keeps to itself.
const SLACK: u64 = 192 << 20;

/// Serves one session until the host is gone; `size` is the address space of a worker that is idle, where it is known.
pub fn serve(size: Option<u64>, make: &mut MakeInterpreter<'_>) -> ! {
    let mut socket = Socket::default();
    socket.send(&FromGuest::Ready(VERSION));
    let ToGuest::Setup(setup) = socket.receive() else { sys::end(70) };
    if setup.version != VERSION {
        sys::end(71);
    }
    sys::allow_memory(setup.memory);
    if let Some(size) = size {
        let bound = size.saturating_add(setup.memory).saturating_add(SLACK);
        if sys::bound_address_space(bound).is_err() {
            sys::end(73);
        }
    }
    let mut session =
        Session { engine: None, functions: setup.functions.clone(), host: WorkerHost::new(socket, &setup) };
    loop {
        let frame = session.host.socket.receive();
        session.take(frame, make);
    }
}

struct Session {
    engine: Option<(Engine, Box<dyn Interpreter>)>,
    functions: Vec<FunctionSpec>,
    host: WorkerHost,
}

impl Session {
    fn take(&mut self, frame: ToGuest, make: &mut MakeInterpreter<'_>) {
        match frame {
            ToGuest::Feed(source) => self.feed(&source, make),
            ToGuest::Snapshot => self.snapshot(),
            ToGuest::Restore(engine, bytes) => self.restore(engine, &bytes, make),
            ToGuest::Files(op) => self.host.answer_files(op),
            // The answer to a deferred call that the program no longer waits for.
            ToGuest::Answer(..) => {}
            ToGuest::Setup(_) | ToGuest::Synced | ToGuest::Fork(_) => sys::end(70),
        }
    }

    fn interpreter(&mut self, wanted: Engine, make: &mut MakeInterpreter<'_>) -> &mut Box<dyn Interpreter> {
        if self.engine.as_ref().is_none_or(|(running, _)| *running != wanted) {
            let mut interpreter = make(wanted);
            interpreter.declare(&self.functions);
            self.engine = None;
            return &mut self.engine.insert((wanted, interpreter)).1;
        }
        match &mut self.engine {
            Some((_, interpreter)) => interpreter,
            // Just seen to be there.
            None => sys::end(70),
        }
    }

    fn feed(&mut self, source: &Source, make: &mut MakeInterpreter<'_>) {
        self.interpreter(source.engine.unwrap_or(Engine::Rustpython), make);
        if let Some((_, interpreter)) = &mut self.engine {
            let ended = interpreter.run(&universal_newlines(source), &mut self.host);
            self.host.end(ended);
        }
    }

    fn snapshot(&mut self) {
        let state = match &mut self.engine {
            Some((_, interpreter)) => interpreter.snapshot(),
            None => Err(Unsupported { feature: "a snapshot of a session that ran nothing".to_owned(), line: None }),
        };
        self.host.send_snapshot(state);
    }

    fn restore(&mut self, engine: Engine, bytes: &[u8], make: &mut MakeInterpreter<'_>) {
        let Some(state) = self.host.files.take_up(bytes) else { sys::end(72) };
        let state = state.to_vec();
        self.interpreter(engine, make);
        let Some((_, interpreter)) = &mut self.engine else { return };
        match interpreter.restore(&state, &mut self.host) {
            Ok(Some(ended)) => self.host.end(ended),
            Ok(None) => self.host.send(&FromGuest::Restored),
            Err(missing) => self.host.send(&FromGuest::Unsupported(missing.feature, missing.line)),
        }
    }
}

/// What the worker offers its interpreter.
struct WorkerHost {
    socket: Socket,
    files: Files,
    next_call: u64,
    answers: BTreeMap<CallId, Result<Value, GuestError>>,
    output: Vec<u8>,
    output_stream: Stream,
    window: Instant,
    sent_in_window: u32,
}

impl WorkerHost {
    fn new(socket: Socket, setup: &Setup) -> Self {
        Self {
            socket,
            files: Files::new(setup.workspace),
            next_call: 1,
            answers: BTreeMap::new(),
            output: Vec::with_capacity(GATHER),
            output_stream: Stream::Stdout,
            window: Instant::now(),
            sent_in_window: 0,
        }
    }

    fn flush(&mut self) {
        if !self.output.is_empty() {
            let output = std::mem::take(&mut self.output);
            self.socket.send(&FromGuest::Print(self.output_stream, output));
        }
    }

    fn send(&mut self, frame: &FromGuest) {
        self.flush();
        self.socket.send(frame);
    }

    fn end(&mut self, ended: Ended) {
        self.answers.clear();
        let frame = match ended {
            Ended::Done(value) => FromGuest::Done(value),
            Ended::Raised(exception) => FromGuest::Raised(exception),
            Ended::Unsupported(missing) => FromGuest::Unsupported(missing.feature, missing.line),
            Ended::NoValue(why) => FromGuest::NoValue(why.to_string()),
        };
        self.send_bounded(&frame);
    }

    /// A frame that is too large for its kind becomes the limit it breaks.
    fn send_bounded(&mut self, frame: &FromGuest) {
        self.flush();
        let bytes = frame.encode();
        let header = bytes.first_chunk::<HEADER>().copied().unwrap_or_default();
        match Header::parse(header, ringfence_wire::from_guest_cap) {
            Ok(_) => sys::write_frame(&bytes),
            Err(_) => self.socket.send(&FromGuest::Limit(LimitKind::Size, bytes.len() as u64)),
        }
    }

    fn answer_files(&mut self, op: FileOp) {
        let reply = self.files.apply(op);
        self.send_bounded(&FromGuest::Filed(reply));
    }

    fn send_snapshot(&mut self, state: Result<Vec<u8>, Unsupported>) {
        let frame = match state {
            Ok(state) => FromGuest::Snapshotted(self.files.write_down(&state)),
            Err(missing) => FromGuest::Unsupported(missing.feature, missing.line),
        };
        self.send_bounded(&frame);
    }

    /// Takes frames while a program waits; what is not an answer is served at once.
    fn receive_answer(&mut self, pause: &dyn Pause) -> (CallId, Result<Value, GuestError>) {
        loop {
            match self.socket.receive() {
                ToGuest::Answer(id, result) => return (id, result),
                ToGuest::Snapshot => self.send_snapshot(pause.dump()),
                ToGuest::Files(op) => self.answer_files(op),
                ToGuest::Setup(_) | ToGuest::Feed(_) | ToGuest::Restore(..) | ToGuest::Synced | ToGuest::Fork(_) => {
                    sys::end(70)
                }
            }
        }
    }

    fn take_answer(&mut self, pending: &[CallId]) -> Option<(CallId, Result<Value, GuestError>)> {
        let id = *pending.iter().find(|id| self.answers.contains_key(id))?;
        self.answers.remove(&id).map(|result| (id, result))
    }
}

impl Host for WorkerHost {
    fn print(&mut self, stream: Stream, bytes: &[u8]) {
        if stream != self.output_stream {
            self.flush();
            self.output_stream = stream;
        }
        for piece in bytes.chunks(GATHER) {
            self.output.extend_from_slice(piece);
            if self.output.len() >= GATHER {
                self.flush();
            }
        }
        if self.window.elapsed() > WINDOW {
            self.window = Instant::now();
            self.sent_in_window = 0;
        }
        let whole_line = bytes.is_empty() || bytes.ends_with(b"\n");
        if whole_line && self.sent_in_window < LINES_AT_ONCE {
            self.sent_in_window += 1;
            self.flush();
        }
    }

    fn show(&mut self, bundle: MimeBundle) {
        self.send_bounded(&FromGuest::Shown(bundle));
    }

    fn next_call(&mut self) -> CallId {
        let id = CallId(self.next_call);
        self.next_call += 1;
        id
    }

    fn call(&mut self, call: Call, pause: &dyn Pause) -> Result<Value, GuestError> {
        let id = call.id;
        self.next_call = self.next_call.max(id.0 + 1);
        self.send_bounded(&FromGuest::Call(call));
        self.socket.expect_answer();
        loop {
            let (answered, result) = self.receive_answer(pause);
            if answered == id {
                return result;
            }
            self.answers.insert(answered, result);
        }
    }

    fn defer(&mut self, call: Call) {
        self.next_call = self.next_call.max(call.id.0 + 1);
        self.send_bounded(&FromGuest::Call(Call { deferred: true, ..call }));
    }

    fn wait(
        &mut self,
        pending: &[CallId],
        timeout: Option<Duration>,
        pause: &dyn Pause,
    ) -> Option<(CallId, Result<Value, GuestError>)> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        if let Some(answer) = self.take_answer(pending) {
            return Some(answer);
        }
        match timeout {
            // The host's clock stands still only where the guest can't go on without the host: its own timer is its own
            // time.
            Some(_) => self.flush(),
            None => self.send_bounded(&FromGuest::Await(pending.to_vec())),
        }
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if !self.socket.wait(left) {
                return None;
            }
            let (id, result) = self.receive_answer(pause);
            self.answers.insert(id, result);
            if let Some(answer) = self.take_answer(pending) {
                return Some(answer);
            }
        }
    }

    fn sleep(&mut self, duration: Duration) {
        self.flush();
        std::thread::sleep(duration);
    }

    fn files(&mut self) -> &mut Files {
        &mut self.files
    }
}
