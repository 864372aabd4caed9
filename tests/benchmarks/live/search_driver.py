"""What the searches of the live benchmark share: a tree of states in forks, questions to the model, and a budget.

A fused question is the package's own one for candidates, in its words and its form: up to `top_k` calls with a
confidence each, and beside them what the latest result was worth and whether the request is done; at an end, also the
answer. So a search differs from `tooltree` in what it asks where, not in how it asks. A state that is asked again is
told what was offered there, and what comes is added to that.

Rubbish is normal input: a reply that cannot be used is asked for once more, with what is wrong, and then dropped.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool

from langchain_tooltree import CFGMMemory, Sandbox
from langchain_tooltree.cfgm.recall import recall_text
from langchain_tooltree.flows import run_flow
from langchain_tooltree.messages.validation import make_storable
from langchain_tooltree.models import (
    REPLY_ATTEMPTS,
    Meter,
    bind_tools,
    call_tools,
    request,
    validated,
    was_refused,
)
from langchain_tooltree.sitgraph.agents import with_suggestions
from langchain_tooltree.tools import checked_arguments
from langchain_tooltree.tooltree.deep import BoundTools
from langchain_tooltree.tooltree.judge import SAID_DONE, SAID_OPEN, Standing, as_score
from langchain_tooltree.tooltree.prompts import (
    ASSESS_PROMPT,
    CANDIDATES_PROMPT,
    NOTHING_PROMPT,
    REPAIR_PROMPT,
    RequestCheck,
)
from langchain_tooltree.tooltree.search import Action
from tests.benchmarks.live.episode import Episode, Setting, UsageError, system_text
from tests.internals.tooltree import propose_messages

logger = logging.getLogger(__name__)

CONFIDENCE = "confidence"
"""Name of the field that a fused question adds to each tool."""

UNSURE = 0.5
"""Score in [0, 1] of what a model said nothing of."""

LESSONS = 3
"""Reflections that are shown at most, the latest ones, as in LATS and Reflexion."""

END_PROMPT = "Where you call `{assess}` alone, write beside it what the user is told: the answer, or what you have to ask."
"""So that the end of a search costs no call more, as it costs the plain agent none."""

ANSWER_PROMPT = "Reply to the user now, in words: no tool can be called any more."

CHOICE_PROMPT = """\
You compare several attempts at the same request of a user, made by an assistant with tools in copies of the same \
world. Choose the one that does best what was asked for, all of it and nothing else, as its results show. Reply with \
JSON alone: {"best": <number of the attempt>}"""

REFLECTION_PROMPT = """\
This attempt of an assistant did not get the user's request done. In at most three sentences, say what went wrong and \
what to do differently next time. Be concrete: name tools and arguments."""

LESSONS_PROMPT = "What earlier attempts at this request have taught:\n{lessons}"


class BudgetSpentError(Exception):
    """No model call is left."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A call that was offered in a state.

    Attributes:
        call: The call.
        score: How sure the model was of it, in [0, 1].
        place: Its place among the offers of its reply, from 0.
    """

    call: Action
    score: float
    place: int


@dataclass(eq=False, slots=True)
class State:
    """A state: the calls since the user's message, their results, and a world in which they were made.

    Attributes:
        world: The world; reads share that of the state before them.
        parent: The state before, `None` at the start.
        message: The reply whose calls led here, `None` at the start.
        results: What they brought back.
        score: The score of the last step: of the offer, and of its result once that was judged.
        place: Its place among the offers.
        children: States after it, by the calls that lead there.
        offers: Calls offered here, by key.
        judged: Whether its score knows the results.
        asked: How often it was asked for what to do next.
        ended: Whether the model takes the request for done here, or had nothing to offer.
        goal: Whether the request is done, in [0, 1], as far as that was said.
        answer: What the user is told at this end, if that was said.
        visits: Values that came up from below, and from here.
        value: Their mean.
        closed: Whether nothing is left to try from here on.
    """

    world: Sandbox
    parent: "State | None" = None
    message: AIMessage | None = None
    results: Sequence[ToolMessage] = ()
    score: float = UNSURE
    place: int = 0
    judged: bool = False
    children: dict[str, "State"] = field(default_factory=dict)
    offers: dict[str, Offer] = field(default_factory=dict)
    asked: int = 0
    ended: bool = False
    goal: float = UNSURE
    answer: AIMessage | None = None
    visits: int = 0
    value: float = 0.0
    closed: bool = False

    @property
    def path(self) -> list["State"]:
        """The states after the start, up to this one."""
        return [*self.parent.path, self] if self.parent else []

    @property
    def depth(self) -> int:
        """Steps since the start."""
        return len(self.path)

    @property
    def worth(self) -> float:
        """What an end here is worth: how much is done, by the mean score of the way."""
        return self.goal * fmean([state.score for state in self.path] or [UNSURE])

    @property
    def untried(self) -> list[Offer]:
        """Offers that were not made yet, best first."""
        left = [offer for key, offer in self.offers.items() if key not in self.children]
        return sorted(left, key=lambda offer: offer.score, reverse=True)


