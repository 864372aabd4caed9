"""Maths on sympy, units on pint, and dates.

Sympy's own parser evaluates Python. Here, an expression is read as Python's syntax tree, and only numbers, names and
the operators and functions listed below are built from it.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal

import numpy as np

from langchain_tooltree.errors import import_extra
from langchain_tooltree.toolbox.process import refuse

LONGEST_EXACT = 60  # characters of an exact value that is shown beside its decimals
THOUSANDS = re.compile(r"\d,\d{3}(?!\d)")  # or two arguments
CONSTANTS = {"pi": "pi", "e": "E", "E": "E", "I": "I", "oo": "oo"}
OPERATORS: dict[Any, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
OPERATORS |= {
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
SAME_NAME = (
    *(
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "atan2",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "log",
        "root",
        "floor",
    ),
    *(
        "ceiling",
        "sign",
        "gcd",
        "lcm",
        "factorial",
        "binomial",
        "fibonacci",
        "gamma",
        "erf",
        "isprime",
    ),
    *("simplify", "expand", "factor", "apart", "diff", "integrate", "series"),
)
Piece = Literal["years", "months", "weeks", "days", "hours", "minutes", "seconds"]


@cache
def _sympy() -> Any:
    return import_extra("sympy", "toolbox", "maths")


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    """Functions by the names that expressions may use."""
    sympy = _sympy()
    functions = {name: getattr(sympy, name) for name in SAME_NAME}
    functions |= {
        "abs": sympy.Abs,
        "min": sympy.Min,
        "max": sympy.Max,
        "mod": sympy.Mod,
        "sum": sympy.summation,
    }
    return functions | {
        "pow": lambda base, exponent: base**exponent,
        "sqrt": lambda x: sympy.root(
            x, 2
        ),  # sympy's takes a second argument that is no degree
        "ln": lambda x: sympy.log(x),  # noqa: PLW0108 - sympy's takes a base
        "log10": lambda x: sympy.log(x, 10),
        "round": lambda x, digits=0: sympy.Rational(str(x.round(digits))),
        "limit": lambda formula, letter, point: sympy.limit(
            formula, letter, point, "+-"
        ),  # from both sides
    }


def parse(text: str) -> Any:
    """An expression as sympy has it; a `RefusedError` if it is none, or can be read in two ways."""
    if THOUSANDS.search(text):
        refuse(
            f"{text!r} can be read in two ways. Write 12000 and not 12,000, or a space after the comma."
        )
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError):
        refuse(
            f"{text!r} is no expression. Write products with *, as in 2*x, powers as x^2, and no '='."
        )
    return _build(tree.body)


def _build(node: ast.AST) -> Any:  # noqa: PLR0911 - one for each form
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return _sympy().Integer(number)
        case ast.Constant(value=float(number)) if math.isfinite(number):
            return _sympy().Rational(repr(number))  # so that 0.1 + 0.2 is 0.3
        case ast.Name(id=name):
            return (
                getattr(_sympy(), CONSTANTS[name])
                if name in CONSTANTS
                else _sympy().Symbol(name)
            )
        case ast.UnaryOp(op=operation, operand=operand) if type(operation) in OPERATORS:
            return OPERATORS[type(operation)](_build(operand))
        case ast.BinOp(left=left, op=operation, right=right) if (
            type(operation) in OPERATORS
        ):
            return OPERATORS[type(operation)](_build(left), _build(right))
        case ast.Call(func=ast.Name(id=name), args=nodes, keywords=[]):
            return _evaluate_call(name, nodes)
    return refuse(
        f"{ast.unparse(node)!r} is not understood. Write names, + - * / ^ and functions: mod(10, 3)."
    )


def _evaluate_call(name: str, nodes: Sequence[ast.AST]) -> Any:
    """A function of its arguments, of which tuples are ranges such as (x, 0, 3)."""
    if name not in _functions():
        refuse(f"There is no function {name!r}. Known: {', '.join(_functions())}.")
    values = [
        _sympy().Tuple(*map(_build, each.elts))
        if isinstance(each, ast.Tuple)
        else _build(each)
        for each in nodes
    ]
    try:
        return _sympy().sympify(_functions()[name](*values))
    except (AttributeError, TypeError):
        return refuse(
            f"{name} cannot be applied to {', '.join(map(str, values))}: check their number and kind."
        )


def calculator(expression: str) -> str:
    """Compute a number, or a formula: arithmetic, roots, logarithms, angles in radians, primes, calculus, algebra.

    Args:
        expression: Such as "0.15 * 1280", "factorial(20) / 3^5", "diff(x^3, x)", "integrate(x^2, (x, 0, 3))",
            "sum(1/n^2, (n, 1, oo))", "limit(sin(x)/x, x, 0)", "factor(x^2 - 1)" or "simplify((x^2 - 1)/(x - 1))".
    """
    return _format_number(parse(expression))


def _format_number(value: Any) -> str:
    """A number as a decimal, with a short exact form where the decimals do not end; other formulas as they are."""
    if value.has(_sympy().nan, _sympy().zoo):
        refuse("This has no value: it divides by zero or diverges.")
    if not getattr(value, "is_number", False) or value.is_Integer or value.is_infinite:
        return str(value)
    decimal: str = _sympy().sstr(value.evalf(15, chop=True), full_prec=False)
    exact = str(value)
    ends = value.is_Float or (
        value.is_Rational and pow(10, value.q.bit_length(), value.q) == 0
    )
    return (
        decimal
        if ends or "RootOf" in exact or len(exact) > LONGEST_EXACT
        else f"{decimal} (exactly {exact})"
    )


def solve_equations(equations: list[str], variables: list[str] | None = None) -> str:
    """Solve an equation or a system of equations, exactly, and with decimals where solutions are not whole.

    Args:
        equations: Each with one =, such as ["2*x + 3 = 11"].
        variables: What to solve for, as many as there are equations; all letters if left out.
    """
    sides = [each.split("=") for each in equations]
    if not sides or any(len(each) != 2 for each in sides):  # noqa: PLR2004 - left and right
        refuse(
            f"{equations} must be texts with one '=' each, such as ['x = 3', 'y = 2*x']."
        )
    if constant := re.search(r"\b[EI]\b", " ".join(equations)):
        refuse(
            f"{constant[0]} is Euler's number or the imaginary unit here. Write another letter for the variable."
        )
    zeros = [parse(left) - parse(right) for left, right in sides]
    letters = sorted(
        {letter for zero in zeros for letter in zero.free_symbols}, key=str
    )
    unknowns = [
        letter for letter in letters if not variables or str(letter) in variables
    ]
    if variables and (
        len(unknowns) < len(variables) or len(unknowns) < min(len(zeros), len(letters))
    ):
        refuse(
            f"variables must be {len(zeros)} of {', '.join(map(str, letters))}, not {', '.join(variables)}."
        )
    if all(zero.equals(0) for zero in zeros):
        return "Every value is a solution."
    if not letters:
        return "No solution was found."
    alone = len(zeros) == len(unknowns) == len(letters) == 1
    try:
        # From a list, sympy drops the roots of a single equation that have no closed form.
        solutions = _sympy().solve(zeros[0] if alone else zeros, unknowns, dict=True)
    except NotImplementedError:
        if not alone:
            refuse(
                "No way to solve this is known. Put one equation into another, or solve them one by one."
            )
        solutions = [{unknowns[0]: _sympy().nsolve(zeros[0], unknowns[0], 1)}]
    lines = [
        ", ".join(
            f"{letter} = {_format_number(value)}" for letter, value in each.items()
        )
        for each in solutions
    ]
    more = [] if _is_complete(zeros, unknowns) else ["[there may be more solutions]"]
    return "\n".join([*(lines or ["No solution was found."]), *more])


def _is_complete(zeros: Sequence[Any], unknowns: Sequence[Any]) -> bool:
    """Whether sympy leaves out no solution: all are linear, or one is a polynomial of one letter and of numbers."""
    tops = [_sympy().fraction(_sympy().together(zero))[0] for zero in zeros]
    if not all(top.is_polynomial(*unknowns) for top in tops):
        return False
    polys = [_sympy().Poly(top, *unknowns) for top in tops]
    is_single = len(polys) == len(unknowns) == 1 and (
        polys[0].domain.is_ZZ or polys[0].domain.is_QQ
    )
    return is_single or all(poly.total_degree() <= 1 for poly in polys)


# --- units and dates ---


@cache
def _registry() -> Any:
    return import_extra("pint", "toolbox", "convert_units").UnitRegistry()


def _parse_unit(text: str) -> Any:
    try:
        return _registry().Unit(text)
    except Exception as error:  # noqa: BLE001 - pint has many
        refuse(
            f"{text!r} is no unit: {str(error).rstrip('.')}. Write it as mile, km/h, m**2, degC or kilowatt_hour."
        )


def convert_units(value: float, unit: str, to: str) -> str:
    """Convert a value from one physical unit to another. Money is not known.

    Args:
        value: The number.
        unit: Its unit, such as mile, km/h, m**2, degF, kWh, MiB, metric_ton (1000 kg; a ton is 907 kg).
        to: The unit wanted.
    """
    quantity, target = _registry().Quantity(value, _parse_unit(unit)), _parse_unit(to)
    if not quantity.is_compatible_with(target):
        kinds = f"{quantity.units} measures {quantity.dimensionality}, and {target} measures {target.dimensionality}"
        refuse(f"{kinds}. Write degC for Celsius, metric_ton for 1000 kg.")
    # With pint's names, which show how a short one was read: of `C`, a coulomb.
    return (
        f"{value:.10g} {quantity.units} = {quantity.to(target).magnitude:.10g} {target}"
    )


def _moment(text: str) -> datetime:
    """A date or moment in ISO 8601, so that day and month cannot be mistaken for each other."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        refuse(
            f"{text!r} is no date. Write it as 2026-03-01, 2026-03-01T14:30 or 2026-03-01T14:30+01:00."
        )


