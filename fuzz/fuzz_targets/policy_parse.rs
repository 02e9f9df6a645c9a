//! Coverage-guided fuzzing of [`ringfence_fuzz::policy_parse`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringfence_fuzz::policy_parse(data));
