"""What the comparison has to show, and whether it does."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from tests.benchmarks.compare.names import (
    A_STAR,
    ABLATION,
    DEFAULT,
    HANDICAPPED,
    LATS,
    TOOLTREE_MCTS,
    ablation,
    in_flight,
)

AUC = "0.95"
PERFECT = "1.0"
RACE_BUDGETS = ("40", "80", "160")
LAST = "160"
LEAST_BUDGETS = ("20", "40", "80", "160")
LEAST_SUCCESS = {
    auc: dict(zip(LEAST_BUDGETS, least, strict=True))
    for auc, least in {
        "0.95": (0.90, 0.96, 0.98, 0.98),
        "0.9": (0.72, 0.88, 0.95, 0.96),
        "0.85": (0.55, 0.76, 0.90, 0.92),
    }.items()
}
AHEAD = 0.02
NOISE_BUDGET = "80"
NOISE_LEAST = 0.85
PRUNING_COST = 0.01
PRUNING_SAVES = 0.2
FLOOR_FACTOR = 2.2
OF_LATS = 0.35
OF_TOOLTREE_MCTS = 0.1
IN_FLIGHT_COST = 0.02
CPU_MS = {"60": 2.0, "2000": 3.0}
NODE_BYTES = 4096

DIGITS = 4
"""Of the figures; a difference of two of them has no more."""

Target = dict[str, Any]


def targets(result: Mapping[str, Any], others: Iterable[str]) -> list[Target]:
    """Each target with what was measured; `met` is `None` where a figure is missing.

    Args:
        result: The figures.
        others: The methods in the race that are not ours.
    """
    methods = result["methods"]
    return [
        *_race(methods, list(others)),
        *_anytime(methods),
        *_ablation(methods),
        *_time(methods, result["floor"]),
        *_engine(result.get("engine", {})),
    ]


def _race(methods: Mapping[str, Any], others: list[str]) -> Iterator[Target]:
    for auc in methods.get(DEFAULT, {}):
        for budget in LEAST_BUDGETS:
            own = _success(methods, DEFAULT, auc, budget)
            name, best = _best(methods, others, auc, budget)
            claim = f"AUC {auc}, {budget} model calls: by how much the best peer is ahead ({name})"
            ahead = _minus(best, own)
            yield _target(claim, ahead, f"<= {AHEAD}", _holds(ahead, at_most=AHEAD))
            least = LEAST_SUCCESS.get(auc, {}).get(budget)
            if least is not None:
                claim = f"AUC {auc}, {budget} model calls: success of the default"
                yield _target(claim, own, f">= {least}", _holds(own, at_least=least))
            handicapped = _success(methods, HANDICAPPED, auc, budget)
            lead = _minus(handicapped, _success(methods, A_STAR, auc, budget))
            if handicapped is not None:
                claim = f"AUC {auc}, {budget} model calls: the default with an AUC lower by .05 where calls are fused"
                yield _target(
                    f"{claim}, before {A_STAR} with separate calls",
                    lead,
                    ">= 0",
                    _holds(lead, at_least=0),
                )


def noise_targets(
    noise: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> list[Target]:
    """What has to be so with other judges.

    Args:
        noise: Success by judge, method and budget.
    """
    found = {
        judge: rates[DEFAULT][NOISE_BUDGET]
        for judge, rates in noise.items()
        if DEFAULT in rates
    }
    return [
        _target(
            f"Judge {judge}, {NOISE_BUDGET} model calls: success",
            rate,
            f">= {NOISE_LEAST}",
            rate >= NOISE_LEAST,
        )
        for judge, rate in found.items()
    ]


def _anytime(methods: Mapping[str, Any]) -> Iterator[Target]:
    for auc, row in methods.get(DEFAULT, {}).items():
        curve = list(row["success"].values())
        worst = min(round(after - before, DIGITS) for before, after in pairwise(curve))
        yield _target(
            f"AUC {auc}: the least gain in success from one budget to the next",
            worst,
            ">= 0",
            _holds(worst, at_least=0),
        )


def _ablation(methods: Mapping[str, Any]) -> Iterator[Target]:
    unpruned = ablation("both prunings")
    cost = _minus(
        _success(methods, unpruned, PERFECT, LAST),
        _success(methods, ABLATION, PERFECT, LAST),
    )
    claim = f"Paper preset, AUC {PERFECT}: success that both prunings cost"
    yield _target(claim, cost, f"<= {PRUNING_COST}", _holds(cost, at_most=PRUNING_COST))
    full, bare = (
        _figure(methods, name, PERFECT, "tokens") for name in (ABLATION, unpruned)
    )
    saved = round(1 - full / bare, DIGITS) if full is not None and bare else None
    claim = f"Paper preset, AUC {PERFECT}: share of the tokens that both prunings save"
    yield _target(
        claim, saved, f">= {PRUNING_SAVES}", _holds(saved, at_least=PRUNING_SAVES)
    )
    for without in ("pre-evaluation", "post-evaluation", "both evaluations"):
        lost = _minus(
            _success(methods, ABLATION, AUC, LAST),
            _success(methods, ablation(without), AUC, LAST),
        )
        met = None if lost is None else lost > 0
        yield _target(
            f"Paper preset, AUC {AUC}: success lost without {without}", lost, "> 0", met
        )


def _time(methods: Mapping[str, Any], floor: float) -> Iterator[Target]:
    ours = _figure(methods, DEFAULT, AUC, "latencies", "8")
    factor = None if ours is None else ours / floor
    claim = "Wall time at 8 in flight over the critical path"
    yield _target(
        claim, factor, f"<= {FLOOR_FACTOR}", _holds(factor, at_most=FLOOR_FACTOR)
    )
    pace = _pace(methods, in_flight(8)) or _pace(methods, DEFAULT)
    for name, share in ((LATS, OF_LATS), (TOOLTREE_MCTS, OF_TOOLTREE_MCTS)):
        other = _pace(methods, name)
        ratio = pace / other if pace and other else None
        claim = f"Wall time of a rollout at 8 in flight over that of {name}"
        yield _target(claim, ratio, f"<= {share}", _holds(ratio, at_most=share))
    for budget in RACE_BUDGETS:
        lost = _minus(
            *(_success(methods, in_flight(count), AUC, budget) for count in (1, 8))
        )
        claim = f"AUC {AUC}, {budget} model calls: success lost with 8 in flight instead of 1"
        yield _target(
            claim, lost, f"<= {IN_FLIGHT_COST}", _holds(lost, at_most=IN_FLIGHT_COST)
        )


def _engine(engine: Mapping[str, Any]) -> Iterator[Target]:
    times = {name: row["cpu_ms_per_rollout"] for name, row in engine.items()}
    own = times.get(DEFAULT, {})
    for rollouts, most in CPU_MS.items():
        value = own.get(rollouts)
        claim = f"Engine: CPU ms of a rollout beyond the bare calls, of {rollouts}"
        yield _target(
            claim, value, f"< {most}", None if value is None else value < most
        )
    size = engine.get(DEFAULT, {}).get("bytes_per_node")
    yield _target(
        "Engine: bytes of a node",
        size,
        f"< {NODE_BYTES}",
        None if size is None else size < NODE_BYTES,
    )
    peers = [
        name
        for name in engine
        if not name.startswith("tooltree-") or name == TOOLTREE_MCTS
    ]
    for rollouts in own or CPU_MS:
        yield _least(
            f"CPU ms of a rollout, of {rollouts}",
            {name: row.get(rollouts) for name, row in times.items()},
            peers,
        )
    yield _least(
        "bytes of a node",
        {name: row["bytes_per_node"] for name, row in engine.items()},
        peers,
    )


def _least(
    what: str, figures: Mapping[str, float | None], peers: Iterable[str]
) -> Target:
    """Whether the default needs less than every peer."""
    others = {name: value for name in peers if (value := figures.get(name)) is not None}
    own = figures.get(DEFAULT)
    least = min(others, key=lambda name: others[name], default=None)
    claim = f"Engine: {what}, against every peer"
    if least is None or own is None:
        return _target(claim, own, "less than every peer", None)
    return _target(claim, own, f"< {others[least]} ({least})", own < others[least])


def _target(
    claim: str,
    measured: float | None,
    wanted: str,
    met: bool | None,  # noqa: FBT001 - a record
) -> Target:
    value = None if measured is None else round(measured, DIGITS)
    return {"target": claim, "measured": value, "wanted": wanted, "met": met}


def _holds(
    value: float | None, *, at_least: float | None = None, at_most: float | None = None
) -> bool | None:
    if value is None:
        return None
    return (at_least is None or value >= at_least) and (
        at_most is None or value <= at_most
    )


def _figure(methods: Mapping[str, Any], name: str, auc: str, *keys: str) -> Any:
    found: Any = methods.get(name, {}).get(auc)
    for key in keys:
        found = None if found is None else found.get(key)
    return found


def _success(
    methods: Mapping[str, Any], name: str, auc: str, budget: str
) -> float | None:
    found: float | None = _figure(methods, name, auc, "success", budget)
    return found


def _best(
    methods: Mapping[str, Any], names: Iterable[str], auc: str, budget: str
) -> tuple[str | None, float | None]:
    """The best of some methods and its success."""
    found = {
        name: rate
        for name in names
        if (rate := _success(methods, name, auc, budget)) is not None
    }
    best = max(found, key=lambda name: found[name], default=None)
    return best, None if best is None else found[best]


def _pace(methods: Mapping[str, Any], name: str) -> float | None:
    """Model latencies for a rollout with 8 in flight."""
    latency, rollouts = (
        _figure(methods, name, AUC, *keys)
        for keys in (("latencies", "8"), ("rollouts",))
    )
    return latency / rollouts if latency and rollouts else None


def _minus(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else round(first - second, DIGITS)
