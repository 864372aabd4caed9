"""Units and dates: pint and dateutil."""

import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from difflib import get_close_matches
from functools import cache
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from langchain_tooltree.errors import import_extra
from langchain_tooltree.toolbox.entries import RefusedError, check_text, entry

MAX_UNIT = 100
"""Characters of a unit or a date."""

DIGITS = 10
"""Digits of a value before and after: definitions of units have as many."""

DEGREES = {"C": "degC", "F": "degF"}
"""What models mean by the signs of coulomb and farad."""

PIECES = ("years", "months", "weeks", "days", "hours", "minutes", "seconds")
MAX_AMOUNT = 1_000_000
"""The most of a unit of time that is added to a date."""


@cache
def _registry() -> Any:
    return import_extra("pint", "toolbox", "convert_units").UnitRegistry(autoconvert_offset_to_baseunit=True)


def _unit(text: str) -> Any:
    """A unit, from names, * / ** and whole numbers alone, so that its parser is given nothing to compute at length."""
    check_text("A unit", text, MAX_UNIT)
    if re.search(r"\d{3}|/\s*\d|\d\s*(\*\*|\^)", text):  # neither numbers of their own nor powers of powers
        msg = f"{text!r} is no unit. Write names and powers, such as km/h or kg*m**2, and put numbers into the value: "
        msg += "8 l/100km is 0.08 l/km."
        raise RefusedError(msg)
    if re.search(r"\bC(?i:al(orie)?s?)\b", text):
        msg = f"{text!r} can be read in two ways. Write kilocalorie (4184 J), as of food, or calorie (4.184 J)."
        raise RefusedError(msg)
    if re.search(r"\btons?\b", text, re.IGNORECASE):
        msg = (
            f"{text!r} can be read in three ways. Write metric_ton (1000 kg), short_ton (907 kg) or long_ton (1016 kg)."
        )
        raise RefusedError(msg)
    text = re.sub(r"\b([A-Za-z]+)([23])\b", r"\1**\2", text)  # as m2 and kg/m3
    try:
        registry, lower = _registry(), text.lower()  # as models write Celsius and KM
        return registry.Unit(lower if lower.isidentifier() and text not in registry and lower in registry else text)
    except Exception as error:
        msg = f"{text!r} is no unit that is known: {error}. Write it as km/h, degC, US gallon as gallon, kilowatt_hour."
        raise RefusedError(msg) from error


@entry(
    "units",
    {"value": 26.2, "unit": "mile", "to": "km"},
    {"value": 100, "unit": "degF", "to": "degC"},
    {"value": 90, "unit": "km/h", "to": "m/s"},
    packages=("pint",),
)
def convert_units(value: float, unit: str, to: str) -> str:
    """Convert a value from one physical unit to another. Money is not known.

    Args:
        value: The number.
        unit: Its unit, such as mile, kg, km/h, degF, kWh, MiB.
        to: The unit wanted.
    """
    source, target = _unit(unit), _unit(to)
    if source.dimensionality != target.dimensionality:
        msg = f"{unit} measures {source.dimensionality}, and {to} measures {target.dimensionality}."
        taken = {each: each_unit for each, each_unit in ((unit, source), (to, target)) if each in DEGREES}
        if taken:
            here = " and ".join(f"{each} is the {each_unit}" for each, each_unit in taken.items())
            msg += f" Here {here}. Did you mean {', '.join(DEGREES[each] for each in taken)}?"
        elif source.dimensionality == (1 / target).dimensionality:
            msg += f" One is the reciprocal of the other: convert 1/value, in 1/({unit})."
        raise RefusedError(msg)
    registry = _registry()
    if source.dimensionality == registry.kelvin.dimensionality and "delta_" not in f"{source}{target}":
        zero = registry.Quantity(0, registry.kelvin).to(source).magnitude
        if value < zero - 1e-9:  # of rounding
            msg = f"{value:.{DIGITS}g} {unit} lies below absolute zero, {zero:.{DIGITS}g} {unit}. "
            msg += "Write a difference of temperatures with delta_degC or delta_degF."
            raise RefusedError(msg)
    converted = registry.Quantity(value, source).to(target).magnitude
    if not (math.isfinite(value) and math.isfinite(converted)):
        msg = "The value is too large, or no number."
        raise RefusedError(msg)
    return f"{value:.{DIGITS}g} {unit} = {converted:.{DIGITS}g} {to}"


