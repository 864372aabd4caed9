"""What was said in the graphs of one thread, put together as one trajectory."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.formats import EXTRAS, to_chat
from langchain_tooltree.experience.offered import TOOLS, Tools, as_metadata, tools_in
from langchain_tooltree.experience.records import Branch, ChatMessage, digest
from langchain_tooltree.experience.trajectory import Trajectory

Key = str | tuple[str, int]
"""What makes two versions of a message the same one: its id, or else its content and how often it was said before."""


class Dialogue:
    """All that was ever said in one graph, in order of first appearance, each message in its last form.

    Args:
        name: The nodes that lead to the graph, joined by `/`; empty for the outermost one.
        after: How many messages of the outermost graph's dialogue were there when this one began.
        within: The dialogue of the graph that this one runs in, if that is not the outermost one.
    """

    def __init__(self, name: str = "", *, after: int = 0, within: "Dialogue | None" = None) -> None:
        self.name = name
        self.after = after
        self.within = within
        self.messages: dict[Key, BaseMessage | ChatMessage] = {}

    def see(self, messages: Any) -> None:
        """Take in a list of messages as it was in the state of the graph at some time, later than those seen so far.

        Args:
            messages: The list; anything that LangChain takes for messages.
        """
        self.messages.update(keyed(messages))

    def keys_within(self) -> set[Key]:
        """The messages of the dialogues that this one runs in."""
        outer = self.within
        return set() if outer is None else outer.messages.keys() | outer.keys_within()


def keyed(messages: Any) -> Iterator[tuple[Key, BaseMessage | ChatMessage]]:
    """The messages of a list, each with what identifies it.

    Args:
        messages: A list of messages, one message, or nothing.

    Yields:
        Pairs of key and message.

    Raises:
        TrajectoryFormatError: If something in the list is no message.
    """
    times: dict[str, int] = {}
    for given in messages if isinstance(messages, list | tuple) else [] if messages is None else [messages]:
        message = given if isinstance(given, BaseMessage) else _converted(given)
        if message.id:
            yield message.id, message
        else:
            yield _by_content(to_chat(message), times), message


def together(
    root: Dialogue,
    others: Collection[Dialogue],
    *,
    id: str,  # noqa: A002 - the field's name
    task: str | None = None,
    success: bool | None = None,
    reasons: str = "",
    tools: Tools | None = None,
    earlier: Trajectory | None = None,
) -> Trajectory:
    """One trajectory out of all that was said in a thread.

    Args:
        root: The dialogue of the outermost graph.
        others: Those of the graphs inside; what `root` or the graphs around them hold as well is not repeated.
        id: The trajectory's id.
        task: What was asked for; the first user message if left out.
        success: Whether it succeeded.
        reasons: Why.
        tools: What the models were offered, as far as it is known; beside what was recorded earlier.
        earlier: What was recorded of the thread before, if it is known. A record that shares no message with `root`
            is of another conversation under the same id, and is left out.

    Returns:
        The trajectory.
    """
    known = dict(_recorded(earlier.messages)) if earlier else {}
    if root.messages and known.keys().isdisjoint(root.messages):
        earlier, known = None, {}
    said = {**known, **root.messages}
    order = list(root.messages)
    branches: list[_Own] = []
    for other in others:
        outside = said.keys() | other.keys_within()
        own = {key: message for key, message in other.messages.items() if key not in outside}
        branches.append(_Own(other.name, len(known.keys() | set(order[: other.after])), own))
    for branch in earlier.branches if earlier else ():
        around = [other.messages.keys() for other in others if branch.name.startswith(f"{other.name}/")]
        outside = said.keys() | set().union(*around)
        own = {key: message for key, message in _recorded(branch.messages) if key not in outside}
        _continued(_Own(branch.name, branch.after, own), branches)
    offered = tools_in(earlier.metadata.get(TOOLS)) if earlier else {}
    branches = sorted((branch for branch in branches if branch.messages), key=_Own.place)
    return Trajectory.from_chat(
        [_as_chat(message) for message in said.values()],
        id=id,
        task=task,
        success=success,
        reasons=reasons,
        branches=[
            Branch(branch.name, branch.after, tuple(_as_chat(message) for message in branch.messages.values()))
            for branch in branches
        ],
        metadata=as_metadata({**offered, **(tools or {})}),
    )


class _Own:
    """A branch in the making."""

    def __init__(self, name: str, after: int, messages: dict[Key, BaseMessage | ChatMessage]) -> None:
        self.name = name
        self.after = after
        self.messages = messages

    def place(self) -> tuple[int, str, str]:
        """Where it stands among the others; of those that began together, ids of replies, which often hold the time."""
        replies = [key for key, message in self.messages.items() if _as_chat(message)["role"] == "assistant"]
        return self.after, self.name, str(next(iter(replies or self.messages)))


def _continued(before: _Own, branches: list[_Own]) -> None:
    """Put what was recorded of a sub-agent before it was interrupted in front of what it said after."""

    def shared(branch: _Own) -> int:
        return len(before.messages.keys() & branch.messages.keys()) if branch.name == before.name else 0

    after = max(branches, key=shared, default=None)
    if after is None or not shared(after):
        branches.append(before)
    else:
        after.messages = before.messages | after.messages
        after.after = before.after


def _converted(given: Any) -> BaseMessage:
    """A message given as a dict or a pair. LangChain takes a bare text for one, too, but so is any list of names."""
    cause: Exception | None = None
    if not isinstance(given, str):
        try:
            return convert_to_messages([given])[0]
        except (KeyError, NotImplementedError, TypeError, ValueError) as error:
            cause = error
    msg = f"Among the messages is a {type(given).__name__} that is none: {given!r:.80}. Is it the right key?"
    raise TrajectoryFormatError(msg) from cause


def _recorded(messages: Iterable[ChatMessage]) -> Iterator[tuple[Key, ChatMessage]]:
    times: dict[str, int] = {}
    for message in messages:
        extras = message.get(EXTRAS)
        known = extras.get("id") if isinstance(extras, Mapping) else None
        yield known or _by_content(message, times), message


def _by_content(message: ChatMessage, times: dict[str, int]) -> Key:
    content = digest([message])
    times[content] = times.get(content, 0) + 1
    return content, times[content]


def _as_chat(message: BaseMessage | ChatMessage) -> ChatMessage:
    return to_chat(message) if isinstance(message, BaseMessage) else message
