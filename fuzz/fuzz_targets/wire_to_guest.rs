//! Coverage-guided fuzzing of [`ringfence_fuzz::wire_to_guest`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringfence_fuzz::wire_to_guest(data));
