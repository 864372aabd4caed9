"""Runs of agents drawn from seeds, with failures and kills, and what must hold of every one of them.

Each run is a conversation of one or two requests, in as many parts as it takes: killed processes are followed by new
ones, questions to a person are answered at random. In the end the ledger, in which the writes count themselves, is
compared with what the checkpointer has kept.
"""

import json
import random
import signal
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.integration_tests.child_processes import Servers
from tests.integration_tests.conversations import check_pairs
from tests.internals.tooltree import deciding

# ruff: noqa: S311 - nothing random here is a secret

SCRIPT = Path(__file__).with_name("chaos.py")

ROOT: Any = {"configurable": {"thread_id": "chaos", "checkpoint_ns": ""}}

READS = ("check",)

MAX_PARTS = 60
"""A run that has not ended by then never will."""

KILLS = (-signal.SIGKILL, -signal.SIGPROF)

UNDISTURBED = {"act": "none", "moment": "call", "number": 0}

LIMITS: list[dict[str, Any]] = [
    {},
    {},
    {"max_model_calls": 6},
    {"max_tool_calls": 2},
    {"max_tokens": 1500},
    {"max_seconds": 0.1},
    {"parallel_rollouts": 1},
]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is the same in all parts of a run.

    Attributes:
        seed: Everything follows from it.
        host: `"node"` in a graph, `"middleware"` in a `create_agent`, or `"agent"`, a `create_tooltree_agent`.
        path: Sync or async.
        durability: LangGraph's durability mode: with `"sync"` a step begins once the one before is persisted.
        review: Whether a person approves writes.
        sandbox: Whether some writes are tried out while searching.
        handles_errors: Whether the host turns errors of its tools into results, after a retry in some hosts; they end
            the run otherwise, which is then resumed.
        trouble: How often, in [0, 1], a call fails.
        limits: Fields of the search's configuration.
        requests: What the user says.
        disturbances: How many parts of the run may be killed or stopped.
    """

    seed: int
    host: str
    path: str
    durability: str
    review: bool
    sandbox: bool
    handles_errors: bool
    trouble: float
    limits: dict[str, Any]
    requests: tuple[str, ...]
    disturbances: int

    @classmethod
    def of(cls, seed: int) -> "Scenario":
        """Draw a scenario."""
        draw = random.Random(seed)
        items = [draw.sample(("tea", "milk", "bread"), draw.randint(1, 3)) for _ in range(draw.choice((1, 2)))]
        return cls(
            seed=seed,
            host=draw.choice(("node", "middleware", "agent")),
            path=draw.choice(("sync", "async")),
            durability=draw.choice(("sync", "async")),
            review=draw.random() < 1 / 2,
            sandbox=draw.random() < 1 / 3,
            handles_errors=draw.random() < 2 / 3,
            trouble=draw.choice((0.0, 0.05, 0.15, 0.3)),
            limits={"max_rollouts": draw.choice((2, 6, 10)), **draw.choice(LIMITS)},
            requests=tuple(f"Get{turn or ''} {' '.join(wanted)}" for turn, wanted in enumerate(items)),
            disturbances=draw.choice((0, 2, 4, 6, 8)),
        )


@dataclass
class Tally:
    """What happened in a run, or in several.

    Attributes:
        counts: How often, by name.
        lost: What was done and is not in the records, where these need not have been persisted when a process died.
        violations: What should not have happened.
    """

    counts: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.counts + other.counts, self.lost + other.lost, self.violations + other.violations)


class History:
    """All that a checkpointer has kept of a conversation.

    Attributes:
        states: The conversation at every checkpoint, oldest first.
        emitted: Every form in which a call stands in them, by its id.
        results: Ids of the calls whose result is kept, also if only as a pending write.
    """

    def __init__(self, database: Path) -> None:
        self.states: list[list[BaseMessage]] = []
        self.emitted: defaultdict[str, list[Any]] = defaultdict(list)
        self.results: set[str] = set()
        if not database.exists():
            return
        with SqliteSaver.from_conn_string(str(database)) as saver:
            for held in reversed(list(saver.list(ROOT))):
                self.states.append(held.checkpoint["channel_values"].get("messages", []))
                pending = [value for _, channel, value in held.pending_writes or () if channel == "messages"]
                written = [value if isinstance(value, list) else [value] for value in pending]
                self._take_in([*self.states[-1], *(message for messages in written for message in messages)])

    def _take_in(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if isinstance(message, ToolMessage):
                self.results.add(message.tool_call_id)
            elif isinstance(message, AIMessage):
                for call in message.tool_calls:
                    self.emitted[str(call["id"])].append((call["name"], call["args"]))

    @property
    def messages(self) -> list[BaseMessage]:
        """The conversation as it stands."""
        return self.states[-1] if self.states else []

    @property
    def waiting(self) -> list[Any]:
        """The calls that a person has to approve, if the conversation ends in some."""
        results = {message.tool_call_id for message in self.messages if isinstance(message, ToolMessage)}
        made = [message for message in self.messages if isinstance(message, AIMessage)]
        calls = made[-1].tool_calls if made else []
        return [call for call in calls if call["id"] not in results and call["name"] not in READS]


class Conversation:
    """One run: drives it to its end and says whether all was as it should be.

    Args:
        processes: Servers of `chaos.py`.
        folder: For its files.
        scenario: What to do.
        fates: What happens to its first parts, as arguments of `shop.Fate`; drawn if left out.
    """

    def __init__(
        self, processes: Servers, folder: Path, scenario: Scenario, *, fates: Iterable[dict[str, Any]] | None = None
    ) -> None:
        self._processes = processes
        self._scenario = scenario
        self._draw = random.Random(f"campaign:{scenario.seed}")
        self._files = {name: folder / f"{scenario.seed}.{name}" for name in ("database", "ledger", "report")}
        self._approved: defaultdict[str, list[Any]] = defaultdict(list)
        self._fates = self._drawn_fates() if fates is None else iter(fates)
        self._ended = False
        self.tally = Tally(Counter(runs=1))

    def hold(self) -> Tally:
        """Hold the conversation to its end."""
        self._ended = self._to_the_end()
        self.check()
        return self.tally

    def check(self) -> None:
        """Compare what was done with what was recorded and approved."""
        if self._ended:
            self._check_end()
        self._check_writes()

    def _to_the_end(self) -> bool:
        requests = list(self._scenario.requests)
        given: dict[str, Any] = {"request": requests[0]}
        for part in range(MAX_PARTS):
            report = self._part(part, given)
            history = History(self._files["database"])
            if report is None:
                return False
            if "asked" not in report:
                said = any(message.id == requests[0] for message in history.messages)
                given = {} if said else {"request": requests[0]}
            elif report["asked"]:
                given = {"answer": self._decide(report["asked"], history.waiting)}
            else:
                requests.pop(0)
                if not requests:
                    return True
                given = {"request": requests[0]}
        self._violated(f"it did not end within {MAX_PARTS} parts")
        return False

    def _part(self, part: int, given: dict[str, Any]) -> dict[str, Any] | None:
        """Do one part; what it reports, or `None` if it ended in no way that it may."""
        count = self.tally.counts
        self._files["report"].unlink(missing_ok=True)
        job = {name: str(path) for name, path in self._files.items()}
        job.update(scenario=asdict(self._scenario), part=part, fate=next(self._fates, UNDISTURBED), given=given)
        ended = self._processes.do(job)
        count["parts"] += 1
        count["resumes"] += part > 0 and "request" not in given
        if ended in KILLS:
            count["kills"] += 1
            count["kills in the gap"] += bool(self._unrecorded())
            return {}
        if ended:
            self._violated(f"part {part} ended with {ended}")
            return None
        report: dict[str, Any] = json.loads(self._files["report"].read_text())
        if "failed" in report:
            count["failures"] += 1
            if not report["expected"]:
                self._violated(f"part {part} failed: {report['failed']}")
                return None
        if "stopped" in report:
            count["stops"] += 1
            count["stops in the gap"] += bool(self._unrecorded())
        return report

    def _drawn_fates(self) -> Iterator[dict[str, Any]]:
        for _ in range(self._scenario.disturbances):
            act = self._draw.choices(("kill", "stop", "drain"), (6, 1, 1))[0]
            moments = ("call", "call", "between", "between", "after", "before", "time")
            moment = self._draw.choice(moments if act == "kill" else moments[:-1])
            number = {"call": self._draw.randint(1, 25), "time": self._draw.randint(10, 250)}.get(moment)
            yield {"act": act, "moment": moment, "number": number or self._draw.choice((1, 1, 1, 2))}

    def _decide(self, asked: Sequence[Any], waiting: Sequence[Any]) -> Any:
        """Answer the one question, and keep in mind what was approved."""
        actions = [(action["name"], action["args"]) for request in asked for action in request["action_requests"]]
        if len(asked) != 1 or actions != [(call["name"], call["args"]) for call in waiting]:
            self._violated(f"a person is asked about {actions}, but {waiting} wait")
        if self._draw.random() < 1 / 10:
            return self._draw.choice(("yes", {"decisions": []}))
        return deciding(asked, *map(self._decision, waiting)).resume

    def _decision(self, call: Any) -> Any:
        kind = self._draw.choices(("approve", "edit", "reject"), (6, 2, 2))[0]
        self.tally.counts[f"{kind}s"] += 1
        if kind == "reject":
            return {"type": kind, "message": "no"}
        if kind == "edit" and call["name"] == "order":
            call = {**call, "args": {"item": f"better {call['args'].get('item')}"}}
        self._approved[call["id"]].append((call["name"], call["args"]))
        if kind == "edit":
            return {"type": kind, "edited_action": {"name": call["name"], "args": call["args"]}}
        return {"type": kind}

    # --- what must hold ---

    def _lines(self, what: str) -> list[dict[str, Any]]:
        path = self._files["ledger"]
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [{**line, "at": at} for at, line in enumerate(lines) if line["what"] == what]

    def _unrecorded(self) -> list[str]:
        """Keys of writes whose effect is real and whose result is not kept."""
        kept = History(self._files["database"]).results
        return [line["key"] for line in self._lines("effect") if line["key"] not in kept]

    def _check_end(self) -> None:
        """The conversation ended in an answer, and was one that providers accept at every checkpoint."""
        history = History(self._files["database"])
        last = history.messages[-1]
        if not isinstance(last, AIMessage) or last.tool_calls:
            self._violated(f"it ended in {last!r}")
        for place, state in enumerate(history.states):
            try:
                check_pairs(state, may_end_open=place < len(history.states) - 1)
            except AssertionError as error:
                self._violated(f"the conversation at checkpoint {place} is broken: {error}")

    def _check_writes(self) -> None:
        """Every write was emitted before, approved if that was needed, and done once; all say the same of it."""
        history = History(self._files["database"])
        effects, arrivals, emitted = (self._lines(what) for what in ("effect", "arrival", "emitted"))
        once = Counter(line["key"] for line in effects)
        for line in effects:
            key, call = line["key"], _call(line)
            kept = call in history.emitted[key]
            seen = any(each["key"] == key and _call(each) == call and each["at"] < line["at"] for each in emitted)
            if not (kept or seen):
                self._violated(f"{call} ran under {key}, which was not emitted")
            elif not kept:
                self._lost(f"{call} ran under {key}, whose emission is not kept")
            if self._scenario.review and call not in self._approved[key]:
                self._violated(f"{call} ran under {key}, which was not approved")
            if once[key] > 1:
                self._violated(f"{call} ran {once[key]} times under {key}")
            told = [message.text for message in history.messages if getattr(message, "tool_call_id", None) == key]
            if any("rejected" in text for text in told):
                self._lost(f"{call} ran under {key}, of which the conversation says: {told}")
        meant = {line["key"]: _call(line) for line in reversed(arrivals)}
        for line in arrivals:
            if _call(line) != meant[line["key"]]:
                self._lost(f"{line['key']} stands for {meant[line['key']]} and for {_call(line)}")
        self.tally.counts.update(
            {
                "writes": len(effects),
                "planned writes": sum(line["key"].startswith("call_") for line in effects),
                "arrivals": len(arrivals),
                "repeated arrivals": len(arrivals) - len(meant),
            }
        )

    def _lost(self, what: str) -> None:
        """Note a record that does not agree with what was done.

        That is wrong, unless the process died and steps begin before the one before is persisted.
        """
        if self._scenario.durability == "sync" or not self.tally.counts["kills"]:
            self._violated(what)
        else:
            self.tally.lost.append(f"seed {self._scenario.seed}: {what}")

    def _violated(self, what: str) -> None:
        self.tally.violations.append(f"seed {self._scenario.seed}: {what}")


def _call(line: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return line["name"], line["args"]


def hold_campaign(processes: Servers, folder: Path, seeds: Iterable[int]) -> list[tuple[Scenario, Tally]]:
    """Hold one conversation for each seed, several at once."""

    def one(seed: int) -> tuple[Scenario, Tally]:
        scenario = Scenario.of(seed)
        return scenario, Conversation(processes, folder, scenario).hold()

    with ThreadPoolExecutor(processes.count) as pool:
        return list(pool.map(one, seeds))
