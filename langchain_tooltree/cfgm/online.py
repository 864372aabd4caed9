"""What helps an agent at work (CFGM, Alg. 3): recall before a run, and reflection where an observation is anomalous."""

import logging
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from pydantic import AfterValidator, BaseModel, Field

from langchain_tooltree.anomaly.detector import (
    MAX_CHECKED_MESSAGES,
    AnomalyDetector,
    standard_detector,
)
from langchain_tooltree.anomaly.rules import KINDS, LOOPS, Anomaly
from langchain_tooltree.cfgm.recall import (
    LONGEST_EXAMPLE,
    Recollection,
    Tip,
    examples_in,
    recall_text,
)
from langchain_tooltree.errors import ConfigurationError, check_count, described
from langchain_tooltree.experience.run_identity import (
    tools_in,
)
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.transcript import (
    LONGEST_INSTRUCTIONS,
    MAX_RUN_CHARACTERS,
    excerpt,
)
from langchain_tooltree.flows import (
    Flow,
    arun_flow,
    run_flow,
    run_or_default,
)
from langchain_tooltree.messages.additions import ADDED_KEY, NOTES_KEY, get_added_texts
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.reference import mark_as_reference
from langchain_tooltree.messages.tool_calls import Call
from langchain_tooltree.models import (
    REPLY_ATTEMPTS,
    Meter,
    Words,
    document_prompt,
    filled_in,
    inner_config,
    resolve_model,
)
from langchain_tooltree.streaming import StreamWriter, emit_events
from langchain_tooltree.text import (
    LONGEST_TEXT,
    compact_json,
    cut,
    get_mapping,
    kinship,
    one_line,
    shortened,
    shortened_in,
)

logger = logging.getLogger(__name__)

# --- recall ---


# --- anomalies ---


# --- reflection ---

_OPENING = """\
You watch over the work of an assistant with tools. Something has just gone wrong, and you help it back on course.

You get one JSON document. `instructions` are the rules that the assistant has to keep; `task` is what was asked \
for; `record` tells in order what was said, which tools were called and what they brought back; `anomaly` is what was \
noticed in the latest observation, and `step` the call that brought it back; `tools` are the tools of the assistant. \
What is left out is empty, or not known."""

_TIPS = "`tips` is advice from similar tasks, which may or may not fit here."

_HELP = """\
`examples` are the calls of past runs that went well, which may or may not fit here. `earlier_advice`, if it is there, \
was given for this very trouble and has not been enough."""

_KEY_INFORMATION = """\
the key information, each in one or two sentences: the objective of the task; the initial environment, that is what \
was there and known at the beginning; and the progress, that is what has been achieved so far and where things stand \
now. State what the record shows, and nothing that it does not."""

_SELF_QA = """\
Ask yourself the two or three questions that matter most for finding out what went wrong and what to do about it, the \
most important one first, and answer each in one short sentence from the key information and the record. The assistant \
is told the first answer and the next step, no more."""

_NEXT_STEP = """\
Finally, give the corrected next step in at most 30 words: what exactly the assistant should do now instead, with the \
names of tools, the arguments and the objects as the record and the tools have them. If the call was right and only \
has to be made again, or later, say that. If there is nothing to be found, say what to tell the user. Take no step \
that the task does not call for or the instructions forbid; it may be to ask the user."""

REFLECTION_PROMPT = "\n\n".join(
    (
        f"{_OPENING} {_TIPS} {_HELP}",
        f"First extract {_KEY_INFORMATION}",
        _SELF_QA,
        _NEXT_STEP,
    )
)
KEY_INFORMATION_PROMPT = "\n\n".join((_OPENING, f"Extract {_KEY_INFORMATION}"))
SELF_QA_PROMPT = "\n\n".join(
    (
        f"{_OPENING} `key_information` was extracted from the record. {_HELP}",
        _SELF_QA,
        _NEXT_STEP,
    )
)

MOST_QUESTIONS = 5  # questions that are kept: the prompt asks for two or three
MAX_TIPS = 10  # tips that a model is shown: the first ones of those that were recalled
MAX_SHOWN_EXAMPLES = (
    2  # past runs that a model is shown, as many as are recalled in the paper
)
MAX_DESCRIBED_TOOLS = 20  # tools that a model is shown described, as many as a search considers; of others the names
LONGEST_DESCRIPTION = (
    300  # characters of a tool's description that a model is shown: about 75 tokens
)
MAX_ANSWER_LENGTH = 500  # characters that are kept of one piece of key information, question or answer: about 125 tokens
LEAST_OF_A_CALL = 30  # characters that a call or an observation takes in the record: names, quotes, braces of JSON

