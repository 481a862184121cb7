"""Numbers for the calculator: exact as long as possible, bounded always.

A value is a Fraction (exact: 0.1 + 0.2 is 0.3, 1/3*3 is 1) until a root or a function makes it a Decimal (approximate,
with more digits than are shown). Every operation checks beforehand how large its result can become, so that no
expression can take long or fill the memory.
"""

import math
from collections.abc import Callable
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, Underflow
from fractions import Fraction

from gateway.tools.registry import ToolError

Number = Fraction | Decimal

MOST_DIGITS = 1000
MOST_BITS = math.ceil(MOST_DIGITS * math.log2(10))
# An exact fraction with a longer denominator goes on as a Decimal: (1+0.07/12)**360 has 1,100 digits that nobody needs.
MOST_DENOMINATOR_BITS = 512
LARGEST_FACTORIAL = 400
SHOWN_DIGITS = 15
MOST_EXACT_DIGITS = 30
# Approximate values have more digits than are believed, so that floor(125**(1/3)) is 5 and not 4.
BELIEVED = Context(prec=40)
WORKING = Context(
    prec=60,
    Emax=MOST_DIGITS,
    Emin=-MOST_DIGITS,
    traps=[DivisionByZero, InvalidOperation, Overflow, Underflow],
)
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
E = WORKING.exp(Decimal(1))
TOO_LARGE = f"The result is too large: more than {MOST_DIGITS:,} digits."
NOT_REAL = "The result is not a real number."


def parse_number(text: str) -> Number:
    number = Decimal(text)
    if abs(number.adjusted()) > MOST_DIGITS:
        raise ToolError(f"A number is out of range: at most {MOST_DIGITS:,} digits.")
    return check_size(Fraction(number))


def add(left: Number, right: Number) -> Number:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return check_size(left + right)
    if not left or not right:
        return left or right
    one, other = to_decimal(left), to_decimal(right)
    total = WORKING.add(one, other)
    # What is left of two numbers that should be equal, as in sqrt(3)**2 - 3, is noise.
    is_noise = total.adjusted() < max(one.adjusted(), other.adjusted()) - BELIEVED.prec
    return Fraction(0) if is_noise or not total else total


def subtract(left: Number, right: Number) -> Number:
    return add(left, negate(right))


def negate(value: Number) -> Number:
    # Not -value: that would round a Decimal to the 28 digits of the thread's own context.
    return value.copy_negate() if isinstance(value, Decimal) else -value


def absolute(value: Number) -> Number:
    return negate(value) if value < 0 else value


def multiply(left: Number, right: Number) -> Number:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return check_size(left * right)
    return WORKING.multiply(to_decimal(left), to_decimal(right))


def divide(left: Number, right: Number) -> Number:
    if not right:
        raise ToolError("Division by zero.")
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return check_size(left / right)
    return WORKING.divide(to_decimal(left), to_decimal(right))


def floor_divide(left: Number, right: Number) -> Number:
    return floor(divide(left, right))


def remainder(left: Number, right: Number) -> Number:
    """With the sign of the divisor, as in Python: -7 % 3 is 2."""
    return subtract(left, multiply(floor_divide(left, right), right))


def power(base: Number, exponent: Number) -> Number:
    if not exponent:
        return Fraction(1)
    if not base:
        if exponent < 0:
            raise ToolError("Division by zero: zero to a negative power.")
        return Fraction(0)
    if base in (1, -1) and is_whole(exponent):
        return Fraction(1) if base == 1 or not int(exponent) % 2 else Fraction(-1)
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and is_whole(exponent):
        longest = max(base.numerator.bit_length(), base.denominator.bit_length())
        # A little too low, at most by half: what gets through is still small, and check_size has the last word.
        if (longest - 1) * abs(int(exponent)) <= MOST_BITS:
            return check_size(Fraction(base ** int(exponent)))
    if base < 0 and not is_whole(exponent):
        raise ToolError(NOT_REAL)
    return WORKING.power(to_decimal(base), to_decimal(exponent))


