//! The frames themselves: what the host may tell a worker, and what a worker may tell the host.
//!
//! Answers to: `guest` and the tiers. Must not: have a frame that either side could ignore.

use ringfence_types::{
    Call, CallId, Engine, FileEntry, FileFault, FileOp, FileReply, FunctionSpec, GuestError, GuestException, GuestPath,
    LimitKind, MimeBundle, Source, Stream, TraceFrame, Value, ValueBudget,
};

use crate::code::{DecodeError, Reader, Writer};
use crate::value::{decode_value, encode_value};

/// Bytes of a header: four of length, little-endian, then the kind.
pub const HEADER: usize = 5;

/// What comes before a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the body.
    pub length: usize,
    /// Which frame it is.
    pub kind: u8,
}

impl Header {
    /// Reads a header; `cap` gives the largest body of a kind, or `None` for an unknown one.
    pub fn parse(bytes: [u8; HEADER], cap: impl Fn(u8) -> Option<usize>) -> Result<Self, DecodeError> {
        let [a, b, c, d, kind] = bytes;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let allowed = cap(kind).ok_or(DecodeError::Tag(kind, "frame"))?;
        if length > allowed {
            return Err(DecodeError::TooLong { length, allowed });
        }
        Ok(Self { length, kind })
    }
}

/// What a worker must know before the first snippet.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The frame version of the host.
    pub version: u32,
    /// Bytes of memory above what the warmed worker already uses.
    pub memory: u64,
    /// Bytes of the workspace; 0 for none.
    pub workspace: u64,
    /// The host functions of the session.
    pub functions: Vec<FunctionSpec>,
}

/// Host functions as a session is told of them: JSON.
pub fn declarations(functions: &[FunctionSpec]) -> Vec<u8> {
    serde_json::to_vec(functions).unwrap_or_default()
}

/// What the host tells a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum ToGuest {
    /// The first frame, once.
    Setup(Setup),
    /// A snippet to run.
    Feed(Source),
    /// The answer to a call.
    Answer(CallId, Result<Value, GuestError>),
    /// Write the state down, between snippets or instead of an answer.
    Snapshot,
    /// Take up a state that was written down by this engine.
    Restore(Engine, Vec<u8>),
    /// An operation on the session's files.
    Files(FileOp),
    /// Everything that was sent before a [`FromGuest::Sync`] was handled.
    Synced,
    /// Fork into so many processes besides this one, between snippets.
    Fork(u32),
}

/// What a worker tells the host. Nothing in it is trusted.
#[derive(Debug, Clone, PartialEq)]
pub enum FromGuest {
    /// The worker is locked and ready; its frame version.
    Ready(u32),
    /// A host-function call.
    Call(Call),
    /// Nothing can go on before one of these calls is answered.
    Await(Vec<CallId>),
    /// Output.
    Print(Stream, Vec<u8>),
    /// A rich result.
    Shown(MimeBundle),
    /// The snippet ran to its end.
    Done(Value),
    /// The snippet raised.
    Raised(GuestException),
    /// A limit struck inside: what was reached.
    Limit(LimitKind, u64),
    /// The engine can't do something: what, and the line.
    Unsupported(String, Option<u32>),
    /// The state, written down.
    Snapshotted(Vec<u8>),
    /// A state was taken up, and there is no snippet to go on with.
    Restored,
    /// The answer to an operation on files.
    Filed(FileReply),
    /// The snippet ran to its end, but its value can't cross: why.
    NoValue(String),
    /// The worker is about to start a process that writes for itself: it goes on when the host has handled all before.
    Sync,
    /// So many processes were forked; the descriptors of the next are wanted where there is one.
    Branched(u32),
}

const MIB: usize = 1 << 20;
const SMALL: usize = 64 << 10;
const VALUE: usize = ValueBudget::DEFAULT.bytes + SMALL;
/// The most bytes of a snapshot.
const SNAPSHOT: usize = 512 * MIB;
const FILE: usize = 64 * MIB + SMALL;
/// The most bytes of one source.
const SOURCE: usize = 16 * MIB;