AgentTool = (
    BaseTool | Callable[..., Any] | dict[str, Any]
)  # or one that the provider runs, which may have no name


Bounded = Annotated[
    str, AfterValidator(lambda text: shortened(text.strip(), MAX_ANSWER_LENGTH))
]


class KeyInformation(BaseModel):
    """What is to be extracted first."""

    objective: Bounded = Field(description="What the task wants to have achieved")
    initial_environment: Bounded = Field(
        description="What was there and known at the beginning"
    )
    progress: Bounded = Field(
        description="What has been achieved so far, and where things stand now"
    )


class Answer(BaseModel):
    """A question and its answer."""

    question: Bounded
    answer: Bounded


Answers = Annotated[
    list[Answer],
    Field(description="Questions about what went wrong, with their answers"),
    AfterValidator(
        lambda answers: [each for each in answers if each.answer][:MOST_QUESTIONS]
    ),
]
NextStep = Annotated[
    Words,
    Field(description="What the assistant should do now, exactly"),
    AfterValidator(lambda text: shortened(text, LONGEST_TEXT)),
]


class SelfQA(BaseModel):
    """Questions about the trouble with their answers, and the corrected next step."""

    questions: Answers
    next_step: NextStep


class Reflection(BaseModel):
    """Key information, questions about the trouble with their answers, and the corrected next step."""

    key_information: KeyInformation  # first, so that the questions are grounded in it
    questions: Answers
    next_step: NextStep


