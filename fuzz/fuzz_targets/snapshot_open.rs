//! Coverage-guided fuzzing of [`ringfence_fuzz::snapshot_open`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringfence_fuzz::snapshot_open(data));
