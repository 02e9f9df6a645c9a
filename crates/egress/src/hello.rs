//! The first bytes of a tunnel: the name in a TLS ClientHello, or plain HTTP.
//!
//! Answers to: `tunnel`. Must not: answer the guest, or speak TLS. INVARIANT: at most [`MOST`] bytes are held, and a
//! hello that isn't exactly as long as it says, in all its parts, is refused.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::refusal::Refusal;

/// The most bytes of records that a hello may take.
const MOST: usize = 32 * 1024;
const RECORD_HEADER: usize = 5;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const MOST_IN_RECORD: usize = 16 * 1024;
const SERVER_NAME: u16 = 0;
const HIDDEN_HELLO: u16 = 0xfe0d;

/// What a tunnel begins with, and the bytes that were read to see it.
#[derive(Debug)]
pub(crate) enum Opening {
    Tls { hello: Hello, read: Bytes },
    Http { read: Bytes },
}

/// What a ClientHello says in clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The server's name, in lower case.
    pub(crate) name: Option<String>,
    /// Whether there is another, encrypted hello inside, or something that looks like it.
    pub(crate) is_hiding: bool,
}

/// Reads until it is clear what the tunnel begins with.
pub(crate) async fn peek<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Opening, Refusal> {
    let mut read = BytesMut::with_capacity(2048);
    loop {
        if let Some(first) = read.first() {
            if first.is_ascii_uppercase() {
                return Ok(Opening::Http { read: read.freeze() });
            }
            if *first != HANDSHAKE {
                return Err(Refusal::NotTls);
            }
            if let Some(hello) = parse_records(&read).map_err(Refusal::Hello)? {
                return Ok(Opening::Tls { hello, read: read.freeze() });
            }
            if read.len() > MOST {
                return Err(Refusal::Hello("it is too large"));
            }
        }
        match stream.read_buf(&mut read).await {
            Ok(0) | Err(_) => return Err(Refusal::Hello("it broke off")),
            Ok(_) => {}
        }
    }
}

/// The hello in these records; nothing where more bytes are needed.
fn parse_records(mut bytes: &[u8]) -> Result<Option<Hello>, &'static str> {
    let mut message = Vec::new();
    loop {
        if let Some(wanted) = message_length(&message)? {
            if message.len() > wanted {
                return Err("its record holds more than it");
            }
            if message.len() == wanted {
                return parse_hello(message.get(4..).unwrap_or_default()).ok_or("it is malformed")?.map(Some);
            }
        }
        let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER) else { return Ok(None) };
        let [kind, major, _, high, low] = *header else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != 3 || length == 0 || length > MOST_IN_RECORD {
            return Err("its records are malformed");
        }
        let Some((body, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        message.extend_from_slice(body);
        bytes = rest;
    }
}

/// The length of the whole handshake message, once its header is there.
fn message_length(message: &[u8]) -> Result<Option<usize>, &'static str> {
    match message {
        [kind, ..] if *kind != CLIENT_HELLO => Err("it is another message"),
        [_, high, middle, low, ..] => {
            let length = 4 + ((usize::from(*high) << 16) | (usize::from(*middle) << 8) | usize::from(*low));
            if length > MOST { Err("it is too large") } else { Ok(Some(length)) }
        }
        _ => Ok(None),
    }
}

/// A cursor over bytes that must be used up.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }
    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }
    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }
    fn done(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// `None` where it is malformed.
fn parse_hello(body: &[u8]) -> Option<Result<Hello, &'static str>> {
    let mut reader = Reader(body);
    reader.take(2 + 32)?;
    reader.short()?;
    reader.long()?;
    reader.short()?;
    let mut hello = Hello { name: None, is_hiding: false };
    if reader.0.is_empty() {
        return Some(Ok(hello));
    }
    let mut extensions = Reader(reader.long()?);
    reader.done()?;
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let content = extensions.long()?;
        match kind {
            SERVER_NAME if hello.name.is_some() => return Some(Err("it names two servers")),
            SERVER_NAME => hello.name = Some(parse_name(content)?),
            HIDDEN_HELLO => hello.is_hiding = true,
            _ => {}
        }
    }
    Some(Ok(hello))
}

