"""One task of the benchmark, solved by the search and by the greedy baseline through the same simulated model."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from cookbook.offline_model import OfflineChatModel
from langchain_tooltree import SearchResult, ToolLibrary, search
from langchain_tooltree.flows import run_flow
from langchain_tooltree.models import Meter
from langchain_tooltree.tooltree.deep import ProposalRequest, Proposer
from langchain_tooltree.tooltree.search import KernelConfig
from tests.benchmarks.bfcl_model import ArgumentPool, SimulatedPolicy
from tests.benchmarks.bfcl_world import PlainCall, RecordedSandbox, Task

MODEL_CALLS_PER_STEP = 4
"""More than a proposal with its repair and their retries can need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """How good the simulated model is; see `SimulatedPolicy`."""

    auc: float = 1.0
    hit: float = 1.0
    seed: int = 0

    def model(self, task: Task, pool: ArgumentPool) -> OfflineChatModel:
        """The model for one task."""
        return OfflineChatModel(
            policy=SimulatedPolicy(
                task, pool, auc=self.auc, hit=self.hit, seed=self.seed
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What one way of working made of a task, and what that cost."""

    solved: bool
    calls: int
    model_calls: int
    tool_calls: int
    tokens: int
    rollouts: int = 0
    nodes: int = 0
    pruned_before: int = 0
    pruned_after: int = 0
    stop_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """A task, done both ways.

    Attributes:
        task: Its identifier.
        search: The search.
        greedy: The first proposal at each step, without a search.
        touched_originals: Whether the search changed the objects it was given.
        replayed_alike: Whether its plan, made again on fresh objects, observed and left behind the same.
    """

    task: str
    search: Attempt
    greedy: Attempt
    touched_originals: bool
    replayed_alike: bool


def run_task(
    task: Task, pool: ArgumentPool, simulation: Simulation, config: KernelConfig
) -> TaskReport:
    """Do one task both ways."""
    model = simulation.model(task, pool)
    sandbox = RecordedSandbox(task)
    before = sandbox.original.fingerprint()
    result = search(
        task.request, sandbox.tools, model=model, sandbox=sandbox, config=config
    )
    return TaskReport(
        task=task.id,
        search=_attempt(task, sandbox, result),
        greedy=run_greedy(task, model, config),
        touched_originals=sandbox.original.fingerprint() != before,
        replayed_alike=_replays(task, sandbox, result),
    )


def run_greedy(task: Task, model: OfflineChatModel, config: KernelConfig) -> Attempt:
    """Make the first proposal at each step, as an agent without a planner would.

    Prompts and validation are those of the search, so that only the search makes the difference.
    """
    sandbox = RecordedSandbox(task)
    library = ToolLibrary(sandbox.tools)
    proposer = Proposer(model, library, lambda *_: "sandboxed", config)
    world = task.fresh()
    messages: list[BaseMessage] = [HumanMessage(task.request)]
    model_calls = tokens = 0
    while len(world.journal) < config.max_depth:
        meter = Meter(MODEL_CALLS_PER_STEP)
        proposal = run_flow(
            proposer.propose(ProposalRequest(messages, library.names), meter)
        )
        model_calls += meter.model_calls
        tokens += meter.input_tokens + meter.output_tokens
        if not proposal.calls:
            break
        call = proposal.calls[0]
        observation = task.run(world, PlainCall(call.tool, call.arguments))
        call_id = f"call_{len(world.journal)}"
        messages.append(
            AIMessage(
                "",
                tool_calls=[{"name": call.tool, "args": call.arguments, "id": call_id}],
            )
        )
        messages.append(ToolMessage(observation, tool_call_id=call_id, name=call.tool))
    made = len(world.journal)
    return Attempt(
        solved=task.solved(world),
        calls=made,
        model_calls=model_calls,
        tool_calls=made,
        tokens=tokens,
    )


def _attempt(task: Task, sandbox: RecordedSandbox, result: SearchResult) -> Attempt:
    world = sandbox.world_after(_plain(result))
    cost = result.cost
    return Attempt(
        solved=world is not None and task.solved(world, _observed(result)),
        calls=len(result.steps),
        model_calls=cost.model_calls,
        tool_calls=cost.tool_calls,
        tokens=cost.tokens,
        rollouts=cost.rollouts,
        nodes=cost.nodes,
        pruned_before=cost.pruned_before,
        pruned_after=cost.pruned_after,
        stop_reason=result.stop_reason,
    )


def _replays(task: Task, sandbox: RecordedSandbox, result: SearchResult) -> bool:
    world = sandbox.world_after(_plain(result))
    replayed = task.replay(_plain(result))
    return (
        world is not None
        and task.same_state(replayed.objects, world.objects)
        and replayed.observations == _observed(result)
    )


def _plain(result: SearchResult) -> list[PlainCall]:
    return [PlainCall(call.tool, call.arguments) for call in result.calls]


def _observed(result: SearchResult) -> Sequence[str]:
    return [str(step.observation.content) for step in result.steps if step.observation]