YEAR_FIRST = re.compile(r"(?<!\d)\d{4}([-/.])\d\d?\1\d\d?(?![\d-])")
"""A date that is read as year, month, day everywhere."""


def _moment(text: str) -> datetime:
    """A date or moment of which nothing is guessed: no part that is missing, and no order of day, month and year."""
    parser = import_extra("dateutil.parser", "toolbox", "dates")
    check_text("A date", text, MAX_UNIT)
    if len(text.strip()) >= len("20260301"):  # less lacks the day
        with suppress(ValueError):
            return cast("datetime", parser.isoparse(text.strip()))
    defaults = (datetime(1, 1, 1), datetime(2, 2, 2))  # noqa: DTZ001 - as local as the text
    orders: tuple[dict[str, bool], ...] = ({}, {"dayfirst": True}, {"yearfirst": True})
    if YEAR_FIRST.search(text):
        orders = ({"yearfirst": True},)
    try:
        found = [parser.parse(text, default=day, tzinfos=_offset, **order) for order in orders for day in defaults]
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is no date. Write it as 2026-03-01, 2026-03-01T14:30 or 2026-03-01T14:30+01:00."
        raise RefusedError(msg) from error
    if len({each.date() for each in found}) > 1:
        msg = f"{text!r} lacks its day, month or year, or can be read in two ways. Write it as 2026-03-01."
        raise RefusedError(msg)
    moment = cast("datetime", found[0])
    days = {parser.parserinfo().weekday(word) for word in re.findall(r"[A-Za-z]+", text)}
    if days - {None, moment.weekday()}:
        msg = f"{text!r} contradicts itself: {moment.date()} is a {moment:%A}."
        raise RefusedError(msg)
    return moment


def _offset(name: str | None, seconds: int | None) -> tzinfo | None:
    """The zone of a moment; refused where it is a name, such as EST, that dateutil would leave out."""
    if name and seconds is None:
        raise ValueError(name)
    return None if seconds is None else timezone(timedelta(seconds=seconds))


@entry("units", {"start": "2026-03-01", "end": "2026-12-24"}, packages=("dateutil",))
def time_between(start: str, end: str) -> str:
    """How long it is from one date or moment to another: days, working days, and years, months and days.

    Args:
        start: Such as 2026-03-01 or 2026-03-01T14:30+01:00.
        end: The same form; earlier than start gives negative numbers.
    """
    relativedelta = import_extra("dateutil.relativedelta", "toolbox", "time_between").relativedelta
    first, last = _moment(start), _moment(end)
    if (first.tzinfo is None) != (last.tzinfo is None):
        msg = "One of them has a time zone and the other one has none. Give both or none."
        raise RefusedError(msg)
    apart, parts = last - first, relativedelta(last, first)
    named = [f"{value} {name}" for name in PIECES if name != "weeks" and (value := getattr(parts, name))]
    days = apart / timedelta(days=1)
    return (
        f"{days:.10g} days ({days / 7:.6g} weeks), or {', '.join(named) or 'no time'}; "
        f"{_working_days(first.date(), last.date())} working days (Monday to Friday, the last day left out)"
    )


def _working_days(first: date, last: date) -> int:
    if last < first:
        return -_working_days(last, first)
    weeks, rest = divmod((last - first).days, 7)
    return weeks * 5 + sum((first.weekday() + each) % 7 < 5 for each in range(rest))  # noqa: PLR2004 - Saturday


