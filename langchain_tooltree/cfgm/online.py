"""What helps an agent at work (CFGM, Alg. 3): recall before a run, and reflection where an observation is anomalous."""

import logging
import math
import re
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain, groupby, islice
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from pydantic import AfterValidator, BaseModel, Field

from langchain_tooltree.anomaly import rules
from langchain_tooltree.anomaly.rules import KINDS, LOOPS, Anomaly, Phrase, has_failed
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError, check_count, described
from langchain_tooltree.experience.run_identity import (
    AnyTools,
    is_in,
    names_of,
    tools_in,
)
from langchain_tooltree.experience.store import QUARANTINED, ExperienceStore
from langchain_tooltree.experience.trajectory import (
    ADDED,
    NOTES,
    SUMMARIZE_STATE,
    Step,
    Trajectory,
    added_to,
    text_of,
)
from langchain_tooltree.flows import (
    Flow,
    FunctionStep,
    arun_flow,
    run_flow,
    run_or_default,
)
from langchain_tooltree.models import (
    LONGEST_INSTRUCTIONS,
    MAX_RUN_CHARACTERS,
    REPLY_ATTEMPTS,
    Meter,
    Words,
    document_prompt,
    excerpt,
    filled_in,
    inner_config,
    resolve_model,
)
from langchain_tooltree.streaming import StreamWriter, emit_events
from langchain_tooltree.text import (
    GAP,
    LONGEST_TEXT,
    as_reference,
    compact_json,
    counted,
    cut,
    digest,
    get_mapping,
    kinship,
    one_line,
    shortened,
    shortened_in,
    telling_words,
    whole_characters,
    words_of,
)

logger = logging.getLogger(__name__)

# --- recall ---

IDENTIFYING = re.compile(r"(?<!\S)\S+@\S+|(?<![\w-])(?=[\w-]*\d)[\w-]{5,}")
"""What tells one thing or person from all others: an e-mail address, or a word with digits, too long for a count."""

TipSource = Literal["comparison", "success"]
"""What a tip comes from: failed attempts beside a successful one, or a success alone (the parts of CFGM, Alg. 2)."""


@dataclass(frozen=True, slots=True)
class Tip:
    """A piece of advice for tasks like one that was tried before.

    Attributes:
        text: The advice.
        reasoning: Why it holds, from what happened.
        source: Whether failed attempts were compared with a successful one, or a success was looked at alone.
        task: The task that was tried.
        tools: Names of the tools that it names.
        trajectories: Ids of the trajectories that it was taken from; the success is the last one.
        when: In which situation it applies.
    """

    text: str
    reasoning: str
    source: TipSource
    task: str
    tools: tuple[str, ...] = ()
    trajectories: tuple[str, ...] = ()
    when: str = ""

    @property
    def id(self) -> str:
        """Identifies it by what it says."""
        return digest(self.advice, 12)

    @property
    def advice(self) -> str:
        """What an agent is told: when it applies, and what to do then."""
        return f"When {self.when}: {self.text}" if self.when else self.text

    def to_dict(self) -> dict[str, Any]:
        """The tip as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Tip":
        """The tip that `to_dict` wrote down; JSON has lists in place of tuples."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in data.items()
        }
        return cls(**values)


def distinct(tips: Iterable[Tip]) -> dict[tuple[str, ...], Tip]:
    """The tips by the words of their advice, and of such as have the same words the first."""
    by_words: dict[tuple[str, ...], Tip] = {}
    for tip in tips:
        by_words.setdefault((*words_of(tip.advice),), tip)
    return by_words


LABEL = "tips"  # under what label tips are kept
Note = dict[
    str, Any
]  # what is kept of a task: its text, its tips, and the runs that they were made from


async def tips_of(experience: ExperienceStore, runs: Iterable[Trajectory]) -> list[Tip]:
    """The tips of the tasks of some runs, in the order of these; of a task, those from a comparison first."""
    tips: list[Tip] = []
    for key in dict.fromkeys(map(task_key, runs)):
        note = await experience.collection(LABEL).getting(key)
        tips += map(Tip.from_dict, note["tips"] if note else ())
    return list(dict.fromkeys(tips))


def task_key(attempt: Trajectory) -> str:
    """What the tips of an attempt's task stand under; an id sets tasks of the same text apart."""
    return digest(
        [{"task": attempt.task, "id": str(attempt.metadata.get("task_id") or "")}]
    )