def time_between(start: str, end: str) -> str:
    """How long it is from one date or moment to another: days, working days, and years, months and days.

    Args:
        start: Such as 2026-03-01 or 2026-03-01T14:30+01:00.
        end: The same form; earlier than start gives negative numbers.
    """
    relativedelta = import_extra(
        "dateutil.relativedelta", "toolbox", "time_between"
    ).relativedelta
    first, last = _moment(start), _moment(end)
    parts, days = relativedelta(last, first), (last - first) / timedelta(days=1)
    named = [
        f"{getattr(parts, name)} {name}"
        for name in ("years", "months", "days", "hours", "minutes", "seconds")
    ]
    return (
        f"{days:.10g} days, or {', '.join(each for each in named if each[:2] != '0 ') or 'no time'}; "
        f"{np.busday_count(first.date(), last.date())} working days (Monday to Friday, the last day left out)"
    )


def add_to_date(start: str, amount: int, unit: Piece = "days") -> str:
    """The date or moment that lies some time after another one, or before it, and its weekday.

    Args:
        start: Such as 2026-03-01 or 2026-03-01T14:30.
        amount: How many; negative for before.
        unit: What is added.
    """
    relativedelta = import_extra(
        "dateutil.relativedelta", "toolbox", "add_to_date"
    ).relativedelta
    first = _moment(start)
    moment: datetime = first + relativedelta(**{unit: amount})
    is_date = ":" not in start and moment.time() == datetime.min.time()
    return f"{moment.date() if is_date else moment.isoformat()} ({moment:%A}), counted from a {first:%A}"
