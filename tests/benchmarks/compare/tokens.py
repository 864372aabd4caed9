"""Tokens of the planner's real prompts, counted piece by piece: each text once, then added up.

A prompt is an instruction, the request, the tools, and one piece for each step of the path. So the tokens of a state
are those of the state before it and those of its last step, and a question costs a few additions.

Tokens are those of o200k_base where its file is at hand. It is never downloaded; without it, four characters are taken
for one token.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.json_schema import dereference_refs
from pydantic import BaseModel

from langchain_tooltree import ToolCard
from langchain_tooltree.models import UNTRUSTED
from langchain_tooltree.text import compact_json, shortened
from langchain_tooltree.tooltree.deep import JUDGED_CHARS
from langchain_tooltree.tooltree.prompts import (
    ASSESS_DESCRIPTION,
    CONFIDENCE_DESCRIPTION,
    DEFAULT_POST_JUDGE_PROMPT,
    DEFAULT_PRE_JUDGE_PROMPT,
    PROPOSE_PROMPT,
    TRIED_PROMPT,
    CandidateScores,
    ObservationScore,
)
from langchain_tooltree.tooltree.search import Action
from tests.benchmarks.bfcl_world import PlainCall, ToolSpec
from tests.benchmarks.compare.desk import (
    Evaluate,
    Fused,
    FusedReply,
    Propose,
    Question,
    Score,
)
from tests.benchmarks.compare.simulation import State
from tests.internals.hall import told_as_data

CHARACTERS_PER_TOKEN = 4
ENCODING_URL = (
    "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
)
ENCODING_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

MESSAGE_TOKENS = 3
"""What a message costs beside its text, as OpenAI counts it."""

REASON = (
    "This call fits the request, but one of its arguments is not what was asked for."
)
"""The simulated judge gives no reasons; each is taken to be as long as this."""

CANDIDATE_ID = "c10"
DONE_REPLY = "The request is fulfilled; there is nothing left to do."

CONFIDENCE = {"confidence": {"type": "number", "description": CONFIDENCE_DESCRIPTION}}
"""What a fused question adds to the schema of each tool."""

ASSESS = {
    "name": "assess",
    "description": ASSESS_DESCRIPTION,
    "parameters": {"score": {"type": "number"}, "fulfilled": {"type": "number"}},
}
"""The tool by which a model says in a fused reply what it thinks of the latest result."""


class PromptTokens:
    """The pieces of all prompts about one task; shared by the methods that work on it.

    Args:
        request: What the user wants.
        tools: The tools of the task.
        proposals: How many calls the model is asked for.
    """

    def __init__(
        self, request: str, tools: Sequence[ToolSpec], *, proposals: int
    ) -> None:
        self._specs = {tool.name: tool for tool in tools}
        instruction = text_tokens(
            f"{PROPOSE_PROMPT.format(count=proposals)}\n\n{UNTRUSTED}"
        )
        self._opening = instruction + text_tokens(request) + 2 * MESSAGE_TOKENS
        shown = {
            "history": [{"role": "user", "text": request}],
            "tools": [],
            "tool_names": [*self._specs],
        }
        before, after = (
            {**shown, "candidates": []},
            {**shown, "call": "", "observation": ""},
        )
        self._before = _document(
            DEFAULT_PRE_JUDGE_PROMPT, CandidateScores, compact_json(before)
        )
        self._after = _document(
            DEFAULT_POST_JUDGE_PROMPT, ObservationScore, compact_json(after)
        )
        self._tools: dict[str, tuple[float, float]] = {}
        self._dialogues: dict[State, float] = {}
        self._histories: dict[State, float] = {}
        self._calls: dict[str, tuple[float, float]] = {}
        self._evaluations: dict[State, float] = {}

    def propose(self, state: State, calls: Sequence[PlainCall]) -> float:
        """Of asking a state for calls, and of the calls."""
        reply = sum(self._call(call)[0] for call in calls) if calls else _done_tokens()
        return self._opening + self._all_bound + self._dialogue(state) + reply

    def tried(self, attempt: int, calls: Sequence[PlainCall]) -> float:
        """Of naming the calls that a state has offered before."""
        labels = (
            Action(tool=call.tool, arguments=dict(call.arguments), effect="read").label
            for call in calls
        )
        listed = "\n".join(f"- {label}" for label in labels)
        return text_tokens(TRIED_PROMPT.format(attempt=attempt, tried=listed))

    def score(self, state: State, calls: Sequence[PlainCall]) -> float:
        """Of having calls scored before they run."""
        cards = sum(self._tool(name)[1] for name in {call.tool for call in calls})
        candidates = sum(self._call(call)[1] for call in calls)
        return (
            self._before
            + self._history(state)
            + cards
            + candidates
            + _scores_tokens(len(calls))
        )

    def evaluate(self, state: State) -> float:
        """Of having the last call of a state scored by what it brought back."""
        if state.parent is None or state.call is None:
            msg = "The start has no call to evaluate."
            raise ValueError(msg)
        if state not in self._evaluations:
            seen = text_tokens(_json(shortened(state.observation, JUDGED_CHARS)))
            latest = self._tool(state.call.tool)[1] + self._call(state.call)[1] + seen
            self._evaluations[state] = (
                self._after + self._history(state.parent) + latest + _verdict_tokens()
            )
        return self._evaluations[state]

    def fused(self, state: State, reply: FusedReply) -> float:
        """Of asking a state for calls, their scores and those of its last call at once, and of the reply."""
        added = _fused_tokens(len(reply.calls), told=reply.reward is not None)
        return (
            self.propose(state, reply.calls)
            + len(self._specs) * _confidence_tokens()
            + added
        )

    def _dialogue(self, state: State) -> float:
        """Of the messages of a path."""
        if state.parent is None or state.call is None:
            return 0.0
        if state not in self._dialogues:
            step = (
                self._call(state.call)[0]
                + text_tokens(state.observation)
                + 2 * MESSAGE_TOKENS
            )
            self._dialogues[state] = self._dialogue(state.parent) + step
        return self._dialogues[state]

    def _history(self, state: State) -> float:
        """Of a path as a judge reads it."""
        if state.parent is None or state.call is None:
            return 0.0
        if state not in self._histories:
            made = {
                "role": "assistant",
                "call": {"tool": state.call.tool, "arguments": state.call.arguments},
            }
            seen = {
                "role": "tool",
                "tool": state.call.tool,
                "observation": state.observation,
            }
            step = text_tokens(compact_json([made, seen]))
            self._histories[state] = self._history(state.parent) + step
        return self._histories[state]

    @cached_property
    def _all_bound(self) -> float:
        return sum(self._tool(name)[0] for name in self._specs)

    def _tool(self, name: str) -> tuple[float, float]:
        """Of a tool as it is bound to a request, and of its card in a judge's document."""
        if name not in self._tools:
            spec = self._specs[name]
            self._tools[name] = _tool_tokens(
                spec.name, spec.description, _json(spec.schema)
            )
        return self._tools[name]

    def _call(self, call: PlainCall) -> tuple[float, float]:
        """Of a call as a tool call, and as one that a judge reads."""
        if call.key not in self._calls:
            judged = {
                "id": CANDIDATE_ID,
                "tool": call.tool,
                "arguments": call.arguments,
            }
            self._calls[call.key] = (
                text_tokens(call.tool) + text_tokens(json.dumps(call.arguments)),
                text_tokens(compact_json(judged)),
            )
        return self._calls[call.key]


