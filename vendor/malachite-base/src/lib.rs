//! The few names of `malachite-base` that the Python interpreter imports.
//!
//! Answers to: `rustpython-common` (`format.rs` and `int.rs`). Must not: contain anything of the LGPL crate it
//! stands in for; this was written from the calls alone.

#![forbid(unsafe_code)]

/// Numbers.
pub mod num {
    /// Basic kinds of number.
    pub mod basic {
        /// Floating point.
        pub mod floats {
            /// What a primitive float can tell about itself.
            pub trait PrimitiveFloat: Copy {
                /// Whether it is `-0.0`.
                fn is_negative_zero(self) -> bool;
            }

            impl PrimitiveFloat for f64 {
                fn is_negative_zero(self) -> bool {
                    self == 0.0 && self.is_sign_negative()
                }
            }
        }
    }

    /// From one kind of number to another.
    pub mod conversion {
        /// The traits of conversion.
        pub mod traits {
            use crate::rounding_modes::RoundingMode;
            use core::cmp::Ordering;

            /// A conversion that rounds, and tells how the result compares to the exact number.
            pub trait RoundingInto<T> {
                /// Converts, rounding as `mode` says.
                fn rounding_into(self, mode: RoundingMode) -> (T, Ordering);
            }
        }
    }
}

/// How to round.
pub mod rounding_modes {
    /// A way to round. Only the one in use is here.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum RoundingMode {
        /// To the nearest, ties to even.
        Nearest,
    }
}
