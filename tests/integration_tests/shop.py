"""A shop where everything may go wrong: a model and tools that fail at random, and writes that count themselves.

What goes wrong is drawn from a seed, from the part of a run that is under way, and from what is being done, so that a
run can be had again as far as its timing allows.
"""

import asyncio
import json
import os
import random
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import RunControl

from langchain_tooltree.testing import Made, OfflineChatModel, Question, read_question

# ruff: noqa: S311 - nothing random here is a secret

Step = tuple[str, Mapping[str, Any]]

LATENCY = 0.001
"""Seconds that each call takes."""

TOOL_TIMEOUT = 0.05
"""Seconds that a call may take while searching."""

LONG_PATH = 10
"""Calls after which the model comes to an end, whatever is left to do."""

MISHAP = "mishap"
"""Stands in the text of every failure that is part of the game."""


class Fate:
    """Ends the process, or its run, at a moment that was drawn before.

    Args:
        act: `"kill"`: the process dies at once; `"stop"`: it is interrupted as by Ctrl-C; `"drain"`: its run is asked
            to end early; `"none"`.
        moment: `"call"`: a call of the model or a tool; `"before"`, `"between"`, `"after"`: before a write's effect,
            between effect and return, after it; `"time"`: after so many milliseconds of processor time.
        number: At which such moment, from 1.
        control: How the run is asked to end.
    """

    def __init__(self, act: str, moment: str, number: int, control: RunControl) -> None:
        self._act = act
        self._moment = moment
        self._number = number
        self._control = control
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        if act == "kill" and moment == "time":
            signal.setitimer(signal.ITIMER_PROF, number / 1000)  # what it sends when it is over is fatal

    def reached(self, moment: Literal["call", "before", "between", "after"]) -> None:
        """Tell that a moment is reached."""
        with self._lock:
            self._counts[moment] += 1
            meant = (moment, self._counts[moment]) == (self._moment, self._number)
        if not meant:
            return
        if self._act == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._act == "stop":
            os.kill(os.getpid(), signal.SIGINT)
        elif self._act == "drain":
            self._control.request_drain()


class Luck:
    """Draws what goes wrong.

    Args:
        seed: Seed of the run.
        part: Which part of the run is under way: a resumed one has another luck.
        rate: How often, in [0, 1], something goes wrong.
    """

    def __init__(self, seed: int, part: int, rate: float) -> None:
        self._seed = seed
        self._part = part
        self._rate = rate
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()

    def draw(self, *about: Any) -> random.Random:
        """Random numbers for something that is being done, other ones each time."""
        key = repr(about)
        with self._lock:
            self._times[key] += 1
            return random.Random(f"{self._seed}:{self._part}:{key}:{self._times[key]}")

    def strikes(self, *about: Any) -> random.Random | None:
        """Something to draw a failure from, if this fails."""
        draw = self.draw(*about)
        return draw if draw.random() < self._rate else None


