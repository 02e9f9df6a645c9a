//! Frames between this process and the Python process: four bytes of length, most significant first, then JSON.
//!
//! Answers to: `exports`. Must not: take a frame without bound.

use std::io;

use serde_json::Value as Json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest frame, as in the Python package.
pub const FRAME_MAX: usize = 64 << 20;

/// Reads one frame.
pub async fn read(source: &mut (impl AsyncRead + Unpin)) -> io::Result<Json> {
    let length = source.read_u32().await? as usize;
    if length > FRAME_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame over the limit"));
    }
    let mut body = Vec::new();
    // Grows as bytes come, not at the word of whoever sends.
    let read = source.take(length as u64).read_to_end(&mut body).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&body).map_err(io::Error::from)
}

/// Writes one frame.
pub async fn write(sink: &mut (impl AsyncWrite + Unpin), body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    sink.write_all(&frame).await?;
    sink.flush().await
}
