//! The engine against a host made of closures.

use super::*;

#[test]
fn placeholder() {}