/// The largest body of a frame from the guest.
pub fn from_guest_cap(kind: u8) -> Option<usize> {
    Some(match kind {
        0 | 2 | 7 | 8 | 10 | 12 => SMALL,
        13 => 0,
        14 => 4,
        1 | 5 => VALUE,
        3 => SMALL,
        6 => 8 * SMALL,
        4 => 8 * MIB,
        9 => SNAPSHOT,
        11 => FILE,
        _ => return None,
    })
}

/// The largest body of a frame to the guest.
pub fn to_guest_cap(kind: u8) -> Option<usize> {
    Some(match kind {
        0 => 4 * MIB,
        1 => SOURCE + VALUE,
        2 => VALUE,
        3 | 6 => 0,
        4 => SNAPSHOT,
        5 => FILE,
        7 => 4,
        _ => return None,
    })
}

fn framed(kind: u8, body: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(0);
    writer.u8(kind);
    body(&mut writer);
    let mut bytes = writer.into_bytes();
    let length = u32::try_from(bytes.len() - HEADER).unwrap_or(u32::MAX).to_le_bytes();
    if let Some(head) = bytes.first_chunk_mut::<4>() {
        *head = length;
    }
    bytes
}

impl ToGuest {
    /// The whole frame, header included.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Setup(setup) => framed(0, |w| encode_setup(w, setup)),
            Self::Feed(source) => framed(1, |w| encode_source(w, source)),
            Self::Answer(id, result) => framed(2, |w| encode_answer(w, *id, result)),
            Self::Snapshot => framed(3, |_| ()),
            Self::Restore(engine, bytes) => framed(4, |w| {
                w.u8(engine_tag(*engine));
                w.raw(bytes);
            }),
            Self::Files(op) => framed(5, |w| encode_file_op(w, op)),
            Self::Synced => framed(6, |_| ()),
            Self::Fork(count) => framed(7, |w| w.u32(*count)),
        }
    }
}

/// Reads a frame from the host. The host is trusted for content, not for form.
pub fn to_guest(kind: u8, body: &[u8]) -> Result<ToGuest, DecodeError> {
    let mut reader = Reader::new(body, ValueBudget::DEFAULT);
    let r = &mut reader;
    let frame = match kind {
        0 => ToGuest::Setup(decode_setup(r)?),
        1 => ToGuest::Feed(decode_source(r)?),
        2 => {
            let (id, result) = decode_answer(r)?;
            ToGuest::Answer(id, result)
        }
        3 => ToGuest::Snapshot,
        4 => return Ok(ToGuest::Restore(decode_engine(r)?, body.get(1..).unwrap_or_default().to_vec())),
        5 => ToGuest::Files(decode_file_op(r)?),
        6 => ToGuest::Synced,
        7 => ToGuest::Fork(r.u32("a count")?),
        other => return Err(DecodeError::Tag(other, "frame")),
    };
    reader.finish()?;
    Ok(frame)
}

impl FromGuest {
    /// The whole frame, header included.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ready(version) => framed(0, |w| w.u32(*version)),
            Self::Call(call) => framed(1, |w| encode_call(w, call)),
            Self::Await(ids) => framed(2, |w| w.list(ids, |w, id| w.u64(id.0))),
            Self::Print(stream, bytes) => framed(3, |w| {
                w.u8(stream_tag(*stream));
                w.raw(bytes);
            }),
            Self::Shown(bundle) => framed(4, |w| {
                w.list(&bundle.0, |w, (mime, bytes)| {
                    w.text(mime);
                    w.bytes(bytes);
                });
            }),
            Self::Done(value) => framed(5, |w| encode_value(w, value)),
            Self::Raised(exception) => framed(6, |w| encode_exception(w, exception)),
            Self::Limit(kind, reached) => framed(7, |w| {
                w.u8(limit_tag(*kind));
                w.u64(*reached);
            }),
            Self::Unsupported(feature, line) => framed(8, |w| {
                w.text(feature);
                w.option(*line, Writer::u32);
            }),
            Self::Snapshotted(bytes) => framed(9, |w| w.raw(bytes)),
            Self::Restored => framed(10, |_| ()),
            Self::Filed(reply) => framed(11, |w| encode_file_reply(w, reply)),
            Self::NoValue(why) => framed(12, |w| w.text(why)),
            Self::Sync => framed(13, |_| ()),
            Self::Branched(count) => framed(14, |w| w.u32(*count)),
        }
    }
}

