//! Watches the bytes of requests go by, for what the HTTP library would quietly put right.
//!
//! Answers to: `exchange`, which refuses a request once a fault stands here. Must not: change or hold back a byte.
//! The library takes the chunked reading where a request has two lengths, and skips stray line ends. Requests go
//! out newly framed, so no server sees the doubt; a guest that sends it means harm or is broken, and is told.
//! INVARIANT: a fault stands before the library gets the bytes that hold it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The first fault of a connection, seen by the one who answers.
pub(crate) type Fault = Arc<OnceLock<&'static str>>;

/// A stream whose read bytes are screened.
pub(crate) struct Screened<S> {
    inner: S,
    screen: Screen,
}

impl<S> Screened<S> {
    pub(crate) fn new(inner: S, limit: usize, fault: Fault) -> Self {
        Self { inner, screen: Screen { state: State::Head(Head::default()), limit, fault } }
    }
}

struct Screen {
    state: State,
    limit: usize,
    fault: Fault,
}

enum State {
    Head(Head),
    /// So many bytes of a body are left.
    Body(u64),
    /// A tunnel's bytes, or a chunked body, after which the connection is closed.
    Passing,
}

/// A request's head, so far.
#[derive(Default)]
struct Head {
    line: Vec<u8>,
    bytes: usize,
    lines: usize,
    is_connect: bool,
    length: Option<u64>,
    is_chunked: bool,
}

impl Screen {
    fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.fault.get().is_none() {
            match &mut self.state {
                State::Passing => return,
                State::Body(left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = bytes.get(taken..).unwrap_or_default();
                    *left -= taken as u64;
                    if *left == 0 {
                        self.state = State::Head(Head::default());
                    }
                }
                State::Head(head) => {
                    let Some((byte, rest)) = bytes.split_first() else { return };
                    bytes = rest;
                    match head.take(*byte, self.limit) {
                        Ok(None) => {}
                        Ok(Some(next)) => self.state = next,
                        Err(fault) => drop(self.fault.set(fault)),
                    }
                }
            }
        }
    }
}

impl Head {
    /// One more byte; the next state where it was the head's last.
    fn take(&mut self, byte: u8, limit: usize) -> Result<Option<State>, &'static str> {
        self.bytes += 1;
        if self.bytes > limit {
            return Err("its head is too large");
        }
        let after_return = self.line.last() == Some(&b'\r');
        if byte != b'\n' {
            self.line.push(byte);
            return if after_return { Err("it has a stray carriage return") } else { Ok(None) };
        }
        if !after_return {
            return Err("it has a stray line feed");
        }
        self.line.pop();
        let line = std::mem::take(&mut self.line);
        self.lines += 1;
        match (self.lines, line.as_slice()) {
            (1, []) => Err("it begins with an empty line"),
            (1, first) => {
                self.is_connect = first.starts_with(b"CONNECT ");
                Ok(None)
            }
            (_, []) => Ok(Some(self.end())),
            (_, header) => self.header(header).map(|()| None),
        }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), &'static str> {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err("it has a folded header");
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { return Err("it has a broken header") };
        let value = value.trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let length = digits.and_then(|text| text.parse().ok()).ok_or("its length is not a number")?;
            if self.length.replace(length).is_some() || self.is_chunked {
                return Err("it has two lengths");
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err("its transfer coding is not `chunked`");
            }
            if self.is_chunked || self.length.is_some() {
                return Err("it has two lengths");
            }
            self.is_chunked = true;
        }
        Ok(())
    }

    fn end(&self) -> State {
        match self.length {
            _ if self.is_connect || self.is_chunked => State::Passing,
            Some(length) if length > 0 => State::Body(length),
            _ => State::Head(Self::default()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Screened<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = &polled {
            self.screen.see(buf.filled().get(before..).unwrap_or_default());
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Screened<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Option<&'static str> {
        let whole = screen_in_steps(text, text.len().max(1));
        assert_eq!(screen_in_steps(text, 1), whole, "the pieces in which it comes make no difference: {text:?}");
        whole
    }

    fn screen_in_steps(text: &str, step: usize) -> Option<&'static str> {
        let fault = Fault::default();
        let mut screen = Screen { state: State::Head(Head::default()), limit: 200, fault: Arc::clone(&fault) };
        text.as_bytes().chunks(step).for_each(|piece| screen.see(piece));
        fault.get().copied()
    }

    #[test]
    fn plain_requests_pass() {
        let table = [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\nbGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\n\r\n\x16\x03\x01\n\n\r\r",
        ];
        for text in table {
            assert_eq!(fault(text), None, "{text:?}");
        }
    }

    #[test]
    fn doubtful_requests_are_named() {
        let long = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(200));
        let table = [
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "it has two lengths"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\ncontent-length: 3\r\n\r\n", "it has two lengths"),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", "it has two lengths"),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", "it has two lengths"),
            ("POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n", "its length is not a number"),
            ("POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n", "its length is not a number"),
            ("POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", "its length is not a number"),
            ("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "its length is not a number"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n", "its transfer coding is not `chunked`"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "its transfer coding is not `chunked`"),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                "it has two lengths",
            ),
            ("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", "it has a folded header"),
            ("GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n", "it has a folded header"),
            ("GET / HTTP/1.1\r\nA: b\n\r\n", "it has a stray line feed"),
            ("GET / HTTP/1.1\n\n", "it has a stray line feed"),
            ("GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n", "it has a stray carriage return"),
            ("GET / HTTP/1.1\r\nA b\r\n\r\n", "it has a broken header"),
            ("\r\nGET / HTTP/1.1\r\n\r\n", "it begins with an empty line"),
            ("POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\na\nGET", "it has a stray line feed"),
            (long.as_str(), "its head is too large"),
        ];
        for (text, want) in table {
            assert_eq!(fault(text), Some(want), "{text:?}");
        }
    }
}
