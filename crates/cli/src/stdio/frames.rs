//! Frames: a length of 4 bytes, big endian, then one JSON object in UTF-8, at most 64 MiB.
//!
//! Answers to: `connection`, which reads them, and `outbox`, which writes them. Must not: know what a frame says, or
//! make room for a length before the bytes are there.

use serde::Serialize;
use serde_json::{Map, Value as Json};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::StdioError;

/// The largest frame in bytes, without its length.
pub const MAX_FRAME: usize = 64 << 20;

const CHUNK: usize = 64 << 10;
/// What a buffer keeps once it is empty.
const KEPT: usize = 1 << 20;
const HEAD: usize = 4;

/// A JSON object.
pub(super) type Object = Map<String, Json>;

/// Bytes that are no frame. The connection can't go on after them.
#[derive(Debug, thiserror::Error)]
pub enum FrameFault {
    /// Over [`MAX_FRAME`].
    #[error("a frame of {0} bytes, over the limit of {MAX_FRAME} bytes")]
    TooLong(usize),
    /// Not JSON, or nested too deeply.
    #[error("a frame that is not JSON: {0}")]
    NotJson(serde_json::Error),
    /// JSON of another kind.
    #[error("a frame that is not a JSON object")]
    NotObject,
    /// An object without `answer` or a whole number `id`.
    #[error("a frame that is neither an answer nor a request with a whole number as its `id`")]
    Neither,
}

/// Cuts what comes in into frames.
pub(super) struct Frames<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), start: 0 }
    }

    /// The next frame; `None` at the end, also where it is in the middle of a frame. Safe to drop while it waits.
    pub async fn next(&mut self) -> Result<Option<Object>, StdioError> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(Some(frame));
            }
            if !self.fill().await.map_err(StdioError::Read)? {
                return Ok(None);
            }
        }
    }

    fn buffered(&mut self) -> Result<Option<Object>, FrameFault> {
        let bytes = self.buffer.get(self.start..).unwrap_or_default();
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
        if length > MAX_FRAME {
            return Err(FrameFault::TooLong(length));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let frame = parse(body)?;
        self.start += HEAD + length;
        Ok(Some(frame))
    }

    async fn fill(&mut self) -> std::io::Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(CHUNK);
        match self.input.read_buf(&mut self.buffer).await {
            // A client that went away without a word is at its end.
            Err(error) if super::is_gone(&error) => Ok(false),
            read => read.map(|count| count > 0),
        }
    }
}

fn parse(body: &[u8]) -> Result<Object, FrameFault> {
    match serde_json::from_slice(body).map_err(FrameFault::NotJson)? {
        Json::Object(object) => Ok(object),
        _ => Err(FrameFault::NotObject),
    }
}

/// One frame as bytes.
pub(super) fn pack(message: &impl Serialize) -> Result<Vec<u8>, FrameFault> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message).map_err(FrameFault::NotJson)?;
    let length = frame.len() - HEAD;
    let head = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME).ok_or(FrameFault::TooLong(length))?;
    frame.splice(..HEAD, head.to_be_bytes());
    Ok(frame)
}
