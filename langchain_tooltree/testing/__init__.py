"""Deterministic chat models, for tests of this package and of agents built on it. No key, no network.

`ScriptedChatModel` says what is prepared, in order. `OfflineChatModel` stands in for a model that works with the
planner: it reads the planner's ordinary prompts and answers each kind of question from a policy, so that everything
but the intelligence is real. `RecordedChatModel` answers as a real model did, from a file that `AnswerRecorder` wrote.
"""

from langchain_tooltree.testing.offline import (
    Made,
    OfflineChatModel,
    Policy,
    Question,
    ScriptedChatModel,
    read_question,
)
from langchain_tooltree.testing.recorded import AnswerRecorder, RecordedAnswer, RecordedChatModel

__all__ = [
    "AnswerRecorder",
    "Made",
    "OfflineChatModel",
    "Policy",
    "Question",
    "RecordedAnswer",
    "RecordedChatModel",
    "ScriptedChatModel",
    "read_question",
]
