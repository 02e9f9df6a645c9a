//! Bytes in and out: fixed-width little-endian numbers, lengths before texts.
//!
//! Answers to: `frame` and `value`. Must not: allocate for a length that the remaining bytes can't hold.

use ringfence_types::ValueBudget;

/// Why bytes are not a frame. What the guest sent is never echoed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("the frame ends in the middle of {0}")]
    Short(&'static str),
    /// Bytes are left over.
    #[error("the frame has {0} bytes too many")]
    Trailing(usize),
    /// A tag that names nothing.
    #[error("{0} is not a known {1}")]
    Tag(u8, &'static str),
    /// Text that is not UTF-8.
    #[error("a text in the frame is not valid Unicode")]
    Text,
    /// A number, date or path that breaks its own form.
    #[error("the frame holds a bad {0}")]
    Form(&'static str),
    /// Over one of the bounds of a value.
    #[error("a value is over the limit of {allowed} {what}")]
    Budget {
        /// `bytes`, `levels` or `values`.
        what: &'static str,
        /// The bound.
        allowed: usize,
    },
    /// A body longer than its kind may have.
    #[error("a frame of {length} bytes is over the limit of {allowed}")]
    TooLong {
        /// The length it claims.
        length: usize,
        /// The bound.
        allowed: usize,
    },
}

/// Builds the body of a frame.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// The bytes written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
    /// How many bytes there are so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    pub(crate) fn u8(&mut self, number: u8) {
        self.bytes.push(number);
    }
    pub(crate) fn u32(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }
    pub(crate) fn u64(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
    /// A length as the frame writes it. A body of 4 GiB or more is cut off by the frame's own bound before this one.
    pub(crate) fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).unwrap_or(u32::MAX));
    }
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.raw(bytes);
    }
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
    pub(crate) fn option<T>(&mut self, option: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(option.is_some()));
        if let Some(inner) = option {
            write(self, inner);
        }
    }
    pub(crate) fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.length(items.len());
        items.iter().for_each(|item| write(self, item));
    }
}

/// Reads the body of a frame, counting what it builds.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    budget: ValueBudget,
    nodes: usize,
}

impl<'a> Reader<'a> {
    /// A reader that lets values grow to `budget` in all.
    pub fn new(bytes: &'a [u8], budget: ValueBudget) -> Self {
        Self { rest: bytes, budget, nodes: 0 }
    }

    /// Fails where bytes are left over.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.rest.len())) }
    }

    /// Counts one more value at `depth`.
    pub(crate) fn node(&mut self, depth: usize) -> Result<(), DecodeError> {
        self.nodes += 1;
        if self.nodes > self.budget.nodes {
            return Err(DecodeError::Budget { what: "values", allowed: self.budget.nodes });
        }
        if depth > self.budget.depth {
            return Err(DecodeError::Budget { what: "levels", allowed: self.budget.depth });
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Short(what))?;
        self.rest = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Short(what))?;
        self.rest = rest;
        Ok(*taken)
    }
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(what).map(|[byte]| byte)
    }
    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.array(what).map(u64::from_le_bytes)
    }
    pub(crate) fn uuid(&mut self) -> Result<[u8; 16], DecodeError> {
        self.array("a UUID")
    }
    pub(crate) fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let length = self.u32(what)? as usize;
        self.take(length, what)
    }
    pub(crate) fn text(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let bytes = self.bytes(what)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| DecodeError::Text)
    }
    pub(crate) fn flag(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::Tag(other, what)),
        }
    }
    pub(crate) fn option<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.flag(what)? { read(self).map(Some) } else { Ok(None) }
    }
    /// A list whose items take at least one byte each, so that its length is bounded by what is left.
    pub(crate) fn list<T>(
        &mut self,
        what: &'static str,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let length = self.u32(what)? as usize;
        if length > self.rest.len() {
            return Err(DecodeError::Short(what));
        }
        let mut items = Vec::with_capacity(length.min(64));
        for _ in 0..length {
            items.push(read(self)?);
        }
        Ok(items)
    }
}
