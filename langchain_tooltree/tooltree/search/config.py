"""How a search is configured, and what it may cost at the most. Pure."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, get_args, get_origin

from langchain_tooltree.errors import ConfigurationError, with_known_fields

MODEL_CALLS_PER_ROLLOUT = 3
"""Model calls: propose, pre-evaluate, post-evaluate. A question that is repeated takes from the other rollouts."""

PLAN_AND_ANSWER = 2
"""Model calls of a search outside its rollouts: the coarse plan and the answer."""

MAX_TOOLS = 126
"""Tools that a model is shown at the most: OpenAI takes 128 in a request, and two may be the planner's own."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The most that a search may cost before it stops by itself."""

    rollouts: int  # tool calls tried, deferred ones included
    model_calls: int  # requests to proposer and judges, the final answer included
    tool_calls: int  # tools really run


class Effort(NamedTuple):
    """When a search is content."""

    confidence: float  # probability in (0, 1] of being right and complete at which a plan ends the search
    extra_calls: int  # model calls at the most after the agent by itself would have ended


EFFORTS = {"frugal": Effort(0.5, 8), "balanced": Effort(0.7, 12), "thorough": Effort(0.9, 24)}
"""What the efforts mean. Chosen with `tests.benchmarks.recorded`."""


@with_known_fields
@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """Everything that shapes a search; the defaults are for production, `SearchConfig.paper()` for reproduction.

    The paper prints lambda 1.4, the thresholds 0.3 and 0.4, 60 rollouts, a gain of 1e-3 over 10 of them, and the top 20
    tools. Where a default differs, or the paper prints none, it was chosen
    on the first 100 tasks of `tests.benchmarks.compare`. Times and sizes are bounds that an ordinary tool stays far
    below.

    Args:
        max_rollouts: Rollouts (one call, or the calls of one reply, tried each) at the most.
        exploration: Weight lambda of the exploration term in Eq. 1.
        pre_threshold: tau_pre in [0, 1]: under Eq. 1, candidates with a lower r_pre are pruned before they run.
        post_threshold: tau_post in [0, 1]: under Eq. 1, a node whose r_post is lower is never expanded.
        top_k: How many candidates the model is asked for; under Eq. 1, so many are kept, best r_pre first.
        max_depth: Calls on one path at the most.
        parallel_rollouts: Rollouts in flight at once. The tree depends on this number, never on timing.
        patience: Under Eq. 1: stop after so many rollouts in a row without a gain of 1e-3 in the best path's
            value, counted once some path has reached `goal_threshold` (without goal scores: from the start).
        max_model_calls: Model calls at the most, the answer included; `None` means the bound of `estimate`.
        max_tool_calls: Tool calls at the most; `None` means as many as `max_rollouts`.
        max_tokens: Launch nothing once so many tokens are spent; overshot by at most the calls in flight.
        max_seconds: Launch nothing once so many seconds are spent; overshot by at most the calls in flight.
        seed: Seed of tie-breaking and of the order in which candidates are shown to the judge.
        selection: Where rollouts work. `"posterior"`: where the right path most probably goes on, given all scores;
            `"smoothed"`: Eq. 1 as the authors released it; `"printed"`: Eq. 1 as the paper prints it.
        confidence: Under `"posterior"`: stop once the best path is right and complete with this probability, in
            (0, 1]; that of the effort if left out. The forms of Eq. 1 stop at `goal_threshold` and `value_threshold`
            instead.
        speculation: Calls or time, in (0, 1]: work that is less likely to help than this share of the best work in
            flight waits for what that brings. Near 1 fewer calls are made, near 0 a search takes less time.
        first_play: Q of a child never visited under `"smoothed"`: the parent's mean, its own r_pre, or zero.
        proposals: `"own_step"`: the agent's own step first, other candidates where it is doubtful; `"together"`: all
            candidates in one model call; `"per_tool"`: one draft for each tool. `"auto"` is `"own_step"` under
            `"posterior"`, else `"together"`.
        pre_evaluation: `"fused"`: scores come with the candidates; `"batched"`: all candidates in one judge call;
            `"single"`: one judge call for each. `"auto"` is `"fused"` under `"posterior"`, unless candidates are
            drafted for each tool, else `"batched"`.
        post_evaluation: Under `"posterior"` with a separate judge: `"needed"` has an observation judged where that can
            decide something, at failed calls, at writes of the plan to be returned, and where a path may be complete;
            `"always"` has every one judged, as the forms of Eq. 1 do.
        effort: What a search may cost beside the agent by itself, in one word. `"frugal"` is content with a plan that
            is right with a probability of .5 and makes 8 model calls more at the most, `"balanced"` with .7 and 12,
            `"thorough"` with .9 and 24.
        max_proposals: How often one state may be asked, for the agent's own step included. It is asked again, for
            other calls than before, when those that it offered are probably all wrong; under Eq. 1, when nothing is
            left to explore in them.
        goal_score: Whether the judge also scores, after each call, if the task is now done (beyond the paper).
        goal_threshold: Goal score in [0, 1] from which a path counts as a solution under Eq. 1, and a plan that was
            carried out as the end.
        value_threshold: Path value in [0, 1] at which a solution ends the search at once, under Eq. 1.
        tool_tokens: So many tokens of tools, of 4 characters each, the model is shown at the most, and 126 tools. Where
            they all fit in, it sees them all, always. Otherwise it begins with the most relevant ones, more are added
            as the conversation goes on, none is taken away, and the model can ask for others, which are shown beyond
            that budget, too.
        retrieve_top: Show each state only so many tools, chosen anew, the most relevant to it, as the paper does.
        always_include: Names of tools that retrieval never leaves out.
        coarse_planner: Narrow the tools once before the search, as the paper's ACL-format version does.
        reuse_seconds: For so long after its start a search is a warm start for the next one in the conversation: its
            tree below a write that was carried out as tried in a sandbox, and after a new request the reads that it
            tried and did not keep. 0 starts every search with nothing.
        tool_timeout: Seconds one tool call may take before it counts as failed; `None` for no limit.

    Raises:
        ConfigurationError: If a value is out of range; the message names it and the remedy.
    """

    max_rollouts: int = 100
    exploration: float = 1.4
    pre_threshold: float = 0.3
    post_threshold: float = 0.4
    top_k: int = 5
    max_depth: int = 15
    parallel_rollouts: int = 4
    patience: int = 10
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    seed: int = 0
    selection: Literal["posterior", "smoothed", "printed"] = "posterior"
    confidence: float | None = None
    speculation: float = 0.75
    first_play: Literal["parent_mean", "r_pre", "zero"] = "parent_mean"
    proposals: Literal["own_step", "together", "per_tool", "auto"] = "auto"
    pre_evaluation: Literal["fused", "batched", "single", "auto"] = "auto"
    post_evaluation: Literal["needed", "always"] = "needed"
    effort: Literal["frugal", "balanced", "thorough"] = "balanced"
    max_proposals: int = 3
    goal_score: bool = True
    goal_threshold: float = 0.7
    value_threshold: float = 0.5
    tool_tokens: int = 12_000
    retrieve_top: int | None = None
    always_include: tuple[str, ...] = ()
    coarse_planner: bool = False
    reuse_seconds: float = 600.0
    tool_timeout: float | None = 60.0

    def __post_init__(self) -> None:
        self._resolve()
        for name in ("pre_threshold", "post_threshold", "goal_threshold", "value_threshold"):
            self._check(name, lambda value: 0 <= value <= 1, "a number between 0 and 1")
        for name in ("exploration", "reuse_seconds"):
            self._check(name, lambda value: 0 <= value < math.inf, "a finite number of 0 or more")
        counts = ("max_rollouts", "top_k", "max_depth", "parallel_rollouts", "patience", "max_proposals")
        for name in (*counts, "tool_tokens"):
            self._check(name, _is_positive_integer, "a whole number of 1 or more")
        for name in ("max_model_calls", "max_tool_calls", "max_tokens", "retrieve_top"):
            self._check(name, _is_positive_integer, "a whole number of 1 or more, or None for no limit", optional=True)
        for name in ("max_seconds", "tool_timeout"):
            self._check(name, lambda value: value > 0, "a number above 0, or None for no limit", optional=True)
        self._check("seed", lambda value: isinstance(value, int), "a whole number")
        for name in ("confidence", "speculation"):
            self._check(name, lambda value: 0 < value <= 1, "a number above 0 and at most 1", optional=True)
        self._check_choices()
        self._check_selection()
        if isinstance(self.always_include, str):
            given = repr(self.always_include)
            msg = f"always_include must be a collection of tool names, got the string {given}; write ({given},)."
            raise ConfigurationError(msg)
        object.__setattr__(self, "always_include", tuple(sorted(self.always_include)))

    def _resolve(self) -> None:
        """Put what fits the selection in the place of "auto"."""
        by_posterior = self.selection == "posterior"
        if self.proposals == "auto":
            object.__setattr__(self, "proposals", "own_step" if by_posterior else "together")
        if self.pre_evaluation == "auto":
            fused = by_posterior and self.proposals != "per_tool"
            object.__setattr__(self, "pre_evaluation", "fused" if fused else "batched")

    def _check(self, name: str, holds: Callable[[Any], bool], wanted: str, *, optional: bool = False) -> None:
        value = getattr(self, name)
        if optional and value is None:
            return
        number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
        if not (number and holds(value)):
            msg = f"{name} must be {wanted}, got {value!r}."
            raise ConfigurationError(msg)

    def _check_choices(self) -> None:
        for each in fields(self):
            value, choices = getattr(self, each.name), get_args(each.type)
            if get_origin(each.type) is Literal and value not in choices:
                msg = f"{each.name} must be one of {', '.join(map(repr, choices))}, got {value!r}."
                raise ConfigurationError(msg)

    def _check_selection(self) -> None:
        if self.selection != "posterior" and (self.proposals == "own_step" or self.pre_evaluation == "fused"):
            msg = (
                f"selection={self.selection!r} needs scores of every call by themselves; choose "
                "proposals='together' or 'per_tool', and pre_evaluation='batched' or 'single'."
            )
            raise ConfigurationError(msg)
        if self.selection == "posterior" and not self.goal_score:
            msg = (
                "selection='posterior' weighs whether a path fulfils the request, so it needs goal_score=True; "
                "without goal scores choose selection='smoothed'."
            )
            raise ConfigurationError(msg)

    @property
    def stop_at(self) -> float:
        """Probability in (0, 1] of being right and complete at which a plan ends the search."""
        return EFFORTS[self.effort].confidence if self.confidence is None else self.confidence

    @property
    def extra_calls(self) -> int | None:
        """Model calls at the most after the agent by itself would have ended; `None` without own steps."""
        return EFFORTS[self.effort].extra_calls if self.proposals == "own_step" else None

    @classmethod
    def paper(cls, *, form: Literal["iclr", "acl"] = "iclr", **changes: Any) -> "SearchConfig":
        """The settings of the paper, to reproduce it; together with `prompts=Prompts.paper()`, its judging.

        The paper prints Eq. 1, lambda 1.4, the thresholds .3 and .4, 60 rollouts, a gain of 1e-3 over 10 of them, and
        the top 20 tools; and that each tool gets one draft, each candidate and each observation one judge call, with no
        goal score. It prints no `top_k`, no `max_depth` and no temperature: the first two are ours, and the temperature
        is that of the model you pass. Also ours are one rollout at a time, one proposal a state, and every search from
        the start, where it says nothing.

        The earlier ACL-format version (`form`) first has a coarse planner narrow the tools, and a second model score
        what calls brought back: pass that as `post_judge=`. It takes the cumulative reward of a path for its value;
        here the mean reward Q of each call leads to the best path in both forms. `changes` are fields to set
        differently.
        """
        if form not in {"iclr", "acl"}:
            msg = f"form must be 'iclr' or 'acl', got {form!r}."
            raise ConfigurationError(msg)
        paper = cls(
            max_rollouts=60,
            retrieve_top=20,
            pre_threshold=0.3,
            post_threshold=0.4,
            parallel_rollouts=1,
            selection="printed",
            proposals="per_tool",
            pre_evaluation="single",
            max_proposals=1,
            goal_score=False,
            coarse_planner=form == "acl",
            reuse_seconds=0,
        )
        return replace(paper, **changes)

    def estimate(self, tools: int) -> Estimate:
        """The most that a search over so many tools may cost, by these budgets, too; it never goes beyond."""
        shown = min(tools, self.retrieve_top or MAX_TOOLS)
        drafts = shown if self.proposals == "per_tool" else 0
        candidates = shown if self.proposals == "per_tool" else self.top_k
        scores = candidates if self.pre_evaluation == "single" else 0
        bound = self.max_rollouts * (MODEL_CALLS_PER_ROLLOUT + drafts + scores) + PLAN_AND_ANSWER
        return Estimate(
            rollouts=self.max_rollouts,
            model_calls=bound if self.max_model_calls is None else self.max_model_calls,
            tool_calls=self.max_rollouts if self.max_tool_calls is None else self.max_tool_calls,
        )


def _is_positive_integer(value: float) -> bool:
    return isinstance(value, int) and value >= 1
