"""The parts of a planner, resolved and checked once, before anything runs."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.embeddings import HashingEmbeddings
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import TAG, ModelStep, Patience, ask_patiently, bind_tools, resolve_model
from langchain_tooltree.tooltree.ask import Proposer
from langchain_tooltree.tooltree.host_hooks import HostHooks
from langchain_tooltree.tooltree.judge import Judge, resolve_judge
from langchain_tooltree.tooltree.retrieval import ToolRetriever
from langchain_tooltree.tooltree.sandbox import Sandbox
from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.tools import DeclaredEffect, ToolLibrary, classify_tools, injected_names

logger = logging.getLogger(__name__)


class Planner:
    """Models, tools, judges, effects and sandbox of a planner; shared by all its searches, so it holds no state.

    Args:
        model: Proposes calls and writes the answer.
        tools: LangChain tools, or a `ToolLibrary`.
        judge: Scores calls; the model itself if left out.
        post_judge: Scores observations; the judge if left out.
        config: The settings.
        effects: Which tools only read.
        sandbox: A forkable world for the tools that write.
        embeddings: Ranks tools where there are many; `HashingEmbeddings` if left out.
        guards: What the host puts around its tool calls; searched calls pass through it too.
        selection: Whether the tools are a selection made for this turn, so that effects and sandbox may name others.
        model_settings: Settings of the requests for calls, such as a temperature, by name.

    Raises:
        ConfigurationError: If a part cannot work, or parts do not fit together.
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        tools: Iterable[BaseTool],
        *,
        judge: str | BaseChatModel | Judge | None = None,
        post_judge: str | BaseChatModel | Judge | None = None,
        config: SearchConfig | None = None,
        effects: Mapping[str, DeclaredEffect] | None = None,
        sandbox: Sandbox | None = None,
        embeddings: Embeddings | None = None,
        guards: HostHooks | None = None,
        selection: bool = False,
        model_settings: Mapping[str, Any] | None = None,
    ) -> None:
        if config is not None and not isinstance(config, SearchConfig):
            msg = f"config must be a SearchConfig, got {type(config).__name__} {config!r}."
            raise ConfigurationError(msg)
        if sandbox is not None and not isinstance(sandbox, Sandbox):
            msg = f"sandbox must have `tools` and `fork()`, got {type(sandbox).__name__}. See ObjectSandbox."
            raise ConfigurationError(msg)
        self.config = config or SearchConfig()
        self.model = resolve_model(model)
        self.library = ToolLibrary(tools)
        self.guards = guards or HostHooks()
        self.effects = classify_tools(
            self.library, effects, sandbox, held_back=self.guards.held_back, selection=selection
        )
        if set(self.effects.values()) == {"write"}:
            logger.warning(
                "No tool is declared a read or bound by a sandbox, so nothing can be tried out while planning. "
                "Pass effects={%r: 'read', ...} for the tools that only read.",
                self.library.names[0],
            )
        self.sandbox = sandbox
        self.bound_tools = frozenset(tool.name for tool in sandbox.tools) if sandbox else frozenset()
        self.proposer = Proposer(self.model, self.library, self.effects, self.config, model_settings)
        first_judge = self.model if judge is None else judge
        self.pre_judge = resolve_judge(first_judge, seed=self.config.seed)
        self.post_judge = resolve_judge(first_judge if post_judge is None else post_judge, seed=self.config.seed)
        # What is injected, such as the state, may change from one request to the next.
        self.repeatable = frozenset(tool.name for tool in self.library if not injected_names(tool))
        self.retriever = ToolRetriever(self.library, embeddings or HashingEmbeddings(), self.config)

    def answer(
        self, conversation: Sequence[BaseMessage], config: RunnableConfig, patience: Patience
    ) -> Flow[AIMessage]:
        """The agent's plain model step: answer from what is known, or, without a plan, do what the model thinks best.

        Its tokens are the user's, so this is the one model call that is not hidden from streams.

        Args:
            conversation: The dialogue and the trajectory, every call answered.
            config: Run configuration of the host.
            patience: How long it may wait for rate limits.

        Returns:
            The model's reply.
        """
        model = bind_tools(self.model, list(self.library))
        step = ModelStep(model, conversation, {**config, "run_name": f"{TAG}.answer"})
        reply: AIMessage = yield from ask_patiently(step, patience)
        return reply
