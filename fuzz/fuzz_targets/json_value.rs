//! Coverage-guided fuzzing of [`ringfence_fuzz::json_value`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringfence_fuzz::json_value(data));