/// Reads a frame from the guest. Every byte of it is hostile.
pub fn from_guest(kind: u8, body: &[u8], budget: ValueBudget) -> Result<FromGuest, DecodeError> {
    let mut reader = Reader::new(body, budget);
    let r = &mut reader;
    let frame = match kind {
        0 => FromGuest::Ready(r.u32("a version")?),
        1 => FromGuest::Call(decode_call(r)?),
        2 => FromGuest::Await(r.list("call ids", |r| r.u64("a call id").map(CallId))?),
        3 => {
            let stream = decode_stream(r)?;
            return Ok(FromGuest::Print(stream, body.get(1..).unwrap_or_default().to_vec()));
        }
        4 => FromGuest::Shown(MimeBundle(
            r.list("a bundle", |r| Ok((r.text("a MIME type")?, r.bytes("shown bytes")?.to_vec())))?,
        )),
        5 => FromGuest::Done(decode_value(r)?),
        6 => FromGuest::Raised(decode_exception(r, 8)?),
        7 => FromGuest::Limit(decode_limit(r)?, r.u64("a limit")?),
        8 => FromGuest::Unsupported(r.text("a feature")?, r.option("a line", |r| r.u32("a line"))?),
        9 => return Ok(FromGuest::Snapshotted(body.to_vec())),
        10 => FromGuest::Restored,
        11 => FromGuest::Filed(decode_file_reply(r)?),
        12 => FromGuest::NoValue(r.text("a reason")?),
        13 => FromGuest::Sync,
        14 => FromGuest::Branched(r.u32("a count")?),
        other => return Err(DecodeError::Tag(other, "frame")),
    };
    reader.finish()?;
    Ok(frame)
}

fn encode_setup(w: &mut Writer, setup: &Setup) {
    w.u32(setup.version);
    w.u64(setup.memory);
    w.u64(setup.workspace);
    w.bytes(&declarations(&setup.functions));
}

fn decode_setup(r: &mut Reader<'_>) -> Result<Setup, DecodeError> {
    Ok(Setup {
        version: r.u32("a version")?,
        memory: r.u64("a limit")?,
        workspace: r.u64("a limit")?,
        functions: serde_json::from_slice(r.bytes("declarations")?).map_err(|_| DecodeError::Form("declaration"))?,
    })
}

fn encode_source(w: &mut Writer, source: &Source) {
    w.text(&source.code);
    w.text(&source.file);
    w.list(&source.inputs, encode_named);
    w.text(&source.stdin);
    w.option(source.engine, |w, engine| w.u8(engine_tag(engine)));
    w.u8(u8::from(source.last));
}

fn decode_source(r: &mut Reader<'_>) -> Result<Source, DecodeError> {
    Ok(Source {
        code: r.text("a source")?,
        file: r.text("a file name")?,
        inputs: r.list("inputs", decode_named)?,
        stdin: r.text("standard input")?,
        engine: r.option("an engine", decode_engine)?,
        last: r.u8("a flag")? != 0,
    })
}

fn encode_named(w: &mut Writer, (name, value): &(String, Value)) {
    w.text(name);
    encode_value(w, value);
}

fn decode_named(r: &mut Reader<'_>) -> Result<(String, Value), DecodeError> {
    Ok((r.text("a name")?, decode_value(r)?))
}

fn encode_answer(w: &mut Writer, id: CallId, result: &Result<Value, GuestError>) {
    w.u64(id.0);
    w.u8(u8::from(result.is_ok()));
    match result {
        Ok(value) => encode_value(w, value),
        Err(error) => {
            w.text(&error.exception);
            w.text(&error.message);
        }
    }
}

