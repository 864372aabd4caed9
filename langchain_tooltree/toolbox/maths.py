"""Maths: a calculator, formulas, equations, calculus and statistics, on sympy.

Sympy's own parser evaluates Python. Here, an expression is read as Python's syntax tree, and only numbers, names and
the operators and functions listed below are built from it.
"""

import ast
import math
import operator
import re
import statistics as stats
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from langchain_tooltree.errors import did_you_mean, import_extra
from langchain_tooltree.toolbox.entries import RefusedError, check_text, choice, entry

MAX_EXPRESSION = 1_000
"""Characters of an expression."""

MAX_PARTS = 300
"""Numbers, names and operators of an expression."""

MAX_BITS = 40_000
"""Bits of a whole number that a power may give: 12,000 digits, more than a result shows in full."""

MAX_FACTORIAL = 3_000
"""The largest argument of functions that grow like the factorial: 3000! has 9,131 digits."""

MAX_NUMBERS = 100_000
"""Numbers of which statistics are made."""

DIGITS = 15
"""Digits of a decimal result: what a float holds."""

LONGEST_EXACT = 60
"""Characters of an exact value that is shown beside its decimals."""

SHORT_PRODUCT = re.compile(r"(?<![\w.])(?!0[xXoObB])(\d+\.?\d*)(?=[A-Za-z(])(?![eE][+-]?\d)")
"""A number right before a letter or a parenthesis, as in 2x, which people write and Python does not know."""

FACTORIAL = re.compile(r"(?<![\w.)])(\d+)!(?!=)")
SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "π": "pi"})
"""Signs that people write, and what Python has for them."""

THOUSANDS = re.compile(r"(?<![\w.])\d{1,3}(,\d{3})+(?!\d)")
PAIRS = re.compile(r"\b(gcd|lcm|pow|binomial|nCr|mod|atan2|root)\(\d+,\d+\)")
"""Functions that need two numbers, so that a comma between these can be read in one way."""

COMMAS = "Write numbers without commas: 12000 and not 12,000. Put a space after a comma between arguments."
PERCENT = "% is the remainder. Write 15 % as 0.15, and a remainder by a number with a sign as 10 % (-3)."
SIGNED = re.compile(r"%\s*[+-]")
"""A remainder by a number with a sign, or a percentage before a sum: people write 100 + 15% - 5."""

BASES = {"log10": 10, "log2": 2}
SINGLE = dict.fromkeys(("sqrt", "cbrt"), "root(8, 3)") | dict.fromkeys(("ln", *BASES), "log(8, 2)")
"""Functions of one number that sympy also takes with two, and what does that."""

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
CONSTANTS = re.compile(r"(?<!\w)[EI](?!\w)")
NAMES = {"pi": "pi", "e": "E", "E": "E", "I": "I", "oo": "oo", "infinity": "oo"}
FUNCTIONS = {
    name: name
    for name in (
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "sqrt", "cbrt", "root"),
        *("floor", "ceiling", "sign", "gcd", "lcm", "factorial", "binomial", "fibonacci", "gamma", "erf", "isprime"),
        *("re", "im", "arg", "conjugate"),
    )
}
FUNCTIONS |= dict.fromkeys(("ln", "log", "log10", "log2"), "log") | {"nCr": "binomial", "ceil": "ceiling", "mod": "Mod"}
FUNCTIONS |= {"abs": "Abs", "min": "Min", "max": "Max", "pow": "Pow", "round": "round"}
EVERY, NONE = "Every value is a solution.", "No solution was found."
NONE_KNOWN = "No solution was found, but not every kind can be solved here."
MORE = "[there may be more solutions]"
STARTS = (-100, -10, -3, -1, -0.5, 0.1, 0.5, 1, 3, 10, 100)
"""Where the search for a root begins that no formula gives."""

ROUNDING = 1e-9
"""An imaginary part below this is none."""