class TokenCounter:
    """Tokens of one method's questions and their answers.

    Args:
        prompts: The pieces.
        lists_tried: Whether a state that is asked again is reminded of what it offered before, as the planner does.
    """

    def __init__(self, prompts: PromptTokens, *, lists_tried: bool = False) -> None:
        self._prompts = prompts
        self._lists_tried = lists_tried
        self._offered: dict[State, list[Sequence[PlainCall]]] = {}

    def __call__(self, question: Question, answer: Any) -> int:
        """Tokens sent and received."""
        match question:
            case Propose(state):
                return round(self._propose(state, answer))
            case Score(state, calls):
                return round(self._prompts.score(state, calls))
            case Evaluate(state):
                return round(self._prompts.evaluate(state))
            case Fused(state):
                return round(self._propose(state, answer.calls, answer))
        msg = f"A {type(question).__name__} is no question to a model."
        raise TypeError(msg)

    def _propose(
        self, state: State, calls: Sequence[PlainCall], fused: FusedReply | None = None
    ) -> float:
        before = self._offered.setdefault(state, [])
        attempt = len(before) + 1
        prompts = self._prompts
        tokens = prompts.fused(state, fused) if fused else prompts.propose(state, calls)
        if before and self._lists_tried:
            tokens += self._prompts.tried(
                attempt, [call for offer in before for call in offer]
            )
        before.append(calls)
        return tokens