type Answer = (CallId, Result<Value, GuestError>);

fn decode_answer(r: &mut Reader<'_>) -> Result<Answer, DecodeError> {
    let id = CallId(r.u64("a call id")?);
    if r.flag("an answer")? {
        return Ok((id, Ok(decode_value(r)?)));
    }
    Ok((id, Err(GuestError { exception: r.text("an exception")?, message: r.text("a message")? })))
}

fn encode_call(w: &mut Writer, call: &Call) {
    w.u64(call.id.0);
    w.text(&call.function);
    w.u8(u8::from(call.deferred));
    w.list(&call.args, encode_value);
    w.list(&call.kwargs, encode_named);
}

fn decode_call(r: &mut Reader<'_>) -> Result<Call, DecodeError> {
    Ok(Call {
        id: CallId(r.u64("a call id")?),
        function: r.text("a function's name")?,
        deferred: r.flag("a call")?,
        args: r.list("arguments", decode_value)?,
        kwargs: r.list("arguments", decode_named)?,
    })
}

fn encode_exception(w: &mut Writer, exception: &GuestException) {
    w.text(&exception.kind);
    w.text(&exception.message);
    w.list(&exception.frames, |w, frame| {
        w.text(&frame.file);
        w.u32(frame.line);
        w.text(&frame.function);
        w.option(frame.source.as_deref(), Writer::text);
    });
    w.list(&exception.notes, |w, note| w.text(note));
    w.option(exception.exit_code, |w, code| w.u32(code.cast_unsigned()));
    w.option(exception.cause.as_deref(), encode_exception);
}

fn decode_exception(r: &mut Reader<'_>, depth: usize) -> Result<GuestException, DecodeError> {
    let Some(deeper) = depth.checked_sub(1) else {
        return Err(DecodeError::Budget { what: "levels", allowed: 8 });
    };
    Ok(GuestException {
        kind: r.text("an exception")?,
        message: r.text("a message")?,
        frames: r.list("frames", |r| {
            Ok(TraceFrame {
                file: r.text("a file name")?,
                line: r.u32("a line")?,
                function: r.text("a function's name")?,
                source: r.option("a source line", |r| r.text("a source line"))?,
            })
        })?,
        notes: r.list("notes", |r| r.text("a note"))?,
        exit_code: r.option("an exit code", |r| r.u32("an exit code"))?.map(u32::cast_signed),
        cause: r.option("a cause", |r| decode_exception(r, deeper))?.map(Box::new),
    })
}

fn encode_file_op(w: &mut Writer, op: &FileOp) {
    match op {
        FileOp::Put { path, content, read_only } => {
            w.u8(0);
            w.text(path.as_str());
            w.bytes(content);
            w.u8(u8::from(*read_only));
        }
        FileOp::Get { path } => tagged_path(w, 1, path),
        FileOp::List { path } => tagged_path(w, 2, path),
        FileOp::Remove { path } => tagged_path(w, 3, path),
    }
}

fn tagged_path(w: &mut Writer, tag: u8, path: &GuestPath) {
    w.u8(tag);
    w.text(path.as_str());
}

fn decode_file_op(r: &mut Reader<'_>) -> Result<FileOp, DecodeError> {
    let tag = r.u8("an operation")?;
    let path = decode_path(r)?;
    Ok(match tag {
        0 => FileOp::Put { path, content: r.bytes("a file")?.to_vec(), read_only: r.flag("a file")? },
        1 => FileOp::Get { path },
        2 => FileOp::List { path },
        3 => FileOp::Remove { path },
        other => return Err(DecodeError::Tag(other, "operation")),
    })
}

fn decode_path(r: &mut Reader<'_>) -> Result<GuestPath, DecodeError> {
    GuestPath::resolve(&r.text("a path")?).map_err(|_| DecodeError::Form("path"))
}

