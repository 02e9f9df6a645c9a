//! Known values, and every answer compared with the machine's own division where that is exact.

use super::*;

fn divided(numerator: &str, denominator: &str) -> f64 {
    let parse = |text: &str| text.parse::<BigInt>().expect("a number");
    let fraction = Rational::from_integers_ref(&parse(numerator), &parse(denominator));
    RoundingInto::<f64>::rounding_into(fraction, RoundingMode::Nearest).0
}

fn two_to(exponent: u32) -> BigInt {
    BigInt::one() << exponent
}

fn check_big(numerator: BigInt, denominator: BigInt, want: f64) {
    let got = divided(&numerator.to_string(), &denominator.to_string());
    assert_eq!(got.to_bits(), want.to_bits(), "{numerator} / {denominator} = {got}, wanted {want}");
}

#[test]
fn small_integers_divide_as_the_machine_does() {
    for a in -70_i32..70 {
        for b in (-70_i32..70).filter(|b| *b != 0) {
            let want = if a == 0 { 0.0 } else { f64::from(a) / f64::from(b) };
            check_big(BigInt::from(a), BigInt::from(b), want);
        }
    }
}

#[test]
fn fifty_three_bit_integers_divide_as_the_machine_does() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let a = next() >> 11 >> (next() % 50);
        let b = (next() >> 11 >> (next() % 50)).max(1);
        check_big(BigInt::from(a), BigInt::from(b), a as f64 / b as f64);
    }
}

#[test]
fn ties_go_to_even_and_anything_above_a_tie_goes_up() {
    let one = BigInt::one();
    check_big(two_to(53) + 1, one.clone(), 9_007_199_254_740_992.0);
    check_big(two_to(53) + 3, one.clone(), 9_007_199_254_740_996.0);
    check_big(two_to(54) + 2, BigInt::from(2), 9_007_199_254_740_992.0);
    check_big((two_to(53) + 1) * two_to(200) + 1, two_to(200), 9_007_199_254_740_994.0);
    check_big((two_to(53) + 1) * two_to(200) - 1, two_to(200), 9_007_199_254_740_992.0);
    check_big(-two_to(53) - 3, one, -9_007_199_254_740_996.0);
}

#[test]
fn the_ends_of_the_range_are_right() {
    let largest: BigInt = (two_to(53) - 1) * two_to(971);
    check_big(largest.clone(), BigInt::one(), f64::MAX);
    check_big(&largest + two_to(969), BigInt::one(), f64::MAX);
    check_big(&largest + two_to(970), BigInt::one(), f64::INFINITY);
    check_big(-&largest - two_to(970), BigInt::one(), f64::NEG_INFINITY);
    check_big(BigInt::one(), two_to(1074), f64::from_bits(1));
    check_big(BigInt::one(), two_to(1075), 0.0);
    check_big(BigInt::from(3), two_to(1076), f64::from_bits(1));
    check_big(BigInt::from(3), two_to(1075), f64::from_bits(2));
    check_big(two_to(53) - 1, two_to(1075), f64::MIN_POSITIVE);
    check_big(two_to(1), two_to(1023), f64::MIN_POSITIVE);
    check_big(two_to(5000), two_to(4999), 2.0);
    check_big(BigInt::one(), two_to(9000), 0.0);
    check_big(two_to(3), BigInt::one(), 8.0);
}

#[test]
fn a_float_becomes_its_exact_fraction() {
    let check = |value: f64, want: Option<(&str, &str)>| {
        let got = Rational::try_from(value).ok().map(Rational::into_numerator_and_denominator);
        assert_eq!(
            got.map(|(top, bottom)| (top.to_string(), bottom.to_string())),
            want.map(|(top, bottom)| (top.to_owned(), bottom.to_owned())),
            "{value}"
        );
    };
    check(0.1, Some(("3602879701896397", "36028797018963968")));
    check(-0.5, Some(("1", "2")));
    check(0.0, Some(("0", "1")));
    check(6.0, Some(("6", "1")));
    check(1e22, Some(("10000000000000000000000", "1")));
    check(f64::NAN, None);
    check(f64::INFINITY, None);
    let smallest = Rational::try_from(f64::from_bits(1)).expect("finite").into_numerator_and_denominator();
    assert_eq!(smallest, (BigUint::one(), BigUint::one() << 1074u32));
}