APPLIES = 0.5  # share of the telling words of a tip's condition that have to stand in a task for the tip to apply


def tips_for(tips: Iterable[Tip], task: str) -> list[Tip]:
    """The tips that apply to a task, or to a situation in words, by their conditions: the surest first."""
    words = telling_words(task)
    shares = [
        (len(words & condition) / len(condition), tip)
        for tip in tips
        if (condition := telling_words(tip.when))
    ]
    applying = [(share, tip) for share, tip in shares if share >= APPLIES]
    return [tip for _, tip in sorted(applying, key=lambda each: -each[0])]


CANDIDATES = 8  # runs that are looked at for each one that is recalled, so that there is something to choose from
LEAST_KINSHIP = 0.25
"""Kinship with the task from which on a run is recalled. On real dialogues of an airline and a phone company it keeps
96 % of the runs for the same kind of task, with hashed words as with a neural embedder, and none of the other
company's, of which there would be two each time. An embedder's score has no such floor: each has its own scale."""


def most_like(task: str, runs: Sequence[Trajectory], k: int) -> list[Trajectory]:
    """The runs to recall for a task, from those like it, most similar first: `k`, fewer, or none.

    What has too little in common with the task is left out. Of several runs with the very same task that one is taken
    whose tools are most those of other sources, and of equal ones the shortest; a second one only where there are too
    few other tasks. Each source gives one run of a task, and comes again only where there is no other source.
    """
    rank: dict[str, int] = {}
    for place, run in enumerate(runs):
        if kinship(task, run.aim) >= LEAST_KINSHIP:
            rank.setdefault(run.aim, place)
    related = [run for run in runs if run.aim in rank]
    tools = [(run.voice[0], {step.tool for step in run.steps}) for run in related]

    def agreement(run: Trajectory) -> float:
        own = {step.tool for step in run.steps}
        return math.fsum(
            len(own & other) / max(1, len(own | other))
            for by, other in tools
            if by != run.voice[0]
        )

    related.sort(
        key=lambda run: (
            rank[run.aim],
            -round(agreement(run), 6),
            len(run.steps),
            run.id,
        )
    )
    left = list({(run.voice[0], run.aim): run for run in reversed(related)}.values())[
        ::-1
    ]
    chosen: list[Trajectory] = []
    while left and len(chosen) < k:
        sources, tasks = {run.voice[0] for run in chosen}, {run.aim for run in chosen}
        chosen.append(
            min(left, key=lambda run: (run.voice[0] in sources, run.aim in tasks))
        )  # the first of the best
        left.remove(chosen[-1])
    return chosen


@dataclass(frozen=True, slots=True)
class Recollection:
    """The successful runs that are most like a task, most similar first (CFGM, Alg. 3).

    Attributes:
        task: The task.
        runs: The runs.
        tips: The tips of their tasks; of such as say nearly the same the first.
        verbatim: Whether calls are shown with the values of their arguments, as in the paper, and not by names alone.
    """

    task: str
    runs: tuple[Trajectory, ...] = ()
    tips: tuple[Tip, ...] = ()
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class Recaller:
    """Recalls from a store.

    Attributes:
        experience: The store.
        verbatim: Whether recalled calls show the values of their arguments.
        nearest: Whether the nearest runs are taken, however little they have in common with the task, as in the paper.
    """

    experience: ExperienceStore
    verbatim: bool = False
    nearest: bool = False

    async def recall(
        self,
        task: str,
        k: int,
        *,
        config: RunnableConfig | None = None,
        own: str | None = None,
    ) -> Recollection:
        """Recall from one namespace; `own` is the id of a conversation that is not recalled for itself."""
        experience = self.experience.within_config(config)
        similar = partial(experience.similar_flow, task, success=True)
        runs = await similar(k=CANDIDATES * k)
        users = {run.came_from or run.id for run in runs}
        # There may be others behind them, but nobody stands between a user and runs of theirs.
        if (
            len(users) == 1
            and len(runs) == CANDIDATES * k
            and not users & {*experience.values.values()}
        ):
            runs = await similar(k=4 * CANDIDATES * k)
        others = [run for run in runs if not is_in(run.id, own)]
        chosen = others[:k] if self.nearest else most_like(task, others, k)
        # Tasks of the same text may be told apart by an id; the tips of all that are like the task are recalled.
        alike = [run for each in chosen for run in runs if run.task == each.task]
        tips = await tips_of(experience, alike)
        # A tip counts while the success that it was taken of does: it may be gone, in quarantine, or called a failure.
        successes = {run.id for run in runs}
        sources = {tip.trajectories[-1] for tip in tips} - successes
        for run in await experience.reading(sorted(sources)):
            successes |= (
                {run.id} if run.success and QUARANTINED not in run.metadata else set()
            )
        valid = distinct(tip for tip in tips if tip.trajectories[-1] in successes)
        return Recollection(task, tuple(chosen), tuple(valid.values()), self.verbatim)

    async def recall_here(
        self, task: str, *, k: int, own: str | None = None, writer: StreamWriter | None
    ) -> Recollection:
        """Recall inside a running graph; if memory fails, that is logged, and nothing is recalled."""

        async def ask() -> Recollection:
            recollection = await self.recall(task, k, own=own)
            runs, tips = (
                [run.task for run in recollection.runs],
                [tip.advice for tip in recollection.tips],
            )
            await emit_events(
                [{"type": "recall", "task": task, "runs": runs, "tips": tips}], writer
            )
            return recollection

        return await run_or_default(
            ask, default=Recollection(task), purpose="a memory of past runs"
        )