def square_root(value: Number) -> Number:
    if value < 0:
        raise ToolError(NOT_REAL)
    return WORKING.sqrt(to_decimal(value))


def logarithm(value: Number, base: Number | None = None) -> Number:
    if value <= 0 or (base is not None and (base <= 0 or base == 1)):
        raise ToolError("A logarithm needs a positive number, and a positive base other than 1.")
    natural = WORKING.ln(to_decimal(value))
    return natural if base is None else WORKING.divide(natural, WORKING.ln(to_decimal(base)))


def exponential(value: Number) -> Number:
    return WORKING.exp(to_decimal(value))


def factorial(value: Number) -> Number:
    if not is_whole(value) or not 0 <= value <= LARGEST_FACTORIAL:
        raise ToolError(f"factorial takes a whole number from 0 to {LARGEST_FACTORIAL}.")
    return Fraction(math.factorial(int(value)))


def floor(value: Number) -> Number:
    return Fraction(math.floor(without_noise(value)))


def ceiling(value: Number) -> Number:
    return Fraction(math.ceil(without_noise(value)))


def round_number(value: Number, digits: Number = Fraction(0)) -> Number:
    """Half away from zero, as taught at school; Python's round(2.5) is 2."""
    if not is_whole(digits) or not -50 <= digits <= 50:
        raise ToolError("round takes a whole number of digits, 50 at most.")
    scale = Fraction(10) ** int(digits)
    rounded = math.floor(abs(Fraction(without_noise(value))) * scale + Fraction(1, 2)) / Fraction(scale)
    return check_size(rounded if value >= 0 else -rounded)


def to_degrees(value: Number) -> Number:
    return divide(multiply(value, Fraction(180)), PI)


def to_radians(value: Number) -> Number:
    return divide(multiply(value, PI), Fraction(180))


def by_float(function: Callable[[float], float]) -> Callable[[Number], Number]:
    """Functions that only floats have: good for the 15 digits that are shown."""

    def apply(value: Number) -> Number:
        try:
            argument = float(value)
            result = function(argument)
        except (ValueError, OverflowError):
            raise ToolError(NOT_REAL) from None
        # sin(pi) is 1.2e-16 only because a float's pi is not pi.
        if abs(result) < 1e-15 and abs(argument) > 1e-3:
            return Fraction(0)
        return Decimal(repr(result))

    return apply


def is_whole(value: Number) -> bool:
    return value == math.floor(value)


def to_decimal(value: Number) -> Decimal:
    if isinstance(value, Decimal):
        return value
    return WORKING.divide(Decimal(value.numerator), Decimal(value.denominator))


def without_noise(value: Number) -> Number:
    return BELIEVED.plus(value) if isinstance(value, Decimal) else value


def check_size(value: Fraction) -> Number:
    if value.numerator.bit_length() - value.denominator.bit_length() >= MOST_BITS:
        raise ToolError(TOO_LARGE)
    return value if value.denominator.bit_length() <= MOST_DENOMINATOR_BITS else to_decimal(value)


def format_number(value: Number) -> str:
    """391, not 391.0; every digit of a whole number and of a short exact one, 15 digits of the rest."""
    if isinstance(value, Fraction):
        if value.denominator == 1:
            return str(value.numerator)
        decimal = to_decimal(value)
        if Fraction(decimal) != value or len(decimal.as_tuple().digits) > MOST_EXACT_DIGITS:
            decimal = Context(prec=SHOWN_DIGITS).plus(decimal)
    else:
        decimal = Context(prec=SHOWN_DIGITS).plus(value)
    decimal = decimal.normalize(WORKING)
    # Zeros in place of unknown digits would look like digits: 1e20/3 is 3.33333333333333e19.
    if -7 <= decimal.adjusted() < SHOWN_DIGITS or len(decimal.as_tuple().digits) > decimal.adjusted() >= 0:
        return f"{decimal:f}"
    return f"{decimal:e}".replace("e+", "e")