GROWING = {"factorial", "binomial", "fibonacci", "gamma", "nCr"}


def parsed(text: str) -> Any:
    """An expression as sympy has it, built from its syntax tree."""
    check_text("The expression", text, MAX_EXPRESSION)
    problems = [COMMAS] * bool(THOUSANDS.search(PAIRS.sub("", text))) + [PERCENT] * bool(
        SIGNED.search(text.translate(SIGNS))
    )
    if problems:
        msg = f"{text!r} can be read in two ways. {' '.join(problems)}"
        raise RefusedError(msg)
    try:
        plain = FACTORIAL.sub(r"factorial(\1)", text.strip().translate(SIGNS).replace("^", "**").replace("math.", ""))
        tree = ast.parse(SHORT_PRODUCT.sub(r"\1*", plain), mode="eval")
        parts = sum(1 for _ in ast.walk(tree))
    except (SyntaxError, ValueError) as error:
        percent = " Write 15 % as 0.15." if "%" in text else ""
        msg = f"{text!r} is no expression. Write products with *, as in x*y, powers as x^2, and no '='.{percent}"
        raise RefusedError(msg) from error
    if parts > MAX_PARTS:
        msg = f"The expression has {parts} parts; at most {MAX_PARTS} are taken."
        raise RefusedError(msg)
    return _built(tree.body, import_extra("sympy", "toolbox", "maths"))


