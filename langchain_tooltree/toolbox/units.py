"""Units and dates: pint and dateutil."""

import re
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal

import numpy as np

from langchain_tooltree.errors import import_extra
from langchain_tooltree.toolbox.guard import refuse

AMBIGUOUS = {  # units that can be read in several ways, and what to write
    r"\btons?\b": "metric_ton (1000 kg), short_ton (907 kg) or long_ton (1016 kg)",
    r"\bCal(orie)?s?\b": "kilocalorie (4184 J), as of food, or calorie (4.184 J)",
    r"\b[CF]\b": "degC or degF, or else coulomb or farad",
}
Piece = Literal["years", "months", "weeks", "days", "hours", "minutes", "seconds"]


@cache
def _registry() -> Any:
    return import_extra("pint", "toolbox", "convert_units").UnitRegistry()


def _unit(text: str) -> Any:
    if meanings := next((meanings for pattern, meanings in AMBIGUOUS.items() if re.search(pattern, text)), None):
        refuse(f"{text!r} can be read in several ways. Write {meanings}.")
    try:
        return _registry().Unit(text)
    except Exception as error:  # noqa: BLE001 - pint has many
        refuse(f"{text!r} is no unit: {str(error).rstrip('.')}. Write it as mile, km/h, m**2, degC or kilowatt_hour.")


def convert_units(value: float, unit: str, to: str) -> str:
    """Convert a value from one physical unit to another. Money is not known.

    Args:
        value: The number.
        unit: Its unit, such as mile, kg, km/h, m**2, degF, kWh, MiB.
        to: The unit wanted.
    """
    quantity, target = _registry().Quantity(value, _unit(unit)), _unit(to)
    if not quantity.is_compatible_with(target):
        refuse(f"{unit} measures {quantity.dimensionality}, and {to} measures {target.dimensionality}.")
    if quantity.check("[temperature]") and "delta" not in unit and round(quantity.to("kelvin").magnitude, 9) < 0:
        refuse(f"{value:g} {unit} lies below absolute zero. Write a difference of temperatures with delta_degC.")
    return f"{value:.10g} {unit} = {quantity.to(target).magnitude:.10g} {to}"


def _moment(text: str) -> datetime:
    """A date or moment in ISO 8601, so that day and month cannot be mistaken for each other."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        refuse(f"{text!r} is no date. Write it as 2026-03-01, 2026-03-01T14:30 or 2026-03-01T14:30+01:00.")


def time_between(start: str, end: str) -> str:
    """How long it is from one date or moment to another: days, working days, and years, months and days.

    Args:
        start: Such as 2026-03-01 or 2026-03-01T14:30+01:00.
        end: The same form; earlier than start gives negative numbers.
    """
    relativedelta = import_extra("dateutil.relativedelta", "toolbox", "time_between").relativedelta
    first, last = _moment(start), _moment(end)
    parts, days = relativedelta(last, first), (last - first) / timedelta(days=1)
    named = [f"{getattr(parts, name)} {name}" for name in ("years", "months", "days", "hours", "minutes", "seconds")]
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
    relativedelta = import_extra("dateutil.relativedelta", "toolbox", "add_to_date").relativedelta
    first = _moment(start)
    moment: datetime = first + relativedelta(**{unit: amount})
    is_date = ":" not in start and moment.time() == datetime.min.time()
    return f"{moment.date() if is_date else moment.isoformat()} ({moment:%A}), counted from a {first:%A}"
