"""The figures as tables."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.compare.desk import IN_FLIGHT
from tests.benchmarks.compare.figures import Figures
from tests.benchmarks.compare.outcome import BUDGETS


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print everything."""
    for noise, rates in figures.get("noise", {}).items():
        console.print(
            _noise(rates, f"Reporting tasks, judge {noise}: success by model calls")
        )
    if "methods" in figures:
        _show_race(figures, console)
    if figures["targets"]:
        console.print(_targets(figures["targets"]))


def _show_race(figures: Mapping[str, Any], console: Console) -> None:
    for title, methods in (
        ("Reporting", figures["methods"]),
        ("Development", figures["development"]),
    ):
        for auc in sorted(
            {auc for by_auc in methods.values() for auc in by_auc},
            key=float,
            reverse=True,
        ):
            console.print(
                _success(
                    methods,
                    auc,
                    f"{title} tasks, AUC {auc}: success by model calls, 95% interval at 80",
                )
            )
    for auc in sorted(
        {auc for by_auc in figures["methods"].values() for auc in by_auc},
        key=float,
        reverse=True,
    ):
        console.print(
            _costs(
                figures["methods"],
                auc,
                f"Reporting tasks, AUC {auc}: costs, times in model latencies by calls in flight",
            )
        )
    console.print(f"Floor: {figures['floor']} model latencies.")
    _show_margins(figures["margins"], console)


def _success(methods: Figures, auc: str, title: str) -> Table:
    table = _table(title, "method", *map(str, BUDGETS), "interval")
    for name, rows in methods.items():
        if row := rows.get(auc):
            bounds = f"{row['low']['80']:.3f} - {row['high']['80']:.3f}"
            table.add_row(
                name,
                *(f"{row['success'][str(budget)]:.3f}" for budget in BUDGETS),
                bounds,
            )
    return table


def _noise(rates: Mapping[str, Mapping[str, float]], title: str) -> Table:
    budgets = list(next(iter(rates.values()), {}))
    table = _table(title, "method", *budgets)
    for name, row in rates.items():
        table.add_row(name, *(f"{row[budget]:.3f}" for budget in budgets))
    return table


def _costs(methods: Figures, auc: str, title: str) -> Table:
    heads = (
        "tokens",
        "tool calls",
        "model calls",
        "rollouts",
        "nodes",
        *(f"time at {n}" for n in IN_FLIGHT),
    )
    table = _table(title, "method", *heads)
    for name, rows in methods.items():
        if row := rows.get(auc):
            counts = (
                row[key] for key in ("tool_calls", "model_calls", "rollouts", "nodes")
            )
            times = (row["latencies"].get(str(count)) for count in IN_FLIGHT)
            numbers = [f"{row['tokens']:,.0f}", *(f"{count:.1f}" for count in counts)]
            table.add_row(
                name,
                *numbers,
                *("" if time is None else f"{time:.1f}" for time in times),
            )
    return table


def _show_margins(
    margins: Mapping[str, Mapping[str, Mapping[str, Any]]], console: Console
) -> None:
    if not margins:
        return
    table = _table(
        "The default against the best method that is not ours",
        "AUC",
        "calls",
        "other",
        "difference",
        "ratio",
    )
    for auc, by_budget in margins.items():
        for budget, row in by_budget.items():
            difference = (
                f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
            )
            table.add_row(
                auc,
                budget,
                row["other"],
                difference,
                "" if row["ratio"] is None else f"{row['ratio']:.2f}",
            )
    console.print(table)


def _targets(found: Iterable[Mapping[str, Any]]) -> Table:
    table = _table(
        "Targets, on the reporting tasks", "", "measured", "wanted", "target"
    )
    for row in found:
        measured = "-" if row["measured"] is None else f"{row['measured']:,.3f}"
        verdict = {True: "met", False: "[bold red]missed[/]", None: "not measured"}[
            row["met"]
        ]
        table.add_row(verdict, measured, row["wanted"], row["target"])
    return table


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first, no_wrap=True)
    for other in others:
        table.add_column(other, justify="left" if other == "target" else "right")
    return table
