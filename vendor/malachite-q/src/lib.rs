//! Fractions for the Python interpreter: exact division of integers to a float, and a float as a fraction.
//!
//! Answers to: `rustpython-common` (`int.rs`). Must not: contain anything of the LGPL crate it stands in for; this
//! was written from the calls alone.

#![forbid(unsafe_code)]

use core::cmp::Ordering;

use malachite_base::num::conversion::traits::RoundingInto;
use malachite_base::rounding_modes::RoundingMode;
use num_bigint::{BigInt, BigUint, Sign};
use num_integer::Integer;
use num_traits::{One, ToPrimitive, Zero};

/// The bits of an `f64`'s significand, the hidden one included.
const PRECISION: i64 = 53;
/// The exponent of the last bit of the smallest `f64`.
const LOWEST: i64 = -1074;
/// The bits below the exponent in an `f64`.
const STORED: u32 = 52;

/// A fraction: a sign, and two magnitudes of which the second is not 0. Reduced only where [`TryFrom`] made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rational {
    negative: bool,
    numerator: BigUint,
    denominator: BigUint,
}

/// A float that is no number, or infinite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFinite;

impl Rational {
    /// The fraction of two integers.
    ///
    /// # Panics
    /// Where the denominator is 0; the interpreter raises `ZeroDivisionError` before.
    pub fn from_integers_ref(numerator: &BigInt, denominator: &BigInt) -> Self {
        assert!(denominator.sign() != Sign::NoSign, "the caller checks for a denominator of 0");
        Self {
            negative: (numerator.sign() == Sign::Minus) != (denominator.sign() == Sign::Minus),
            numerator: numerator.magnitude().clone(),
            denominator: denominator.magnitude().clone(),
        }
    }

    /// The magnitudes of both parts.
    pub fn into_numerator_and_denominator(self) -> (BigUint, BigUint) {
        (self.numerator, self.denominator)
    }
}

impl RoundingInto<f64> for Rational {
    /// The nearest float, ties to even; infinite where that is beyond the largest.
    ///
    /// The order is only told apart from `Equal` where it is safe: the interpreter takes the largest float with
    /// `Less` for an overflow, and here an overflow is already infinite.
    fn rounding_into(self, mode: RoundingMode) -> (f64, Ordering) {
        let RoundingMode::Nearest = mode;
        let magnitude = nearest(&self.numerator, &self.denominator);
        (if self.negative && !self.numerator.is_zero() { -magnitude } else { magnitude }, Ordering::Equal)
    }
}

/// The float nearest to `numerator / denominator`, ties to even.
fn nearest(numerator: &BigUint, denominator: &BigUint) -> f64 {
    if numerator.is_zero() {
        return 0.0;
    }
    // The quotient lies in (2^(above-1), 2^(above+1)): keep 53 or 54 bits of it, or fewer below the normal range.
    let above = numerator.bits() as i64 - denominator.bits() as i64;
    if above > 1025 {
        return f64::INFINITY;
    }
    let mut exponent = (above - PRECISION).max(LOWEST);
    let (mut quotient, mut exact) = divide(numerator, denominator, exponent);
    if quotient.bits() as i64 > PRECISION {
        exponent += 1;
        (quotient, exact) = divide(numerator, denominator, exponent);
    }
    if exact {
        return pack(quotient.to_u64().unwrap_or(u64::MAX), exponent);
    }
    let (finer, rest_is_zero) = divide(numerator, denominator, exponent - 1);
    pack(round(&quotient, finer.is_odd(), !rest_is_zero), exponent)
}

/// `numerator / denominator / 2^exponent` rounded down, and whether nothing was lost.
fn divide(numerator: &BigUint, denominator: &BigUint, exponent: i64) -> (BigUint, bool) {
    let shift = exponent.unsigned_abs();
    let (quotient, rest) = if exponent < 0 {
        (numerator << shift).div_rem(denominator)
    } else {
        numerator.div_rem(&(denominator << shift))
    };
    (quotient, rest.is_zero())
}

fn round(quotient: &BigUint, half: bool, more: bool) -> u64 {
    let low = quotient.to_u64().unwrap_or(u64::MAX);
    low + u64::from(half && (more || low & 1 == 1))
}

/// `significand * 2^exponent`, where the significand has at most 53 bits, or is 2^53 after rounding up.
fn pack(significand: u64, exponent: i64) -> f64 {
    if significand >> STORED == 0 {
        // Below the normal range the exponent is the lowest, and the significand is what is stored.
        return if exponent == LOWEST { f64::from_bits(significand) } else { significand as f64 * power(exponent) };
    }
    let (significand, exponent) =
        if significand >> (STORED + 1) == 0 { (significand, exponent) } else { (significand >> 1, exponent + 1) };
    let biased = exponent - LOWEST + 1;
    if biased >= 2047 {
        return f64::INFINITY;
    }
    f64::from_bits(((biased as u64) << STORED) | (significand & ((1 << STORED) - 1)))
}

/// 2^exponent for exponents in the normal range.
fn power(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023).clamp(1, 2046) as u64) << STORED)
}

impl TryFrom<f64> for Rational {
    type Error = NotFinite;

    fn try_from(value: f64) -> Result<Self, NotFinite> {
        if !value.is_finite() {
            return Err(NotFinite);
        }
        let bits = value.to_bits();
        let stored = bits & ((1 << STORED) - 1);
        let biased = (bits >> STORED & 0x7ff) as i64;
        let (significand, exponent) =
            if biased == 0 { (stored, LOWEST) } else { (stored | 1 << STORED, biased - 1 + LOWEST) };
        let negative = value.is_sign_negative() && significand != 0;
        if significand == 0 {
            return Ok(Self { negative, numerator: BigUint::zero(), denominator: BigUint::one() });
        }
        // A power of two is the denominator, so that taking out the trailing zeros reduces the fraction.
        let zeros = if exponent < 0 { i64::from(significand.trailing_zeros()).min(-exponent) } else { 0 };
        let numerator = BigUint::from(significand >> zeros);
        let exponent = exponent + zeros;
        let shift = exponent.unsigned_abs();
        Ok(if exponent < 0 {
            Self { negative, numerator, denominator: BigUint::one() << shift }
        } else {
            Self { negative, numerator: numerator << shift, denominator: BigUint::one() }
        })
    }
}

#[cfg(test)]
mod tests;
