"""Reflection (CFGM, Alg. 3): a model is asked about an anomaly, and its advice is added to the observation.

`Reflector` asks, and `corrected` writes the correction. When that is done stands in `recovery.py`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from pydantic import BaseModel, Field

from langchain_tooltree.anomaly.rules import Anomaly, AnomalyKind
from langchain_tooltree.cfgm.tips import Tip
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError, check_count
from langchain_tooltree.experience.excerpts import (
    DEFAULT_MAX_CHARACTERS,
    FEWEST_CHARACTERS,
    LONGEST_INSTRUCTIONS,
    excerpt,
)
from langchain_tooltree.experience.records import Record
from langchain_tooltree.experience.reference import ADDED, NOTES, added_to, as_reference
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, async_twin, driven
from langchain_tooltree.models import ATTEMPTS, Meter, StructuredQuestion, document_prompt, inner_config, resolve_model
from langchain_tooltree.text import LONGEST_TEXT, cut, mapping_in, one_line, shortened, shortened_in, words_of

_OPENING = """\
You watch over the work of an assistant with tools. Something has just gone wrong, and you help it back on course.

You get one JSON document. `instructions` are the rules that the assistant has to keep; `task` is what was asked \
for; `record` tells in order what was said, which tools were called and what they brought back; `anomaly` is what was \
noticed in the latest observation, and `step` the call that brought it back. `tools` are the tools of the assistant; \
`tips` is advice from similar tasks and `examples` are past runs that went well, which may or may not fit here; \
`earlier_advice`, if it is there, was given for this very trouble and has not been enough."""

_KEY_INFORMATION = """\
First extract the key information, each in one or two sentences: the objective of the task; the initial environment, \
that is what was there and known at the beginning; and the progress, that is what has been achieved so far and where \
things stand now. State what the record shows, and nothing that it does not."""

_SELF_QA = """\
Ask yourself the two or three questions that matter most for finding out what went wrong and what to do about it, the \
most important one first, and answer each in one short sentence{grounds}. If the document has `questions`, answer \
those instead, all of them and in their order. The assistant is told the first answer and the next step, no more."""

_NEXT_STEP = """\
At last give the corrected next step in at most 30 words: what exactly the assistant should do now instead, with the \
names of tools, the arguments and the objects as the record and the tools have them. If the call was right and only \
has to be made again, or later, say that. Take no step that the task does not call for or the instructions forbid; it \
may be to ask the user."""

DEFAULT_REFLECTION_PROMPT = "\n\n".join(
    (_OPENING, _KEY_INFORMATION, _SELF_QA.format(grounds=" from the key information and the record"), _NEXT_STEP)
)

DEFAULT_SELF_QA_PROMPT = "\n\n".join((_OPENING, _SELF_QA.format(grounds=" from the record"), _NEXT_STEP))
"""The weaker form, without key information."""

MOST_QUESTIONS = 5  # questions that are asked, or kept: the prompt asks for two or three
MOST_TIPS = 10  # tips that a model is shown: the first ones of those that were recalled
MOST_EXAMPLES = 2  # past runs that a model is shown, as many as are recalled in the paper
LONGEST_EXAMPLE = 3_000  # characters of each: about 750 tokens
MOST_TOOLS = 20  # tools that a model is shown described, as many as a search considers; of others the names
MOST_NAMES = 300  # names of other tools that a model is shown: about 1,500 tokens
LONGEST_DESCRIPTION = 300  # characters of a tool's description that a model is shown: about 75 tokens
LONGEST_ANSWER = 500  # characters that are kept of one piece of key information, question or answer: about 125 tokens
LEAST_OF_A_CALL = 30  # characters that a call or an observation takes in the record: names, quotes, braces of JSON


class KeyInformationForm(BaseModel):
    """What is to be extracted first."""

    objective: str = Field(description="What the task wants to have achieved")
    initial_environment: str = Field(description="What was there and known at the beginning")
    progress: str = Field(description="What has been achieved so far, and where things stand now")


class AnswerForm(BaseModel):
    """A question and its answer."""

    question: str
    answer: str


class SelfQAForm(BaseModel):
    """What a model is asked to fill in where key information is left out."""

    questions: list[AnswerForm] = Field(description="Questions about what went wrong, with their answers")
    next_step: str = Field(description="What the assistant should do now, exactly")


class ReflectionForm(BaseModel):
    """What a model is asked to fill in, in this order."""

    key_information: KeyInformationForm
    questions: list[AnswerForm] = Field(description="Questions about what went wrong, with their answers")
    next_step: str = Field(description="What the assistant should do now, exactly")


Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Reflection:
    """What a model made of an anomalous observation (CFGM, Alg. 3).

    What a model has not said is empty. Texts are of bounded length.

    Attributes:
        objective: Key information: what the task wants to have achieved.
        initial_environment: Key information: what was there and known at the beginning.
        progress: Key information: what has been achieved so far, and where things stand.
        questions: Pairs of a question about what went wrong and its answer.
        next_step: The corrected next step.
    """

    objective: str = ""
    initial_environment: str = ""
    progress: str = ""
    questions: tuple[Pair, ...] = ()
    next_step: str = ""

    @property
    def empty(self) -> bool:
        """Whether it says nothing at all."""
        return self == Reflection()

    def to_dict(self) -> dict[str, Any]:
        """The reflection as plain data."""
        return {**asdict(self), "questions": [{"question": asked, "answer": said} for asked, said in self.questions]}


class Reflector:
    """A chat model that reflects on anomalous observations (the online part of CFGM, Alg. 3).

    In one structured reply it extracts key information, asks itself questions grounded in it, answers them, and gives
    the corrected next step. If its reply is unusable it is asked a second time. Of a reply that is right in part, that
    part is used, and a reply in plain words is taken for the next step.

    Args:
        model: The chat model, or the name of one.
        key_information: Whether key information is extracted first. Without, it is the weaker form that the paper
            compares with.
        questions: Questions to be answered instead of the model's own, the other form that the paper compares with.
        prompt: The instruction for the model; the default fits `key_information`.
        max_characters: About how much of the run it is shown; the middle of longer ones is left out.
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        *,
        key_information: bool = True,
        questions: Sequence[str] | None = None,
        prompt: str | None = None,
        max_characters: int = DEFAULT_MAX_CHARACTERS,
    ) -> None:
        if isinstance(questions, str) or not all(isinstance(each, str) and each.strip() for each in questions or ()):
            msg = f"questions must be a list of questions, got {questions!r:.80}."
            raise ConfigurationError(msg)
        if len(questions or ()) > MOST_QUESTIONS:
            msg = f"questions may hold {MOST_QUESTIONS} questions at the most, got {len(questions or ())}."
            raise ConfigurationError(msg)
        check_count("max_characters", max_characters, FEWEST_CHARACTERS)
        self._model = resolve_model(model)
        self._schema: type[BaseModel] = ReflectionForm if key_information else SelfQAForm
        self._questions = list(questions or ())
        self._prompt = prompt or (DEFAULT_REFLECTION_PROMPT if key_information else DEFAULT_SELF_QA_PROMPT)
        self._max_characters = max_characters

    @driven
    def reflect(
        self,
        messages: Sequence[Any] | Conversation,
        anomaly: Anomaly,
        *,
        tips: Iterable[Tip] = (),
        examples: Iterable[str] = (),
        tools: Iterable[Mapping[str, Any]] = (),
        task: str = "",
        instructions: str = "",
        meter: Meter | None = None,
    ) -> Flow[Reflection | None]:
        """Reflect on an anomaly at the end of a conversation; `None` if the model has said nothing usable.

        `tips` are advice from experience, `examples` similar runs that went well, in words, as `examples_in` finds them
        in what was recalled, and `tools` those that the agent has, in OpenAI form. `task` and `instructions` are for a
        conversation that does not show what was asked for any more, or does not begin with the system prompt. `meter`
        counts the model calls and bounds them; problems are noted there.
        """
        readings: list[Reflection] = []

        def usable(reply: dict[str, Any]) -> bool:
            readings.append(read_reflection(reply))
            return bool(readings[-1].next_step)

        question = StructuredQuestion(
            model=self._model,
            schema=self._schema,
            prompt=document_prompt(
                self._prompt,
                self._document(messages, anomaly, tips, tools, examples=examples, task=task, instructions=instructions),
            ),
            usable=usable,
            config=inner_config("reflect", {"anomaly": anomaly.kind, "tool": anomaly.tool}),
        )
        yield from question.ask(meter or Meter(ATTEMPTS))
        # The latest reply with a next step, or else the latest in which anything is said.
        best = max(readings[::-1], key=lambda each: (bool(each.next_step), not each.empty), default=Reflection())
        return None if best.empty else best

    areflect = async_twin(reflect)

    def _document(
        self,
        messages: Any,
        anomaly: Anomaly,
        tips: Iterable[Tip],
        tools: Iterable[Mapping[str, Any]],
        *,
        examples: Iterable[str],
        task: str,
        instructions: str,
    ) -> dict[str, Any]:
        said = Conversation.of(messages)
        # An excerpt leaves out the middle, so in a long run it need not be read.
        ends, between = said.ends(self._max_characters, longest=LONGEST_TEXT, call=LEAST_OF_A_CALL)
        rounds, task = list(said.earlier_rounds()), said.task or task
        earlier = [
            advice
            for each in rounds
            for one in each.observations
            if (advice := advice_in(one)) and _is_alike(noticed_in(one), anomaly)
        ]
        record = Trajectory.from_messages(ends, id="running")
        shown = excerpt(record, max_characters=self._max_characters)
        descriptions = list(map(_described, tools))
        advised = [{"text": tip.advice, "reasoning": tip.reasoning} for tip in islice(tips, MOST_TIPS)]
        task, step = shortened_in((task, _step(record, anomaly)))
        advised, descriptions = shortened_in(advised, LONGEST_ANSWER), shortened_in(descriptions, LONGEST_DESCRIPTION)
        described, others = _described_among(descriptions, [step.tool for step in record.steps], task)
        rules = shortened(instructions or record.instructions, LONGEST_INSTRUCTIONS)
        document = {
            **({"instructions": rules} if rules else {}),
            "task": task,
            "anomaly": asdict(anomaly),
            "step": step,
            "record": [
                # There is more in between than this excerpt of both ends knows of.
                {"left_out": f"more than {between} messages"} if between and "left_out" in entry else entry
                for entry in shown
                if entry.get("role") not in ("system", "developer")  # they stand under `instructions`, whole
            ],
            "tools": described,
            "tips": advised,
        }
        shown_runs = [shortened(run, LONGEST_EXAMPLE) for run in islice(examples, MOST_EXAMPLES)]
        sometimes = {
            "examples": shown_runs,
            "other_tools": others,
            "earlier_advice": earlier[::-1],
            "questions": self._questions,
        }
        return document | {name: value for name, value in sometimes.items() if value}