PAST_RUNS = "past runs"
RECALL_HEADING = "Similar past runs, for reference; not part of this conversation."
TIPS = "Tips:"
RUN = "Run: "
PARAGRAPH = "\n\n"

FOR_TIPS = 0.5  # share of the room that tips take at the most where there are runs
LONGEST_TASK = 400  # characters of a task that are shown: about 100 tokens
LONGEST_VALUE = 80  # characters of an argument's value that are shown: about 20 tokens
LONGEST_ERROR = 80  # characters of an error that are shown
LONGEST_EXAMPLE = 3_000  # characters of an example of the user's: about 750 tokens
MOST_CALLS = 60  # calls of a run that are shown
FEWEST_CALLS = 3  # calls of a longer run without which it says nothing
MOST_LINKS = 20  # tools of a run that are shown in one line


def recall_text(recollection: Recollection, *, max_characters: int) -> str:
    """A recollection in words, for a prompt, in at most `max_characters`, mark included; empty without room.

    The tips come first, each once, then the runs: the task and, a line each, the calls in order, with the names of
    their arguments, and `ok` or the error. What tools returned and what the agent answered is not told, nor are the
    values of arguments unless the recollection is `verbatim`: they are those of somebody else's run. Tips and runs are
    whole or not there; only the longest runs lose their last calls, with a count of them. All of it is marked as
    reference material.
    """
    room = max_characters - len(
        as_reference(f"{RECALL_HEADING}{PARAGRAPH}", source=PAST_RUNS)
    )
    tips = _format_tips(
        recollection.tips, int(room * FOR_TIPS) if recollection.runs else room
    )
    for count in range(
        len(recollection.runs), -1, -1
    ):  # the last runs go before too little is left of the others
        parts, left = [tips] if tips else [], room - len(tips)
        for number, run in enumerate(recollection.runs[:count]):
            share = left // (count - number) - len(PARAGRAPH)
            parts.append(_run_text(run, share, verbatim=recollection.verbatim))
            left -= len(parts[-1]) + len(PARAGRAPH)
        if parts and all(parts):
            text = as_reference(
                whole_characters(PARAGRAPH.join([RECALL_HEADING, *parts])),
                source=PAST_RUNS,
            )
            if (
                len(text) <= max_characters
            ):  # what looks like a mark is escaped, which takes characters
                return text
    return ""


def examples_in(text: str) -> list[str]:
    """The runs in what `recall_text` returned, each in words."""
    return [
        part
        for part in text.rpartition("\n")[0].split(PARAGRAPH)
        if part.startswith(RUN)
    ]


def example_text(example: str | Trajectory) -> str:
    """A text, or a run in words, as an example to act by; at most `LONGEST_EXAMPLE` characters."""
    if isinstance(example, str):
        return shortened(example, LONGEST_EXAMPLE)
    recalled = recall_text(
        Recollection("", (example,), verbatim=True), max_characters=LONGEST_EXAMPLE
    )
    return PARAGRAPH.join(examples_in(recalled))