def _built(node: ast.AST, sympy: Any) -> Any:  # noqa: C901, PLR0911 - one case a form
    match node:
        case ast.Constant(value=bool() | str() | bytes() | None):
            pass
        case ast.Constant(value=int(number)):
            return sympy.Integer(_small(sympy.Integer(number)))
        case ast.Constant(value=float(number)) if math.isfinite(number):
            return sympy.Rational(repr(number)) if 1e-300 < abs(number) < 1e300 else sympy.Float(number)  # noqa: PLR2004 - as a float's range
        case ast.Name(id=name):
            return getattr(sympy, NAMES[name]) if name in NAMES else sympy.Symbol(name)
        case ast.UnaryOp(op=operation, operand=operand) if type(operation) in OPERATORS:
            return OPERATORS[type(operation)](_built(operand, sympy))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_built(left, sympy), _built(right, sympy))
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in OPERATORS:
            return _small(OPERATORS[type(operation)](_built(left, sympy), _built(right, sympy)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return _applied(name, [_built(each, sympy) for each in arguments], sympy)
        case ast.Tuple():
            raise RefusedError(COMMAS)
        case ast.Call(func=ast.Name(id=name)):
            msg = f"There is no function {name!r}.{did_you_mean(name, FUNCTIONS)} Known: {', '.join(FUNCTIONS)}."
            raise RefusedError(msg)
    msg = "Only numbers, names, + - * / // % **, parentheses and functions are understood."
    raise RefusedError(msg)


def _power(base: Any, exponent: Any) -> Any:
    if base.is_number and exponent.is_number and exponent.is_real and base not in {-1, 0, 1}:
        size = abs(exponent) * max([1, *(int(part).bit_length() for part in base.as_numer_denom() if part.is_Integer)])
        if size > MAX_BITS:
            msg = f"A power of more than {MAX_BITS:,} bits is not computed. Use logarithms, or round."
            raise RefusedError(msg)
    return base**exponent


def _small(value: Any) -> Any:
    if value.is_Rational and value.p.bit_length() + value.q.bit_length() > 2 * MAX_BITS:
        msg = f"A number of more than {2 * MAX_BITS:,} bits is not computed."
        raise RefusedError(msg)
    return value


def _applied(name: str, arguments: Sequence[Any], sympy: Any) -> Any:
    if name in GROWING and any(each.is_number and abs(each) > MAX_FACTORIAL for each in arguments):
        msg = f"{name} is computed up to {MAX_FACTORIAL:,} only."
        raise RefusedError(msg)
    if name in SINGLE and len(arguments) > 1:
        msg = f"{name} takes one number: write 2.5 and not 2,5, or else {SINGLE[name]}."
        raise RefusedError(msg)
    if name == "log" and len(arguments) == 2:  # noqa: PLR2004 - the logarithm to a base
        return sympy.log(arguments[0]) / sympy.log(arguments[1])
    if name in BASES and len(arguments) == 1:
        return sympy.log(arguments[0]) / sympy.log(BASES[name])
    if name == "round" and arguments and arguments[0].is_real and arguments[1:] in ([], *([n] for n in range(DIGITS))):
        return sympy.Rational(str(arguments[0].round(*arguments[1:])))
    if name == "pow":  # sympy's third argument is none of Python's
        return _power(*arguments) if len(arguments) == 2 else sympy.Integer(pow(*map(operator.index, arguments)))  # noqa: PLR2004 - base and exponent
    if name == "cbrt" and arguments and arguments[0].is_negative:
        return -sympy.cbrt(-arguments[0])  # the real root, as of a calculator
    try:
        result = getattr(sympy, FUNCTIONS[name])(*arguments)
    except (AttributeError, TypeError, ValueError) as error:
        msg = f"{name} cannot be applied to {', '.join(map(str, arguments))}: {error}"
        raise RefusedError(msg) from error
    return sympy.Integer(result) if isinstance(result, bool) else result


def _symbol(name: str, expressions: Sequence[Any]) -> Any:
    """The variable meant: the named one, or the only one there is."""
    known = sorted({each for expression in expressions for each in expression.free_symbols}, key=str)
    if not name and len(known) == 1:
        return known[0]
    found = [each for each in known if str(each) == name]
    if found:
        return found[0]
    msg = f"variable must be one of {', '.join(map(str, known)) or 'none: there is no variable'}, not {name!r}."
    raise RefusedError(msg)


@entry("maths", {"expression": "12.5 * (3 + 4) / 2"}, {"expression": "sqrt(2) ^ 5"}, packages=("sympy",))
def calculator(expression: str) -> str:
    """Compute a number: arithmetic, powers, roots, logarithms, angles in radians, factorials, primes.

    Args:
        expression: Such as "0.15 * 1280" or "factorial(20) / 3^5". Products need *. % is the remainder.
    """
    value = parsed(expression)
    if value.free_symbols:
        names = ", ".join(sorted(map(str, value.free_symbols)))
        msg = f"There is no value for {names}. Formulas are for transform_formula and solve_equations."
        raise RefusedError(msg)
    if not value.is_finite and value.is_finite is not None:
        msg = f"{expression} has no value: it divides by zero or is infinite."
        raise RefusedError(msg)
    return _number(value)


def _number(value: Any) -> str:
    """A number, exact and as a decimal; other formulas as they are."""
    if value.is_Integer or not value.is_number:
        return str(value)
    decimal = value.evalf(DIGITS)
    if str(decimal) == "nan" or (decimal.is_Float and str(decimal).startswith(("0.e+", "-0.e+"))):
        msg = "That has no value, or none that can be computed precisely."
        raise RefusedError(msg)
    if decimal.is_Add:
        real, imaginary = decimal.as_real_imag()
        if real.is_Float and imaginary.is_Float and abs(imaginary) < abs(real) * 10**-DIGITS:
            decimal = real  # as of cubic equations with three real roots
    text = f"{float(decimal):.{DIGITS}g}" if decimal.is_Float and 1e-300 < abs(decimal) < 1e300 else str(decimal)  # noqa: PLR2004 - as above
    exact = str(value)
    ends = value.is_Rational and pow(10, value.q.bit_length(), value.q) == 0  # its decimals do
    shown = value.is_Float or ends or "RootOf" in exact or len(exact) > LONGEST_EXACT
    return text if shown else f"{text} (exactly {exact})"


@entry("maths", {"formula": "(x+1)^2 - x^2", "how": "expand"}, packages=("sympy",))
def transform_formula(formula: str, how: str = "simplify") -> str:
    """Rewrite a formula with letters: simplify, expand, factor it, or take it apart into partial fractions.

    Args:
        formula: Such as "(x^2 - 1)/(x - 1)".
        how: simplify, expand, factor or apart.
    """
    sympy = import_extra("sympy", "toolbox", "transform_formula")
    return str(getattr(sympy, choice("how", how, ("simplify", "expand", "factor", "apart")))(parsed(formula)))


@entry(
    "maths",
    {"equations": ["x + y = 10", "x - y = 2"]},
    {"equations": ["x^2 - 5*x + 6 = 0"], "variables": ["x"]},
    packages=("sympy",),
)
def solve_equations(equations: list[str], variables: list[str] | None = None) -> str:
    """Solve an equation or a system of equations, exactly, and with decimals where solutions are not whole.

    Args:
        equations: Each with one =, such as ["2*x + 3 = 11"].
        variables: What to solve for; all letters if left out.
    """
    sympy = import_extra("sympy", "toolbox", "solve_equations")
    sides = [each.replace("==", "=").split("=") for each in equations]
    if not sides or any(len(each) != 2 for each in sides):  # noqa: PLR2004 - left and right
        msg = "Each equation needs one '=', such as '2*x + 3 = 11', and stands by itself: ['x = 3', 'y = 2*x']."
        raise RefusedError(msg)
    differences = [parsed(left) - parsed(right) for left, right in sides]
    letters = sorted({each for difference in differences for each in difference.free_symbols}, key=str)
    wanted = [_symbol(name, differences) for name in variables] if variables else letters
    # With more equations than letters to solve for, the others are no parameters: sympy would leave equations out.
    wanted += [each for each in letters if each not in wanted][: max(0, len(differences) - len(wanted))]
    if not wanted:
        return EVERY if all(difference.equals(0) for difference in differences) else NONE
    alone = len(differences) == len(wanted) == 1 and letters == wanted
    try:
        # A list would make sympy drop the roots of a single equation that have no closed form.
        solutions = sympy.solve(differences[0] if alone else differences, wanted, dict=True)
    except NotImplementedError as error:
        roots = _numeric(differences[0], wanted[0], sympy) if alone else []
        if not roots:
            msg = "No way to solve this is known."
            raise RefusedError(msg) from error
        return "\n".join(
            [f"{wanted[0]} = {root:.{DIGITS}g}" for root in roots] + ["[found by trying; there may be more]"]
        )
    if not solutions and all(each.equals(0) for each in differences):
        return EVERY
    found = list(solutions[0]) if solutions and len(differences) == 1 else wanted
    sure = _all_are_found(differences, found, sympy)
    if not solutions:
        single = [each for each, of in zip(equations, differences, strict=True) if len(of.free_symbols) == 1]
        alone_first = f" Solve {single[0]!r} alone, then put that into the others." if single and len(sides) > 1 else ""
        return NONE if sure else f"{NONE_KNOWN}{alone_first}"
    lines = [", ".join(f"{name} = {_number(value)}" for name, value in each.items()) for each in solutions]
    taken = "[e and E are Euler's number, I is the imaginary unit: write other letters for what you look for]"
    return "\n".join(lines + [MORE] * (not sure) + [taken] * any(map(CONSTANTS.search, equations)))


def _all_are_found(differences: Sequence[Any], wanted: Sequence[Any], sympy: Any) -> bool:
    """Whether sympy has left out no solution: all are linear, or one has powers of a letter that it finds roots of."""
    tops = [sympy.fraction(sympy.together(each))[0] for each in differences]
    if not all(each.is_polynomial(*wanted) for each in tops):
        return False
    first, *others = polys = [sympy.Poly(each, *wanted) for each in tops]
    if not others and len(wanted) == 1 and (first.degree() <= 4 or first.domain.is_ZZ or first.domain.is_QQ):  # noqa: PLR2004 - as far as there are formulas
        return True
    return all(each.total_degree() <= 1 for each in polys)


def _numeric(difference: Any, letter: Any, sympy: Any) -> list[float]:
    """Real roots near some places to begin at."""
    found: set[float] = set()
    for start in STARTS:
        with suppress(ValueError, TypeError, ZeroDivisionError, OverflowError):
            root = complex(sympy.nsolve(difference, letter, start))
            if abs(root.imag) < ROUNDING:
                found.add(round(root.real, DIGITS - 3))
    return sorted(found)


@entry(
    "maths",
    {"operation": "derivative", "formula": "x^3 * sin(x)"},
    {"operation": "integral", "formula": "x^2", "start": "0", "end": "3"},
    {"operation": "limit", "formula": "sin(x)/x", "end": "0"},
    packages=("sympy",),
)
def calculus(operation: str, formula: str, variable: str = "", start: str = "", end: str = "") -> str:
    """Derivatives, integrals, limits, sums and Taylor series of a formula.

    Args:
        operation: derivative, integral, limit, sum or series.
        formula: Such as "x^2 * exp(-x)".
        variable: The letter; may be left out where there is only one.
        start: Lower bound of an integral or a sum; both bounds or none.
        end: Upper bound of an integral or a sum; for a limit or a series, the point (0 if left out).
    """
    sympy = import_extra("sympy", "toolbox", "calculus")
    operation = choice("operation", operation, ("derivative", "integral", "limit", "sum", "series"))
    body = parsed(formula)
    letter = _symbol(variable, [body]) if body.free_symbols else sympy.Symbol(variable or "x")
    if operation == "derivative":
        return str(sympy.diff(body, letter))
    if operation == "series":
        return str(sympy.series(body, letter, parsed(end or "0")))
    if operation == "limit":
        below, above = (sympy.limit(body, letter, parsed(end or "0"), side) for side in "-+")
        return str(above) if below == above else f"There is no limit: {below} from below, {above} from above."
    if bool(start) != bool(end) or (operation == "sum" and not start):
        msg = "Give both start and end."
        raise RefusedError(msg)
    bounds = (letter, parsed(start), parsed(end)) if start else letter
    done = sympy.integrate(body, bounds) if operation == "integral" else sympy.summation(body, bounds)
    diverges = done.is_infinite or isinstance(done, sympy.AccumBounds)
    if not diverges and done.has(sympy.Integral, sympy.Sum) and not done.free_symbols:
        try:
            done = done.evalf(DIGITS)
        except ValueError:  # as of (-1)^n
            diverges = True
    if diverges:
        return f"It diverges: {done}."
    if done.has(sympy.Integral):
        return f"No closed form was found: {done}"
    return _number(done if done.is_number else sympy.simplify(done))


@entry("maths", {"numbers": [2, 4, 4, 10]})
def statistics(numbers: list[float]) -> str:
    """Count, sum, mean, median, standard deviation, smallest and largest of numbers.

    Args:
        numbers: The numbers.
    """
    if not 0 < len(numbers) <= MAX_NUMBERS or not all(map(math.isfinite, numbers)):
        msg = f"Give 1 to {MAX_NUMBERS:,} finite numbers, got {len(numbers):,}."
        raise RefusedError(msg)
    found: dict[str, float] = {"count": len(numbers), "sum": math.fsum(numbers), "mean": stats.fmean(numbers)}
    found |= {"median": stats.median(numbers), "min": min(numbers), "max": max(numbers)}
    if len(numbers) > 1:
        found["standard deviation (sample)"] = stats.stdev(numbers)
    return "\n".join(f"{name}: {value:.{DIGITS}g}" for name, value in found.items())
