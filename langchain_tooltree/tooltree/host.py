"""What the three forms of the planner have in common: its settings, checked once, and the host of a visit."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_tooltree.effects import CallEffects, Effects
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.events import Event
from langchain_tooltree.experience.guide import SOURCE, Advice, Guide
from langchain_tooltree.experience.run_identity import name_of
from langchain_tooltree.flows import Flow
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.reference import remove_reference
from langchain_tooltree.messages.transcript import build_transcript
from langchain_tooltree.messages.validation import validate_message
from langchain_tooltree.messages.visible_messages import get_visible_messages
from langchain_tooltree.models import REPLY_ATTEMPTS, Meter, usage_sum
from langchain_tooltree.sandbox import Sandbox, names_bound_by
from langchain_tooltree.streaming import EventSink, emit_events, get_stream_writer
from langchain_tooltree.text import forget_oldest, telling_words
from langchain_tooltree.tools import ToolLibrary, checked_arguments, returns_command
from langchain_tooltree.tooltree.branches import (
    Branches,
    Candidate,
    Mark,
)
from langchain_tooltree.tooltree.completeness_report import (
    REPORT_AND_CALL_PROMPT,
    REPORT_AND_UNDO_PROMPT,
    REPORT_PROMPT,
)
from langchain_tooltree.tooltree.gate import Withheld, withholding
from langchain_tooltree.tooltree.judge import (
    Judge,
    JudgedCall,
    JudgeRequest,
    resolve_judge,
)
from langchain_tooltree.tooltree.prompts import Prompts
from langchain_tooltree.tooltree.report import LARGE_REQUEST, Report, split_report
from langchain_tooltree.tooltree.search.config import SearchConfig

MOST_OFFERINGS = 16  # selections of tools of which it is kept what they are: few agents change between more


class PlannerOptions(TypedDict, total=False):
    """The keyword arguments that every form of the planner takes, as `search` describes them."""

    judge: str | BaseChatModel | Judge | None
    post_judge: str | BaseChatModel | Judge | None
    config: SearchConfig | None
    effects: Effects | CallEffects | None
    sandbox: Sandbox | None
    prompts: Prompts | None
    record_searches: str | os.PathLike[str] | None


@dataclass(frozen=True)
class Offering:
    """The tools that a model is offered, and what a search may do with them."""

    tools: Sequence[Any]
    names: frozenset[str]  # of all tools, those that a provider runs included
    effects: CallEffects  # of their calls
    trials: frozenset[
        str
    ]  # tools of which a read may be tried: not one that ends the run or updates the state

    @cached_property
    def library(self) -> ToolLibrary:
        """The tools that are not a provider's, with their cards."""
        if isinstance(self.tools, ToolLibrary):
            return self.tools
        return ToolLibrary([tool for tool in self.tools if isinstance(tool, BaseTool)])

    @cached_property
    def words(self) -> dict[str, frozenset[str]]:
        """The telling words of each tool's name and description."""
        own = (tool for tool in self.tools if isinstance(tool, BaseTool))
        return {
            tool.name: telling_words(f"{tool.name} {tool.description}") for tool in own
        }

    @cached_property
    def argless(self) -> frozenset[str]:
        """Names of the tools that can be called without an argument."""
        own = (tool for tool in self.tools if isinstance(tool, BaseTool))
        return frozenset(
            tool.name for tool in own if checked_arguments(tool, {})[1] is None
        )

    @cached_property
    def size(self) -> int:
        """Characters of the tools as the model is shown them."""
        forms = (
            convert_to_openai_tool(tool) if isinstance(tool, BaseTool) else tool
            for tool in self.tools
        )
        return sum(len(json.dumps(tool, default=str)) for tool in forms)


OPTION_KINDS: Sequence[tuple[str, Any, str]] = (
    ("config", SearchConfig, "a SearchConfig"),
    ("prompts", Prompts, "a Prompts, such as Prompts(pre_judge=...)"),
    (
        "sandbox",
        Sandbox,
        "an object with `tools` and `fork()`, such as an ObjectSandbox",
    ),
    ("record_searches", str | os.PathLike, "the path of a folder"),
)
"""Of each option that may be left out, what it has to be."""