class Reflector:
    """A chat model that reflects on anomalous observations (the online part of CFGM, Alg. 3).

    In one structured reply it extracts key information, asks itself questions grounded in it, answers them, and gives
    the corrected next step. If its reply does not validate it is asked a second time.

    Args:
        model: The chat model, or the name of one.
        recall: `CFGMMemory.recall_flow`. With it, key information is extracted by a call of its own, and the runs that are
            recalled for it go with the questions, without tips, as in the paper: two model calls in place of one.
        extraction: Extracts key information where that is a call of its own; `model` if left out.
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        *,
        recall: Callable[[str], Flow[Recollection]] | None = None,
        extraction: str | BaseChatModel | None = None,
    ) -> None:
        self._model = resolve_model(model)
        self._extraction = (
            self._model if extraction is None else resolve_model(extraction)
        )
        self._recall = recall

    def reflect(
        self,
        messages: Sequence[Any] | Conversation,
        anomaly: Anomaly,
        *,
        tips: Iterable[Tip] = (),
        examples: Iterable[str] = (),
        tools: Iterable[AgentTool] = (),
        task: str = "",
        instructions: str = "",
        meter: Meter | None = None,
    ) -> Reflection | None:
        """Reflect on an anomaly at the end of a conversation; `None` if the model gave no usable reply.

        `tips` are advice from experience, `examples` similar runs that went well, in words, as `examples_in` finds them
        in what was recalled, and `tools` those that the agent has. `task` and `instructions` are for a
        conversation that does not show what was asked for any more, or does not begin with the system prompt. `meter`
        counts the model calls and bounds them, to two by default; problems are noted there.
        """
        return run_flow(
            self.reflect_flow(
                messages,
                anomaly,
                tips=tips,
                examples=examples,
                tools=tools,
                task=task,
                instructions=instructions,
                meter=meter,
            )
        )

    async def areflect(
        self,
        messages: Sequence[Any] | Conversation,
        anomaly: Anomaly,
        *,
        tips: Iterable[Tip] = (),
        examples: Iterable[str] = (),
        tools: Iterable[AgentTool] = (),
        task: str = "",
        instructions: str = "",
        meter: Meter | None = None,
    ) -> Reflection | None:
        """Async version of `reflect`."""
        return await arun_flow(
            self.reflect_flow(
                messages,
                anomaly,
                tips=tips,
                examples=examples,
                tools=tools,
                task=task,
                instructions=instructions,
                meter=meter,
            )
        )

    async def reflect_flow(
        self,
        messages: Sequence[Any] | Conversation,
        anomaly: Anomaly,
        *,
        tips: Iterable[Tip] = (),
        examples: Iterable[str] = (),
        tools: Iterable[AgentTool] = (),
        task: str = "",
        instructions: str = "",
        meter: Meter | None = None,
    ) -> Reflection | None:
        """Flow of `reflect` and `areflect`; other flows await it."""
        meter = meter or Meter(REPLY_ATTEMPTS)
        config = inner_config(
            "reflect", {"anomaly": anomaly.kind, "tool": anomaly.tool}
        )
        document = _document(
            Conversation.of(messages), anomaly, tools, task, instructions
        )
        if self._recall is None:
            prompt = document_prompt(
                REFLECTION_PROMPT, document | _help(tips, examples)
            )
            return await filled_in(self._model, Reflection, prompt, config, meter)
        prompt = document_prompt(KEY_INFORMATION_PROMPT, document)
        key = await filled_in(self._extraction, KeyInformation, prompt, config, meter)
        if key is None or not meter.left:
            return None
        recollection = await self._recall("\n".join(key.model_dump().values()))
        similar = examples_in(
            recall_text(
                recollection, max_characters=MAX_SHOWN_EXAMPLES * LONGEST_EXAMPLE
            )
        )
        document |= {
            "key_information": key.model_dump(),
            **_help((), similar or examples),
        }
        qa = await filled_in(
            self._model,
            SelfQA,
            document_prompt(SELF_QA_PROMPT, document),
            config,
            meter,
        )
        return (
            None
            if qa is None
            else Reflection(
                key_information=key, questions=qa.questions, next_step=qa.next_step
            )
        )


def _document(
    conversation: Conversation,
    anomaly: Anomaly,
    tools: Iterable[AgentTool],
    task: str,
    instructions: str,
) -> dict[str, Any]:
    """What a model is told about an anomaly, without what is empty."""
    ends, between = conversation.get_ends(
        MAX_RUN_CHARACTERS, longest=LONGEST_TEXT, call_size=LEAST_OF_A_CALL
    )
    record = Trajectory.from_messages(ends, id="running")
    task = conversation.task or task
    step, _ = _anomalous(conversation, anomaly)
    observation = step.result.text if step.result else ""
    functions = [
        get_mapping(tool, "function") or tool for tool in tools_in([*tools]).values()
    ]
    if (
        len(functions) > MAX_DESCRIBED_TOOLS
    ):  # those called lately come first, then those for the task
        called = {step.tool for step in record.calls}
        functions.sort(
            key=lambda each: (
                each.get("name") not in called,
                -kinship(task, compact_json(each)),
            )
        )
    document = {
        "instructions": shortened(
            instructions or record.instructions, LONGEST_INSTRUCTIONS
        ),
        "task": shortened(task),
        "anomaly": asdict(anomaly),
        "step": shortened_in(
            {
                "tool": step.tool,
                "arguments": compact_json(step.arguments),
                "observation": observation,
            }
        ),
        "record": [
            # There is more in between than this excerpt of both ends knows of.
            {"left_out": f"more than {between} messages"}
            if between and "left_out" in entry
            else entry
            for entry in excerpt(record, max_characters=MAX_RUN_CHARACTERS)
        ],
        "tools": [_described(each) for each in functions[:MAX_DESCRIBED_TOOLS]],
        "other_tools": [
            str(each.get("name") or each.get("type"))
            for each in functions[MAX_DESCRIBED_TOOLS:]
        ],
        "earlier_advice": _earlier_advice(conversation, anomaly),
    }
    return {name: value for name, value in document.items() if value}


def _described(function: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as a model is shown it; one that the provider runs may have no name."""
    shown = {
        "name": function.get("name") or function.get("type"),
        "description": str(function.get("description") or ""),
        "arguments": list(
            get_mapping(get_mapping(function, "parameters"), "properties")
        ),
    }
    return dict(shortened_in(shown, LONGEST_DESCRIPTION))


def _earlier_advice(conversation: Conversation, anomaly: Anomaly) -> list[str]:
    """What was advised in this run for the same trouble: of the same kind, with the same tool."""
    observations = [
        each for turn in conversation.earlier_rounds() for each in turn.results
    ]
    alike = [
        each
        for each in observations
        if (anomaly_in(each).get("tool"), anomaly_in(each).get("kind"))
        == (anomaly.tool, anomaly.kind)
    ]
    return list(filter(None, map(advice_in, alike)))[::-1]


def _help(tips: Iterable[Tip], examples: Iterable[str]) -> dict[str, Any]:
    """What experience has to say, for a document."""
    advice = [
        {"text": tip.advice, "reasoning": tip.reasoning}
        for tip in islice(tips, MAX_TIPS)
    ]
    runs = [
        shortened(run, LONGEST_EXAMPLE) for run in islice(examples, MAX_SHOWN_EXAMPLES)
    ]
    parts = {"tips": shortened_in(advice, MAX_ANSWER_LENGTH), "examples": runs}
    return {name: value for name, value in parts.items() if value}


