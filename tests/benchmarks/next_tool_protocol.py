"""The protocol: which runs teach, which are asked about, and what a question may see."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from langchain_tooltree import Trajectory, load_trajectories
from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.messages.chat_format import get_called_function
from langchain_tooltree.messages.kinds import ChatMessage

FOLDS = 5


@dataclass(frozen=True, slots=True)
class Question:
    """Which tool comes next?

    Attributes:
        task: The task of its trajectory.
        tools: The tools called so far, at least one.
        messages: The dialogue so far: what was said, called and observed. Of calls that were made in parallel, the
            earlier ones, without what came of them and without what was said along with them.
        answer: The tool that was called next.
    """

    task: str
    tools: tuple[str, ...]
    messages: tuple[ChatMessage, ...]
    answer: str

    @property
    def last_tool(self) -> str:
        return self.tools[-1]

    @property
    def repeats(self) -> bool:
        """Whether the answer is the last tool once more."""
        return self.answer == self.last_tool


def load_successes(path: Path) -> list[Trajectory]:
    """The successful trajectories of a file.

    Args:
        path: The file, as `load_trajectories` reads it.

    Returns:
        The trajectories in the order of the file.

    Raises:
        TrajectoryFormatError: If there is nothing to ask about: no trajectory that succeeded has two tool calls.
        OSError: If the file cannot be read.
    """
    found = [trajectory for trajectory in load_trajectories(path) if trajectory.success]
    if not any(questions_in([trajectory]) for trajectory in found):
        msg = (
            f"{path} holds no successful trajectory with two tool calls or more, so there is nothing to ask. A "
            f'trajectory succeeds by "reward": 1.0 or "success": true.'
        )
        raise TrajectoryFormatError(msg)
    return found


def task_of(trajectory: Trajectory) -> str:
    """What trajectories of the same task have in common: `domain` and `task_id` of its record.

    Without a domain it is empty; without a task's id, each trajectory is a task of its own.
    """
    known = trajectory.metadata
    domain = "" if known.get("domain") is None else known["domain"]
    return f"{domain}|{trajectory.id if known.get('task_id') is None else known['task_id']}"


def fold_of(trajectory: Trajectory) -> int:
    """The fold that a trajectory is tested in, the same for all trajectories of a task."""
    return (
        int(
            hashlib.md5(  # noqa: S324
                task_of(trajectory).encode("utf-8", "surrogatepass")
            ).hexdigest(),
            16,
        )
        % FOLDS
    )


def splits(
    trajectories: Sequence[Trajectory],
) -> Iterator[tuple[list[Trajectory], list[Trajectory]]]:
    """The trajectories to train on and those to test on, fold by fold; folds with nothing to test are left out."""
    for fold in range(FOLDS):
        tested = [each for each in trajectories if fold_of(each) == fold]
        if tested:
            yield [each for each in trajectories if fold_of(each) != fold], tested


def questions_in(trajectories: Sequence[Trajectory]) -> list[Question]:
    """Every tool call of an assistant after the first of its dialogue, as a question.

    A sub-agent whose dialogue is recorded apart from its trajectory's sees no other dialogue, so its first call is no
    question either.
    """
    return [
        question
        for trajectory in trajectories
        for _, messages in trajectory.dialogues()
        for question in _questions(task_of(trajectory), messages)
    ]


def _questions(task: str, messages: Sequence[ChatMessage]) -> Iterator[Question]:
    tools: list[str] = []
    for position, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        calls = [
            call
            for call in message.get("tool_calls") or ()
            if get_called_function(call).get("name")
        ]
        for number, call in enumerate(calls):
            siblings = (
                ({"role": "assistant", "content": None, "tool_calls": calls[:number]},)
                if number
                else ()
            )
            answer = get_called_function(call)["name"]
            if tools:
                yield Question(
                    task, tuple(tools), (*messages[:position], *siblings), answer
                )
            tools.append(answer)
