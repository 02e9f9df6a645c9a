//! Frames between the host and a worker: encoding, bounded decoding, version check.
//!
//! Answers to: `guest` on one side and the tiers on the other. Must not: read or write a socket, or trust a length.
//! A frame is a five-byte header ([`Header`]: length and kind) and a body. Every kind has its own largest body, so a
//! liar is refused before anything is allocated for it; values are counted by bytes, depth and nodes while decoded.
#![forbid(unsafe_code)]

mod code;
mod frame;
pub mod jail;
pub mod launch;
mod value;

pub use code::{DecodeError, Reader, Writer};
pub use frame::{
    FromGuest, HEADER, Header, Setup, ToGuest, declarations, from_guest, from_guest_cap, limit_frame, to_guest,
    to_guest_cap,
};
pub use value::{decode_value, encode_value};

/// The version of these frames. Host and worker are the same executable, so any other number is a fault.
pub const VERSION: u32 = 2;
