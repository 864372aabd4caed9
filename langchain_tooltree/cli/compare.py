"""The command `compare`: the same agent, plain and with the planner, on tasks of one's own."""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from statistics import fmean
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import LLMResult
from pydantic import BaseModel
from rich.progress import Progress

from langchain_tooltree._langgraph import interrupts_in
from langchain_tooltree.agent import OWN_OPTIONS, create_tooltree_agent
from langchain_tooltree.cli.stores import opened
from langchain_tooltree.cli.terminal import Terminal, check_free, model_named, table
from langchain_tooltree.cli.trial import (
    CHECKS,
    SUCCESS,
    Check,
    Journal,
    TrialRun,
    TrialTask,
    check_of,
    failure,
    load_tasks,
    paired,
    recommendation,
)
from langchain_tooltree.errors import ConfigurationError, check_count, described
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.learning.experience import Experience
from langchain_tooltree.text import compact_json, counted, one_line
from langchain_tooltree.tooltree.search import SearchConfig

PILOT = 3  # tasks that the plain agent does before anybody is asked: what they cost is what the rest may cost
TIMES = 1.3  # the planner's calls for each of the plain agent's, for the estimate: what was measured on recorded runs
MILLION = 1_000_000
MOST_SHOWN = 20  # tasks on which the agents differ that are shown
PLAIN, PLANNER, EXPERIENCED = "plain agent", "planner", "planner with experience"
DIFFERING = ("task", "solved_by", "plain_answer", "planned_answer")

Create = Callable[..., Any]
Build = Callable[[Create], Any]
"""What `--agent` names: it makes the agent with the function that it is given, which stands for `create_agent`."""