def _anomalous(
    conversation: Conversation, anomaly: Anomaly
) -> tuple[Call, ToolMessage]:
    """The latest call that is anomalous, with its observation; of calls made in parallel, the id tells which it is."""
    (latest,) = islice(conversation.rounds(), 1)
    pairs = list(zip(latest.calls(), latest.results, strict=True))
    by_id = [
        pair
        for pair in pairs
        if anomaly.call_id is not None and pair[0].call_id == anomaly.call_id
    ]
    by_tool = [pair for pair in pairs if pair[0].tool == anomaly.tool]
    return (by_id or by_tool or pairs)[-1]


REVIEWER_NOTE = "[Reviewer's note, not tool output]"  # how a correction begins: it stands in the result of a tool

NEXT_STEP = "Next step: "

LONGEST_CORRECTION = 400
"""Characters of a correction, mark aside: about 100 tokens, which stand in each of the requests that follow."""

LONGEST_FINDING = (
    120  # characters of the answer in it, and what is left is for the next step
)


def with_anomaly(message: ToolMessage, anomaly: Anomaly, **more: Any) -> ToolMessage:
    """A copy of an observation with a mark that it is anomalous: `{"tooltree": {"anomaly": {...}, **more}}`."""
    mark = {
        **get_mapping(message.response_metadata, NOTES_KEY),
        "anomaly": asdict(anomaly),
        **more,
    }
    return message.model_copy(
        update={"response_metadata": {**message.response_metadata, NOTES_KEY: mark}}
    )


def with_correction(
    message: ToolMessage, anomaly: Anomaly, reflection: Reflection | None
) -> ToolMessage:
    """A copy of an observation with the correction at the end of its content, to take its place in the state.

    Its mark says whether there was a reflection (`reflected`), and what was `added`; without one, the mark is all.
    """
    if reflection is None:
        return with_anomaly(message, anomaly, reflected=False)
    text = mark_as_reference(correction_text(anomaly, reflection), source="reflection")
    content = message.content
    if isinstance(content, list):
        content = [*content, {"type": "text", "text": text}]
    else:
        content = f"{content}\n\n{text}" if content else text
    added = [*get_added_texts(message.response_metadata), text]
    return with_anomaly(
        message.model_copy(update={"content": content}),
        anomaly,
        reflected=True,
        **{ADDED_KEY: added},
    )


def correction_text(anomaly: Anomaly, reflection: Reflection) -> str:
    """What was noticed, the answer that matters most, and the corrected next step: what an agent needs to go on."""
    finding = next(
        (each.answer for each in reflection.questions),
        reflection.key_information.progress,
    )
    lines = [f"{REVIEWER_NOTE} Noticed: {KINDS[anomaly.kind]}."]
    if finding:
        lines.append(one_line(finding, LONGEST_FINDING))
    left = LONGEST_CORRECTION - sum(len(line) + 1 for line in lines)
    return "\n".join([*lines, cut(f"{NEXT_STEP}{reflection.next_step}", left)])


def anomaly_in(message: ToolMessage) -> Mapping[str, Any]:
    """The anomaly that an observation is marked with, as `Anomaly.to_dict` has it; empty if there is none."""
    return get_mapping(get_mapping(message.response_metadata, NOTES_KEY), "anomaly")


def was_reflected_on(message: ToolMessage) -> bool:
    """Whether there was a reflection on an observation, or an attempt at one."""
    return "reflected" in get_mapping(message.response_metadata, NOTES_KEY)


def advice_in(message: ToolMessage) -> str:
    """The next step that an observation advises; empty if there was no reflection on it."""
    # It is read where no record keeps it: a run may learn from others, but not from what it was advised itself.
    *_, added = ("", *get_added_texts(message.response_metadata))
    return (
        added.partition(f"\n{NEXT_STEP}")[2].rpartition("\n")[0]
        if was_reflected_on(message)
        else ""
    )


DEFAULT_COOLDOWN = 3  # rounds of calls from one reflection to the next: the corrected step, and what comes of it

DEFAULT_PATIENCE = 1
"""Anomalies of an episode that pass before the first reflection. On real runs of an airline's agent, 9 of 36 with an
anomaly succeeded unaided. Helped at once, they take 13 of 63 reflections; helped at the second anomaly, 3 of 26."""

RECENT_ROUNDS = 3  # rounds for which trouble counts as going on, whatever came back well since: a pause of the same length

DEFAULT_MAX_REFLECTIONS = (
    5  # for one message of the user: an agent that five have not helped needs a person
)