class Planner:
    """The settings of a planner, checked: a `ConfigurationError` names the value that cannot work, and the remedy."""

    def __init__(self, **options: Any) -> None:
        for name, kind, expected in OPTION_KINDS:
            value = options.get(name)
            if value is not None and (
                isinstance(value, type) or not isinstance(value, kind)
            ):
                msg = f"{name} must be {expected}, got {type(value).__name__} {value!r:.80}."
                raise ConfigurationError(msg)
        config, sandbox, folder = (
            options.get("config"),
            options.get("sandbox"),
            options.get("record_searches"),
        )
        self.config: SearchConfig = config or SearchConfig()
        self.is_deep, self.extra_calls = self.config.is_deep, self.config.extra_calls
        self.sandbox: Sandbox | None = sandbox
        self.bound_tools = (
            frozenset[str]() if sandbox is None else names_bound_by(sandbox)
        )
        self.prompts: Prompts = options.get("prompts") or Prompts.of(self.config)
        self.folder = Path(folder) if folder else None
        self.effects = CallEffects.declared_as(options.get("effects"))
        judge, post_judge = options.get("judge"), options.get("post_judge")
        judge = None if judge is None else resolve_judge(judge, self.prompts)
        self.judges = (
            judge,
            judge if post_judge is None else resolve_judge(post_judge, self.prompts),
        )
        if self.config.selection == "posterior" and self.judges != (None, None):
            msg = (
                "selection='posterior' goes by the scores that a model gives its own candidates, so it takes no judge; "
                "choose selection='smoothed' for a search by a judge."
            )
            raise ConfigurationError(msg)
        self._offerings: dict[tuple[int, ...], Offering] = {}

    def offering(self, tools: Sequence[Any]) -> Offering:
        """What may be done with a selection of tools: `BaseTool`s, and dicts of tools that a provider runs."""
        key = tuple(map(id, tools))
        offering = self._offerings.get(key)
        if offering is None:
            own = [tool for tool in tools if isinstance(tool, BaseTool)]
            effects = self.effects.among(own)
            effects.check_arguments()
            may_read = effects.reads | effects.by_arguments
            trials = (
                t.name
                for t in own
                if t.name in may_read and not t.return_direct and not returns_command(t)
            )
            names = (name_of(tool) or str(tool.get("type")) for tool in tools)
            library = tools if isinstance(tools, ToolLibrary) else tuple(tools)
            offering = Offering(library, frozenset(names), effects, frozenset(trials))
            self._offerings[key] = (
                offering  # it holds the tools, so that no others get their ids
            )
            forget_oldest(self._offerings, MOST_OFFERINGS)
        return offering

    def branches(
        self, messages: Sequence[BaseMessage], mark: Mark, offering: Offering
    ) -> Branches:
        """The conversation as a tree."""

        def is_read(name: str, args: Any) -> bool:
            # A tool that is not offered any more is known by its declaration.
            effects = offering.effects if name in offering.names else self.effects
            return effects.of(name, args) == "read"

        return Branches(messages, mark, is_read)

    def report_prompt(self, system: BaseMessage | None, offering: Offering) -> str:
        """The line that asks for a report: the longer one where it is a small part of each request.

        With a sandbox, where steps are tried, the line asks which of them went wrong.
        """
        if self.sandbox is not None:
            return REPORT_AND_UNDO_PROMPT
        size = offering.size + (len(str(system.content)) if system is not None else 0)
        return REPORT_AND_CALL_PROMPT if size >= LARGE_REQUEST else REPORT_PROMPT