def text_tokens(text: str) -> float:
    """Tokens of a text; not rounded where they are reckoned from its length, so that pieces add up."""
    encoding = _encoding()
    return (
        len(text) / CHARACTERS_PER_TOKEN
        if encoding is None
        else float(len(encoding.encode_ordinary(text)))
    )


def token_rule() -> str:
    """How tokens are counted here, in words."""
    return (
        f"{CHARACTERS_PER_TOKEN} characters a token"
        if _encoding() is None
        else "o200k_base"
    )


@cache
def _encoding() -> Any:
    """The encoding o200k_base, `None` unless tiktoken would find its file without the network."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir(), "data-gym-cache"))
    file = Path(folder, hashlib.sha1(ENCODING_URL.encode()).hexdigest())  # noqa: S324 - the name tiktoken gives it
    # With another hash tiktoken would throw the file away and download it again.
    if (
        not folder
        or not file.is_file()
        or hashlib.sha256(file.read_bytes()).hexdigest() != ENCODING_SHA256
    ):
        return None
    try:
        import tiktoken  # noqa: PLC0415 - not needed where its file is not
    except ImportError:
        return None
    return tiktoken.get_encoding("o200k_base")


@cache
def _tool_tokens(name: str, description: str, schema: str) -> tuple[float, float]:
    tool = as_tool(ToolSpec(name, "", description, json.loads(schema)))
    bound, card = convert_to_openai_tool(tool), ToolCard.from_tool(tool).to_dict()
    return text_tokens(json.dumps(bound)), text_tokens(compact_json(card))


def as_tool(spec: ToolSpec) -> StructuredTool:
    """A tool as the planner is given it; it is described here, and run by the world of its task."""
    return StructuredTool(
        name=spec.name, description=spec.description, args_schema=spec.schema, func=_run
    )


def _run(**arguments: Any) -> str:
    raise NotImplementedError


@cache
def _document(instruction: str, form: type[BaseModel], skeleton: str) -> float:
    """Of a judge's prompt without its contents, and of the form of its reply."""
    described = {
        key: part
        for key, part in dereference_refs(form.model_json_schema()).items()
        if key != "$defs"
    }
    texts = (told_as_data(instruction), skeleton, json.dumps(described))
    return sum(map(text_tokens, texts)) + 2 * MESSAGE_TOKENS


@cache
def _scores_tokens(count: int) -> float:
    """Of a judge's reply about candidates."""
    return text_tokens(
        json.dumps(
            {"scores": [{"id": CANDIDATE_ID, "reason": REASON, "score": 0.75}] * count}
        )
    )


@cache
def _verdict_tokens() -> float:
    """Of a judge's reply about an observation."""
    return text_tokens(json.dumps({"reason": REASON, "score": 0.75, "goal": 0.75}))


@cache
def _confidence_tokens() -> float:
    """Of the field that a fused question adds to a tool."""
    return text_tokens(_json(CONFIDENCE))


@cache
def _fused_tokens(calls: int, *, told: bool) -> float:
    """Of the tool for scores in the prompt, of the scores of so many calls, and of what is told of the last result."""
    scores = calls * text_tokens(_json({"confidence": 0.75}))
    return (
        text_tokens(_json(ASSESS))
        + scores
        + told * text_tokens(_json({"score": 0.75, "fulfilled": 0.75}))
    )


@cache
def _done_tokens() -> float:
    """Of the model's reply when it takes the request for fulfilled."""
    return text_tokens(DONE_REPLY)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