@entry("units", {"start": "2024-01-31", "amount": 1, "unit": "months"}, packages=("dateutil",))
def add_to_date(start: str, amount: int, unit: str = "days") -> str:
    """The date or moment that lies some time after another one, or before it, and its weekday.

    Args:
        start: Such as 2026-03-01 or 2026-03-01T14:30.
        amount: How many; negative for before.
        unit: years, months, weeks, days, hours, minutes or seconds.
    """
    relativedelta = import_extra("dateutil.relativedelta", "toolbox", "add_to_date").relativedelta
    unit = f"{unit.lower().removesuffix('s')}s"
    first = _moment(start)
    if unit not in PIECES or abs(amount) > MAX_AMOUNT:
        msg = f"unit must be one of {', '.join(PIECES)}, and amount at most {MAX_AMOUNT:,}."
        raise RefusedError(msg)
    try:
        moment: datetime = first + relativedelta(**{unit: amount})
    except (ValueError, OverflowError) as error:
        msg = "That lies outside the years 1 to 9999."
        raise RefusedError(msg) from error
    whole = (moment.hour, moment.minute, moment.second) == (0, 0, 0) and ":" not in start
    return f"{moment.date() if whole else moment.isoformat()} ({moment:%A}), counted from {first.date()}, a {first:%A}"


@entry("units", {"moment": "2026-07-01T09:00", "zone": "Europe/Berlin", "to": "Asia/Tokyo"}, packages=("dateutil",))
def convert_time_zone(moment: str, zone: str, to: str) -> str:
    """What time it is elsewhere at a given moment.

    Args:
        moment: Such as 2026-07-01T09:00.
        zone: Its zone, such as Europe/Berlin or UTC.
        to: The zone wanted.
    """
    found = _moment(moment)
    if found.tzinfo is not None:
        msg = f"{moment!r} has an offset of its own. Leave it out, or convert from UTC."
        raise RefusedError(msg)
    here = found.replace(tzinfo=_zone(zone))
    there = here.astimezone(_zone(to))
    first, second = here.astimezone(UTC), here.replace(fold=1).astimezone(UTC)
    if first > second:
        msg = f"{here:%Y-%m-%d %H:%M} does not exist in {zone}: the clocks are put forward then."
        raise RefusedError(msg)
    twice = f"; also {second.astimezone(_zone(to)):%H:%M}, as the clocks are put back then and that hour comes twice"
    return (
        f"{here:%Y-%m-%d %H:%M} in {zone} is {there:%Y-%m-%d %H:%M} in {to} ({there:%A}, UTC{there:%z})"
        f"{twice if first < second else ''}"
    )


def _zone(name: str) -> ZoneInfo:
    """The zone of this name; an abbreviation is refused, as several places share it and it is in none all the year."""
    zones = sorted(each for each in available_timezones() if re.search("[a-z]", each) and not each.startswith("Etc/"))
    places = {_spoken(each.rpartition("/")[2]): each for each in reversed(zones)}
    places |= {_spoken(each): each for each in zones}
    name = name.upper() if name.upper() in {"UTC", "GMT"} else name
    if re.fullmatch("[A-Za-z]{3,4}", name) and name not in {"UTC", "GMT"} and _spoken(name) not in places:
        msg = f"{name!r} is no time zone: an abbreviation can mean several. Name a place, such as America/New_York."
        raise RefusedError(msg)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        nearest = get_close_matches(_spoken(name), places, n=1, cutoff=0.8)
        meant = f" Did you mean {places[nearest[0]]!r}?" if nearest else ""
        msg = f"{name!r} is no time zone. Write it as Europe/Berlin or UTC.{meant}"
        raise RefusedError(msg) from error


def _spoken(name: str) -> str:
    """A zone or a city as people write it."""
    return re.sub(r"[_\s]+", " ", name).strip().casefold()