@dataclass(slots=True)
class PlannerHost(ABC):
    """What a visit asks of the form that the planner has, as far as that does not depend on the form, see `visit`."""

    planner: Planner
    offering: Offering
    guide: Callable[[], Flow[Guide | None]] | None = None
    past: Guide | None = None  # as `guide` has made it for this visit
    visible: int = 0
    sinks: Sequence[EventSink] = ()
    reply: AIMessage = field(default_factory=lambda: AIMessage(""))
    meters: list[Meter] = field(default_factory=list)
    unseen: bool = False  # whether own steps are asked in silence, as those that are tried in forks
    line: str = ""  # asks for a report at the end of the instructions
    bound: frozenset[str] = frozenset()
    model: Any = None
    system: BaseMessage | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    messages_key: str = "messages"

    @property
    def trials(self) -> Collection[str]:
        """Names of those of which a read may be tried."""
        return self.offering.trials | self.bound

    @abstractmethod
    async def ask(
        self, messages: Sequence[BaseMessage], *, line: str = "", silent: bool = True
    ) -> AIMessage:
        """Ask the agent's model, with a line at the end of its instructions; in silence, the user does not see it."""

    async def own_step(
        self, messages: Sequence[BaseMessage]
    ) -> tuple[AIMessage, Report | None]:
        """Ask the agent's own step: the reply without its report, and the report; that of a step does not count."""
        withheld = Withheld()
        with withholding(withheld):
            reply = await self.ask(messages, line=self.line, silent=self.unseen)
        reply, report = validate_message(reply), None
        is_step = bool(reply.tool_calls or reply.invalid_tool_calls)
        if not is_step:
            reply, report = withheld.restore(reply)
        if report is None:  # of a step, or of a model without a gate
            reply, report = split_report(reply)
        self.reply = reply
        return reply, None if is_step else report

    async def ask_plainly(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """Ask the agent's model as the plain agent would, without asking for a report.

        A reply that is nothing but a report comes through unchanged: without the
        instruction, it is an answer of the application's own form.
        """
        reply = await self.ask(messages, line="", silent=self.unseen)
        reply = validate_message(reply)
        rest, _ = split_report(reply)
        self.reply = rest if rest.text.strip() else reply
        return self.reply

    def instructions_for(
        self, system: SystemMessage | None, messages: Sequence[BaseMessage]
    ) -> SystemMessage | None:
        """The instructions for a question: hints for the path of the visit do not fit where it goes by another."""
        if system is None or len(get_visible_messages(messages)) == self.visible:
            return system
        content = remove_reference(system.content, source=SOURCE)
        return system.model_copy(update={"content": content}) if content else None

    def fits(self, text: str, name: str | None = None) -> bool:
        """Whether a text shares a telling word with a tool's name or description."""
        words, tools = telling_words(text), self.offering.words
        if name is not None:
            return not words.isdisjoint(tools.get(name, frozenset()))
        return any(not words.isdisjoint(each) for each in tools.values())

    async def past_runs(self) -> Guide | None:
        """The guide for this visit, made where it is asked."""
        if self.past is None and self.guide is not None:
            self.past = await self.guide()
        return self.past

    async def advice(self, path: Sequence[BaseMessage], missing: str) -> Advice:
        """What past runs say of other calls on a path."""
        if (guide := (await self.past_runs())) is None:
            return Advice()
        return await guide.advice(
            path, missing, trials=self.trials, names=self.offering.names
        )

    async def remedy(self, tried: Sequence[BaseMessage]) -> tuple[str, int]:
        """A reflection on calls that brought nothing back, and the model calls for it."""
        if (guide := (await self.past_runs())) is None:
            return "", 0
        instructed, once = (
            Conversation([*([self.system] if self.system is not None else ()), *tried]),
            self._meter(1),
        )
        text = await guide.remedy(instructed, self.offering.tools, once)
        return text, once.model_calls

    async def is_unusual(
        self, path: Sequence[BaseMessage], tools: Iterable[str]
    ) -> bool:
        """Whether runs that went well hardly ever went on with one of some tools, and mostly did something else."""
        if (guide := (await self.past_runs())) is None:
            return False
        for tool in tools:
            if await guide.is_unusual(path, tool, names=self.offering.names):
                return True
        return False

    async def emit(self, events: Sequence[Event]) -> None:
        """Tell the stream, callback handlers and listeners."""
        await emit_events(events, get_stream_writer(), self.sinks)

    # --- a separate judge ---

    def judge_usage(self) -> UsageMetadata | None:
        """Tokens that questions to a judge have cost since this was last called."""
        usage = (
            reduce(usage_sum, (meter.usage for meter in self.meters), None)
            if self.meters
            else None
        )
        self.meters.clear()
        return usage

    def _meter(self, calls: int) -> Meter:
        """What counts one question to a judge, which may take so many model calls."""
        self.meters.append(Meter(calls))
        return self.meters[-1]

    async def judge_answer(
        self, path: Sequence[BaseMessage], answer: AIMessage
    ) -> str | None:
        """What a judge says is missing; `None` without a judge or a verdict."""
        _, judge = self.planner.judges
        if judge is None:
            return None
        _, calls, results = _latest_call(path)
        question = self._question(
            path, "post", calls, answer=answer.text, observation=results
        )
        standing = await judge.check(question, self._meter(REPLY_ATTEMPTS))
        if standing.goal is None:
            return None
        if standing.missing:
            return "; ".join(standing.missing)
        return (
            ""
            if standing.goal >= COMPLETE_GOAL_SCORE
            else "something, as a check of the answer says"
        )

    async def judge_candidates(
        self, path: Sequence[BaseMessage], calls: Sequence[Candidate]
    ) -> list[Candidate]:
        """Candidates with their r_pre, best first, without those below `pre_threshold`; unscored ones stay."""
        judge, _ = self.planner.judges
        if judge is None or not calls:
            return list(calls)
        questions = [
            JudgedCall(f"c{at}", each.name, each.args) for at, each in enumerate(calls)
        ]
        scores = await judge.pre(
            self._question(path, "pre", questions), self._meter(REPLY_ATTEMPTS)
        )
        threshold = self.planner.config.pre_threshold
        scored = [
            replace(each, score=judged.score)
            for each, judged in zip(calls, scores, strict=True)
        ]
        promising = [
            each for each in scored if each.score is None or each.score >= threshold
        ]
        return sorted(
            promising,
            key=lambda each: threshold if each.score is None else each.score,
            reverse=True,
        )

    async def judge_result(self, path: Sequence[BaseMessage]) -> bool:
        """Whether r_post of the latest call is below `post_threshold`."""
        _, judge = self.planner.judges
        at, calls, results = _latest_call(path)
        if judge is None or not calls:
            return False
        question = self._question(path[:at], "post", calls, observation=results)
        judged, _ = await judge.post(question, self._meter(REPLY_ATTEMPTS))
        return (
            judged.score is not None
            and judged.score < self.planner.config.post_threshold
        )

    def _question(
        self,
        path: Sequence[BaseMessage],
        stage: Any,
        calls: Sequence[JudgedCall],
        **more: Any,
    ) -> JudgeRequest:
        conversation, names = Conversation(path), tuple(sorted(self.offering.names))
        history = build_transcript(conversation)
        return JudgeRequest(
            stage, conversation.goal, history, calls, tools=(), tool_names=names, **more
        )


def _latest_call(
    path: Sequence[BaseMessage],
) -> tuple[int, list[JudgedCall], str | None]:
    """The place of the latest reply on a path, its first call and what its calls brought back, if it makes any."""
    at = next(
        (at for at in range(len(path) - 1, -1, -1) if isinstance(path[at], AIMessage)),
        0,
    )
    latest = path[at] if path else None
    if not (isinstance(latest, AIMessage) and latest.tool_calls):
        return at, [], None
    call = latest.tool_calls[0]
    results = "\n".join(str(message.text) for message in path[at + 1 :])
    return at, [JudgedCall("c0", call["name"], call["args"])], results


COMPLETE_GOAL_SCORE = (
    0.5  # goal score in [0, 1] from which a judge holds an answer for complete
)
