"""Replies that no model should give, good ones with a part gone wrong, and everything that reads replies."""

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.store.memory import InMemoryStore
from pydantic import Field

from langchain_tooltree import (
    AnomalyDetector,
    CFGMMemory,
    ModelVerdict,
    ToolLibrary,
    ToolTreeNode,
    Trajectory,
)
from langchain_tooltree.cfgm import tips as tips_module
from langchain_tooltree.cfgm.online import Reflector
from langchain_tooltree.errors import ReplyError
from langchain_tooltree.flows import run_flow
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.models import Meter
from langchain_tooltree.sitgraph.agents import write_summary as written_summary
from langchain_tooltree.tooltree.deep import ProposalRequest, Proposer, plan_tools
from langchain_tooltree.tooltree.judge import JudgedCall, JudgeRequest, ModelEvaluator
from langchain_tooltree.tooltree.search import KernelConfig

LARGEST = 1_000_000
"""Characters of the longest replies."""

Reader = Callable[[AIMessage], Any]


# --- the replies ---


def deep(levels: int, inner: Any = 1, *, keyed: bool = False) -> Any:
    """Data within data within data."""
    for _ in range(levels):
        inner = {"a": inner} if keyed else [inner]
    return inner


def repeated(piece: str, size: int) -> str:
    """A text of a size that says the same all the time."""
    return (piece * (size // len(piece) + 1))[:size]


PIECES = (
    *(
        "a",
        "word { and [ so ",
        "[",
        "{",
        "[{",
        '{"a":',
        '["',
        '{"',
        "\\",
        '"\\',
        "]",
        "}",
        "{}",
        "[]",
        "[[]]",
    ),
    *(
        "\n",
        " ",
        "\t",
        "\n\n",
        " \n",
        "1",
        "-",
        "- ",
        "- a\n",
        "1. a\n",
        "1. ",
        "*",
        "**",
        "***\n",
        "_",
        "__",
    ),
    *(
        "`",
        "```",
        "```\n",
        "~~~\n",
        ">",
        "<think>",
        "<think></think>",
        "</think>",
        "<reference_material ",
    ),
    *(
        '<reference_material source="a" id="0123456789ab">\n',
        "missing",
        "missing:",
        "missing: a;",
        "missing: )",
    ),
    *(
        '{"missing": ',
        ";",
        "; ",
        ":",
        "{calls_maybe_needed",
        "nothing ",
        "nothing is left;",
        "todo nothing ",
    ),
    *(
        '{"calls_maybe_needed": [',
        "Action: ",
        "action",
        "action:",
        "**Action:** ",
        "if ",
        "reason: ",
        "(",
        "(_",
    ),
    *(
        "because",
        "sorry ",
        "I am very ",
        "no tool ",
        "é",
        "\ud800",
        "\U0001d4b3",
        "。",
        "\u2028",
        "\0",
        "\x1b[",
    ),
    *(
        "a@",
        "a.",
        "name is A b ",
        "name is A",
        "I'm A ",
        "12:34:56 ",
        "1970-01-01T00:00:01Z ",
        "order 12345 ",
    ),
    *(
        "id=a1b2 ",
        "A1-",
        "a1",
        "a_1_",
        "ok ",
        "Error: ",
        "error ",
        "NaN",
        "NaN,",
        "Infinity",
        "1e999,",
        "0.",
        "'",
    ),
    *(
        "a, ",
        "$",
        "<a ",
        '{"score": 1} ',
        '{"tips": ["',
        '[{"tip": "a"}, ',
        "| a | b |\n",
        '"a": 1, ',
        "tip 1: ",
    ),
    *("\\u0000", "\\ud800", "null,"),
)
"""What worst cases repeat: all brackets and quotes, markers of lists, and words that some expression looks for."""


def worst_texts(size: int) -> Iterator[str]:
    """Texts of a size that are the worst for parsers, expressions and decoders."""
    for piece in PIECES:
        yield repeated(piece, size)
    for piece in (
        "[",
        "{",
        " ",
        "\n",
        "*",
        "(",
        "_",
        "missing: )",
        "a ",
        "<think>",
        "-",
        "1",
        "`",
        '{"a":',
        "\\",
        ")",
        ".",
        ";",
    ):
        yield repeated(piece, size) + "x"
        yield (
            "x" + repeated(piece, size) + "\nmissing: x" + repeated(piece, 1_000) + "!"
        )
    whole = size // 2
    yield "[" * whole + "]" * whole
    yield '{"a":' * (size // 6) + "1" + "}" * (size // 6)
    yield json.dumps({"score": "x" * size, "verdict": "\\" * 10})
    yield json.dumps({f"key{number}": number for number in range(size // 20)})
    yield json.dumps([{"tip": "a b c"}] * (size // 20))
    yield json.dumps(
        {
            "tips": ["a b c"] * (size // 12),
            "writes": [{}] * 1000,
            "missing": ["x"] * (size // 12),
        }
    )
    yield json.dumps({"missing": "; " * (size // 2)})
    yield '{"score": ' + "9" * size + "}"
    yield (
        '{"score": 1'
        + "9" * 4_000
        + ', "goal": -'
        + "9" * 4_000
        + ', "write": '
        + "9" * 4_000
        + "}"
    )
    yield '{"score": NaN, "goal": -Infinity, "reason": "\\ud800", "missing": [NaN]}'
    yield repeated("some prose, ", size) + '{"score": 0.5, "goal": 0.5}'
    yield '{"score": 0.5, "reason": "' + "a" * size  # cut off
    yield (
        "<think>" * (size // 14) + "</think>" * (size // 16) + '{"verdict": "success"}'
    )


def worst_replies(size: int) -> Iterator[AIMessage]:
    """Replies of a size that are the worst to read: in words, in blocks, in calls."""
    yield from map(AIMessage, worst_texts(size))
    for data in (
        {"query": "a" * size},
        {"query": '"\\\n' * (size // 12), "score": " " * (size // 2)},
        {
            "items": [1] * (size // 10),
            "to": "x",
            "writes": [{}] * (size // 12),
            "tips": ["a b"] * (size // 21),
        },
        {
            "items": [[]] * (size // 12),
            "missing": ["nothing"] * (size // 33),
            "questions": [["a", "b"]] * (size // 36),
        },
        {
            "missing": "; " * (size // 4),
            "scores": [{"id": "c1", "score": 1}] * (size // 60),
        },
        {f"key{number}": number for number in range(size // 16)},
        {"query": deep(size // 10)},
        {"query": {"a": 10**4_000}, "score": 10**4_000, "count": float("nan")},
    ):
        for name in ("look", "send", "assess"):
            yield AIMessage("", tool_calls=[{"name": name, "args": data, "id": "1"}])
    call = {"name": "look", "args": {"query": "a"}, "id": "1"}
    yield AIMessage("", tool_calls=[call] * (size // 60))
    invalid = {
        "name": "look",
        "args": "{" * 50,
        "id": "1",
        "error": None,
        "type": "invalid_tool_call",
    }
    yield AIMessage("", invalid_tool_calls=[invalid] * (size // 100))
    yield AIMessage("", invalid_tool_calls=[{**invalid, "args": "{" * size}])
    yield AIMessage([{"type": "text", "text": "{ "}] * (size // 30))
    yield AIMessage(
        [{"type": "thinking", "thinking": "a" * 9, "signature": "b"}] * (size // 60),
        tool_calls=[call],
    )
    yield AIMessage("", tool_calls=[{**call, "name": "look" * (size // 4)}])
    yield AIMessage(
        "", additional_kwargs={"reasoning_content": "a" * size}, tool_calls=[call] * 40
    )


GOOD = (
    {"scores": [{"id": "c1", "score": 0.5, "reason": "fits"}, {"id": "c2", "score": 0.1, "reason": "no"}]},
    {"score": 0.9, "goal": 0.2, "reason": "as wanted"},
    {"fulfilled": False, "missing": ["send it"], "done": True, "last_result": 0.4},
    {"rules": ["a"], "writes": [{"write": 1, "facts": "a", "allowed": True, "confirmed": "no"}], "missing": [],
     "verdict": "failure", "reasons": "b"},
    {"tips": [{"tip": "Look", "when": "lost", "reasoning": "a", "bears_out": [{"tool": "look", "quote": "x"}]}],
     "followed": [1]},
    {"focus_points": [{"reasoning": "Doors are locked.", "focus_point": "Look for a key."}]},
    {"key_information": {"objective": "a", "initial_environment": "b", "progress": "c"},
     "questions": [{"question": "why?", "answer": "so"}], "next_step": "look(query='x')"},
    {"what_went_wrong": "all", "next_time": "better"},
    {"tools": [{"name": "look", "relevance": 0.9}], "domains": ["mail"]},
    {"states": [{"state": 0, "summary": "It stands well."}]},
    {"anomalous": True, "observation": 1, "reason": "it is off"},
    {"query": "x", "count": 3, "confidence": 0.7},
    {"to": "ann", "items": [{"name": "a", "price": 1.5}], "confidence": 0.4},
    {"done": "todo", "calls_maybe_needed": [{"tool": "look", "args": {"query": "y"}, "likely": 0.9}]},
    {"names": ["look"], "needs": ["to find a thing"]},
    {"action": "go north"},
    {"summary": "All is well.", "next_step": "go on"},
)  # fmt: skip
"""Replies as they should be, one of each form."""

WORDS = (
    "All is done.\nmissing: nothing",
    "I have found it.\n\nmissing: send the mail; tell Ann",
    '1. **Look first.** It helps.\n2. Then ask.\n   - more\n\nReasoning: "seen"',
    "Action: look around",
    "Sorry, I cannot help with that.",
    "```json\n{}\n```",
    "<think>hm</think>The order is 12345.",
    "Error: not found",
)
"""Replies in words."""


_VALUES = (
    *(
        None,
        True,
        "",
        "x",
        0,
        -1,
        2**63,
        2**64,
        -(2**70),
        10**4000,
        1e308,
        float("nan"),
        float("inf"),
        "\ud800",
    ),
    *(
        "a\udfff b",
        "\0",
        "true",
        "1.0",
        "NaN",
        "9" * 400,
        " ",
        ";;;",
        "a" * 5_000,
        ["a"] * 500,
        [1, "a", {}],
    ),
    *(
        [],
        {},
        [[]],
        [None],
        {"a": None},
        {"\ud800": 1},
        {"": ""},
        ["\ud800"],
        {"x": 2**90},
        [float("nan")],
    ),
    *({"tool": {}}, {"name": []}, {"id": {"a": 1}}, [[["a"]]]),
)
ODD: tuple[Callable[[], Any], ...] = (
    *(partial(copy.deepcopy, value) for value in _VALUES),
    *(partial(deep, levels) for levels in (40, 300, 5_000)),
    *(partial(deep, levels, "\ud800", keyed=True) for levels in (600, 3_000)),
)
"""Values that no form asks for."""


def mutated(data: Any, draw: random.Random) -> Any:
    """Data with one part of it replaced, renamed, repeated or gone."""
    changed = draw.choice(ODD)()
    if isinstance(data, dict) and data and draw.random() < 0.85:
        key = draw.choice(list(data))
        rest = {name: value for name, value in data.items() if name != key}
        other = draw.choice(
            ("tool", "name", "\ud800", "", "Missing", "reply", "x" * 300)
        )
        changes: list[Any] = [rest, {**rest, other: data[key]}, {"answer": data}]
        changed = (
            draw.choice(changes)
            if draw.random() < 0.5
            else {**data, key: mutated(data[key], draw)}
        )
    elif isinstance(data, list) and data and draw.random() < 0.7:
        place = draw.randrange(len(data))
        part = [*data[:place], mutated(data[place], draw), *data[place + 1 :]]
        changed = data * draw.randint(2, 40) if draw.random() < 0.2 else part
    return changed


def written(data: Any) -> str:
    """Data as a model writes it."""
    try:
        return json.dumps(data, ensure_ascii=len(repr(data)[:50]) % 2 == 0)
    except (RecursionError, ValueError):
        return "[" * 5_000


def spoilt(text: str, draw: random.Random) -> str:
    """A text with something cut, doubled, exchanged or put around it."""
    place, other = sorted(
        (draw.randrange(len(text) + 1), draw.randrange(len(text) + 1))
    )
    piece = draw.choice(PIECES) * draw.choice((1, 1, 3, 30))
    added = f"{text[:place]}{piece}{text[place:]}"
    fenced = f"Here it is:\n```json\n{text}\n```\n{piece}"
    cut = [text[:other], text[:place] + text[other:], text + text[place:other]]
    return draw.choice(
        (*cut, added, added, fenced, text.replace('"', "'"), f"{piece}{text}{piece}")
    )


def random_text(draw: random.Random) -> str:
    """A text of a hostile or clumsy model, up to some thousand characters."""
    kind = draw.randrange(10)
    if kind == 0:
        return "".join(draw.choice(PIECES) for _ in range(draw.choice((1, 5, 50, 500))))
    if kind == 1:
        return "".join(
            map(
                chr,
                (
                    draw.choice((draw.randrange(128), draw.randrange(0x3000), 0xD800))
                    for _ in range(200)
                ),
            )
        )
    if kind == 2:
        return repeated(draw.choice(PIECES), draw.choice((10, 1_000, 20_000)))
    data: Any = draw.choice(GOOD)
    for _ in range(draw.choice((0, 1, 1, 2, 4))):
        data = mutated(data, draw)
    text = draw.choice(WORDS) if kind == 3 else written(data)
    if kind == 4:
        text = f"{draw.choice(WORDS)}\n{text}"
    for _ in range(draw.choice((0, 0, 1, 2, 3))):
        text = spoilt(text, draw)
    return text


def random_arguments(draw: random.Random) -> Any:
    """Arguments of a call, mostly nearly right."""
    data: Any = draw.choice(GOOD)
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        data = mutated(data, draw)
    return data


NAMES = (
    "look",
    "send",
    "assess",
    "show_tools",
    "act",
    "nobody",
    "",
    "\ud800",
    "VerdictForm",
    "ObservationScore",
)


def random_reply(draw: random.Random) -> AIMessage:
    """A reply of a hostile or clumsy model, of the right types or not."""
    text = random_text(draw)
    calls: list[Any] = [
        {
            "name": draw.choice(NAMES),
            "args": arguments,
            "id": draw.choice((f"call{n}", "same", None, "")),
        }
        for n in range(draw.choice((0, 0, 1, 1, 2, 40)))
        if isinstance(arguments := random_arguments(draw), dict)
    ]
    invalid = {
        "name": draw.choice((*NAMES, None)),
        "args": draw.choice((text[:3_000], None)),
        "id": None,
    }
    thought = {"type": "thinking", "thinking": text, "signature": text[:9]}
    fields = {
        "content": draw.choice(
            (text, text, text, [{"type": "text", "text": text}], [text, thought])
        ),
        "tool_calls": calls,
        "invalid_tool_calls": [{**invalid, "error": None}]
        if draw.random() < 0.1
        else [],
        "usage_metadata": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    }
    return AIMessage(**fields) if draw.random() < 0.6 else _ill_typed(fields, draw)


def _ill_typed(fields: dict[str, Any], draw: random.Random) -> AIMessage:
    """What a message refuses when it is made; an integration may construct it, or assign it later."""
    wrong, other = draw.choice(ODD), draw.choice(ODD)
    call = {**next(iter(fields["tool_calls"]), {"name": "look", "args": {}, "id": "1"})}
    call[draw.choice(("name", "args", "id", "type"))] = wrong()
    call.pop(draw.choice(("name", "args", "id", "nothing")), None)
    within = {
        "content": [
            wrong(),
            {"type": other(), "text": wrong()},
            {"type": "text", "text": other()},
        ],
        "tool_calls": [*fields["tool_calls"], call, wrong()],
        "invalid_tool_calls": [wrong(), call],
        "usage_metadata": {
            "input_tokens": wrong(),
            "output_tokens": other(),
            "input_token_details": wrong(),
        },
        "response_metadata": {
            "tooltree": wrong(),
            "model_provider": other(),
            "output_version": wrong(),
        },
        "additional_kwargs": {
            "tool_calls": wrong(),
            "refusal": other(),
            "\ud800": {"same": wrong()},
        },
    }
    name = draw.choice((*within, "id", "name"))
    value = within[name] if name in within and draw.random() < 0.7 else wrong()
    plain = {
        "additional_kwargs": {},
        "response_metadata": {},
        "name": None,
        "id": None,
        "type": "ai",
    }
    return AIMessage.model_construct(**{**plain, **fields, name: value})


# --- who reads them ---


class Parrot(BaseChatModel):
    """A model that gives one reply to everything, in no time: what is left is the reading."""

    said: dict[str, Any] = Field(
        default_factory=lambda: {"reply": None, "given": 0}
    )  # shared by copies of the model

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.said["reply"])])

    @property
    def given(self) -> int:
        """How often it gave the reply."""
        return int(self.said["given"])

    def learn(self, reply: AIMessage) -> None:
        """Give this reply from now on."""
        self.said.update(reply=reply, given=0)

    def invoke(self, *_: Any, **__: Any) -> Any:
        """Say it without LangChain's ceremony, which takes its own time with long texts."""
        self.said["given"] += 1
        return self.said["reply"]

    def bind_tools(self, tools: Sequence[Any], **settings: Any) -> Any:
        """Bind nothing."""
        return self.bind()


@tool
def look(query: str, count: int = 1) -> str:
    """Look something up."""
    return f"{query} {count}"


@tool
def send(to: str, items: list[dict[str, Any]]) -> str:
    """Send things."""
    return f"{to} {items}"


QUESTION = (
    HumanMessage("Look it up, then send it to Ann."),
    AIMessage("", tool_calls=[{"name": "look", "args": {"query": "it"}, "id": "1"}]),
    ToolMessage("Error: there is none", tool_call_id="1", name="look", status="error"),
)
"""A conversation whose next step is asked for."""


@cache
def _run() -> Trajectory:
    return Trajectory.from_messages([*QUESTION, AIMessage("There is none.")], id="run")


PARROT = Parrot()

READS = {"look": "read"}


LIBRARY = ToolLibrary([look, send])


@cache
def _proposer(**settings: Any) -> Proposer:
    config = KernelConfig(**settings)
    return Proposer(
        PARROT, LIBRARY, lambda tool, _: "read" if tool in READS else "write", config
    )


@cache
def _node() -> ToolTreeNode:
    return ToolTreeNode(PARROT, [look, send], effects=READS)


def _asked(make: Callable[[BaseChatModel], Any], reply: AIMessage) -> Any:
    """What comes of a flow that asks a model which gives this reply."""
    PARROT.learn(reply)
    return run_flow(make(PARROT))


def _visited(reply: AIMessage) -> Any:
    """What the planner in the agent's loop makes of a reply, and of the same one to each further question."""
    PARROT.learn(reply)
    return _node().invoke({"messages": list(QUESTION)})


def _proposed(_: BaseChatModel, **settings: Any) -> Any:
    asked = ProposalRequest(QUESTION, ("look", "send"))
    return _proposer(**settings).propose(asked, Meter(6))


def _judged(stage: str, model: BaseChatModel) -> Any:
    call = JudgedCall("c1", "look", {"query": "x"})
    others = [call, JudgedCall("c2", "send", {"to": "ann"}, writes=True)]
    calls = others if stage == "pre" else [call]
    request = JudgeRequest(
        stage, "look it up", [], calls, [], observation="x", answer="done"
    )  # type: ignore[arg-type]
    judge = ModelEvaluator(model)
    return getattr(judge, stage)(request, Meter(2))


async def _focus_points(model: BaseChatModel) -> Any:
    memory = CFGMMemory(model, InMemoryStore())
    try:
        return await memory.focus_points_flow("a house")
    except ReplyError:
        return []


def _anomaly() -> Any:
    return run_flow(AnomalyDetector().check_flow(QUESTION))


MODEL_READERS: dict[str, Reader] = {
    "step in the loop": _visited,
    "candidates with scores": partial(_asked, _proposed),
    "candidates": partial(_asked, partial(_proposed, selection="smoothed")),
    "drafts": partial(_asked, partial(_proposed, selection="smoothed", proposals="per_tool")),
    "judge of calls": partial(_asked, partial(_judged, "pre")),
    "judge of results": partial(_asked, partial(_judged, "post")),
    "check of an answer": partial(_asked, partial(_judged, "check")),
    "verdict": partial(_asked, lambda model: ModelVerdict(model).judge_flow(_run())),
    "reflection": partial(
        _asked, lambda model: Reflector(model).reflect_flow(QUESTION, _anomaly(), meter=Meter(2))
    ),
    "tips of a comparison": partial(_asked, lambda model: tips_module.tips_by_comparison(model, _run(), [_run()])),
    "tips of a success": partial(_asked, lambda model: tips_module.tips_from_success(model, _run(), [])),
    "focus points": partial(_asked, _focus_points),
    "summary": partial(
        _asked, lambda model: written_summary(model, _run().messages, Meter(1))
    ),
    "coarse plan": partial(
        _asked,
        lambda model: plan_tools(model, LIBRARY, "look it up", Meter(2)),
    ),
}  # fmt: skip
"""What asks a model, by name: each takes the reply that the model gives every time."""


def _conversed(reply: AIMessage) -> Any:
    said = Conversation([*QUESTION, reply])
    return (
        said.task,
        said.tool_calls,
        said.call_ids,
        said.calls,
        said.chat,
        said.goal,
        said.open_calls,
        said.latest_kind,
    )


def _recorded(reply: AIMessage) -> Any:
    run = Trajectory.from_messages(
        [*QUESTION, reply, ToolMessage("x", tool_call_id="1")], id="run"
    )
    return run, run.aim


MESSAGE_READERS: dict[str, Reader] = {"conversation": _conversed, "record": _recorded}
"""What reads messages that others have asked for."""

READERS = {**MODEL_READERS, **MESSAGE_READERS}
