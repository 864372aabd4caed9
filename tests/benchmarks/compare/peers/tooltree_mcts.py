"""`tooltree-mcts` from PyPI, another implementation of ToolTree, unmodified, through its own provider interface.

It drafts arguments for every tool it has at every node, one model call each, scores every draft, one call each, and
runs one. With the 17 to 39 tools of a task that would be 35 to 79 model calls a rollout, so it gets its best form: a
few tools, each of which stands for "any call", so that a draft is one idea of the model for the next call. Once the
model takes the request for fulfilled it drafts `FINISH`, which the judge rates by whether the task is done; without
it, a finished path would only be punished for having no successors. A search that has died out is started again,
and the plan with the best Q kept.

Its tools do not know the path they run on, but it runs one rollout at a time, and a call right after its candidates
were scored: a call is made in the world of the path whose candidates were scored last. Its cache does not know the
path either, so it may show the model an old observation; the plan is judged by what its calls really do. Siblings of
the call that is run are never run themselves: what it tries below them continues from their parent.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from tooltree import Config, LLMProvider, MCTSNode, MCTSPlanner, TokenUsage, Tool
from tooltree.core.cache import ResultCache
from tooltree.evaluation import prompts
from tooltree.evaluation.post_evaluator import PostEvaluator
from tooltree.evaluation.pre_evaluator import PreEvaluator
from tooltree.tools.executor import ToolExecutor
from tooltree.tools.registry import ToolRegistry

from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.desk import (
    Desk,
    Evaluate,
    Fused,
    FusedReply,
    Propose,
    Question,
    Run,
    Score,
)
from tests.benchmarks.compare.peers.global_chance import OwnChance
from tests.benchmarks.compare.simulation import State

DRAFTS = 5
"""Drafts a node; this and the settings below solved most of the development tasks."""

CONFIG = Config(
    lambda_exploration=0.3,
    max_rollouts=300,
    tau_pre=0.5,
    tau_post=0.0,
    early_stop_patience=300,
    max_concurrent_llm_calls=DRAFTS,
)

FUSED_CONFIG = replace(CONFIG, lambda_exploration=0.1)
"""With fused calls: of .1 to .6, with tau_pre of .3 to .5 and tau_post of 0 to .4."""

FINISH = "finish"
NO_CALLS = "(no prior tool calls)"

Steps = Generator[Sequence[Question], list[Any], None]

DRAFT = re.compile(r"\n\nConversation context:\n(?P<context>.*)\n\nTool: ", re.DOTALL)
BEFORE = re.compile(
    r"\n- Current dialog / planning context: (?P<context>.*)\n\nCandidate tool card\..*"
    r"\n- Arguments to pass into the tool: (?P<call>.*)\n\nTask: ",
    re.DOTALL,
)
AFTER = re.compile(
    r"\n- Dialog / planning context before this call: (?P<context>.*)\n\nExecuted tool card\.\n- Name: (?P<tool>\S+)\n"
    r".*\n- Arguments actually used: (?P<call>.*?)\n- Tool output \(raw\): (?P<output>.*)\n\nTask: ",
    re.DOTALL,
)
"""Where its prompts say which node, which draft and which observation a question is about."""


@dataclass(frozen=True)
class ToolTreeMCTS:
    """Let it search, again and again.

    Args:
        config: Its settings.
        fused: Whether one call brings drafts, their scores, and that of the call before.
    """

    config: Config = CONFIG
    fused: bool = False

    def __call__(self, desk: Desk) -> Steps:
        """Search for ever."""
        chance = OwnChance(desk.simulation.task.id)
        best = 0.0
        while True:
            model = _FusedModel(desk) if self.fused else _Model(desk)
            search = _Search(model, self.config, best)
            yield from _driven(search, chance)
            best = max(best, search.reached)


def _driven(search: "_Search", chance: OwnChance) -> Steps:
    """One search, on an event loop of its own that stands still while its questions are answered."""
    with closing(asyncio.new_event_loop()) as loop:
        task = loop.create_task(
            search.search(search.model.desk.simulation.task.request)
        )
        try:
            while not task.done():
                with chance.lent():
                    loop.call_soon(loop.stop)
                    loop.run_forever()
                asked, search.model.asked = search.model.asked, []
                if asked:
                    answers = yield from _answers([question for question, _ in asked])
                    for (_, future), answer in zip(asked, answers, strict=True):
                        future.set_result(answer)
        finally:
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        task.result()


def _answers(
    questions: Sequence[Question],
) -> Generator[Sequence[Question], list[Any], list[Any]]:
    """Answer what it asks at once, of one kind and about one state, with one model call.

    Its own providers make a call for each. With those it does best with two drafts a node, and solves .60 instead of
    .76 of the development tasks within 160 calls.
    """
    first = questions[0]
    if isinstance(first, Score):
        [scores] = yield [
            Score(
                first.state, [call for question in questions for call in question.calls]
            )
        ]
        return [[score] for score in scores]
    return (yield [first]) * len(questions)


class _Search(MCTSPlanner):
    """The package's search, put together as its own planner does it; its best trajectory is noted after each rollout.

    Args:
        model: Its provider.
        config: Its settings.
        to_beat: Best Q of earlier searches.

    Attributes:
        model: Its provider.
        reached: The best Q.
    """

    def __init__(self, model: "_Model", config: Config, to_beat: float) -> None:
        self.model = model
        self.reached = 0.0
        self._to_beat = to_beat
        tools = ToolRegistry()
        parameters = {"tool": {"type": "string"}, "arguments": {"type": "object"}}
        for number in range(DRAFTS):
            tools.register(
                Tool(
                    f"call_{number}", "Calls any tool.", parameters, self.model.execute
                )
            )
        judges = PreEvaluator(self.model), PostEvaluator(self.model)
        super().__init__(
            config, tools, *judges, ToolExecutor(), ResultCache(), self.model
        )

    def _get_best_q(self, root: MCTSNode) -> float:
        """What the package calls after each rollout."""
        self.reached = super()._get_best_q(root)
        if self.reached >= self._to_beat:
            self.model.keep(
                [action.arguments for action, _ in root.get_best_trajectory()]
            )
        return self.reached


class _Model(LLMProvider):
    """Understands the package's prompts and asks the desk.

    Attributes:
        desk: Where questions are answered.
        asked: Questions without an answer yet.
        usage: What the package counts.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.asked: list[tuple[Question, asyncio.Future[Any]]] = []
        self.usage = TokenUsage()
        self._states = {NO_CALLS: desk.start}
        self._scored = desk.start
        self._drafted: set[str] = set()

    async def complete(self, messages: list[dict[str, str]], **_: Any) -> str:
        """The words around the plan, which nobody scores; the desk counts them for every method."""
        return "Done."

    async def complete_json(
        self, messages: list[dict[str, str]], **_: Any
    ) -> dict[str, Any]:
        system, user = (message["content"] for message in messages)
        if system == prompts.PRE_EVAL_SYSTEM_PROMPT:
            return {"score": await self._score_draft(_read(BEFORE, user))}
        if system == prompts.POST_EVAL_SYSTEM_PROMPT:
            return {"score": await self._score_output(_read(AFTER, user))}
        return await self._draft(_read(DRAFT, user))

    async def execute(self, tool: str, arguments: dict[str, Any]) -> str:
        """A tool of the package."""
        if tool == FINISH:
            return "Finished."
        state: State = await self._ask(Run(self._scored, PlainCall(tool, arguments)))
        return state.observation

    def keep(self, calls: Sequence[dict[str, Any]]) -> None:
        """Note a plan, its calls given as drafts."""
        state = self.desk.start
        for call in calls:
            state = self._after(state, call)
        if state is not self.desk.start:
            self.desk.keep(state)

    async def _draft(self, prompt: dict[str, str]) -> dict[str, Any]:
        state = self._states[prompt["context"]]
        offered = await self._offered(state)
        if not offered:
            return {"tool": FINISH, "arguments": {}}
        call = next(
            (call for call in offered if call.key not in self._drafted), offered[0]
        )
        self._drafted.add(call.key)
        return {"tool": call.tool, "arguments": call.arguments}

    async def _score_draft(self, prompt: dict[str, str]) -> float:
        self._drafted.clear()  # the drafts of a node differ; another node may well need one of them again
        self._scored = self._states[prompt["context"]]
        draft = json.loads(prompt["call"])
        if draft["tool"] == FINISH:
            return await self._goal(self._scored)
        return await self._score(self._scored, PlainCall(**draft))

    async def _score_output(self, prompt: dict[str, str]) -> float:
        before, draft = self._states[prompt["context"]], json.loads(prompt["call"])
        state = self._after(before, draft)
        self._states[_continued(prompt)] = state
        score, goal = await self._seen(state)
        return goal if draft["tool"] == FINISH else score

    async def _offered(self, state: State) -> list[PlainCall]:
        calls: list[PlainCall] = await self._ask(Propose(state))
        return calls

    async def _score(self, state: State, call: PlainCall) -> float:
        score: float
        [score] = await self._ask(Score(state, [call]))
        return score

    async def _goal(self, state: State) -> float:
        _, goal = await self._seen(state)
        return goal

    async def _seen(self, state: State) -> tuple[float, float]:
        seen: tuple[float, float] = await self._ask(Evaluate(state))
        return seen

    def _after(self, state: State, draft: dict[str, Any]) -> State:
        return (
            state
            if draft["tool"] == FINISH
            else self.desk.simulation.run(state, PlainCall(**draft))
        )

    def _ask(self, question: Question) -> Awaitable[Any]:
        future = asyncio.get_running_loop().create_future()
        self.asked.append((question, future))
        return future