def chain_of(run: Trajectory) -> str:
    """The tools of a run in one line, in the order of its calls, as `search_flights -> get_fare (2 times) -> book`.

    Calls that failed are left out, and so is what comes after the first 20 tools, which are counted. Empty where no
    call went well.
    """
    tools = [
        step.tool
        for step in run.steps
        if step.tool != SUMMARIZE_STATE and not has_failed(step)
    ]
    links = [_times(tool, len(list(calls))) for tool, calls in groupby(tools)]
    more = [f"{len(links) - MOST_LINKS} more"] if len(links) > MOST_LINKS else []
    return " -> ".join([*links[:MOST_LINKS], *more])


def _times(call: str, times: int) -> str:
    return f"{call} ({times} times)" if times > 1 else call


def _run_text(run: Trajectory, room: int, *, verbatim: bool) -> str:
    """A run in words: its task, and its calls, a line each; empty if there is no room for a few of them."""
    task = run.aim if verbatim else IDENTIFYING.sub(GAP, run.aim)
    calls = [
        _times(call, len(list(same)))
        for call, same in groupby(
            _format_call_line(each, verbatim=verbatim) for each in run.steps
        )
    ]
    for most in range(
        min(len(calls), MOST_CALLS), min(len(calls), FEWEST_CALLS) - 1, -1
    ):
        more = (
            [f"({counted(len(calls) - most, 'more call')})"]
            if most < len(calls)
            else []
        )
        text = "\n".join([f"{RUN}{one_line(task, LONGEST_TASK)}", *calls[:most], *more])
        if len(text) <= room:
            return text
    return ""


def _format_call_line(step: Step, *, verbatim: bool) -> str:
    """A call with what came of it."""
    arguments = step.arguments or {}
    values = list(arguments)
    if verbatim:
        values = [
            f"{name}={cut(compact_json(value), LONGEST_VALUE)}"
            for name, value in arguments.items()
        ]
    came = "ok" if step.outcome is not None else "no result"
    if step.outcome is not None and has_failed(step):
        error = step.outcome.text
        if not verbatim:
            texts = (
                value
                for value in arguments.values()
                if isinstance(value, str) and value
            )
            for value in sorted(texts, key=len, reverse=True):
                error = error.replace(value, GAP)
            error = IDENTIFYING.sub(GAP, error)
        came = (
            f"failed: {one_line(error, LONGEST_ERROR)}" if error.strip() else "failed"
        )
    return f"{step.tool}({', '.join(values)}): {came}"


def _format_tips(tips: Sequence[Tip], room: int) -> str:
    """The tips that there is room for, the first ones first: half a tip says nothing."""
    lines: list[str] = []
    left = room - len(TIPS)
    for line in (f"- {tip.advice}" for tip in tips):
        if len(line) + 1 <= left:
            lines.append(line)
            left -= len(line) + 1
    return "\n".join([TIPS, *lines]) if lines else ""


# --- anomalies ---

CLASSIFIER_CONFIDENCE = 0.7  # below that of every rule, since none has found anything

ClassifierAnswer = bool | str | None
Classifier = Callable[[Step], ClassifierAnswer | Awaitable[ClassifierAnswer]]
"""A function, sync or async, that gets a call with its observation (`step.outcome.text`). It returns whether that is
anomalous: a bool, a text that says what is off, or `None` for no."""

MAX_CHECKED_MESSAGES = 400
"""Messages from the end that are read for one check, so that it costs the same in a long conversation."""


