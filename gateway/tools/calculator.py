"""The tool `calculator`: parses by Python's grammar and evaluates the few nodes it knows, nothing else."""

import ast
import math
from collections.abc import Callable
from decimal import DecimalException, Overflow, Underflow
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from gateway.tools import arithmetic
from gateway.tools.arithmetic import Number
from gateway.tools.registry import ToolError, tool

LONGEST_EXPRESSION = 2000
DEEPEST_NESTING = 50

# What people type, as Python writes it.
SPELLINGS = str.maketrans({"^": "**", "×": "*", "·": "*", "÷": "/", "−": "-", "π": "pi", "√": "sqrt", "\n": " "})

OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: arithmetic.add,
    ast.Sub: arithmetic.subtract,
    ast.Mult: arithmetic.multiply,
    ast.Div: arithmetic.divide,
    ast.FloorDiv: arithmetic.floor_divide,
    ast.Mod: arithmetic.remainder,
    ast.Pow: arithmetic.power,
}
CONSTANTS: dict[str, Number] = {
    "pi": arithmetic.PI,
    "e": arithmetic.E,
    "tau": arithmetic.multiply(Fraction(2), arithmetic.PI),
}
# With the least and the most arguments that each takes; None: any number.
FUNCTIONS: dict[str, tuple[Callable[..., Number], int, int | None]] = {
    "abs": (arithmetic.absolute, 1, 1),
    "acos": (arithmetic.by_float(math.acos), 1, 1),
    "asin": (arithmetic.by_float(math.asin), 1, 1),
    "atan": (arithmetic.by_float(math.atan), 1, 1),
    "ceil": (arithmetic.ceiling, 1, 1),
    "cos": (arithmetic.by_float(math.cos), 1, 1),
    "degrees": (arithmetic.to_degrees, 1, 1),
    "exp": (arithmetic.exponential, 1, 1),
    "factorial": (arithmetic.factorial, 1, 1),
    "floor": (arithmetic.floor, 1, 1),
    "ln": (arithmetic.logarithm, 1, 1),
    "log": (arithmetic.logarithm, 1, 2),
    "log10": (lambda value: arithmetic.logarithm(value, Fraction(10)), 1, 1),
    "log2": (lambda value: arithmetic.logarithm(value, Fraction(2)), 1, 1),
    "max": (lambda *values: max(values), 1, None),
    "min": (lambda *values: min(values), 1, None),
    "radians": (arithmetic.to_radians, 1, 1),
    "round": (arithmetic.round_number, 1, 2),
    "sin": (arithmetic.by_float(math.sin), 1, 1),
    "sqrt": (arithmetic.square_root, 1, 1),
    "tan": (arithmetic.by_float(math.tan), 1, 1),
}
KNOWN = f"There are + - * / // % ** ( ), {', '.join(CONSTANTS)}, and {', '.join(FUNCTIONS)}."

Expression = Annotated[
    str, Field(max_length=LONGEST_EXPRESSION, description="For example (17 * 23 - 1) / 4, sqrt(2), round(10 / 3, 2).")
]


@tool(repeatable=True, timeout=10)
def calculator(expression: Expression) -> str:
    """Evaluate an arithmetic expression exactly.

    Knows + - * / // % ** and parentheses, pi, e, abs, min, max, round, floor, ceil, sqrt, exp, log (natural, or with a
    base as second argument), log10, log2, factorial, and sin, cos, tan, asin, acos, atan in radians."""
    return evaluate(expression)


def evaluate(expression: str) -> str:
    text = expression.translate(SPELLINGS).strip()
    if not text:
        raise ToolError("The expression is empty.")
    # Positions in the tree count bytes: with ASCII alone they are positions in the text.
    strange = sorted({character for character in text if not character.isascii()})
    if strange:
        raise ToolError(f"Cannot read {' '.join(strange)}. {KNOWN}")
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        where = f" at character {error.offset}" if error.offset else ""
        raise ToolError(f"Cannot read the expression: {error.msg}{where}.") from None
    except (ValueError, RecursionError, MemoryError):
        raise ToolError("Cannot read the expression: it is too deeply nested or has strange characters.") from None
    try:
        return arithmetic.format_number(_Evaluation(text).visit(tree.body, 0))
    except Overflow:
        raise ToolError(arithmetic.TOO_LARGE) from None
    except Underflow:
        raise ToolError("The result is too close to zero.") from None
    except DecimalException:
        raise ToolError(arithmetic.NOT_REAL) from None


class _Evaluation:
    def __init__(self, text: str) -> None:
        self.text = text

    def visit(self, node: ast.expr, depth: int) -> Number:
        if depth > DEEPEST_NESTING:
            raise ToolError(f"The expression is nested more than {DEEPEST_NESTING} deep.")
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return self._read_number(node, value)
            case ast.Name(id=name) if name in CONSTANTS:
                return CONSTANTS[name]
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.visit(operand, depth + 1)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return arithmetic.negate(self.visit(operand, depth + 1))
            case ast.BinOp():
                return self._fold_chain(node, depth)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                return self._call_function(name, arguments, depth)
            case ast.Tuple():
                raise ToolError("Found a comma outside of a function: write 1000, not 1,000.")
        raise self._refuse(node)

    def _refuse(self, node: ast.expr) -> ToolError:
        return ToolError(f"Cannot evaluate {self._source(node)[:60]!r}. {KNOWN}")

    def _read_number(self, node: ast.Constant, value: int | float) -> Number:
        # A decimal is read from the text: the float that Python made of it has lost digits.
        return arithmetic.parse_number(str(value) if isinstance(value, int) else self._source(node))

    def _fold_chain(self, node: ast.BinOp, depth: int) -> Number:
        """1+2+3+… nests to the left, once for each term; a long sum is not a deep expression."""
        chain: list[ast.BinOp] = []
        first: ast.expr = node
        while isinstance(first, ast.BinOp):
            chain.append(first)
            first = first.left
        total = self.visit(first, depth + 1)
        for link in reversed(chain):
            if type(link.op) not in OPERATORS:
                raise self._refuse(link)
            total = OPERATORS[type(link.op)](total, self.visit(link.right, depth + 1))
        return total

    def _call_function(self, name: str, arguments: list[ast.expr], depth: int) -> Number:
        function, least, most = FUNCTIONS[name]
        if len(arguments) < least or (most is not None and len(arguments) > most):
            wanted = f"{least} or more" if most is None else str(least) if least == most else f"{least} or {most}"
            raise ToolError(f"{name} takes {wanted} in its parentheses, not {len(arguments)}.")
        return function(*(self.visit(argument, depth + 1) for argument in arguments))

    def _source(self, node: ast.expr) -> str:
        return self.text[node.col_offset : node.end_col_offset]