def run_compare(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Run both agents over the tasks, and say what to do."""
    if options.html:
        check_free(options.html, force=options.force)
    check_count("--at-once", options.at_once)
    check_count("--limit", 1 if options.limit is None else options.limit)
    build, tasks = imported(options.agent), load_tasks(options.tasks)[: options.limit]
    check = check_of(_check(options), tasks)
    names = ("agent", "check", "judge", "model", "effort", "experience")
    settings = {"compare": options.tasks, **{name: getattr(options, name) for name in names}}
    journal = Journal(options.journal or Path(f"{Path(options.tasks.replace(':', '-')).stem}.compare.jsonl"), settings)
    with ExitStack() as stack:
        # All in one loop: clients of models that are used in one do not work in another.
        loop = stack.enter_context(asyncio.Runner())
        race = Race(build, check, options, journal, _experience(options, stack))
        pilot = [(task, PLAIN) for task in tasks[:PILOT]]
        rest = [(task, arm) for task in tasks for arm in race.arms]
        loop.run(race.run(pilot, "first tasks"))
        _agree(options, terminal, journal, race.left(rest))
        loop.run(race.run(rest, "all tasks"))
    report, code = _report(tasks, race.arms, journal, options)
    _print(terminal, report, options)
    if options.html:
        recorded = Terminal(record=True, width=max(terminal.width, 100), file=StringIO())
        _print(recorded, report, options)
        recorded.save_html(str(options.html))
        terminal.say(f"Written to {options.html}.")
    return report, code


def imported(place: str) -> Any:
    """What `MODULE:NAME` names, also in the working folder."""
    module, _, name = place.partition(":")
    if not name:
        msg = f"{place!r} names nothing to import. Write MODULE:NAME, such as my_agent:build."
        raise ConfigurationError(msg)
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        msg = f"{place!r} cannot be imported: {described(error)}. Is the module in this folder, or installed?"
        raise ConfigurationError(msg) from error
    finally:
        sys.path.pop(0)


def _check(options: argparse.Namespace) -> str | Callable[..., Any] | BaseChatModel:
    if options.judge:
        return model_named(options.judge)
    if options.check in CHECKS:
        return str(options.check)
    function: Callable[..., Any] = imported(options.check)
    return function


def _experience(options: argparse.Namespace, stack: ExitStack) -> Experience | None:
    """The experience of the third agent, if there is one, in the store that was named."""
    if not options.experience:
        return None
    return Experience(stack.enter_context(opened(options.experience)), namespace=("compare",), settle_seconds=0)


@dataclass
class Usage(AsyncCallbackHandler):
    """Counts what an attempt costs."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    async def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Count a call."""
        self.model_calls += 1

    async def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Add the tokens that it took, as far as the provider says so."""
        for generation in (each for batch in response.generations for each in batch):
            usage = getattr(getattr(generation, "message", None), "usage_metadata", None) or {}
            self.input_tokens += usage.get("input_tokens", 0)
            self.output_tokens += usage.get("output_tokens", 0)


_doing: ContextVar[TrialTask] = ContextVar("task")


@dataclass
class Race:
    """The agents, each of which does each task once."""

    build: Build
    check: Check
    options: argparse.Namespace
    journal: Journal
    experience: Experience | None = None
    learning: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def arms(self) -> dict[str, Create]:
        """What stands for `create_agent` in each agent, by its name."""
        arms: dict[str, Create] = {PLAIN: self._plain, PLANNER: partial(self._planned, None)}
        return arms if self.experience is None else {**arms, EXPERIENCED: partial(self._planned, self.experience)}

    def left(self, pairs: Iterable[tuple[TrialTask, str]]) -> list[tuple[TrialTask, str]]:
        """What is still to be done."""
        return [(task, arm) for task, arm in pairs if (task.id, arm) not in self.journal.attempts]

    async def run(self, pairs: Sequence[tuple[TrialTask, str]], what: str) -> None:
        """Do what is left of these, some at once."""
        left, places = self.left(pairs), asyncio.Semaphore(self.options.at_once)

        with Progress(console=Terminal(stderr=True, quiet=not sys.stderr.isatty())) as progress:
            bar = progress.add_task(what, total=len(left))

            async def one(task: TrialTask, arm: str) -> None:
                async with places:
                    self.journal.add(await self.attempt(task, arm))
                    progress.advance(bar)

            await asyncio.gather(*(one(task, arm) for task, arm in left))

    async def attempt(self, task: TrialTask, arm: str) -> TrialRun:
        """Have an agent, made for it alone, do a task."""
        _doing.set(task)
        usage, began = Usage(), time.monotonic()
        answer, error = "", ""
        try:
            if arm == EXPERIENCED:  # one after another, in the order of the tasks: each learns from those before
                async with self.learning:
                    answer = await self._answer(task, arm, usage)
            else:
                answer = await self._answer(task, arm, usage)
        except Exception as problem:  # noqa: BLE001 - an agent that raises has not solved its task
            error = failure(problem)
        seconds = round(time.monotonic() - began, 3)
        score = 0.0 if error else await self.check(task, answer)
        return TrialRun(
            task.id, arm, score, answer, usage.model_calls, usage.input_tokens, usage.output_tokens, seconds, error
        )

    async def _answer(self, task: TrialTask, arm: str, usage: Usage) -> str:
        agent = self.build(self.arms[arm])
        messages = [("user", task.input)] if isinstance(task.input, str) else task.input
        config = {"callbacks": [usage], "configurable": {"thread_id": uuid4().hex}}
        state = await agent.ainvoke({"messages": messages}, config)
        if interrupts_in(state):
            msg = "It waits for somebody's approval, and nobody is there. Build it without."
            raise ConfigurationError(msg)
        return answer_in(state)

    def _plain(self, *arguments: Any, **options: Any) -> Any:
        """`create_agent`, which knows nothing of what only the planner takes."""
        return create_agent(*self._named(arguments), **{k: v for k, v in options.items() if k not in OWN_OPTIONS})

    def _planned(self, experience: Experience | None, *arguments: Any, **options: Any) -> Any:
        options = {"config": SearchConfig(effort=self.options.effort), **options, "experience": experience}
        options["verdict"] = None if experience is None else self._verdict
        if self.options.pages:
            options["record_searches"] = self.options.pages
        return create_tooltree_agent(*self._named(arguments), **options)

    def _named(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The arguments with the model that was named in place of theirs."""
        return [model_named(self.options.model), *arguments[1:]] if self.options.model else arguments

    async def _verdict(self, run: Trajectory) -> bool:
        """Whether a run has solved its task, for who learns from it."""
        said = [message.text for message in run.to_messages() if isinstance(message, AIMessage)]
        return await self.check(_doing.get(), said[-1] if said else "") >= SUCCESS


def answer_in(state: Mapping[str, Any]) -> str:
    """The answer in the final state of an agent: what is structured, as JSON, else its last message."""
    structured = state.get("structured_response")
    if structured is not None:
        return compact_json(structured.model_dump() if isinstance(structured, BaseModel) else structured)
    return next((message.text for message in reversed(state["messages"]) if isinstance(message, AIMessage)), "")


def _agree(
    options: argparse.Namespace, terminal: Terminal, journal: Journal, left: Sequence[tuple[TrialTask, str]]
) -> None:
    """Say what the rest may cost, and ask whether to go on."""
    done = [each for each in journal.attempts.values() if each.arm == PLAIN]
    if not left or not done:
        return
    times = sum(1.0 if arm == PLAIN else TIMES for _, arm in left)
    calls, sent, received = (
        times * fmean(getattr(each, name) for each in done) for name in ("model_calls", "input_tokens", "output_tokens")
    )
    money = f", ${_dollars(options, sent, received):,.2f}" if options.price else ""
    terminal.say(
        f"{len(left)} runs are left: about {calls:,.0f} model calls, {sent:,.0f} tokens sent and {received:,.0f} "
        f"received{money}, by what {len(done)} runs of the plain agent took."
    )
    if options.yes:
        return
    if not sys.stdin.isatty():
        msg = f"Nobody is there to be asked whether to go on; pass --yes. What was done is in {journal.path}."
        raise ConfigurationError(msg)
    if terminal.input("Go on? [y/N] ").strip().lower() not in {"y", "yes"}:
        msg = f"Stopped. The same command goes on from {journal.path}."
        raise ConfigurationError(msg)


def _dollars(options: argparse.Namespace, sent: float, received: float) -> float:
    return float(sent * options.price[0] + received * options.price[1]) / MILLION


def _report(
    tasks: Sequence[TrialTask], arms: Iterable[str], journal: Journal, options: argparse.Namespace
) -> tuple[dict[str, Any], int]:
    """The figures, and the exit code: that of the last agent against the plain one."""
    runs = {arm: [journal.attempts[task.id, arm] for task in tasks] for arm in arms}
    compared = {
        arm: paired([(first.solved, second.solved) for first, second in zip(runs[PLAIN], each, strict=True)])
        for arm, each in runs.items()
        if arm != PLAIN
    }
    verdicts = [recommendation(each, f"the {arm}") for arm, each in compared.items()]
    differing = [
        [first.task, arm if second.solved else PLAIN, _told(first), _told(second)]
        for arm in compared
        for first, second in zip(runs[PLAIN], runs[arm], strict=True)
        if first.solved != second.solved
    ]
    errors = [f"{each.task} ({arm}): {each.error}" for arm, attempts in runs.items() for each in attempts if each.error]
    report = {
        "tasks": len(tasks),
        "agents": {arm: _figures(options, each) for arm, each in runs.items()},
        "against_plain": {arm: each._asdict() for arm, each in compared.items()},
        "differing": [dict(zip(DIFFERING, each, strict=True)) for each in differing],
        "errors": errors,
        "verdicts": [each.text for each in verdicts],
        "journal": str(journal.path),
    }
    return report, verdicts[-1].code


def _print(terminal: Terminal, report: Mapping[str, Any], options: argparse.Namespace) -> None:
    """Print a report: what each agent has solved and cost, where they differ, and what to do."""
    terminal.say(f"{report['tasks']} tasks; calls, tokens and seconds are those of a task, on average.")
    rows = (
        [arm, *(f"{value:.0%}" if name == "share" else value for name, value in figures.items())]
        for arm, figures in report["agents"].items()
    )
    names = next(iter(report["agents"].values()))
    terminal.print(table(("agent", *(name.replace("_", " ") for name in names)), rows))
    for arm, each in report["against_plain"].items():
        chance = f"so uneven by chance with a probability of {each['p']:.2f}"
        terminal.say(
            f"{arm}: {counted(each['gained'], 'task')} gained, {each['lost']} lost against the plain agent; {chance}."
        )
    if shown := report["differing"][:MOST_SHOWN]:
        columns = ("they differ on", "solved by", "plain agent's answer", "planner's answer")
        terminal.print(table(columns, (each.values() for each in shown)))
        if options.pages:
            terminal.say(f"The searches of these runs: langchain-tooltree view {options.pages}")
    for error in report["errors"][:MOST_SHOWN]:
        terminal.say(f"Error in {error}")
    for text in report["verdicts"]:
        terminal.say(text)


def _figures(options: argparse.Namespace, runs: Sequence[TrialRun]) -> dict[str, Any]:
    solved = sum(each.solved for each in runs)
    sent, received = (fmean(getattr(each, name) for each in runs) for name in ("input_tokens", "output_tokens"))
    figures: dict[str, Any] = {
        "solved": solved,
        "share": round(solved / len(runs), 4),
        "errors": sum(bool(each.error) for each in runs),
        "model_calls": round(fmean(each.model_calls for each in runs), 2),
        "tokens": round(sent + received),
        "seconds": round(fmean(each.seconds for each in runs), 1),
    }
    return {**figures, "dollars": round(_dollars(options, sent, received), 5)} if options.price else figures


def _told(attempt: TrialRun) -> str:
    return one_line(attempt.error or attempt.answer, 200)
