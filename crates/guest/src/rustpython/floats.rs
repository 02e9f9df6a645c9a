//! Arithmetic of floats to the last digit: `//`, `%`, `divmod`, `**`, `round` and `int`, as CPython computes them.
//!
//! Answers to: `Warm`, which puts these functions into the type `float`. Must not: be put there once a program runs.

use super::mended::method;
use rustpython_vm::builtins::{PyFloat, PyInt, PyIntRef, try_bigint_to_f64, try_f64_to_bigint};
use rustpython_vm::function::OptionalArg;
use rustpython_vm::protocol::PyNumber;
use rustpython_vm::{AsObject, PyObject, PyObjectRef, PyRef, PyResult, VirtualMachine};

/// More decimals than any float has.
const MOST_DECIMALS: i64 = 323;
/// Digits that hold every whole float, and the part behind the point of every float from 1 on.
const EXACT: usize = 400;

/// Puts them into the type.
pub fn mend(vm: &VirtualMachine) {
    let float = vm.ctx.types.float_type;
    let slots = &float.slots.as_number;
    for slot in [&slots.floor_divide, &slots.right_floor_divide] {
        slot.store(Some(|left, right, vm| of_floats(left, right, floor_divide, vm)));
    }
    for slot in [&slots.remainder, &slots.right_remainder] {
        slot.store(Some(|left, right, vm| of_floats(left, right, remainder, vm)));
    }
    for slot in [&slots.divmod, &slots.right_divmod] {
        slot.store(Some(|left, right, vm| of_floats(left, right, divmod, vm)));
    }
    for slot in [&slots.power, &slots.right_power] {
        slot.store(Some(power_of_objects));
    }
    slots.int.store(Some(int_of_float));
    method(float, "__round__", round, vm);
    by_name(vm);
}

/// The same by the names of the methods, which a program may call too.
fn by_name(vm: &VirtualMachine) {
    let float = vm.ctx.types.float_type;
    macro_rules! both_ways {
        ($($name:literal, $reflected:literal => $operation:ident;)*) => {$(
            method(float, $name, |left: PyObjectRef, right: PyObjectRef, vm: &VirtualMachine| {
                of_floats(&left, &right, $operation, vm)
            }, vm);
            method(float, $reflected, |right: PyObjectRef, left: PyObjectRef, vm: &VirtualMachine| {
                of_floats(&left, &right, $operation, vm)
            }, vm);
        )*};
    }
    both_ways! {
        "__floordiv__", "__rfloordiv__" => floor_divide;
        "__mod__", "__rmod__" => remainder;
        "__divmod__", "__rdivmod__" => divmod;
    }
    method(
        float,
        "__pow__",
        |base: PyObjectRef, exponent: PyObjectRef, modulus: OptionalArg<PyObjectRef>, vm: &VirtualMachine| {
            power_of_objects(&base, &exponent, &modulus.unwrap_or_none(vm), vm)
        },
        vm,
    );
}

/// A float or an int as a float; `None` for anything else.
fn operand(object: &PyObject, vm: &VirtualMachine) -> PyResult<Option<f64>> {
    if let Some(float) = object.downcast_ref::<PyFloat>() {
        return Ok(Some(float.to_f64()));
    }
    object.downcast_ref::<PyInt>().map(|int| try_bigint_to_f64(int.as_bigint(), vm)).transpose()
}

fn of_floats(
    left: &PyObject,
    right: &PyObject,
    operation: fn(f64, f64, &VirtualMachine) -> PyResult,
    vm: &VirtualMachine,
) -> PyResult {
    match (operand(left, vm)?, operand(right, vm)?) {
        (Some(left), Some(right)) => operation(left, right, vm),
        _ => Ok(vm.ctx.not_implemented()),
    }
}

/// Quotient and remainder, as CPython's `_float_div_mod`.
fn quotient_and_remainder(left: f64, right: f64) -> (f64, f64) {
    let mut rest = left % right;
    let mut quotient = (left - rest) / right;
    if rest == 0.0 {
        rest = 0.0_f64.copysign(right);
    } else if (right < 0.0) != (rest < 0.0) {
        rest += right;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(left / right), rest);
    }
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, rest)
}

fn not_by_zero(right: f64, vm: &VirtualMachine) -> PyResult<()> {
    if right == 0.0 { Err(vm.new_zero_division_error("division by zero".to_owned())) } else { Ok(()) }
}

fn floor_divide(left: f64, right: f64, vm: &VirtualMachine) -> PyResult {
    not_by_zero(right, vm)?;
    Ok(vm.ctx.new_float(quotient_and_remainder(left, right).0).into())
}

fn remainder(left: f64, right: f64, vm: &VirtualMachine) -> PyResult {
    not_by_zero(right, vm)?;
    Ok(vm.ctx.new_float(quotient_and_remainder(left, right).1).into())
}

fn divmod(left: f64, right: f64, vm: &VirtualMachine) -> PyResult {
    not_by_zero(right, vm)?;
    let (quotient, rest) = quotient_and_remainder(left, right);
    Ok(vm.ctx.new_tuple(vec![vm.ctx.new_float(quotient).into(), vm.ctx.new_float(rest).into()]).into())
}

fn power_of_objects(base: &PyObject, exponent: &PyObject, modulus: &PyObject, vm: &VirtualMachine) -> PyResult {
    if !vm.is_none(modulus) {
        let text = "pow() 3rd argument not allowed unless all arguments are integers";
        return Err(vm.new_type_error(text.to_owned()));
    }
    of_floats(base, exponent, power, vm)
}