class AnomalyDetector:
    """Finds anomalous observations: what starts a reflection in CFGM (Alg. 3).

    ```python
    detector = AnomalyDetector(phrases=["The lever is jammed"], pollers=["act(wait*)"])
    anomaly = detector.check(messages)  # None if all is well
    ```

    The rules are asked one after the other, and the first that finds something decides: the tool is not there; its call
    failed; a field of a structured observation says so; a phrase does, at the beginning of the observation, or anywhere
    in a short one, since long texts report other people's errors; calls come again and again without an effect, pollers
    aside, since the latest message of the user; a second result is empty. Last comes the classifier. `KINDS` in
    `anomaly/rules.py` names the kinds.

    A call that a person rejected is no anomaly. An empty result is none either, nor is that there is nothing under a
    name that the user gave; from the second one of a run on they are (`empty`), with little confidence. What this
    package has put into an observation is not looked at. A check costs the same in a long conversation.

    Args:
        phrases: Ways in which your environment says that something did not work, beside the general ones: plain texts,
            which count anywhere in the beginning and the end of an observation, whatever their case, and `Phrase`s.
        pollers: Calls that may be made again and again: names of tools, or calls as `tool(value, value)`, values in
            the order of the call. `*` stands for anything: `"act(wait*)"`.
        classifier: A function that is asked about each observation where no rule has found anything, and may ask a
            model: see `Classifier`.
    """

    def __init__(
        self,
        *,
        phrases: Iterable[str | Phrase] = (),
        pollers: Iterable[str] = (),
        classifier: Classifier | None = None,
    ) -> None:
        if isinstance(pollers, str):
            msg = f"pollers are a list, got the text {pollers!r:.80}; for a single one, {[pollers]!r:.80}."
            raise ConfigurationError(msg)
        if classifier is not None and not callable(classifier):
            msg = f"classifier must be a function of a call with its observation, got {type(classifier).__name__}."
            raise ConfigurationError(msg)
        self._classifier = classifier
        self._phrases = (*rules.phrases_from(phrases), *rules.phrase_book().phrases)
        self._pollers = tuple(pollers)

    def check(
        self, messages: Sequence[Any] | Conversation, *, tools: AnyTools | None = None
    ) -> Anomaly | None:
        """Look at the observations that came after the latest calls.

        `None` if nothing is off, or if the conversation, LangChain messages or what `convert_to_messages` takes, does
        not end in an observation. With the `tools` that the agent has now, a call of any other tool that failed is one
        of an unknown tool. What a classifier function raises is raised.
        """
        return run_flow(self.check_flow(messages, tools=tools))

    async def acheck(
        self, messages: Sequence[Any] | Conversation, *, tools: AnyTools | None = None
    ) -> Anomaly | None:
        """Async version of `check`."""
        return await arun_flow(self.check_flow(messages, tools=tools))

    async def check_flow(
        self, messages: Sequence[Any] | Conversation, *, tools: AnyTools | None = None
    ) -> Anomaly | None:
        """Flow of `check` and `acheck`; other flows await it."""
        conversation = Conversation.of(messages)
        latest = conversation.latest_round
        readings = [] if latest is None else rules.readings_of(latest.steps())
        if not readings:
            return None
        anomaly = rules.first_anomaly(
            rules.Situation(
                latest=readings,
                earlier=partial(_earlier, conversation),
                worked_before=partial(_worked_before, conversation),
                tools=None if tools is None else frozenset(names_of(tools)),
                phrases=self._phrases,
                pollers=self._pollers,
                request=lambda: "\n".join(conversation.requests),
            )
        )
        if anomaly is not None or self._classifier is None:
            return anomaly
        for reading in readings:
            answer: ClassifierAnswer = await FunctionStep(
                self._classifier, reading.step
            )
            if answer:
                remark = f"The classifier says: {answer if isinstance(answer, str) else 'yes'}."
                evidence = f"{reading.call} brought {reading.quote}. {remark}"
                return reading.anomaly("classified", evidence, CLASSIFIER_CONFIDENCE)
        return None


def _earlier(conversation: Conversation) -> Iterator[Step]:
    """The calls of the run before the latest ones, latest first; `turn` counts back from the latest."""
    rounds = enumerate(conversation.rounds(limit=MAX_CHECKED_MESSAGES))
    return chain.from_iterable(
        reversed(each.steps(-ago)) for ago, each in islice(rounds, 1, None)
    )


def _worked_before(conversation: Conversation, tool: str) -> bool:
    """Whether a call of a tool before the latest round has brought something, and no error."""
    earlier = islice(
        conversation.rounds(limit=MAX_CHECKED_MESSAGES, beyond_request=True), 1, None
    )
    answers = (
        answer
        for each in earlier
        for call, answer in each.pairs()
        if call and call["name"] == tool
    )
    return any(
        answer.status != "error" and not rules.is_no_tool(text_of(answer.content))
        for answer in answers
    )


@cache
def standard_detector() -> AnomalyDetector:
    """The detector with default settings; it holds no state."""
    return AnomalyDetector()