class Recovery:
    """Watches the observations of a running conversation, and corrects its course where something is off."""

    def __init__(
        self,
        model: str | BaseChatModel | Reflector,
        detector: AnomalyDetector | None,
        *,
        cooldown: int = DEFAULT_COOLDOWN,
        max_reflections: int = DEFAULT_MAX_REFLECTIONS,
        patience: int = DEFAULT_PATIENCE,
    ) -> None:
        if detector is not None and not isinstance(detector, AnomalyDetector):
            msg = f"detector must be an AnomalyDetector, got {type(detector).__name__}."
            raise ConfigurationError(msg)
        check_count("cooldown", cooldown)
        check_count("max_reflections", max_reflections)
        check_count("patience", patience, 0)
        self._reflector = model if isinstance(model, Reflector) else Reflector(model)
        self._detector = standard_detector() if detector is None else detector
        self._budget = {"cooldown": cooldown, "max_reflections": max_reflections}
        self._patience = patience

    async def correction(
        self,
        conversation: Conversation,
        *,
        find_help: Callable[[], Flow[Mapping[str, Any]]],
        names: Collection[str] | None = None,
        writer: StreamWriter | None,
    ) -> ToolMessage | None:
        """Look at the latest observations, and reflect on them if need be.

        The result is the anomalous observation to take the place of the one in the state, with the correction, or with
        no more than a mark where the agent is left to itself; `None` if nothing is off. A detector or a model that
        fails is logged, not raised. `names` are all tools that the agent has, if they are known. `find_help` starts a flow that gives
        what `Reflector.reflect` takes beside the anomaly, and only runs where there is a reflection.
        """
        observations = conversation.results
        if not observations or any(map(anomaly_in, observations)):
            return None
        check = partial(self._detector.check_flow, conversation, tools=names)
        anomaly = await run_or_default(
            check, default=None, purpose="a look at an observation"
        )
        if anomaly is None:
            return None
        await emit_events([{"type": "anomaly", "anomaly": anomaly.to_dict()}], writer)
        if not anomaly.recoverable:
            return None
        _, message = _anomalous(conversation, anomaly)
        reflected = (
            any(map(was_reflected_on, each.results))
            for each in conversation.earlier_rounds()
        )
        # An agent gets over most single anomalies by itself; a loop has gone on already.
        goes_on = (
            anomaly.kind in LOOPS or len(_open_trouble(conversation)) >= self._patience
        )
        if not goes_on or not within_budget(reflected, **self._budget):
            return with_anomaly(message, anomaly)
        meter = Meter(allowance=REPLY_ATTEMPTS)
        reflection: Reflection | None = None
        try:
            options: Any = await find_help()
            reflect = self._reflector.reflect_flow
            reflection = await reflect(conversation, anomaly, **options, meter=meter)
        except Exception as error:  # noqa: BLE001 - the agent goes on as it would have without a reflection
            meter.problems.append(described(error))
        problem = (
            ""
            if reflection
            else "; ".join(meter.problems) or "the model gave no usable reply"
        )
        if problem:
            logger.warning(
                "There is no reflection on the result of %s: %s", anomaly.tool, problem
            )
        plain = None if reflection is None else reflection.model_dump()
        await emit_events(
            [
                {
                    "type": "reflect",
                    "call_id": anomaly.call_id,
                    "reflection": plain,
                    "problem": problem,
                }
            ],
            writer,
        )
        return with_correction(message, anomaly, reflection)


def within_budget(
    reflected: Iterable[bool], *, cooldown: int, max_reflections: int
) -> bool:
    """Whether to reflect now, by whether there was a reflection on each earlier round of the run, latest first.

    A *round* is what came back of the calls in one message of the model: it has seen none of their results when it
    makes the others. A run begins with the latest message of its user; reflections that failed count, too.
    """
    rounds_ago = [ago for ago, there_was in enumerate(reflected, start=1) if there_was]
    return not rounds_ago or (
        rounds_ago[0] >= cooldown and len(rounds_ago) < max_reflections
    )


def _open_trouble(conversation: Conversation) -> list[str]:
    """The tools with which there was trouble in earlier rounds that is not over, latest first.

    It is over if the tool has come back well since, and some rounds ago; a user who says something in between changes
    nothing about that.
    """
    trouble: list[str] = []
    well: set[str] = set()
    for ago, each in enumerate(
        conversation.rounds(limit=MAX_CHECKED_MESSAGES, beyond_request=True)
    ):
        named = [
            (str(call["name"] if call else message.name), message)
            for message, call in each.pairs()
        ]
        anomalous = {name for name, message in named if anomaly_in(message)}
        if ago:
            trouble += [
                name
                for name in sorted(anomalous)
                if name not in well or ago <= RECENT_ROUNDS
            ]
            well |= {name for name, _ in named} - anomalous
    return trouble
