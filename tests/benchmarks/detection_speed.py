"""How long it takes to look at one step of a conversation, and whether that grows with the conversation.

    python -m tests.benchmarks.detection_speed --json PATH

Conversations of 100, 1,000 and 10,000 messages, with short results and with such of 50 kB: running text, JSON, and
text that was read before. In each, the last 200 steps are looked at; a step is what the agent would wait for after
its tools, so a conversation goes on by two messages and is looked at once. None of them is anomalous, so that every
rule is asked. Times are of one thread, without the classifier; those on a busy machine are longer.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tooltree import AnomalyDetector

LENGTHS = (100, 1_000, 10_000)
STEPS = 200
LARGE = 50_000
MOST_MS = 1.0
MOST_RATIO = 1.5
NAMES = [f"tool_{number}" for number in range(20)]

PROSE = "The reading of the second gauge was within the limits that the manual gives for this time of the year. "


def short(step: int) -> str:
    return f"Sensor {step} reads {step * 7 % 101} units. The valve is open."


def prose(step: int) -> str:
    return f"Report {step}. " + PROSE * (LARGE // len(PROSE))


def records(step: int) -> str:
    rows = [
        {"id": row, "step": step, "state": "stored", "note": PROSE[:40]}
        for row in range(LARGE // 95)
    ]
    return json.dumps({"step": step, "rows": rows})


def reread(step: int) -> str:
    return f"Page {step % 2}. " + PROSE * (LARGE // len(PROSE))


KINDS: dict[str, Callable[[int], str]] = {
    "short": short,
    "prose 50 kB": prose,
    "JSON 50 kB": records,
    "reread 50 kB": reread,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the figures there"
    )
    options = parser.parse_args(arguments)
    figures = {
        kind: {str(length): measure(length, result) for length in LENGTHS}
        for kind, result in KINDS.items()
    }
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return int(any(missed(of_kind) for of_kind in figures.values()))


def conversation(length: int, result: Callable[[int], str]) -> list[BaseMessage]:
    """A conversation whose last message is a result."""
    messages: list[BaseMessage] = [HumanMessage("Watch the plant.")]
    for number in range(length // 2):
        name, call = NAMES[number % len(NAMES)], f"call_{number}"
        messages.append(
            AIMessage(
                "",
                tool_calls=[
                    {"name": name, "args": {"number": number % 50}, "id": call}
                ],
            )
        )
        messages.append(ToolMessage(result(number), tool_call_id=call, name=name))
    return messages


def measure(length: int, result: Callable[[int], str]) -> dict[str, float]:
    """Milliseconds for looking at a step near the end of a conversation."""
    detector = AnomalyDetector(pollers=["wait*", "tool_0(0)"])
    every = conversation(length + 2 * STEPS, result)
    messages = every[: length + 1]
    times = []
    for begin in range(len(messages), len(every), 2):
        messages += every[begin : begin + 2]
        start = time.perf_counter()
        anomaly = detector.check(messages, tools=NAMES)
        times.append((time.perf_counter() - start) * 1_000)
        if anomaly is not None:
            msg = f"a normal step was taken for anomalous: {anomaly}"
            raise AssertionError(msg)
    return {
        "median_ms": statistics.median(times),
        "p95_ms": statistics.quantiles(times, n=20)[-1],
    }


def missed(of_kind: dict[str, Any]) -> bool:
    return (
        of_kind[str(LENGTHS[-1])]["median_ms"] > MOST_MS or ratio(of_kind) > MOST_RATIO
    )


def ratio(of_kind: dict[str, Any]) -> float:
    return float(
        of_kind[str(LENGTHS[-1])]["median_ms"] / of_kind[str(LENGTHS[0])]["median_ms"]
    )


def show(figures: dict[str, Any]) -> None:
    print(
        f"{'ms a step (median / p95)':24}"
        + "".join(f"{length:>18,}" for length in LENGTHS)
        + f"{'ratio':>8}"
    )
    for kind, of_kind in figures.items():
        cells = (
            f"{each['median_ms']:.3f} / {each['p95_ms']:.3f}"
            for each in of_kind.values()
        )
        print(
            f"{kind:24}"
            + "".join(f"{cell:>18}" for cell in cells)
            + f"{ratio(of_kind):>8.2f}"
        )
    print(
        f"targets: median below {MOST_MS:g} ms at {LENGTHS[-1]:,} messages, ratio to {LENGTHS[0]} below {MOST_RATIO:g}"
    )


if __name__ == "__main__":
    sys.exit(main())