def anomaly_condition(
    state: Any,
    messages_key: str = "messages",
    *,
    detector: AnomalyDetector | None = None,
) -> Literal["reflect", "model"]:
    """Where to go after the tools: to reflection if the latest observations are anomalous, to the model otherwise.

    It is to the tools node what `tools_condition` is to the model node:

    ```python
    graph.add_node("reflect", CFGMReflectionNode(model))
    graph.add_conditional_edges("tools", anomaly_condition, ["reflect", "model"])
    graph.add_edge("reflect", "model")
    ```

    For a detector of your own, pass `functools.partial(anomaly_condition, detector=detector)`, and the same detector
    to the node. With a classifier, leave the condition out, since the node would ask it again.

    What the agent can do nothing about, such as a wrong password, goes to the model, which sees the error and can tell
    its user. So does everything if the detector fails, which is logged.
    """
    try:
        anomaly = (standard_detector() if detector is None else detector).check(
            Conversation.of(state, messages_key)
        )
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001 - a classifier may be down, and the agent can do without
        logger.warning("An observation was not checked: %s", described(error))
        return "model"
    return "reflect" if anomaly is not None and anomaly.recoverable else "model"


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
MAX_EXAMPLES = (
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
            recall_text(recollection, max_characters=MAX_EXAMPLES * LONGEST_EXAMPLE)
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
    ends, between = conversation.ends(
        MAX_RUN_CHARACTERS, longest=LONGEST_TEXT, call=LEAST_OF_A_CALL
    )
    record = Trajectory.from_messages(ends, id="running")
    task = conversation.task or task
    step, _ = _anomalous(conversation, anomaly)
    observation = step.outcome.text if step.outcome else ""
    functions = [
        get_mapping(tool, "function") or tool for tool in tools_in([*tools]).values()
    ]
    if (
        len(functions) > MAX_DESCRIBED_TOOLS
    ):  # those called lately come first, then those for the task
        called = {step.tool for step in record.steps}
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
        each for turn in conversation.earlier_rounds() for each in turn.observations
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
    runs = [shortened(run, LONGEST_EXAMPLE) for run in islice(examples, MAX_EXAMPLES)]
    parts = {"tips": shortened_in(advice, MAX_ANSWER_LENGTH), "examples": runs}
    return {name: value for name, value in parts.items() if value}


def _anomalous(
    conversation: Conversation, anomaly: Anomaly
) -> tuple[Step, ToolMessage]:
    """The latest call that is anomalous, with its observation; of calls made in parallel, the id tells which it is."""
    (latest,) = islice(conversation.rounds(), 1)
    pairs = list(zip(latest.steps(), latest.observations, strict=True))
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
        **get_mapping(message.response_metadata, NOTES),
        "anomaly": asdict(anomaly),
        **more,
    }
    return message.model_copy(
        update={"response_metadata": {**message.response_metadata, NOTES: mark}}
    )


def with_correction(
    message: ToolMessage, anomaly: Anomaly, reflection: Reflection | None
) -> ToolMessage:
    """A copy of an observation with the correction at the end of its content, to take its place in the state.

    Its mark says whether there was a reflection (`reflected`), and what was `added`; without one, the mark is all.
    """
    if reflection is None:
        return with_anomaly(message, anomaly, reflected=False)
    text = as_reference(correction_text(anomaly, reflection), source="reflection")
    content = message.content
    if isinstance(content, list):
        content = [*content, {"type": "text", "text": text}]
    else:
        content = f"{content}\n\n{text}" if content else text
    added = [*added_to(message.response_metadata), text]
    return with_anomaly(
        message.model_copy(update={"content": content}),
        anomaly,
        reflected=True,
        **{ADDED: added},
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
    return get_mapping(get_mapping(message.response_metadata, NOTES), "anomaly")


def was_reflected_on(message: ToolMessage) -> bool:
    """Whether there was a reflection on an observation, or an attempt at one."""
    return "reflected" in get_mapping(message.response_metadata, NOTES)


def advice_in(message: ToolMessage) -> str:
    """The next step that an observation advises; empty if there was no reflection on it."""
    # It is read where no record keeps it: a run may learn from others, but not from what it was advised itself.
    *_, added = ("", *added_to(message.response_metadata))
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
        observations = conversation.observations
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
            any(map(was_reflected_on, each.observations))
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
            for call, message in each.pairs()
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