/// The one name of a list of one.
fn parse_name(content: &[u8]) -> Option<String> {
    let mut reader = Reader(content);
    let mut list = Reader(reader.long()?);
    reader.done()?;
    if list.u8()? != 0 {
        return None;
    }
    let name = list.long()?;
    list.done()?;
    let name = std::str::from_utf8(name).ok()?;
    (!name.is_empty()).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn prefixed(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    fn name(text: &str) -> Vec<u8> {
        let entry = [&[0u8][..], &prefixed(text.as_bytes())].concat();
        extension(SERVER_NAME, &prefixed(&entry))
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &prefixed(content)].concat()
    }

    fn message(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend(prefixed(extensions));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO], &length[1..], &body].concat()
    }

    fn records(message: &[u8], piece: usize) -> Vec<u8> {
        message.chunks(piece).flat_map(|piece| [&[HANDSHAKE, 3, 1][..], &prefixed(piece)].concat()).collect()
    }

    async fn opening(bytes: &[u8]) -> Result<(Option<String>, bool), String> {
        let mut stream = bytes;
        match peek(&mut stream).await {
            Ok(Opening::Tls { hello, read }) => {
                assert!(bytes.starts_with(&read));
                Ok((hello.name, hello.is_hiding))
            }
            Ok(Opening::Http { .. }) => Err("http".into()),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    #[tokio::test]
    async fn hellos_are_read_however_they_are_cut() {
        let plain = message(&[extension(43, &[2, 3, 4]), name("API.example.com")].concat());
        for piece in [1, 2, 3, 5, 64, 4096] {
            let read = opening(&records(&plain, piece)).await;
            assert_eq!(read, Ok((Some("api.example.com".into()), false)), "{piece}");
        }
        let hiding = message(&[name("a.example"), extension(HIDDEN_HELLO, &[0])].concat());
        assert_eq!(opening(&records(&hiding, 4096)).await, Ok((Some("a.example".into()), true)));
        assert_eq!(opening(&records(&message(&[]), 4096)).await, Ok((None, false)));
    }

    #[tokio::test]
    async fn broken_openings_are_refused() {
        let malformed = "the TLS ClientHello is refused: it is malformed";
        let records_malformed = "the TLS ClientHello is refused: its records are malformed";
        let broke_off = "the TLS ClientHello is refused: it broke off";
        let good = message(&name("a.example"));
        let mut long_name = name("a.example");
        long_name[8] = 200;
        let two_names = [&[0u8][..], &prefixed(b"a.example"), &[0], &prefixed(b"b.example")].concat();
        let two_lists = message(&[name("a.example"), name("b.example")].concat());
        let mut trailing = good.clone();
        trailing.push(0);
        trailing[3] += 1;
        let more = [good.clone(), vec![0]].concat();
        let table: [(Vec<u8>, &str); 15] = [
            (b"SSH-2.0-x\r\n".to_vec(), "http"),
            (b"GET / HTTP/1.1\r\n".to_vec(), "http"),
            (b"\0\0".to_vec(), "a tunnel carries TLS or HTTP/1.1, and nothing else"),
            (b"\x80\x2e\x01".to_vec(), "a tunnel carries TLS or HTTP/1.1, and nothing else"),
            (Vec::new(), broke_off),
            (records(&good, 4096)[..20].to_vec(), broke_off),
            (records(&message(&long_name), 4096), malformed),
            (records(&message(&extension(SERVER_NAME, &prefixed(&two_names))), 4096), malformed),
            (records(&message(&name("")), 4096), malformed),
            (records(&two_lists, 4096), "the TLS ClientHello is refused: it names two servers"),
            (records(&trailing, 4096), malformed),
            (records(&more, 4096), "the TLS ClientHello is refused: its record holds more than it"),
            (vec![HANDSHAKE, 2, 0, 0, 1, 1], records_malformed),
            (vec![HANDSHAKE, 3, 1, 0, 0], records_malformed),
            (records(&[CLIENT_HELLO, 1, 0, 0], 4), "the TLS ClientHello is refused: it is too large"),
        ];
        for (bytes, want) in table {
            assert_eq!(opening(&bytes).await, Err(want.to_owned()), "{bytes:?}");
        }
        let another = "the TLS ClientHello is refused: it is another message";
        assert_eq!(opening(&records(&[2, 0, 0, 0], 4)).await, Err(another.to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let _ = parse_records(&bytes);
            let _ = parse_hello(&bytes);
            let _ = parse_records(&records(&[&[CLIENT_HELLO, 0, 1, 0][..], &bytes].concat(), 7));
        }

        #[test]
        fn a_part_is_never_another_hello(cut in 0usize..100, piece in 1usize..200) {
            let whole = records(&message(&[name("a.example"), extension(43, &[2, 3, 4])].concat()), piece);
            let part = parse_records(&whole[..cut.min(whole.len() - 1)]);
            proptest::prop_assert_eq!(part, Ok(None));
        }
    }
}