class Ledger:
    """What was really done: a file of lines that outlives the process.

    Args:
        path: The file.
        part: Which part of the run is under way.
        fate: Is told of every write.
        luck: Lets writes fail, before their effect and after it.
    """

    def __init__(self, path: Path, part: int, fate: Fate, luck: Luck) -> None:
        self._path = path
        self._part = part
        self._fate = fate
        self._luck = luck
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()

    def note(self, what: str, **about: Any) -> None:
        """Write a line."""
        os.write(self._file, f"{json.dumps({'what': what, 'part': self._part, **about})}\n".encode())

    def write(self, tool: str, arguments: Mapping[str, Any], key: str) -> str:
        """Carry out a write, unless it was carried out before under this key.

        Raises:
            ConnectionError: At random, before the effect or after it.
        """
        call = {"key": key, "name": tool, "args": dict(arguments)}
        self.note("arrival", **call)
        self._fate.reached("before")
        failing = self._luck.strikes(tool, arguments)
        if failing and failing.random() < 1 / 2:
            msg = f"{MISHAP} before the effect"
            raise ConnectionError(msg)
        with self._lock:
            if not any((line["what"], line.get("key")) == ("effect", key) for line in read_ledger(self._path)):
                self.note("effect", **call)
        self._fate.reached("between")
        if failing:
            msg = f"{MISHAP} after the effect"
            raise ConnectionError(msg)
        self.note("return", **call)
        self._fate.reached("after")
        return f"{tool} {json.dumps(arguments)} is done under {key}"


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """The lines of a ledger."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Shop:
    """What the tools act on. A copy is a trial: nothing that is done there is real.

    Args:
        ledger: Where real writes go.
        fate: Is told of every call.
        luck: Lets reads fail.
    """

    def __init__(self, ledger: Ledger | None, fate: Fate, luck: Luck) -> None:
        self._ledger = ledger
        self.fate = fate
        self.luck = luck

    def __deepcopy__(self, memo: dict[int, Any]) -> "Shop":
        return Shop(None, self.fate, self.luck)

    def write(self, tool: str, arguments: Mapping[str, Any], key: str) -> str:
        """Carry out a write, for real or not."""
        if self._ledger is None:
            return f"{tool} {json.dumps(arguments)} is done under {key}"
        return self._ledger.write(tool, arguments, key)

    def before_reading(self, item: str) -> float:
        """How long a read takes.

        Raises:
            ConnectionError: At random; another time it may work.
            ToolException: At random; it never works.
        """
        self.fate.reached("call")
        if failing := self.luck.strikes("check", item):
            kind = failing.choice([ConnectionError, ToolException, None])
            if kind:
                msg = f"{MISHAP} with {item}"
                raise kind(msg)
            return 2 * TOOL_TIMEOUT
        return LATENCY

    def tools(self) -> list[BaseTool]:
        """A read, and two writes that are told the id of their call in two ways."""

        def check(item: str) -> str:
            """Check the price of an item."""
            time.sleep(self.before_reading(item))
            return f"{item} costs {len(item)}"

        async def acheck(item: str) -> str:
            await asyncio.sleep(self.before_reading(item))
            return f"{item} costs {len(item)}"

        def order(item: str, key: Annotated[str, InjectedToolCallId]) -> str:
            """Order an item."""
            return self.write("order", {"item": item}, key)

        async def aorder(item: str, key: Annotated[str, InjectedToolCallId]) -> str:
            return self.write("order", {"item": item}, key)

        def pay(bill: str, runtime: ToolRuntime) -> str:
            """Pay a bill."""
            return self.write("pay", {"bill": bill}, str(runtime.tool_call_id))

        async def apay(bill: str, runtime: ToolRuntime) -> str:
            return self.write("pay", {"bill": bill}, str(runtime.tool_call_id))

        return [
            StructuredTool.from_function(check, acheck),
            StructuredTool.from_function(order, aorder),
            StructuredTool.from_function(pay, apay),
        ]


class Shopper:
    """Wants the items of the request checked and ordered, one after the other, and the last one paid.

    Args:
        luck: Lets it be tempted by other things, and misjudge them.
    """

    def __init__(self, luck: Luck) -> None:
        self._luck = luck

    def propose(self, question: Question) -> Sequence[Step]:
        """The next right step, and others."""
        left = self.left(question)
        draw = self._luck.draw("offer", question.path)
        others: list[Step] = [("check", {"item": "junk"}), ("order", {"item": "junk"}), ("pay", {"bill": "junk"})]
        draw.shuffle(others)
        return [left[0], *others[: draw.randrange(3)]] if left else []

    def score_call(self, question: Question, call: Made) -> float:
        """High for the next right step, most of the time."""
        right = [(call.tool, call.arguments)] == self.left(question)[:1]
        return 0.9 if right or self._misjudged("before", question, call) else 0.4

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """High for the next right step, most of the time."""
        left = self.left(question)
        if [(call.tool, call.arguments)] != left[:1]:
            return (0.9, 0.9) if self._misjudged("after", question, call) else (0.45, 0.1)
        return 0.9, 0.9 if len(left) == 1 or call.observation is None else 0.3

    def answer(self, question: Question) -> str:
        """The latest observation, in a sentence."""
        return f"It says {question.path[-1].observation if question.path else 'nothing'}"

    def left(self, question: Question) -> list[Step]:
        """The steps that are still to be made."""
        items = question.request.split(" ")[1:]
        steps: list[Step] = [step for item in items for step in _steps(item)]
        if items:
            steps.append(("pay", {"bill": items[-1]}))
        if len(question.path) >= LONG_PATH:
            return []
        for made in question.path:
            with suppress(ValueError):
                steps.remove((made.tool, dict(made.arguments)))
        return steps

    def _misjudged(self, when: str, question: Question, call: Made) -> bool:
        return self._luck.strikes(when, len(question.path), call.tool, call.arguments) is not None


def _steps(item: str) -> list[Step]:
    return [("check", {"item": item}), ("order", {"item": item})]


class MoodyModel(OfflineChatModel):
    """The stand-in model, which now and then fails, talks rubbish, or makes calls where it is to answer."""

    luck: Any
    fate: Any

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(LATENCY)
        return self._generate(*args, **kwargs)

    def _respond(self, messages: Any, tools: Any) -> Any:
        question, judged = read_question(messages, tools)
        self.fate.reached("call")
        time.sleep(LATENCY)
        about = (question.kind, question.path, [key for key, _ in judged])
        if failing := self.luck.strikes("model", *about):
            if failing.random() < 1 / 2:
                msg = f"{MISHAP} with the model"
                raise failing.choice([ConnectionError, RuntimeError])(msg)
            return failing.choice(RUBBISH[question.kind])
        draw = self.luck.draw("plain", *about)
        left = self.policy.left(question)
        if question.kind == "answer" and left and draw.random() < 2 / 3:
            return AIMessage("", tool_calls=self._wishes(draw, left))
        return super()._respond(messages, tools)

    @staticmethod
    def _wishes(draw: random.Random, left: Sequence[Step]) -> list[Any]:
        """The next steps at once, not all of them right."""
        steps = [*left[: draw.randint(1, 3)], *draw.sample([("order", {"item": "junk"}), ("fly", {})], 1)]
        wishes = draw.sample(steps, draw.randint(1, len(steps)))
        return [
            {"name": name, "args": dict(arguments), "id": f"plain_{uuid.uuid4().hex}"} for name, arguments in wishes
        ]


RUBBISH: dict[str, list[Any]] = {
    "propose": [
        "As a language model, I cannot.",
        AIMessage("", tool_calls=[{"name": "fly", "args": {}, "id": "1"}]),
        AIMessage("", tool_calls=[{"name": "order", "args": {"thing": 1}, "id": "1"}]),
    ],
    "pre": ["high", {"scores": "high"}, {"scores": [{"id": "c999", "reason": "", "score": 0.9}]}],
    "post": ["low", {"score": 7, "goal": None}],
    "answer": ["Well."],
}
"""What it says of each question when it talks rubbish."""