@dataclass(frozen=True, slots=True)
class RealWorld:
    """The real world as one that nothing has to be copied of, since all that it has are reads."""

    tools: Sequence[BaseTool]

    def fork(self) -> "RealWorld":
        """The same."""
        return self


class Driver:
    """One user turn, for one search: it asks, runs and keeps count, and in the end does what the search chose.

    One call of the budget is put by for the last question, the answer or the choice.

    Args:
        setting: Under which conditions.
        episode: The task.
        conversation: The conversation so far, the user's new message last.

    Raises:
        UsageError: If calls cannot be tried out in this world.
    """

    def __init__(
        self, setting: Setting, episode: Episode, conversation: Sequence[BaseMessage]
    ) -> None:
        self.start = State(_world_of(episode))
        self.depth = max(1, setting.steps - 1)  # the last reply of a turn is its answer
        self.lessons: list[str] = []
        self._setting = setting
        self._episode = episode
        self._conversation = conversation
        self._tools = {tool.name: tool for tool in episode.tools}
        self._meter = Meter(setting.model_calls - 1)
        self._last_allowed = False
        self._takes_temperature = True
        self._kept: tuple[State, AIMessage | None] = (self.start, None)
        self._recalled = _recalled(setting.experience.memory, conversation)

    @property
    def asked(self) -> int:
        """Model calls made."""
        return self._meter.model_calls

    def keep(self, state: State, answer: AIMessage | None = None) -> None:
        """Say that this is what would be done now; with the answer, if it was found."""
        self._kept = state, answer or state.answer

    # --- questions ---

    def ask(self, state: State, after: float = 0.5) -> list[Offer]:
        """Ask a state for everything at once: a fused question.

        Args:
            state: The state, which takes in all that is said.
            after: Weight of what the result was worth against the score of the offer, in the score of the step.

        Returns:
            The offers that are new.
        """
        state.asked += 1
        before = set(state.offers)
        tools = [*self._tools.values()]
        shown = BoundTools.with_scores(tools, assess=True, observed=bool(state.results))
        problems: list[str] = []
        for _ in range(REPLY_ATTEMPTS):
            reply = self._question(
                "propose", self._fused(state, shown, before, problems), shown.bound
            )
            if reply is None:
                continue
            wrote, problems = self._take(reply, shown, state, after)
            if not (wrote or state.ended) and state.goal == SAID_OPEN and shown.assess:
                # Some models make one call a reply, and this was to say how things are.
                shown = BoundTools.with_scores(tools, assess=False)
            elif (
                state.offers.keys() - before or (wrote and not problems) or state.ended
            ):
                break
        if state.goal == SAID_OPEN and not state.offers:
            state.ended = True
        return [offer for key, offer in state.offers.items() if key not in before]

    def step(
        self,
        state: State,
        *more: str,
        tools: Sequence[dict[str, Any]] = (),
        temperature: float | None = None,
    ) -> AIMessage | None:
        """Ask a state what the plain agent is asked.

        Args:
            state: The state.
            *more: What is added to the instructions.
            tools: Tools of the search's own.
            temperature: That of the request; a model that refuses it is asked without from then on.

        Returns:
            Calls, or the answer; `None` for rubbish.
        """
        for _ in range(REPLY_ATTEMPTS):
            settings = (
                {"temperature": temperature}
                if temperature is not None and self._takes_temperature
                else None
            )
            reply = self._question(
                "step",
                self._prompt(state, *more),
                [*self._tools.values(), *tools],
                settings,
            )
            if reply is not None and (reply.tool_calls or reply.text.strip()):
                return _with_ids(reply, f"{len(self._conversation)}_{self.asked}")
            self._takes_temperature = self._takes_temperature and not (
                settings and reply is None
            )
        return None

    def choose(self, ends: Sequence[tuple[State, AIMessage]]) -> None:
        """Have the model choose among ends and their answers; the first one, if it does not."""
        if not ends:
            return
        self.keep(*ends[0])
        if len({id(end) for end, _ in ends}) == 1:
            return  # they have all done the same
        self._allow_last()
        shown = {
            "request": _said(self._conversation),
            "attempts": [_attempt(*end, at) for at, end in enumerate(ends)],
        }
        prompt = [
            SystemMessage(CHOICE_PROMPT),
            HumanMessage(json.dumps(shown, ensure_ascii=False, indent=1)),
        ]
        reply = self._question("value", prompt)
        best = (object_in(reply.text) or {}).get("best") if reply else None
        if isinstance(best, int) and 1 <= best <= len(ends):
            self.keep(*ends[best - 1])

    def reflect(self, state: State) -> None:
        """Ask what an attempt that failed has taught; later questions are told."""
        prompt = [
            SystemMessage(REFLECTION_PROMPT),
            HumanMessage(transcript(self._messages(state))),
        ]
        reply = self._question("reflect", prompt)
        if reply is not None and reply.text.strip():
            self.lessons = [*self.lessons, reply.text.strip()][-LESSONS:]

    # --- calls ---

    def make(self, state: State, offer: Offer) -> State:
        """Make an offered call; returns the state that it leads to."""
        call = {
            "name": offer.call.tool,
            "args": offer.call.arguments,
            "id": f"call_{len(self._conversation)}_",
        }
        call["id"] += f"{state.depth}_{len(state.children)}"
        child = self.run(state, AIMessage("", tool_calls=[call]), offer.call.key)
        if not child.visits and not child.asked:
            child.score, child.place = offer.score, offer.place
        return child

    def run(self, state: State, reply: AIMessage, key: str | None = None) -> State:
        """Make the calls of a reply in a fork; the same calls in the same state are made once."""
        key = key or json.dumps(
            [[call["name"], call["args"]] for call in reply.tool_calls], sort_keys=True
        )
        if key not in state.children:
            effects = self._episode.effects
            reads = all(
                effects.get(call["name"]) == "read" for call in reply.tool_calls
            )
            world = state.world if reads else state.world.fork()
            # The benchmark may hide tools of its world in this turn.
            offered = {
                tool.name: tool for tool in world.tools if tool.name in self._tools
            }
            results = [observed(offered, call) for call in reply.tool_calls]
            state.children[key] = State(world, state, reply, results)
        return state.children[key]

    def finish(self) -> list[BaseMessage]:
        """Make the calls that were chosen on the real tools, and answer.

        An answer that was found with the calls stands if their results are what they were; else it is written anew,
        if the budget allows it.
        """
        state, answer = self._kept
        made: list[BaseMessage] = []
        for each in state.path:
            assert each.message is not None
            results = [observed(self._tools, call) for call in each.message.tool_calls]
            made += [each.message, *results]
            if [result.text for result in results] != [
                result.text for result in each.results
            ]:
                answer = None if self._meter.left or not self._last_allowed else answer
        return [*made, answer or self._answer([*self._conversation, *made])]

    # --- what they are made of ---

    def _question(
        self,
        kind: str,
        prompt: Sequence[BaseMessage],
        tools: Sequence[BaseTool | dict[str, Any]] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> AIMessage | None:
        """Ask the model; `None` if it fails, which counts as well."""
        if self._meter.left <= 0:
            raise BudgetSpentError
        config: Any = {"run_name": kind}
        try:
            bound = bind_tools(self._setting.model, tools).bind(**(settings or {}))
            reply = make_storable(
                run_flow(request(bound, prompt, config, self._meter, "The model"))
            )
        except Exception as error:  # noqa: BLE001 - one failure must not end a search
            logger.warning(
                "A question (%s) failed: %s: %s", kind, type(error).__name__, error
            )
            self._meter.allowance -= was_refused(
                error
            )  # the meter counts other failures; a search has to end
            return None
        return reply

    def _take(
        self, reply: AIMessage, shown: BoundTools, state: State, after: float
    ) -> tuple[bool, list[str]]:
        """Take in a fused reply; returns whether it holds calls, and what is wrong with those that cannot be made."""
        said = next(
            (call["args"] for call in reply.tool_calls if call["name"] == shown.assess),
            None,
        )
        if said is not None:
            form = validated(RequestCheck, said)
            reward, goal = (
                as_score(said.get("last_result")),
                Standing.of(form).goal if form else None,
            )
            if reward is not None and not state.judged:
                state.score, state.judged = (
                    (1 - after) * state.score + after * reward,
                    True,
                )
            state.goal = UNSURE if goal is None else goal
        written = [call for call in reply.tool_calls if call["name"] != shown.assess]
        problems = [
            f"{call.get('name')}: its arguments are no valid JSON"
            for call in reply.invalid_tool_calls
        ]
        for place, call in enumerate(written[: self._setting.config.top_k]):
            tool = self._tools.get(call["name"])
            if tool is None:
                problems.append(f"{call['name']}: there is no tool of this name")
                continue
            own = dict(call["args"])
            confidence = (
                as_score(own.pop(CONFIDENCE, None))
                if tool.name in shown.scored
                else None
            )
            arguments, problem = checked_arguments(tool, own)
            made = Action(tool=tool.name, arguments=arguments, effect="write")
            if problem:
                problems.append(f"{made.label}: {problem}")
            else:
                score = UNSURE if confidence is None else confidence
                state.offers.setdefault(made.key, Offer(made, score, place))
        wrote = bool(written or reply.invalid_tool_calls)
        if (
            not wrote
            and said is None
            and reply.text.strip()
            and state.goal != SAID_OPEN
        ):
            state.goal = (
                SAID_DONE  # who replies in words has taken the request for done
            )
        if not wrote and shown.assess and reply.text.strip():
            state.answer = AIMessage(reply.text)
        # One that offers calls all the same is not at an end, as in the peers of the simulated comparison.
        silent = state.goal != SAID_OPEN and (
            said is not None or state.goal == SAID_DONE
        )
        state.ended = not wrote and (state.answer is not None or silent)
        return wrote, problems

    def _fused(
        self, state: State, shown: BoundTools, tried: set[str], problems: Sequence[str]
    ) -> Sequence[BaseMessage]:
        parts = [CANDIDATES_PROMPT.format(count=self._setting.config.top_k)]
        if shown.assess:
            parts += [
                ASSESS_PROMPT.format(assess=shown.assess),
                END_PROMPT.format(assess=shown.assess),
            ]
        else:
            parts.append(NOTHING_PROMPT)
        if self.lessons:
            parts.append(LESSONS_PROMPT.format(lessons=_listed(self.lessons)))
        if problems:
            parts.append(REPAIR_PROMPT.format(problems=_listed(problems)))
        labels = [
            offer.call.label for key, offer in state.offers.items() if key in tried
        ]
        instruction = "\n\n".join(parts)
        return propose_messages(
            self._prompt(state),
            instruction=instruction,
            attempt=state.asked,
            tried=labels,
        )

    def _prompt(self, state: State, *more: str) -> list[BaseMessage]:
        return self._under(self._messages(state), *more)

    def _under(self, messages: Sequence[BaseMessage], *more: str) -> list[BaseMessage]:
        """Messages under the system prompt, if there is one, with what is remembered and which tools came next."""
        system = system_text(self._setting, self._episode, *more, *self._recalled)
        prompt = [*([SystemMessage(system)] if system else []), *messages]
        if (graph := self._setting.experience.graph) is None:
            return prompt
        last = next(
            (each.name for each in reversed(messages) if isinstance(each, ToolMessage)),
            None,
        )
        return with_suggestions(
            prompt,
            graph.suggest(last, messages=messages, allowed=[*self._tools.values()]),
        )

    def _messages(self, state: State) -> list[BaseMessage]:
        made = [
            message
            for each in state.path
            for message in (each.message, *each.results)
            if message is not None
        ]
        return [*self._conversation, *made]

    def _answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        self._allow_last()
        error: Exception | None = None
        for _ in range(min(REPLY_ATTEMPTS, self._meter.left)):
            config: Any = {"run_name": "answer"}
            # With the tools, for some providers refuse calls in a conversation without them.
            tools, prompt = (
                [*self._tools.values()],
                self._under(messages, ANSWER_PROMPT),
            )
            try:
                reply = run_flow(
                    call_tools(self._setting.model, tools, prompt, self._meter, config)
                )
            except Exception as failure:  # noqa: BLE001 - raised below, if it stays so
                error = failure
                continue
            error = None
            if reply.text.strip():
                return AIMessage(reply.text)
        if error is not None:
            raise error  # a model that cannot be reached is no failure of the method
        return AIMessage("I have no answer.")

    def _allow_last(self) -> None:
        self._meter.allowance += not self._last_allowed
        self._last_allowed = True


def observed(tools: Mapping[str, BaseTool], call: Mapping[str, Any]) -> ToolMessage:
    """What a call brings back; one that cannot be made, an error."""
    try:
        return tools[call["name"]].invoke({**call, "type": "tool_call"})
    except Exception as error:  # noqa: BLE001 - the model is shown any error
        said = (
            str(error)
            if call["name"] in tools
            else f"{call['name']} is not a valid tool, try one of {[*tools]}."
        )
    return ToolMessage(
        f"Error: {said}", name=call["name"], tool_call_id=call["id"], status="error"
    )


def _world_of(episode: Episode) -> Sandbox:
    if episode.sandbox is not None:
        return episode.sandbox
    if all(episode.effects.get(tool.name) == "read" for tool in episode.tools):
        return RealWorld(episode.tools)
    msg = (
        f"Task {episode.id} cannot be searched by this method: it tries calls out, and this world cannot be copied. "
        "Use react, cot or tooltree, or declare all tools reads if they are."
    )
    raise UsageError(msg)


def _recalled(
    memory: CFGMMemory | None, conversation: Sequence[BaseMessage]
) -> list[str]:
    """What the package's memory recalls for the first request of a conversation, as its middleware has it."""
    if memory is None:
        return []
    task = next(
        (message.text for message in conversation if isinstance(message, HumanMessage)),
        "",
    )
    return (
        [text]
        if (
            text := recall_text(
                memory.recall(task), max_characters=memory.max_characters
            )
        )
        else []
    )


def _with_ids(reply: AIMessage, name: str) -> AIMessage:
    """A reply whose calls all have ids, and that holds none that cannot be read: nothing answers those."""
    if not reply.invalid_tool_calls and all(call["id"] for call in reply.tool_calls):
        return reply
    calls = [
        {**call, "id": call["id"] or f"call_{name}_{at}"}
        for at, call in enumerate(reply.tool_calls)
    ]
    return AIMessage(reply.text, tool_calls=calls)


def _said(conversation: Sequence[BaseMessage]) -> str:
    return "\n".join(
        f"{message.type}: {message.text}" for message in conversation if message.text
    )


def _attempt(state: State, answer: AIMessage, place: int) -> dict[str, Any]:
    calls = [
        {"tool": call["name"], "arguments": call["args"], "result": result.text}
        for each in state.path
        for call, result in zip(
            each.message.tool_calls if each.message else (), each.results, strict=True
        )
    ]
    return {"attempt": place + 1, "calls": calls, "answer": answer.text}


def transcript(messages: Sequence[BaseMessage]) -> str:
    """A conversation with its calls, line by line."""
    lines = []
    for message in messages:
        if message.text:
            lines.append(f"{message.type}: {message.text}")
        lines += [
            f"call: {call['name']}({json.dumps(call['args'])})"
            for call in getattr(message, "tool_calls", ())
        ]
    return "\n".join(lines)


def object_in(text: str) -> dict[str, Any] | None:
    """The JSON object that a reply holds, from its first brace on; `None` if there is none."""
    try:
        data, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