fn encode_file_reply(w: &mut Writer, reply: &FileReply) {
    match reply {
        FileReply::Done => w.u8(0),
        FileReply::Content(content) => {
            w.u8(1);
            w.bytes(content);
        }
        FileReply::Entries(entries) => {
            w.u8(2);
            w.list(entries, |w, entry| {
                w.text(entry.path.as_str());
                w.u64(entry.size);
                w.u8(u8::from(entry.folder));
            });
        }
        FileReply::Fault(fault) => {
            w.u8(3);
            let (tag, path) = fault_parts(fault);
            w.u8(tag);
            w.text(path);
        }
    }
}

fn fault_parts(fault: &FileFault) -> (u8, &str) {
    match fault {
        FileFault::BadPath(path) => (0, path),
        FileFault::NotFound(path) => (1, path),
        FileFault::IsFolder(path) => (2, path),
        FileFault::NotFolder(path) => (3, path),
        FileFault::Denied(path) => (4, path),
        FileFault::NoSpace(path) => (5, path),
    }
}

fn decode_file_reply(r: &mut Reader<'_>) -> Result<FileReply, DecodeError> {
    Ok(match r.u8("a reply")? {
        0 => FileReply::Done,
        1 => FileReply::Content(r.bytes("a file")?.to_vec()),
        2 => FileReply::Entries(r.list("entries", |r| {
            Ok(FileEntry { path: decode_path(r)?, size: r.u64("a size")?, folder: r.flag("an entry")? })
        })?),
        3 => FileReply::Fault(decode_fault(r)?),
        other => return Err(DecodeError::Tag(other, "reply")),
    })
}

fn decode_fault(r: &mut Reader<'_>) -> Result<FileFault, DecodeError> {
    let tag = r.u8("a fault")?;
    let path = r.text("a path")?;
    Ok(match tag {
        0 => FileFault::BadPath(path),
        1 => FileFault::NotFound(path),
        2 => FileFault::IsFolder(path),
        3 => FileFault::NotFolder(path),
        4 => FileFault::Denied(path),
        5 => FileFault::NoSpace(path),
        other => return Err(DecodeError::Tag(other, "fault")),
    })
}

fn engine_tag(engine: Engine) -> u8 {
    match engine {
        Engine::Monty => 0,
        Engine::Rustpython => 1,
    }
}

fn decode_engine(r: &mut Reader<'_>) -> Result<Engine, DecodeError> {
    match r.u8("an engine")? {
        0 => Ok(Engine::Monty),
        1 => Ok(Engine::Rustpython),
        other => Err(DecodeError::Tag(other, "engine")),
    }
}

fn stream_tag(stream: Stream) -> u8 {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

fn decode_stream(r: &mut Reader<'_>) -> Result<Stream, DecodeError> {
    match r.u8("a stream")? {
        0 => Ok(Stream::Stdout),
        1 => Ok(Stream::Stderr),
        other => Err(DecodeError::Tag(other, "stream")),
    }
}

const LIMITS: [LimitKind; 11] = [
    LimitKind::Wall,
    LimitKind::Cpu,
    LimitKind::Memory,
    LimitKind::Output,
    LimitKind::Processes,
    LimitKind::OpenFiles,
    LimitKind::Disk,
    LimitKind::HostCalls,
    LimitKind::Size,
    LimitKind::Idle,
    LimitKind::Lifetime,
];

/// Usable where nothing may be allocated: position in [`LIMITS`].
fn limit_tag(kind: LimitKind) -> u8 {
    LIMITS.iter().position(|known| *known == kind).and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

fn decode_limit(r: &mut Reader<'_>) -> Result<LimitKind, DecodeError> {
    let tag = r.u8("a limit")?;
    LIMITS.get(usize::from(tag)).copied().ok_or(DecodeError::Tag(tag, "limit"))
}

/// The frame `Limit(kind, reached)` on the stack, for a worker that may not allocate any more.
pub fn limit_frame(kind: LimitKind, reached: u64) -> [u8; 14] {
    let mut frame = [0; 14];
    let body = [9_u8, 0, 0, 0, 7, limit_tag(kind)].into_iter().chain(reached.to_le_bytes());
    frame.iter_mut().zip(body).for_each(|(slot, byte)| *slot = byte);
    frame
}
