"""What the unit tests share: models driven by tables or by a hash, both drivers under one name, and no network."""

# ruff: noqa: S311 - nothing random here is a secret

import asyncio
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from pydantic import BaseModel

from cookbook.offline_model import Made, OfflineChatModel, Question
from langchain_tooltree import asearch, search
from langchain_tooltree.flows import arun_flow, run_flow

Offer = tuple[str, Mapping[str, Any]]


def pytest_collection_modifyitems(items):
    """Of a test on both paths, the inner loop runs the async one: both share one flow. The sync one counts as slow."""
    here = Path(__file__).parent
    for item in items:
        if (
            here in item.path.parents
            and hasattr(item, "callspec")
            and "sync" in item.callspec.id.split("-")
        ):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """A unit test that connects anywhere fails."""

    def refuse(*_):
        msg = "Unit tests do not use the network."
        raise AssertionError(msg)

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(params=["sync", "async"])
def path(request):
    """Which of the two halves a test drives."""
    return request.param


@dataclass(frozen=True, kw_only=True)
class TablePolicy:
    """Offers what its table says for the tools called so far, and scores calls by the name of their tool.

    Args:
        offers: Calls to offer, by the names of the tools on the path.
        r_pre: Score before a call, 0.8 for a tool that is not listed.
        r_post: Score after a call, 0.8 for a tool that is not listed.
        goal: Goal score after a call, 0.1 for a tool that is not listed.
        written: The final answer.
    """

    offers: Mapping[tuple[str, ...], Sequence[Offer]] = field(default_factory=dict)
    r_pre: Mapping[str, float] = field(default_factory=dict)
    r_post: Mapping[str, float] = field(default_factory=dict)
    goal: Mapping[str, float] = field(default_factory=dict)
    written: str = "Done."

    def propose(self, question: Question) -> Sequence[Offer]:
        offers = self.offers.get(tuple(made.tool for made in question.path), ())
        return [offer for offer in offers if offer[0] in question.tools][
            : question.count
        ]

    def score_call(self, _: Question, call: Made) -> float:
        return self.r_pre.get(call.tool, 0.8)

    def score_observation(self, _: Question, call: Made) -> tuple[float, float]:
        return self.r_post.get(call.tool, 0.8), self.goal.get(call.tool, 0.1)

    def answer(self, _: Question) -> str:
        return self.written


@dataclass(frozen=True)
class HashPolicy:
    """Answers every question from a hash of its seed and the question: arbitrary, and always the same."""

    seed: int

    def propose(self, question: Question) -> Sequence[Offer]:
        draw = self._draw("propose", question.path, question.attempt)
        count = draw.randrange(5) if question.path else 4
        return [
            (draw.choice(question.tools), {"n": draw.randrange(4)})
            for _ in range(count)
        ]

    def score_call(self, question: Question, call: Made) -> float:
        return self._draw("pre", question.path, call.tool, call.arguments).random()

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        draw = self._draw(
            "post", question.path, call.tool, call.arguments, call.observation
        )
        return draw.random(), draw.random() * 0.8

    def missing(self, question: Question) -> Sequence[str]:
        return (
            ["something"] if self._draw("missing", question.path).random() < 0.7 else []
        )

    def answer(self, question: Question) -> str:
        return f"{len(question.path)} calls"

    def _draw(self, *about: object) -> random.Random:
        return random.Random(f"{self.seed}:{about}")


@pytest.fixture(scope="session")
def offline():
    """Makes a model out of the tables of a `TablePolicy`."""
    return lambda **tables: OfflineChatModel(policy=TablePolicy(**tables))


@pytest.fixture(scope="session")
def hashed():
    """Makes a model that answers by the hash of its seed."""
    return lambda seed: OfflineChatModel(policy=HashPolicy(seed))


class Numbered(BaseModel):
    """The arguments of numbered tools: to make this anew for each of them takes most of a test of forty."""

    n: int


@pytest.fixture(scope="session")
def numbered_tools():
    """Makes tools of given names that take a number and echo it, sync and async."""

    def make(*names: str) -> list[StructuredTool]:
        def echo(name: str) -> StructuredTool:
            def run(n: int) -> str:
                return f"{name} of {n}"

            async def arun(n: int) -> str:
                return run(n)

            return StructuredTool.from_function(
                run, arun, name, f"Echo {name}.", args_schema=Numbered
            )

        return [echo(name) for name in names]

    return make


@pytest.fixture
def either(path):
    """Makes a coroutine function of two twins, which runs the one that the path asks for: `either(search, asearch)`."""

    def twins(function, coroutine_function):
        return (
            partial(asyncio.to_thread, function)
            if path == "sync"
            else coroutine_function
        )

    return twins


@pytest.fixture
def drive(either):
    """Runs a flow to its end, on either path: `await drive(flow)`."""
    return either(run_flow, arun_flow)


@pytest.fixture
def find(either):
    """Searches on either path, as a user would: `await find(query, tools, model=...)`."""
    return either(search, asearch)
