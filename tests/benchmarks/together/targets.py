"""What the figures are held against; a figure below its target is stated, with what misses it."""

from collections.abc import Mapping
from typing import Any

INSIDE = {"telecom": 0.97, "airline": 0.72}
"""Least hit@2 inside a search, by what stands in a file's name."""

FEWER_CALLS, MORE_SUCCESS = 0.3, 0.05
"""With all parts of an experience: so many of the model calls fewer at no lower success, or so much more success."""


def targets(told: Mapping[str, Any]) -> dict[str, list[str]]:
    """Each target, with what misses it."""
    arms, curve, generations = told["arms"], told["curve"], told["generations"]
    none, every = arms["none"], arms["all"]
    calls = every["model_calls"] / none["model_calls"]
    gain = every["success"] - none["success"]
    found = f"success {gain:+.3f} at {calls:.2f} of the calls"
    cheaper, better = gain >= 0 and calls <= 1 - FEWER_CALLS, gain >= MORE_SUCCESS and calls <= 1
    least, most = (curve[amount] for amount in (min(curve, key=int), max(curve, key=int)))
    poisoned = [
        f"generation {number}: {row['success']:.3f}, none: {generations[0]['success']:.3f}"
        for number, row in enumerate(generations)
        if row["success"] < generations[0]["success"]
    ]
    return {
        "all against none: 30 % fewer model calls at no lower success, or 5 points more success at the same calls": (
            [] if cheaper or better else [found]
        ),
        "success rises with learnt tasks": (
            [] if most["success"] > least["success"] else [f"{least['success']:.3f} to {most['success']:.3f}"]
        ),
        "generations do not fall below none": poisoned,
        "another process knows what one has learnt": (
            [] if told["two_processes"]["known"] == told["two_processes"]["learnt"] else [str(told["two_processes"])]
        ),
        **{
            f"{name}: hit@2 inside a search as outside, and at least {least_hits}": [
                f"{row['hit2']:.3f} inside, {row['hit2_outside']:.3f} outside"
                for file, row in told["inside_a_search"].items()
                if name in file and (row["hit2"] < least_hits or row["hit2"] != row["hit2_outside"])
            ]
            for name, least_hits in INSIDE.items()
            if any(name in file for file in told["inside_a_search"])
        },
    }
