"""What a real model was asked and answered, as a file, and a chat model that answers from it."""

import json
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import LLMResult
from offline_model import read_question
from pydantic import Field, PrivateAttr

from langchain_tooltree.messages.visible_messages import PLANNER_NOTE
from langchain_tooltree.testing import ChatDouble, Response
from langchain_tooltree.text import digest
from langchain_tooltree.tooltree.gate import as_said

DOCUMENTS = frozenset({"pre", "post", "check", "plan"})
"""Kinds of questions that are asked as a document instead of a conversation."""

CALL_ID = re.compile(r'\\"call_id\\":\s*\\"[^"\\]*\\"')
"""The id of a call in a document that a message holds as JSON, which is made anew in each run."""

END = 600
"""Characters of a request that an error shows, from its end, where requests differ."""


class AnswerRecorder(BaseCallbackHandler):
    """Appends every request to a model, with its reply, to a file for `RecordedChatModel`.

    ```python
    model = init_chat_model("openai:gpt-4.1-mini", callbacks=[AnswerRecorder("answers.jsonl")])
    ```

    The file has JSON lines. `{"run": settings}`: a recording begins. `{"id", "message"}`, `{"id", "tools"}`: a message
    and a list of tools' names, where they are first met. `{"kind", "facts", "asked": [ids], "tools": id, "form",
    "reply"}`: the model was asked. No key and no header is in it. One recorder serves several threads.

    Args:
        path: The file; another recording is added to one that exists.
        settings: What to say of this recording, such as the model and the date.
    """

    def __init__(
        self, path: str | Path, settings: Mapping[str, Any] | None = None
    ) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._open: dict[UUID, tuple[list[BaseMessage], Mapping[str, Any]]] = {}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._ids = (
            {line["id"] for line in _lines(self._path) if "id" in line}
            if self._path.exists()
            else set()
        )
        self._write({"run": dict(settings or {})})

    def on_chat_model_start(
        self,
        serialized: Any,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        """Keep the request until its reply comes."""
        with self._lock:
            self._open[run_id] = (messages[0], kwargs.get("invocation_params") or {})

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Write a request with its reply."""
        with self._lock:
            messages, options = self._open.pop(run_id)
            reply: Any = getattr(response.generations[0][0], "message", None)
            if not isinstance(reply, AIMessage):
                return
            reply = as_said(reply)
            tools = [tool for tool in options.get("tools") or () if "function" in tool]
            usage: Mapping[str, Any] = reply.usage_metadata or {}
            tokens = [usage.get("input_tokens", 0), usage.get("output_tokens", 0)]
            kind, facts = _facts(messages, tools)
            line: dict[str, Any] = {"kind": kind, "facts": facts}
            line["asked"] = [
                self._id_of("message", message_data(message)) for message in messages
            ]
            line["tools"] = self._id_of(
                "tools", [tool["function"]["name"] for tool in tools]
            )
            line["form"] = bool(options.get("response_format"))
            self._write({**line, "reply": {**message_data(reply), "usage": tokens}})

    def _id_of(self, key: str, value: Any) -> str:
        """The id of a message or of a list of tools, which is written where it is new."""
        name = digest([key, value], 12)
        if name not in self._ids:
            self._ids.add(name)
            self._write({"id": name, key: value})
        return name

    def _write(self, line: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(
                json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
            )


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """A request with its reply."""

    place: int  # of its line in the file, from 0
    kind: str  # of the question, as in `Question`
    key: str  # equal for requests that ask the same
    form: bool
    reply: Mapping[str, Any]

    @classmethod
    def of(cls, place: int, line: Mapping[str, Any]) -> "RecordedAnswer":
        """The request of a line of `recorded_lines`."""
        key = _key(line["kind"], line["facts"], line["asked"])
        return cls(place, line["kind"], key, line["form"], line["reply"])


class RecordedChatModel(ChatDouble):
    """A chat model that answers from a file of `AnswerRecorder`, as the recorded model did.

    ```python
    model = RecordedChatModel("answers.jsonl")
    ```

    A request is known again by its kind of question and its conversation. System messages and the words of the
    planner's notes do not count, and a question that is a document counts by what it tells, not by how: so the wording
    of the planner's prompts may change, and the recording still holds. Equal requests are answered in the order in
    which they were recorded.

    Args:
        path: The recording.

    Attributes:
        unmatched: What was asked and not found. A planner survives a model that fails, so look here in the end.

    Raises:
        LookupError: When a request was not recorded. It names the nearest that was.
    """

    path: Path
    unmatched: list[str] = Field(default_factory=list)
    _waiting: dict[str, deque[RecordedAnswer]] = PrivateAttr(default_factory=dict)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, path: str | Path, **options: Any) -> None:
        super().__init__(**{"path": Path(path), **options})
        for each in self._recorded():
            self._waiting.setdefault(each.key, deque()).append(each)

    def _recorded(self) -> Sequence[RecordedAnswer]:
        """All answers, in order."""
        return [
            RecordedAnswer.of(place, line)
            for place, line in recorded_lines(self.path)
            if "reply" in line
        ]

    @property
    def left(self) -> list[RecordedAnswer]:
        """What was recorded and not yet asked for."""
        return sorted(
            (each for queue in self._waiting.values() for each in queue),
            key=lambda each: each.place,
        )

    def _respond(
        self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Response:
        kind, facts = _facts(messages, tools)
        key = _key(kind, facts, [message_data(message) for message in messages])
        with self._lock:
            queue = self._waiting.get(key)
            if not queue:
                self.unmatched.append(self._no_match(kind, key))
                raise LookupError(self.unmatched[-1])
            answer = queue.popleft()
        calls = answer.reply.get("calls", [])
        if (
            answer.form and tools
        ):  # this model has no form of its own: it is asked to call a tool
            with suppress(ValueError):
                calls = [
                    [tools[0]["function"]["name"], json.loads(answer.reply["text"])]
                ]
        tool_calls = [
            {"name": name, "args": args, "id": f"call_{answer.place}_{at}"}
            for at, (name, args) in enumerate(calls)
        ]
        sent, received = answer.reply["usage"]
        usage: Any = {
            "input_tokens": sent,
            "output_tokens": received,
            "total_tokens": sent + received,
        }
        return AIMessage(
            answer.reply["text"], tool_calls=tool_calls, usage_metadata=usage
        )

    def _no_match(self, kind: str, key: str) -> str:
        nearest = "Every recorded answer was given already."
        if self.left:
            near = max(
                self.left,
                key=lambda each: SequenceMatcher(
                    None, each.key[-END:], key[-END:]
                ).ratio(),
            )
            nearest = f"The nearest that is left ({near.kind}, line {near.place + 1}): ...{near.key[-END:]}"
        return (
            f"{self.path} has no answer to this question ({kind}): ...{key[-END:]}\n{nearest}\n"
            "Ask as it was recorded, or record anew: give a real model an `AnswerRecorder` among its `callbacks`."
        )


def recorded_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of a recording, with their places from 0, and what they name instead of the names."""
    named: dict[str, Any] = {}
    for place, line in enumerate(_lines(path)):
        if "id" in line:
            *_, named[line["id"]] = line.values()
            continue
        for key in ("asked", "messages", "tools"):
            if isinstance(line.get(key), list):
                line[key] = [named[name] for name in line[key]]
        yield place, line


def message_data(message: BaseMessage) -> dict[str, Any]:
    """What a message says, without ids and metadata."""
    data: dict[str, Any] = {"role": message.type, "text": message.text}
    if isinstance(message, AIMessage) and message.tool_calls:
        data["calls"] = [[call["name"], call["args"]] for call in message.tool_calls]
    return data


def _facts(
    messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]
) -> tuple[str, list[Any] | None]:
    """The kind of a question, and what it tells if it is a document."""
    question, judged = read_question(messages, tools)
    if question.kind not in DOCUMENTS:
        return question.kind, None
    every = [*question.path, *(call for _, call in judged)]
    calls = [[call.tool, dict(call.arguments), call.observation] for call in every]
    return question.kind, [question.request, calls, question.attempt]


def _key(kind: str, facts: Any, asked: Sequence[Mapping[str, Any]]) -> str:
    """What a request asks: of a document its facts, of a conversation what was said in it."""
    content = facts
    if content is None:
        texts = [
            {**each, "text": PLANNER_NOTE}
            if each["text"].startswith(PLANNER_NOTE)
            else each
            for each in asked
        ]
        content = [each for each in texts if each["role"] != "system"]
    return CALL_ID.sub(
        "", json.dumps([kind, content], sort_keys=True, ensure_ascii=False)
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