class _FusedModel(_Model):
    """Asks the desk for everything at once: the call that judges a state also drafts what may follow it."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._replies: dict[State, FusedReply] = {}

    async def _offered(self, state: State) -> list[PlainCall]:
        if state not in self._replies:
            self._replies[state] = await self._ask(Fused(state))
        return self._replies[state].calls

    async def _score(self, state: State, call: PlainCall) -> float:
        reply = self._replies[state]
        return next(
            score
            for offer, score in zip(reply.calls, reply.scores, strict=True)
            if offer.key == call.key
        )

    async def _goal(self, state: State) -> float:
        return self._replies[state].goal or 0.0

    async def _seen(self, state: State) -> tuple[float, float]:
        reply: FusedReply = await self._ask(Fused(state))
        self._replies.setdefault(state, reply)
        return reply.reward or 0.0, reply.goal or 0.0


def _read(pattern: re.Pattern[str], prompt: str) -> dict[str, str]:
    found = pattern.search(prompt)
    if found is None:
        msg = f"The package's prompts have changed: {prompt}"
        raise ValueError(msg)
    return {**found.groupdict(), "context": _plain(found["context"])}


def _plain(context: str) -> str:
    """Calls made are written in two ways; the shorter one."""
    return re.sub(r"^(Step \d+: )Called (?=call_)", r"\1", context, flags=re.MULTILINE)


def _continued(prompt: dict[str, str]) -> str:
    """The context of the next prompts on this path."""
    earlier = [] if prompt["context"] == NO_CALLS else [prompt["context"]]
    number = len(re.findall(r"^Step \d+: call_", prompt["context"], re.MULTILINE)) + 1
    return "\n".join(
        [
            *earlier,
            f"Step {number}: {prompt['tool']}({prompt['call']}) → {prompt['output']}",
        ]
    )
