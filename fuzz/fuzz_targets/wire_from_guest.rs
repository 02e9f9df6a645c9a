//! Coverage-guided fuzzing of [`ringfence_fuzz::wire_from_guest`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringfence_fuzz::wire_from_guest(data));