def _step(record: Record, anomaly: Anomaly) -> dict[str, Any]:
    """The call that is anomalous, with its observation: of calls made in parallel, the record names none."""
    answered = [step for step in reversed(record.steps) if step.outcome is not None]
    by_id = [step for step in answered if anomaly.call_id is not None and step.call_id == anomaly.call_id]
    by_tool = [step for step in answered if step.tool == anomaly.tool]
    step = next(iter(by_id or by_tool or answered), None)
    if step is None or step.outcome is None:
        return {}
    arguments = json.dumps(step.arguments, ensure_ascii=False, default=str)
    return {"tool": step.tool, "arguments": arguments, "observation": step.outcome.text}


def _described_among(
    described: list[dict[str, Any]], called: Sequence[str], task: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The tools that matter most, described, and the names of others: those called lately, then those for the task."""
    if len(described) <= MOST_TOOLS:
        return described, []
    lately = {name: place for place, name in enumerate(called, start=1)}
    wanted = set(words_of(task))

    def importance(place: int) -> tuple[int, int]:
        tool = described[place]
        words = words_of(f"{tool['name']} {tool['description']}")
        return lately.get(tool["name"], 0), len(wanted.intersection(words))

    chosen = set(sorted(range(len(described)), key=importance, reverse=True)[:MOST_TOOLS])
    others = [str(tool["name"]) for place, tool in enumerate(described) if place not in chosen]
    return [tool for place, tool in enumerate(described) if place in chosen], others[:MOST_NAMES]


def _described(tool: Mapping[str, Any]) -> dict[str, Any]:
    inner = tool.get("function")
    function: Mapping[str, Any] = inner if isinstance(inner, Mapping) else tool
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    return {
        "name": function.get("name") or function.get("type"),
        "description": str(function.get("description") or ""),
        "arguments": list(properties or ()),
    }


def read_reflection(reply: Mapping[str, Any]) -> Reflection:
    """What a reply says, as far as it keeps to the form."""
    information = mapping_in(reply, "key_information")
    key_information = [_text(information.get(name)) for name in ("objective", "initial_environment", "progress")]
    questions = reply.get("questions")
    asked = [each for each in questions if isinstance(each, Mapping)] if isinstance(questions, list) else []
    pairs = [(_text(each.get("question")), answer) for each in asked if (answer := _text(each.get("answer")))]
    (objective, environment, progress), pairs = shortened_in((key_information, pairs[:MOST_QUESTIONS]), LONGEST_ANSWER)
    next_step = shortened(_text(reply.get("next_step")))
    return Reflection(objective, environment, progress, tuple(map(tuple, pairs)), next_step)


def _text(said: Any) -> str:
    return said.strip() if isinstance(said, str) else ""


SOURCE = "reflection"
NEXT_STEP = "Next step: "

LONGEST_CORRECTION = 400
"""Characters of a correction, mark aside: about 100 tokens, which stand in each of the requests that follow."""

LONGEST_SAID = 120  # characters of the answer in it, and what is left is for the next step

ADVICE = "Advice from a review, no output of the tool."

NOTICED: Mapping[AnomalyKind, str] = {
    "error": "the tool failed",
    "error_field": "the tool reports an error",
    "phrase": "the action was refused or had no effect",
    "repetition": "the same call has brought the same outcome again and again",
    "cycle": "the same calls come round in a circle",
    "stagnation": "other arguments make no difference to the outcome",
    "unknown_tool": "there is no such tool",
    "drift": "a tool used earlier is not there any more",
    "classified": "something seems to be off",
}


def corrected(message: ToolMessage, anomaly: Anomaly, reflection: Reflection | None) -> ToolMessage:
    """A copy of an observation with the correction at the end of its content, to take its place in the state.

    `response_metadata` gets a mark: `{"tooltree": {"anomaly": {...}, "reflected": bool, "added": [...]}}`. Without a
    reflection, the mark is all that is added.
    """
    mark: dict[str, Any] = {"anomaly": asdict(anomaly), "reflected": reflection is not None}
    content = message.content
    if reflection is not None:
        added = as_reference(correction_text(anomaly, reflection), source=SOURCE)
        if isinstance(content, str):
            content = f"{content}\n\n{added}" if content else added
        else:
            content = [*content, {"type": "text", "text": added}]
        mark[ADDED] = [*added_to(message.response_metadata), added]
    metadata = {**message.response_metadata, NOTES: {**_mark(message), **mark}}
    return message.model_copy(update={"content": content, "response_metadata": metadata})


def correction_text(anomaly: Anomaly, reflection: Reflection) -> str:
    """What was noticed, the answer that matters most, and the corrected next step: what an agent needs to go on."""
    said = next((answer for _, answer in reflection.questions if answer), reflection.progress)
    lines = [f"Noticed: {NOTICED[anomaly.kind]}. {ADVICE}"]
    if said:
        lines.append(one_line(said, LONGEST_SAID))
    if reflection.next_step:
        left = LONGEST_CORRECTION - sum(len(line) + 1 for line in lines)
        lines.append(cut(f"{NEXT_STEP}{reflection.next_step}", left))
    return "\n".join(lines)


def noticed(message: ToolMessage, anomaly: Anomaly) -> ToolMessage:
    """A copy of an observation that bears a mark that it was found anomalous, and nothing else that is new."""
    metadata = {**message.response_metadata, NOTES: {**_mark(message), "anomaly": asdict(anomaly)}}
    return message.model_copy(update={"response_metadata": metadata})


def noticed_in(message: ToolMessage) -> Mapping[str, Any]:
    """What was noticed in an observation, as `Anomaly.to_dict` has it; empty if nothing was."""
    found = _mark(message).get("anomaly")
    return found if isinstance(found, dict) else {}


def _is_alike(one: Mapping[str, Any], anomaly: Anomaly) -> bool:
    """Whether it is the same trouble: with the same tool, and of the same kind."""
    return (one.get("tool"), one.get("kind")) == (anomaly.tool, anomaly.kind)


def was_reviewed(message: ToolMessage) -> bool:
    """Whether there was a reflection on an observation, or an attempt at one."""
    return "reflected" in _mark(message)


def advice_in(message: ToolMessage) -> str:
    """The next step that an observation advises; empty if there was no reflection on it."""
    if not _mark(message).get("reflected"):
        return ""
    _, _, advice = next(reversed(added_to(message.response_metadata)), "").partition(f"\n{NEXT_STEP}")
    return advice.rpartition("\n")[0]


def _mark(message: ToolMessage) -> Mapping[str, Any]:
    return mapping_in(message.response_metadata, NOTES)
