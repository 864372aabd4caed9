"""CFGMMemory: experience that is collected, turned into tips, and recalled."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, get_args
from uuid import uuid4

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore

from langchain_tooltree.anomaly.detector import AnomalyDetector
from langchain_tooltree.cfgm.collect import (
    ACT_TOOL,
    Attempt,
    Collection,
    CollectionReport,
    Evaluate,
    Task,
    checked_tasks,
    evaluating,
    is_agent,
    is_environment,
    run_in_environment,
    task_of,
)
from langchain_tooltree.cfgm.focus import FOCUS, current_focus_points, make_focus_points
from langchain_tooltree.cfgm.online import Recovery, Reflector
from langchain_tooltree.cfgm.recall import (
    Recaller,
    Recollection,
    Tip,
    example_text,
    examples_in,
    recall_text,
)
from langchain_tooltree.cfgm.tips import aligned_tips, extract_tips
from langchain_tooltree.errors import ConfigurationError, check_count
from langchain_tooltree.experience.store import STORE_NAMESPACE, ExperienceStore
from langchain_tooltree.experience.trajectory import Recall, Trajectory
from langchain_tooltree.flows import Flow, arun_flow, run_flow
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.models import resolve_model

logger = logging.getLogger(__name__)


DEFAULT_RECALL_CHARACTERS = (
    6_000  # characters of recalled text in a prompt: 1,500 tokens
)
DEFAULT_MAX_RETRIES = 3  # attempts after the first one, as in the paper
DEFAULT_MAX_STEPS = 30  # tool calls or environment steps, the H of the paper: room for a dozen and for their detours
DEFAULT_MAX_CONCURRENCY = (
    4  # a compromise between time and the rate limits of providers
)
DEFAULT_RECALLED_RUNS = 2  # runs that are recalled, as in the paper
PAPER_EMBEDDINGS = "huggingface:sentence-transformers/all-mpnet-base-v2"  # needs `langchain-huggingface`
Role = Literal["focus", "policy", "reflection", "extraction", "tips", "alignment"]
EACH_ANOMALY = {
    "patience": 0,
    "cooldown": 1,
    "max_reflections": 1_000,
}  # reflections as in the paper
FEWEST_CHARACTERS = 500  # characters of recalled text, about 125 tokens, without which little that helps can be said


class CFGMMemory:
    """What an agent has learnt in an environment: coarse-to-fine grounded memory, after CFGM.

    ```python
    memory = CFGMMemory("openai:gpt-4.1-mini", ChromaStore("experience"))
    memory.focus_points("A web shop. The tools search, click and buy.", examples)
    memory.collect(agent, tasks, evaluate)
    memory.extract_tips()
    print(memory.recall("Buy a red mug for less than 10 dollars."))
    ```

    Coarse: focus points say what to watch in an environment, and guide the attempts at training tasks. In between: tips
    say what the attempts teach. Fine: the runs most like a task are recalled with their tips, by a `CFGMMiddleware`.

    Everything is kept in the store, in one namespace for each user or tenant if it has variables, which the `config` of
    a method fills; `ConfigurationError` is raised for one that is not known. All who share a namespace are shown each
    other's runs.

    Args:
        model: Writes focus points, reflections on failed attempts and tips: a chat model, or a name for
            `init_chat_model`. With `None`, memory recalls and does nothing else.
        store: An `ExperienceStore`, or any LangGraph store, such as `InMemoryStore()` or `ChromaStore("experience")`.
        namespace: Under which namespace everything is kept; a label may hold variables, as in `"{user_id}"`. For a
            LangGraph store only, as an `ExperienceStore` has its own.
        embeddings: Ranks tasks where the store has no index; see `ExperienceStore`. For a LangGraph store only.
        max_characters: Room that recalled runs and tips may take in a prompt, at least 500. Both are whole or not
            there; only the longest runs lose their last calls.
        max_concurrency: Tasks about which tips are asked for at once.
        verbatim: Whether recalled calls show the values of their arguments, which may be those of another user's run.
        models: Other models for single roles: `"focus"` writes focus points, `"policy"` acts in environments,
            `"reflection"` reflects on failed attempts and on anomalies, `"extraction"` extracts key information under
            `paper`, `"tips"` takes tips, and `"alignment"` adapts them to another environment.
    """

    def __init__(
        self,
        model: str | BaseChatModel | None,
        store: ExperienceStore | BaseStore,
        *,
        namespace: Sequence[str] | None = None,
        embeddings: Embeddings | str | None = None,
        max_characters: int = DEFAULT_RECALL_CHARACTERS,
        max_concurrency: int = DEFAULT_MAX_CONCURRENCY,
        verbatim: bool = False,
        models: Mapping[Role, str | BaseChatModel] | None = None,
    ) -> None:
        self.experience = _experience(store, namespace, embeddings)
        check_count("max_characters", max_characters, FEWEST_CHARACTERS)
        check_count("max_concurrency", max_concurrency, 1)
        if unknown := (models or {}).keys() - set(get_args(Role)):
            msg = f"models has models by role, one of {', '.join(get_args(Role))}; got {sorted(unknown)}."
            raise ConfigurationError(msg)
        self._model = None if model is None else resolve_model(model)
        self._models = {
            role: resolve_model(each) for role, each in (models or {}).items()
        }
        self.recaller = Recaller(self.experience, verbatim=verbatim)
        self.is_paper = False  # whether it does as the paper says
        self.max_characters = max_characters
        self._max_concurrency = max_concurrency

    @classmethod
    def paper(
        cls,
        model: str | BaseChatModel | None,
        store: ExperienceStore | BaseStore,
        **settings: Any,
    ) -> Self:
        """Memory with the settings of the paper: arguments as for `CFGMMemory`.

        It recalls the `k` nearest successes, however little they have in common with the task, with the values of their
        calls. `act`, a `CFGMMiddleware` and a `CFGMReflectionNode` reflect on each anomaly at once: they extract key
        information, recall by it, and ask and answer questions, in two model calls. For a LangGraph store, `embeddings`
        is all-mpnet-base-v2 if left out.
        Otherwise than there, a correction tells the next step and one answer in 400 characters, equal tips are merged,
        runs are told by their calls, and the text of all has a bound of characters.
        """
        if not isinstance(store, ExperienceStore):
            settings.setdefault("embeddings", PAPER_EMBEDDINGS)
        memory = cls(model, store, **{"verbatim": True, **settings})
        memory.is_paper = True
        memory.recaller = replace(memory.recaller, nearest=True)
        return memory

    def _model_for(self, role: Role) -> BaseChatModel:
        return self._models.get(role) or self.model

    def reflector(
        self,
        model: str | BaseChatModel,
        *,
        recall: Callable[[str], Flow[Recollection]] | None = None,
    ) -> Reflector:
        """What reflects on anomalies: in two questions as in the paper, or in one."""
        if not self.is_paper:
            return Reflector(model)
        return Reflector(
            model,
            recall=recall or self.recall_flow,
            extraction=self._models.get("extraction"),
        )

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

    def focus_points(
        self,
        description: str,
        examples: Sequence[str | Trajectory] = (),
        *,
        config: RunnableConfig | None = None,
    ) -> list[str]:
        """Say what to watch while exploring an environment (CFGM, Alg. 1): at most 10 points, most important first.

        `description` says what the environment is, what its tools do, what tasks are like; of the `examples`, runs or
        texts from it, the model is shown the first 12. They are kept until others are asked for, and `collect` uses
        them, with their examples. Raises `ReplyError` if the model's replies hold none, even when it is asked again.
        """
        return run_flow(self.focus_points_flow(description, examples, config=config))

    async def afocus_points(
        self,
        description: str,
        examples: Sequence[str | Trajectory] = (),
        *,
        config: RunnableConfig | None = None,
    ) -> list[str]:
        """Async version of `focus_points`."""
        return await arun_flow(
            self.focus_points_flow(description, examples, config=config)
        )

    async def focus_points_flow(
        self,
        description: str,
        examples: Sequence[str | Trajectory] = (),
        *,
        config: RunnableConfig | None = None,
    ) -> list[str]:
        """Flow of `focus_points` and `afocus_points`; other flows await it."""
        collection = self.experience.within_config(config).collection(FOCUS)
        return await make_focus_points(
            self._model_for("focus"), collection, description, examples
        )

    def collect(
        self,
        agent: Any,
        tasks: Iterable[str | Task],
        evaluate: Evaluate | None,
        max_retries: int = DEFAULT_MAX_RETRIES,
        *,
        max_steps: int = DEFAULT_MAX_STEPS,
        max_concurrency: int = DEFAULT_MAX_CONCURRENCY,
        focus_points: Sequence[str] | None = None,
        examples: Sequence[str | Trajectory] = (),
        config: RunnableConfig | None = None,
        context: Any = None,
    ) -> CollectionReport:
        """Try training tasks, reflect on failures, and keep every attempt (CFGM, Alg. 1).

        Each attempt is shown the focus points and what was learnt from earlier ones. An agent that raises, spends its
        steps or is interrupted has failed. Where a model cannot be reached, a world cannot be made or `evaluate`
        raises, the task is unfinished, as the report says, and the others go on.

        An attempt is done when its trajectory is in the store, under the id and the text of its task. Run again, a
        collection that was stopped makes none of these again; a larger `max_retries` adds attempts. To start over, use
        another namespace, or delete the trajectories that the report names.

        Args:
            agent: A compiled graph whose state has `messages`; an environment with `reset(task)` and `step(action)`, in
                which the memory's model acts; or a function from a task to one of these, for a fresh world for each
                attempt, which is closed afterwards by its `aclose` or `close`.
            tasks: Texts or `Task` records.
            evaluate: A function, sync or async, from the task and the result to whether it succeeded, or a reward, of
                which 1 or more is a success. The result of a graph is its final state, that of an environment a mapping
                with `messages`, `reward` (the sum), `done` and `truncated`. `None` lets an environment decide: done and
                not truncated, with a reward of 1 or more if it gives any.
            max_retries: Attempts at a task after the first one.
            max_steps: Tool calls or environment steps that an attempt may make.
            max_concurrency: Tasks that are tried at once; in a single environment, one is.
            focus_points: Where others are wanted than those that were asked for last.
            examples: Texts or runs that show how to act, for each attempt; those of the focus points if left out.
            config: For each run of a graph, and for the variables of the namespace.
            context: For each run of a graph.

        Raises:
            ConfigurationError: If an argument is invalid.
            Exception: Whatever the store raises: that ends the whole collection, which can be run again.
        """
        return run_flow(
            self.collect_flow(
                agent,
                tasks,
                evaluate,
                max_retries,
                max_steps=max_steps,
                max_concurrency=max_concurrency,
                focus_points=focus_points,
                examples=examples,
                config=config,
                context=context,
            )
        )

    async def acollect(
        self,
        agent: Any,
        tasks: Iterable[str | Task],
        evaluate: Evaluate | None,
        max_retries: int = DEFAULT_MAX_RETRIES,
        *,
        max_steps: int = DEFAULT_MAX_STEPS,
        max_concurrency: int = DEFAULT_MAX_CONCURRENCY,
        focus_points: Sequence[str] | None = None,
        examples: Sequence[str | Trajectory] = (),
        config: RunnableConfig | None = None,
        context: Any = None,
    ) -> CollectionReport:
        """Async version of `collect`."""
        return await arun_flow(
            self.collect_flow(
                agent,
                tasks,
                evaluate,
                max_retries,
                max_steps=max_steps,
                max_concurrency=max_concurrency,
                focus_points=focus_points,
                examples=examples,
                config=config,
                context=context,
            )
        )

    async def collect_flow(
        self,
        agent: Any,
        tasks: Iterable[str | Task],
        evaluate: Evaluate | None,
        max_retries: int = DEFAULT_MAX_RETRIES,
        *,
        max_steps: int = DEFAULT_MAX_STEPS,
        max_concurrency: int = DEFAULT_MAX_CONCURRENCY,
        focus_points: Sequence[str] | None = None,
        examples: Sequence[str | Trajectory] = (),
        config: RunnableConfig | None = None,
        context: Any = None,
    ) -> CollectionReport:
        """Flow of `collect` and `acollect`; other flows await it."""
        check_count("max_retries", max_retries, 0)
        check_count("max_steps", max_steps, 1)
        check_count("max_concurrency", max_concurrency, 1)
        if not is_agent(agent) and (
            isinstance(agent, StateGraph) or not callable(agent)
        ):
            ways = "a compiled graph, an environment with reset and step, or a function from a task to one of these"
            msg = f"agent must be {ways}; got {type(agent).__name__}."
            raise ConfigurationError(msg)
        if not callable(evaluate) and (
            evaluate is not None or isinstance(agent, Pregel)
        ):
            msg = f"evaluate must be a function of a task and a result, got {evaluate!r:.80}: a graph does not judge."
            raise ConfigurationError(msg)
        if isinstance(focus_points, str) or isinstance(examples, str):
            msg = "focus_points and examples must be lists, got one text. Put it in a list."
            raise ConfigurationError(msg)
        experience = self.experience.within_config(config)
        few_shots = [example_text(each) for each in examples]
        if focus_points is None:
            focus_points, current = await current_focus_points(
                experience.collection(FOCUS)
            )
            few_shots = few_shots or current
        collection = Collection(
            model=self._model_for("policy"),
            reflector=self._model_for("reflection"),
            experience=experience,
            agent=agent,
            evaluate=evaluate,
            focus_points=focus_points,
            examples=few_shots,
            max_retries=max_retries,
            max_steps=max_steps,
            config=config,
            context=context,
        )
        return await collection.collecting(checked_tasks(tasks), max_concurrency)

    def extract_tips(self, *, config: RunnableConfig | None = None) -> list[Tip]:
        """Take tips from the attempts that are stored (CFGM, Alg. 2).

        From each task with a success and failures at most 5, by comparison; then from each task with a success at most
        3 more, which do not repeat others. Only tasks with new attempts are asked about. A task about which the model
        gives no usable reply is logged and left to the next time. Returns all tips that there are now, old and new.
        """
        return run_flow(self.extract_tips_flow(config=config))

    async def aextract_tips(self, *, config: RunnableConfig | None = None) -> list[Tip]:
        """Async version of `extract_tips`."""
        return await arun_flow(self.extract_tips_flow(config=config))

    async def extract_tips_flow(
        self, *, config: RunnableConfig | None = None
    ) -> list[Tip]:
        """Flow of `extract_tips` and `aextract_tips`; other flows await it."""
        experience = self.experience.within_config(config)
        return await extract_tips(
            self._model_for("tips"),
            experience,
            max_concurrency=self._max_concurrency,
        )

    def align_tips(
        self, description: str, *, config: RunnableConfig | None = None
    ) -> list[Tip]:
        """Adapt all tips to another environment of the same kind, such as another web shop; returns them.

        `description` says what that environment is and what its tools do. Tips that cannot hold there are left out.
        Nothing is kept: put the `advice` of these into the prompts there. One model call for 40 tips. Raises
        `ReplyError` if the model gives no usable reply.
        """
        return run_flow(self.align_tips_flow(description, config=config))

    async def aalign_tips(
        self, description: str, *, config: RunnableConfig | None = None
    ) -> list[Tip]:
        """Async version of `align_tips`."""
        return await arun_flow(self.align_tips_flow(description, config=config))

    async def align_tips_flow(
        self, description: str, *, config: RunnableConfig | None = None
    ) -> list[Tip]:
        """Flow of `align_tips` and `aalign_tips`; other flows await it."""
        experience = self.experience.within_config(config)
        return await aligned_tips(self._model_for("alignment"), experience, description)

    def recall(
        self,
        task: str,
        k: int = DEFAULT_RECALLED_RUNS,
        *,
        config: RunnableConfig | None = None,
    ) -> Recollection:
        """Recall the at most `k` successful runs that are most like a task, with their tips (CFGM, Alg. 3).

        Runs that have no telling word in common with the task, or hardly any, are not like it: there may be fewer than
        `k`, or none. Of a conversation, pass what the user wants in the end.

        Raises:
            ConfigurationError: If `task` is no text, or `k` is less than 1.
        """
        return run_flow(self.recall_flow(task, k, config=config))

    async def arecall(
        self,
        task: str,
        k: int = DEFAULT_RECALLED_RUNS,
        *,
        config: RunnableConfig | None = None,
    ) -> Recollection:
        """Async version of `recall`."""
        return await arun_flow(self.recall_flow(task, k, config=config))

    async def recall_flow(
        self,
        task: str,
        k: int = DEFAULT_RECALLED_RUNS,
        *,
        config: RunnableConfig | None = None,
    ) -> Recollection:
        """Flow of `recall` and `arecall`; other flows await it."""
        if not isinstance(task, str):
            msg = f"task must be a text, got {task!r:.80}."
            raise ConfigurationError(msg)
        check_count("k", k, 1)
        return await self.recaller.recall(task, k, config=config)

    def act(
        self,
        environment: Any,
        task: str | Task,
        evaluate: Evaluate | None = None,
        *,
        k: int = DEFAULT_RECALLED_RUNS,
        max_steps: int = DEFAULT_MAX_STEPS,
        detector: AnomalyDetector | None = None,
        config: RunnableConfig | None = None,
    ) -> Trajectory:
        """Do a task in an environment, with what is remembered (CFGM, Alg. 3); returns the run, judged.

        The memory's model acts. It reads the most similar successes, at most `k`, and their tips, and where
        observations are anomalous, a reflection on key information is appended to them, as by a `CFGMMiddleware`.
        Environment and `evaluate` are as for `collect`; it is not closed. The run is not kept;
        `memory.experience.add(run)` does that. What the model, or resetting the environment, raises is raised.
        """
        return run_flow(
            self.act_flow(
                environment,
                task,
                evaluate,
                k=k,
                max_steps=max_steps,
                detector=detector,
                config=config,
            )
        )

    async def aact(
        self,
        environment: Any,
        task: str | Task,
        evaluate: Evaluate | None = None,
        *,
        k: int = DEFAULT_RECALLED_RUNS,
        max_steps: int = DEFAULT_MAX_STEPS,
        detector: AnomalyDetector | None = None,
        config: RunnableConfig | None = None,
    ) -> Trajectory:
        """Async version of `act`."""
        return await arun_flow(
            self.act_flow(
                environment,
                task,
                evaluate,
                k=k,
                max_steps=max_steps,
                detector=detector,
                config=config,
            )
        )

    async def act_flow(
        self,
        environment: Any,
        task: str | Task,
        evaluate: Evaluate | None = None,
        *,
        k: int = DEFAULT_RECALLED_RUNS,
        max_steps: int = DEFAULT_MAX_STEPS,
        detector: AnomalyDetector | None = None,
        config: RunnableConfig | None = None,
    ) -> Trajectory:
        """Flow of `act` and `aact`; other flows await it."""
        if not is_environment(environment):
            msg = f"environment must have reset and step, got {type(environment).__name__}."
            raise ConfigurationError(msg)
        check_count("max_steps", max_steps)
        (original,) = checked_tasks([task])
        to_do = task_of(original)

        async def recall_similar(query: str) -> Recollection:
            return await self.recall_flow(query, k, config=config)

        recollection = await recall_similar(to_do.text)
        # In an environment of one tool, the values of its argument are the actions.
        recalled = recall_text(
            replace(recollection, verbatim=True), max_characters=self.max_characters
        )
        reflector = self.reflector(self._model_for("reflection"), recall=recall_similar)
        recovery = recovery_with(self, reflector, detector)

        async def find_help() -> dict[str, Any]:
            about = {"tips": recollection.tips, "examples": examples_in(recalled)}
            return {**about, "tools": [ACT_TOOL], "task": to_do.text}

        async def reviewed(messages: Sequence[BaseMessage]) -> ToolMessage | None:
            return await recovery.correction(
                Conversation(messages), find_help=find_help, writer=None
            )

        attempt = Attempt(original, 1, f"{recalled}\n\n{to_do.text}".strip(), max_steps)
        run = await run_in_environment(
            attempt, environment, self._model_for("policy"), reviewed
        )
        success, reward, reasons = await evaluating(evaluate, original, run)
        runs = (run.id for run in recollection.runs)
        recall = Recall(
            tuple(runs), {tip.id: tip.trajectories for tip in recollection.tips}
        )
        metadata = {
            **run.trajectory.metadata,
            "task_id": to_do.id,
            "reward": reward,
            **recall.metadata(),
        }
        return replace(
            run.trajectory,
            id=uuid4().hex,
            success=success,
            reasons=reasons,
            metadata=metadata,
        )


def _experience(
    store: ExperienceStore | BaseStore,
    namespace: Sequence[str] | None,
    embeddings: Embeddings | str | None,
) -> ExperienceStore:
    if not isinstance(store, ExperienceStore):
        namespace = STORE_NAMESPACE if namespace is None else namespace
        return ExperienceStore(store, namespace=namespace, embeddings=embeddings)
    if namespace is not None or embeddings is not None:
        msg = f"An ExperienceStore has its own namespace and embeddings; leave out {namespace=} and {embeddings=}."
        raise ConfigurationError(msg)
    return store


def check_memory(memory: object, *, optional: bool = True) -> None:
    """Raise `ConfigurationError` for what is neither memory nor, where that is `optional`, `None`."""
    if not isinstance(memory, CFGMMemory) and not (optional and memory is None):
        msg = f"memory must be a CFGMMemory, got {type(memory).__name__}. Make one: CFGMMemory(model, store)."
        raise ConfigurationError(msg)


def recovery_with(
    memory: CFGMMemory | None,
    model: str | BaseChatModel | Reflector,
    detector: AnomalyDetector | None,
    **budget: int | None,
) -> Recovery:
    """What corrects the course of an agent with this memory: at each anomaly, if it is the paper's.

    What of the `budget` is `None` is the default: that of `Recovery`, or the paper's.
    """
    if memory is not None and not isinstance(model, Reflector):
        model = memory.reflector(model)
    usual = EACH_ANOMALY if memory is not None and memory.is_paper else {}
    return Recovery(
        model,
        detector,
        **{
            **usual,
            **{name: each for name, each in budget.items() if each is not None},
        },
    )
