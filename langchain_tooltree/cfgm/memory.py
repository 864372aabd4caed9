"""CFGMMemory: experience that is collected, turned into tips, and recalled."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, Unpack, get_args

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore

from langchain_tooltree.anomaly.detector import AnomalyDetector
from langchain_tooltree.cfgm import focus
from langchain_tooltree.cfgm.collect.attempt import Attempt, Journal, Tally
from langchain_tooltree.cfgm.collect.collect import DEFAULT_MAX_RETRIES, DEFAULT_MAX_STEPS, CollectOptions, collect
from langchain_tooltree.cfgm.collect.collection import Evaluate, evaluating
from langchain_tooltree.cfgm.collect.environment import ACT_TOOL, is_environment, run_in_environment
from langchain_tooltree.cfgm.collect.report import CollectionReport, Task, named
from langchain_tooltree.cfgm.recall import CANDIDATES, RecalledRun, Recollection, examples_in, most_like, recall_text
from langchain_tooltree.cfgm.recovery import Known, Recovery
from langchain_tooltree.cfgm.tips import Tip, credited, extract_tips, task_id_of, tips_of
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError, ForeignNamespaceError, check_count, described
from langchain_tooltree.experience.notes import recall_metadata
from langchain_tooltree.experience.run_identity import is_in
from langchain_tooltree.experience.store import DEFAULT_NAMESPACE, ExperienceStore
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, Writer, async_twin, driven, emitted, flow_of
from langchain_tooltree.models import resolve_model

logger = logging.getLogger(__name__)


DEFAULT_MAX_CHARACTERS = 6_000  # characters of recalled text in a prompt: 1,500 tokens
DEFAULT_K = 2  # runs that are recalled, as in the paper
PAPER_EMBEDDINGS = "huggingface:sentence-transformers/all-mpnet-base-v2"  # needs `langchain-huggingface`
Role = Literal["focus", "policy", "reflection", "tips"]
FEWEST_CHARACTERS = 500
"""Characters of recalled text, about 125 tokens, without which little that helps can be said.