/// As CPython's `float_pow`.
fn power(base: f64, exponent: f64, vm: &VirtualMachine) -> PyResult {
    let odd = exponent.abs() % 2.0 == 1.0;
    if base == 0.0 && exponent < 0.0 {
        return Err(vm.new_zero_division_error("zero to a negative power".to_owned()));
    }
    let plain = base == 0.0 || !base.is_finite() || !exponent.is_finite();
    if !plain && base < 0.0 && exponent != exponent.floor() {
        let (length, angle) = ((-base).powf(exponent), std::f64::consts::PI * exponent);
        return vm.ctx.types.complex_type.as_object().call((length * angle.cos(), length * angle.sin()), vm);
    }
    let result = match base {
        // The sign is set apart, as CPython does.
        _ if !plain && base < 0.0 && odd => -(-base).powf(exponent),
        _ if !plain => base.abs().powf(exponent),
        _ => base.powf(exponent),
    };
    if result.is_infinite() && !plain {
        let text = vm.ctx.new_str("Numerical result out of range");
        let class = vm.ctx.exceptions.overflow_error.to_owned();
        return Err(vm.new_exception(class, vec![vm.ctx.new_int(34).into(), text.into()]));
    }
    Ok(vm.ctx.new_float(result).into())
}

fn int_of_float(number: PyNumber<'_>, vm: &VirtualMachine) -> PyResult {
    let value = number.obj.downcast_ref::<PyFloat>().map_or(0.0, |float| float.to_f64());
    whole(value, vm)
}

fn whole(value: f64, vm: &VirtualMachine) -> PyResult {
    if value.is_nan() {
        return Err(vm.new_value_error("cannot convert float NaN to integer".to_owned()));
    }
    if value.is_infinite() {
        return Err(vm.new_overflow_error("cannot convert float infinity to integer".to_owned()));
    }
    Ok(vm.ctx.new_int(try_f64_to_bigint(value, vm)?).into())
}

/// `float.__round__`.
fn round(number: PyRef<PyFloat>, digits: OptionalArg<PyObjectRef>, vm: &VirtualMachine) -> PyResult {
    let value = number.to_f64();
    let Some(digits) = digits.into_option().filter(|digits| !vm.is_none(digits)) else {
        return whole(value.round_ties_even(), vm);
    };
    let digits: PyIntRef = digits.try_index(vm)?;
    let far = if digits.as_bigint() < &0.into() { i64::MIN } else { i64::MAX };
    let rounded = rounded(value, i64::try_from(digits.as_bigint()).unwrap_or(far));
    if rounded.is_infinite() && value.is_finite() {
        return Err(vm.new_overflow_error("rounded value too large to represent".to_owned()));
    }
    Ok(vm.ctx.new_float(rounded).into())
}

/// Rounds the exact decimal value, a half to the even digit.
fn rounded(value: f64, digits: i64) -> f64 {
    if !value.is_finite() || digits > MOST_DECIMALS || value == 0.0 {
        return value;
    }
    let nearest = |text: String| text.parse::<f64>().unwrap_or(value);
    if let Ok(decimals) = usize::try_from(digits) {
        return nearest(format!("{value:.decimals$}"));
    }
    let exact = format!("{:.EXACT$e}", value.abs());
    let (mantissa, exponent) = exact.split_once('e').unwrap_or((&exact, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let kept = exponent.saturating_add(digits).saturating_add(1);
    let whole = match usize::try_from(kept) {
        Ok(0) => {
            let over = mantissa > "5" && mantissa.bytes().skip(2).any(|digit| digit != b'0') || mantissa >= "6";
            if over { nearest(format!("1e{}", exponent.saturating_add(1))) } else { 0.0 }
        }
        Ok(kept) => nearest(format!("{:.*e}", kept - 1, value.abs())),
        Err(_) => 0.0,
    };
    whole.copysign(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_rounded_as_they_are_written_in_full() {
        let check = |value: f64, digits: i64, want: &str| {
            assert_eq!(format!("{:?}", rounded(value, digits)), want, "round({value}, {digits})");
        };
        check(0.005, 2, "0.01");
        check(0.015, 2, "0.01");
        check(1.115, 2, "1.11");
        check(2.675, 2, "2.67");
        check(0.125, 2, "0.12");
        check(-0.004, 2, "-0.0");
        check(1.5e300, 2, "1.5e300");
        check(1e-320, 321, "1e-320");
        check(15.0, -1, "20.0");
        check(25.0, -1, "20.0");
        check(-25.1, -1, "-30.0");
        check(5.0, -1, "0.0");
        check(5.000001, -1, "10.0");
        check(-6.0, -1, "-10.0");
        check(4.9, -1, "0.0");
        check(123456.0, -7, "0.0");
        check(1e23, -23, "1e23");
        check(1.7e308, -308, "inf");
        check(1234.5, i64::MIN, "0.0");
        check(1234.5, i64::MAX, "1234.5");
    }

    #[test]
    fn the_remainder_of_floats_has_the_sign_of_the_divisor() {
        let check = |left: f64, right: f64, want: &str| {
            assert_eq!(format!("{:?}", quotient_and_remainder(left, right)), want, "divmod({left}, {right})");
        };
        check(1.0, 0.1, "(9.0, 0.09999999999999995)");
        check(3.0, 0.1, "(29.0, 0.09999999999999984)");
        check(-1.0, 0.1, "(-10.0, 5.551115123125783e-17)");
        check(0.0, -2.0, "(-0.0, -0.0)");
        check(-7.5, 2.0, "(-4.0, 0.5)");
        check(7.5, -2.0, "(-4.0, -0.5)");
        check(6.0, -2.0, "(-3.0, -0.0)");
        check(5.0, f64::INFINITY, "(0.0, 5.0)");
        check(-5.0, f64::INFINITY, "(-1.0, inf)");
    }
}
