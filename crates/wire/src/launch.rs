//! What host and zygote say to each other before there is a frame.
//!
//! Answers to: the tier that starts a zygote, the program that becomes one, and the zygote. Must not: start anything.

/// The first argument that makes an executable a zygote; the engine to warm follows.
pub const HIDDEN_ARGUMENT: &str = "--ringfence-zygote";

/// The word after the engine that asks for no more imports than are needed.
pub const LEAN: &str = "lean";

/// What a zygote says when it is warm. Another program would say something else, or nothing.
pub const GREETING: &[u8] = b"ringfence zygote 1";