On the 15 tasks of the benchmark `price` they tell 41 of the 49 calls in full, as many as 4,000 do (300 tell 34), and of
real runs of an airline and a phone company 76 and 84 % of the calls that a run like it makes as well. On these small
tasks a guided run then costs 1.31 times the tokens of one that is not, instead of 1.05 with nothing told."""


class CFGMMemory:
    """What an agent has learnt in an environment: coarse-to-fine grounded memory, after CFGM.

    ```python
    memory = CFGMMemory("openai:gpt-4.1-mini", ChromaStore("experience"))
    memory.focus_points("A web shop. The tools search, click and buy.", examples)
    memory.collect(agent, tasks, evaluate)
    memory.extract_tips()
    print(memory.recall("Buy a red mug for less than 10 dollars."))
    ```

    Coarse: focus points say what to watch in an environment, and guide the attempts at training tasks that make up the
    experience. In between: tips say what the attempts teach. Fine: the runs most like a task are recalled
    with their tips. A `CFGMMiddleware` or a `CFGMReflectionNode` puts them before an agent.

    Everything is kept in the store, in one namespace for each user or tenant if it has variables, which are filled as
    `ExperienceStore` describes. All who share a namespace are shown each other's runs: give each circle of users who
    may know of each other one of its own. The `config` of a method fills the variables of the namespace;
    `ConfigurationError` is raised for one that is not known. Each async method has a sync twin.

    Args:
        model: Writes focus points, reflections on failed attempts and tips: a chat model, or a name for
            `init_chat_model`. With `None`, memory recalls and does nothing else.
        store: An `ExperienceStore`, or any LangGraph store, such as `InMemoryStore()` or `ChromaStore("experience")`.
        namespace: Under which namespace everything is kept; a label may hold variables, as in `"{user_id}"`. For a
            LangGraph store only, as an `ExperienceStore` has its own.
        embeddings: Ranks tasks where the store has no index; see `ExperienceStore`. For a LangGraph store only.
        max_characters: Room that recalled runs and tips may take in a prompt, at least 500. Of long runs
            the most useful part is shown.
        max_concurrency: Tasks about which tips are asked for at once.
        models: Other models for single roles: `"focus"` writes focus points, `"policy"` acts in environments,
            `"reflection"` reflects on failed attempts and on anomalies, and `"tips"` takes tips.
    """

    def __init__(
        self,
        model: str | BaseChatModel | None,
        store: ExperienceStore | BaseStore,
        *,
        namespace: Sequence[str] | None = None,
        embeddings: Embeddings | str | None = None,
        max_characters: int = DEFAULT_MAX_CHARACTERS,
        max_concurrency: int = 4,
        models: Mapping[Role, str | BaseChatModel] | None = None,
    ) -> None:
        self.experience = _experience(store, namespace, embeddings)
        check_count("max_characters", max_characters, FEWEST_CHARACTERS)
        check_count("max_concurrency", max_concurrency, 1)
        if unknown := (models or {}).keys() - set(get_args(Role)):
            msg = f"models has models by role, one of {', '.join(get_args(Role))}; got {sorted(unknown)}."
            raise ConfigurationError(msg)
        self._model = None if model is None else resolve_model(model)
        self._models = {role: resolve_model(given) for role, given in (models or {}).items()}
        self._as_printed = False
        self.max_characters = max_characters
        self._max_concurrency = max_concurrency

    @classmethod
    def paper(cls, model: str | BaseChatModel | None, store: ExperienceStore | BaseStore, **settings: Any) -> Self:
        """Memory with the settings of the paper: arguments as for `CFGMMemory`.

        It recalls the `k` nearest successes, however little they have in common with the task, and `act` reflects on
        each anomaly at once; so does a `CFGMMiddleware` with `patience=0, cooldown=1`. For a LangGraph store,
        `embeddings` is all-mpnet-base-v2 if left out. Otherwise than there, a correction tells the next step and one
        answer in 400 characters, equal tips are merged, and their text and that of runs has a bound of characters.
        """
        if not isinstance(store, ExperienceStore):
            settings.setdefault("embeddings", PAPER_EMBEDDINGS)
        memory = cls(model, store, **settings)
        memory._as_printed = True
        return memory

    def _model_for(self, role: Role) -> BaseChatModel:
        return self._models.get(role) or self.model

    @property
    def model(self) -> BaseChatModel:
        """The model that writes.

        Raises:
            ConfigurationError: If there is none.
        """
        if self._model is None:
            msg = "Without a model, memory can recall and no more. Pass one: CFGMMemory(model, ...)."
            raise ConfigurationError(msg)
        return self._model

    @driven
    def focus_points(
        self, description: str, examples: Sequence[str | Trajectory] = (), *, config: RunnableConfig | None = None
    ) -> Flow[list[str]]:
        """Say what to watch while exploring an environment (CFGM, Alg. 1): at most 10 points, most important first.

        `description` says what the environment is, what its tools do, what tasks are like; of the `examples`, runs or
        texts from it, the model is shown the first 12. They are kept: with the same arguments, the model is asked once.
        `collect` uses the ones made or asked for last. Raises `ReplyError` if the model's replies hold none, even when
        it is asked again.
        """
        collection = self.experience.within_config(config).collection(focus.LABEL)
        return (yield from focus.focus_points(self._model_for("focus"), collection, description, examples))

    afocus_points = async_twin(focus_points)

    @driven
    def collect(
        self,
        agent: Any,
        tasks: Iterable[str | Task],
        evaluate: Evaluate | None,
        max_retries: int = DEFAULT_MAX_RETRIES,
        **options: Unpack[CollectOptions],
    ) -> Flow[CollectionReport]:
        """Try training tasks, reflect on failures, and keep every attempt (CFGM, Alg. 1).

        Each attempt is shown the focus points and what was learnt from earlier ones. What goes wrong with one task (a
        model that cannot be reached, a world that cannot be made, an `evaluate` that raises) does not disturb the
        others and raises nothing; the report says which ones are unfinished. An agent that raises, spends its steps or
        is interrupted has failed. A `CFGMMiddleware` in it neither recalls nor records meanwhile.

        A collection that was stopped or killed goes on when it is run again with the same arguments. Attempts that have
        ended are not repeated. One under way in an environment takes its actions again in a fresh world, with the
        replies that were kept instead of the model's; one by a graph is made again from its beginning.

        Attempts are found again by the id and the text of their task, whatever model, agent or `evaluate` made and
        judged them; a larger `max_retries` adds attempts to tasks that have failed so far. To start over, use another
        namespace, or delete the trajectories that the report names.

        Args:
            agent: Who tries. A compiled graph whose state has `messages`; an environment with `reset(task)` and
                `step(action)`, in which the memory's model acts; or a function from a task to one of these, for a fresh
                world for each attempt, which is closed afterwards by its `aclose` or `close`.
            tasks: Texts or `Task` records.
            evaluate: A function, sync or async, from the task and the result to whether it succeeded, or a reward, of
                which 1 or more is a success. The result of a graph is its final state, that of an environment a mapping
                with `messages`, `reward` (their sum), `done` and `truncated` (cut off by a limit of its own). `None`
                lets an environment decide: done and not cut off, with rewards of 1 or more in all if it gives any.
            max_retries: Attempts at a task after the first one.
            **options: `max_steps`: tool calls or environment steps that an attempt may make (30). `max_concurrency`:
                tasks that are tried at once (4). `config` and `context`: for each run of a graph, and for the
                variables of the namespace. `progress`: whether to show a bar. `focus_points`: where others are wanted
                than those that were asked for last. `examples`: texts or runs that show how to act, for each attempt.

        Returns:
            What came of each task, and what it cost. Interrupted, it goes on when it is called again.

        Raises:
            ConfigurationError: If an argument is invalid.
            Exception: Whatever the store raises: that ends the whole collection, which can be run again.
        """
        if "focus_points" not in options:
            collection = self.experience.within_config(options.get("config")).collection(focus.LABEL)
            options = {**options, "focus_points": (yield from focus.kept_focus_points(collection))}
        trying = flow_of(collect)
        return (
            yield from trying(
                self._model_for("policy"),
                self.experience,
                agent,
                tasks,
                evaluate,
                reflector=self._model_for("reflection"),
                max_retries=max_retries,
                **options,
            )
        )

    acollect = async_twin(collect)

    @driven
    def extract_tips(self, *, config: RunnableConfig | None = None) -> Flow[list[Tip]]:
        """Take tips from the attempts that are stored (CFGM, Alg. 2).

        From each task with a success and failures at most 5, by comparison; then from each task with a success at most
        3 more, which do not repeat others. Only tasks with attempts that are new since the last time are asked about,
        so it can be called after every collection, and again if it was interrupted. A task about which the model gives
        no usable reply is logged and left to the next time. Returns all tips that there are now, old and new.
        """
        experience = self.experience.within_config(config)
        return (yield from extract_tips(self._model_for("tips"), experience, max_concurrency=self._max_concurrency))

    aextract_tips = async_twin(extract_tips)

    @driven
    def recall(self, task: str, k: int = DEFAULT_K, *, config: RunnableConfig | None = None) -> Flow[Recollection]:
        """Recall the at most `k` successful runs that are most like a task, with their tips (CFGM, Alg. 3).

        Runs that have no telling word in common with the task, or hardly any, are not like it: there may be fewer than
        `k`, or none. Of a conversation, pass what the user wants in the end. Tips after which runs went well come
        first, and those are left out after which runs went worse than without them.

        Raises:
            ConfigurationError: If `task` is no text, or `k` is less than 1.
        """
        if not isinstance(task, str):
            msg = f"task must be a text, got {task!r:.80}."
            raise ConfigurationError(msg)
        check_count("k", k, 1)
        found = yield from flow_of(self.experience.similar)(task, k=CANDIDATES * k, success=True, config=config)
        experience = self.experience.within_config(config)
        sources = {run.came_from or run.id for run in found}
        # There may be others behind them, but nobody stands between a user and runs of theirs.
        if len(sources) == 1 and len(found) == CANDIDATES * k and not sources & {*experience.values.values()}:
            found = yield from flow_of(self.experience.similar)(task, k=4 * CANDIDATES * k, success=True, config=config)
        recalled: list[RecalledRun] = []
        for run in found[:k] if self._as_printed else most_like(task, found, k):
            # Tasks of the same text may be told apart by an id; the tips of all that were found are recalled.
            ids = [task_id_of(each) for each in found if each.task == run.task]
            recalled.append(RecalledRun(run, (yield from tips_of(experience, run.task, ids))))
        if any(each.tips for each in recalled):
            runs = yield from experience.entries()
            recalled = [replace(each, tips=tuple(credited(each.tips, runs))) for each in recalled]
        return Recollection(task, tuple(recalled))

    arecall = async_twin(recall)

    @driven
    def act(
        self,
        environment: Any,
        task: str | Task,
        evaluate: Evaluate | None = None,
        *,
        k: int = DEFAULT_K,
        max_steps: int = DEFAULT_MAX_STEPS,
        detector: AnomalyDetector | None = None,
        config: RunnableConfig | None = None,
    ) -> Flow[Trajectory]:
        """Do a task in an environment, with what is remembered (CFGM, Alg. 3); returns the run, judged.

        The memory's model acts. It reads the most similar successes, at most `k`, and their tips, and where
        observations are anomalous, a reflection on key information is appended to them, as by a `CFGMMiddleware`.
        Environment and `evaluate` are as for `collect`; it is not closed. The run is not kept;
        `memory.experience.add(run)` does that. Raises `ToolTreeError` if the model or the environment cannot be
        reached.
        """
        if not is_environment(environment):
            msg = f"environment must have reset and step, got {type(environment).__name__}."
            raise ConfigurationError(msg)
        check_count("max_steps", max_steps)
        (to_do,) = named([task])
        recollection = yield from flow_of(self.recall)(to_do.text, k, config=config)
        recalled = recall_text(recollection, max_characters=self.max_characters)
        budget = {"patience": 0, "cooldown": 1, "max_reflections": max_steps} if self._as_printed else {}
        recovery = Recovery(self._model_for("reflection"), detector, **budget)

        def known() -> Flow[Known]:
            yield from ()
            return Known(recollection.tips, examples_in(recalled), [ACT_TOOL])

        def reviewed(messages: Sequence[BaseMessage], steps_left: int) -> Flow[ToolMessage | None]:
            return recovery.correction(
                Conversation(messages), known=known(), task=to_do.text, steps_left=steps_left, writer=None
            )

        request = f"{recalled}\n\n{to_do.text}".strip()
        attempt = Attempt(to_do, 1, request, Journal(None, ""), max_steps, Tally())
        run = yield from run_in_environment(attempt, environment, self._model_for("policy"), reviewed)
        success, reward, reasons = yield from evaluating(evaluate, to_do, run)
        runs = (each.trajectory.id for each in recollection.runs)
        noted = recall_metadata(runs, ((tip.id, tip.trajectories) for tip in recollection.tips))
        return Trajectory.from_chat(
            run.messages,
            task=to_do.text,
            success=success,
            reasons=reasons,
            metadata={"task_id": to_do.id, "reward": reward, **noted},
        )

    aact = async_twin(act)


def _experience(
    store: ExperienceStore | BaseStore, namespace: Sequence[str] | None, embeddings: Embeddings | str | None
) -> ExperienceStore:
    if not isinstance(store, ExperienceStore):
        return ExperienceStore(
            store, namespace=DEFAULT_NAMESPACE if namespace is None else namespace, embeddings=embeddings
        )
    for name, given in (("namespace", namespace), ("embeddings", embeddings)):
        if given is not None:
            msg = f"An ExperienceStore has its own {name}, but {name}={given!r:.80} was passed as well. Leave it out."
            raise ConfigurationError(msg)
    return store


def check_memory(memory: object) -> None:
    """Raise `ConfigurationError` for what is neither memory nor `None`."""
    if memory is not None and not isinstance(memory, CFGMMemory):
        msg = f"memory must be a CFGMMemory, got {type(memory).__name__}. Make one: CFGMMemory(model, store)."
        raise ConfigurationError(msg)


def recall_for(
    memory: CFGMMemory, task: str, *, k: int, own: str | None = None, writer: Writer | None
) -> Flow[Recollection]:
    """As `recalling`; if memory fails, that is logged, and nothing is recalled."""
    try:
        return (yield from recalling(memory, task, k=k, own=own, writer=writer))
    except ForeignNamespaceError:
        raise
    except Exception as error:  # noqa: BLE001 - the store may be down, and the agent can do without
        logger.warning("Nothing was recalled: %s", described(error))
        return Recollection(task)


def recalling(memory: CFGMMemory, task: str, *, k: int, own: str | None, writer: Writer | None) -> Flow[Recollection]:
    """Recall what is known of tasks like this one, inside a graph that is running.

    `own` is the id under which this conversation itself is remembered: it is not recalled for itself.
    """
    recollection = yield from flow_of(memory.recall)(task, k if own is None else k + 1)
    recollection = replace(
        recollection, runs=tuple(run for run in recollection.runs if not is_in(run.trajectory.id, own))[:k]
    )
    tasks, tips = [run.trajectory.task for run in recollection.runs], [tip.advice for tip in recollection.tips]
    yield from emitted({"type": "recall", "task": task, "runs": tasks, "tips": tips}, writer)
    return recollection
