"""Trajectory: the record of one run, as users meet it."""

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from langchain_tooltree.experience.formats import to_chat, to_messages
from langchain_tooltree.experience.records import Record


class Trajectory(Record):
    """One run of an agent on one task: who said what, which tools were called, and what came of it.

    It is immutable. Make one from LangChain messages with `from_messages`, from OpenAI chat messages with `from_chat`,
    from files with `load_trajectories`, or from a LangGraph thread with `load_thread`.
    """

    @classmethod
    def from_messages(
        cls,
        messages: Sequence[BaseMessage],
        *,
        task: str | None = None,
        success: bool | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> "Trajectory":
        """Read a run from LangChain messages.

        Args:
            messages: The conversation, oldest first. What is marked in it as reference material is left out.
            task: What was asked for; the first user message if left out.
            success: Whether it succeeded; `None` if nobody has said.
            id: Identifies the run; a hash of the conversation if left out.

        Returns:
            The trajectory.

        Raises:
            TrajectoryFormatError: If something among `messages` is not a message that a conversation can hold.
        """
        return cls.from_chat([to_chat(message) for message in messages], id=id, task=task, success=success)

    def to_messages(self) -> list[BaseMessage]:
        """The dialogue as LangChain messages, ready for a model or a graph; calls without an id get one.

        Returns:
            The messages; equal to those that the trajectory was made from, apart from reference material.

        Raises:
            TrajectoryFormatError: If a message has no role.
        """
        return to_messages(self.chat())
