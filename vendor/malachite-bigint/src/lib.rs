//! Big integers for the Python interpreter, under the names it asks for.
//!
//! Answers to: `rustpython-*` and `pymath`, which were written against the LGPL crate of this name. That crate is
//! itself a drop-in replacement of `num-bigint`, so this one only hands `num-bigint` on.
//! Must not: contain anything of the crate it stands in for.

#![forbid(unsafe_code)]

pub use num_bigint::*;
