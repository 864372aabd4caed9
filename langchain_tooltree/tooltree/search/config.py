"""How a search is configured, and what it may cost at the most. Pure."""

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, cast, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from langchain_tooltree.errors import ConfigurationError

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Selection = Literal["doubt", "posterior", "smoothed", "printed"]


class Effort(NamedTuple):
    """What an effort means in the loop and in a deep search."""

    extra_calls: int  # model calls a turn beyond the agent's own, in the loop
    confidence: float  # probability in (0, 1] of being right and complete at which a deep search ends


EFFORTS = {
    "frugal": Effort(2, 0.7),
    "balanced": Effort(4, 0.9),
    "thorough": Effort(8, 0.97),
}
"""The calls were chosen with `tests.benchmarks.recorded`, .97 on the first 100 tasks of `tests.benchmarks.compare`."""


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """What shapes a search; `SearchConfig.paper()` has the settings of the paper.

    With `selection="doubt"` the search lives in the agent's own loop: it opens where an answer is doubtful, and the
    settings from `max_rollouts` on are refused, but for the two thresholds, by which a judge of your own prunes there,
    too. With any other selection the planner searches before it acts, with many rollouts: a *deep search*.

    Args:
        effort: What a search may cost, in one word. In the loop: 2, 4 or 8 model calls a turn beyond the agent's own.
            In a deep search by the posterior: the search ends once a plan is right and complete with a probability of
            .7, .9 or .97.
        max_model_calls: Model calls at the most: in the loop those beyond the agent's own in a turn, in a deep search
            all, the answer included. `None` leaves it to `effort` or, in a deep search, to the number of rollouts.
        max_seconds: Launch nothing new once so many seconds are spent.
        check_writes: In the loop, with `experience=` or `graph=`: where the agent is about to write what runs that went
            well hardly ever wrote in such a state, ask it once a turn whether all that the write rests on is read and
            agreed. The step that comes then is made. Off by default: it has not been shown to pay.
        selection: Where the search works. `"doubt"`: in the agent's loop, where the agent itself is in doubt. Deep
            search: `"posterior"`, where the right path most probably goes on, given all scores; `"smoothed"`, by Eq. 1
            as the authors released it; `"printed"`, by Eq. 1 as the paper prints it.
        max_rollouts: Rollouts (one call tried each) of a deep search at the most.
        exploration: Weight lambda of the exploration term in Eq. 1.
        pre_threshold: tau_pre in [0, 1]: under Eq. 1, and in the loop, candidates with a lower r_pre are pruned.
        post_threshold: tau_post in [0, 1]: under Eq. 1, a node whose r_post is lower is never expanded; in the loop,
            such a result makes a state weak.
        top_k: How many candidates the model is asked for; under Eq. 1, so many are kept, best r_pre first.
        max_depth: Calls on one path at the most.
        parallel_rollouts: Rollouts in flight at once. The tree depends on this number, never on timing.
        patience: Under Eq. 1: stop after so many rollouts in a row without a gain of 1e-3 in the best path's value,
            counted once some path has reached the goal. Without goal scores: in which that value changes by less.
        proposals: `"together"`: all candidates in one model call; `"per_tool"`, under Eq. 1: one draft for each tool.

    Raises:
        ConfigurationError: If a value is out of range; the message names it and the remedy.
    """

    effort: Literal["frugal", "balanced", "thorough"] = "balanced"
    max_model_calls: Count | None = None
    max_seconds: Annotated[float, Field(gt=0)] | None = None
    check_writes: bool = False
    selection: Selection = "doubt"
    max_rollouts: Count = 100
    exploration: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.4
    pre_threshold: Share = 0.3
    post_threshold: Share = 0.4
    top_k: Count = 5
    max_depth: Count = 15
    parallel_rollouts: Count = 4
    patience: Count = 10
    proposals: Literal["together", "per_tool"] = "together"

    def __post_init__(self) -> None:
        for name, adapter in _adapters(cast("Any", type(self))).items():
            value = getattr(self, name)
            try:
                adapter.validate_python(value, strict=True)
            except ValidationError as error:
                expected = error.errors()[0]["msg"].removeprefix("Input ")
                msg = f"{name} {expected[0].lower()}{expected[1:]}, got {value!r}."
                raise ConfigurationError(msg) from None
        if self.selection == "posterior" and self.proposals == "per_tool":
            msg = (
                "selection='posterior' goes by the scores that come with candidates, which drafts for single tools have"
                " not; choose proposals='together', or selection='smoothed'."
            )
            raise ConfigurationError(msg)
        for each in fields(SearchConfig):
            value = getattr(self, each.name)
            if (
                self.selection == "doubt"
                and each.name not in _OF_THE_LOOP
                and value != each.default
            ):
                msg = (
                    f"{each.name}={value!r} shapes a deep search, and selection='doubt' searches in the agent's own "
                    "loop; leave it out, or choose selection='posterior', 'smoothed' or 'printed'."
                )
                raise ConfigurationError(msg)

    @property
    def is_deep(self) -> bool:
        """Whether the planner searches before it acts, rather than in the agent's own loop."""
        return self.selection != "doubt"

    @property
    def extra_calls(self) -> int:
        """Model calls a turn beyond the agent's own at the most, in the loop."""
        return (
            EFFORTS[self.effort].extra_calls
            if self.max_model_calls is None
            else self.max_model_calls
        )

    @classmethod
    def paper(
        cls, *, form: Literal["iclr", "acl"] = "iclr", **changes: Any
    ) -> "KernelConfig":
        """The settings of the paper, to reproduce it. Without `prompts=`, judges are asked as by `Prompts.paper()`.

        The paper prints Eq. 1, lambda 1.4, the thresholds .3 and .4, 60 rollouts, a gain of 1e-3 over 10 of them, one
        draft for each tool, and one judge call for each candidate and observation, without a goal score. It prints no
        `top_k`, `max_depth` or temperature, nor how many rollouts and proposals there are at once: these are ours, with
        a `top_k` that leaves out none of its top 20 tools, which are a matter of the tools that the planner is given.

        The earlier ACL-format version (`form`) first has a coarse planner narrow the tools, propagates the cumulative
        reward of a path in place of r_post, and has a second model score what calls brought back: pass that as
        `post_judge=`. `changes` are fields to set differently.
        """
        if form not in {"iclr", "acl"}:
            msg = f"form must be 'iclr' or 'acl', got {form!r}."
            raise ConfigurationError(msg)
        paper = KernelConfig(
            max_rollouts=60,
            pre_threshold=0.3,
            post_threshold=0.4,
            top_k=20,
            parallel_rollouts=1,
            selection="printed",
            proposals="per_tool",
            pre_evaluation="single",
            max_proposals=1,
            goal_score=False,
            reward="path" if form == "acl" else "call",
            coarse_planner=form == "acl",
        )
        return replace(paper, **changes)


_OF_THE_LOOP = frozenset(
    {
        "effort",
        "max_model_calls",
        "max_seconds",
        "check_writes",
        "selection",
        "pre_threshold",
        "post_threshold",
    }
)
"""Settings that mean something in the agent's own loop; the thresholds, where a judge of one's own is asked."""


@cache
def _adapters(config: type[Any]) -> dict[str, TypeAdapter[Any]]:
    """What checks each field."""
    return {
        name: TypeAdapter(hint)
        for name, hint in get_type_hints(config, include_extras=True).items()
    }


@dataclass(frozen=True, kw_only=True)
class KernelConfig(SearchConfig):
    """The settings of a deep search that nobody has to turn, for reproductions and experiments.

    A `SearchConfig` in whose place it stands has the defaults of these fields.

    Args:
        pre_evaluation: Under Eq. 1: `"batched"`: all candidates in one judge call; `"single"`: one judge call for each.
        goal_score: Under Eq. 1: whether the judge also scores after each call if the task is done (beyond the paper).
        reward: What a rollout propagates under Eq. 1: `"call"`, the r_post of its call; `"path"`, the sum of r_post on
            the way there, which needs `goal_score=False`.
        exploration_annealing: Under Eq. 1, factor on lambda for each call deeper in the tree, above 0; 1 is none.
        threshold_annealing: The same for tau_pre.
        value_threshold: Value in [0, 1] at which a path that fulfils the request ends the search, under Eq. 1.
        max_proposals: How often one state may be asked. It is asked again, for other calls than before, when those that
            it offered are probably all wrong; under Eq. 1, when nothing is left to explore in them.
        coarse_planner: Narrow the tools once before the search, as the paper's ACL-format version does.
        seed: Seed of tie-breaking and of the order in which candidates are shown to the judge.
    """

    selection: Selection = "posterior"
    pre_evaluation: Literal["batched", "single"] = "batched"
    goal_score: bool = True
    reward: Literal["call", "path"] = "call"
    exploration_annealing: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    threshold_annealing: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    value_threshold: Share = 0.5
    max_proposals: Count = 3
    coarse_planner: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.selection == "doubt":
            msg = (
                "selection='doubt' searches in the agent's own loop and has no kernel; choose selection='posterior', "
                "'smoothed' or 'printed', or use SearchConfig."
            )
            raise ConfigurationError(msg)
        if self.reward == "path" and self.goal_score:
            msg = "reward='path' takes the sum of r_post for a path's value, so it needs goal_score=False."
            raise ConfigurationError(msg)

    @classmethod
    def of(cls, config: SearchConfig) -> "KernelConfig":
        """The settings of a deep search, those of the kernel at their defaults unless `config` has them.

        Raises:
            ConfigurationError: If `config.selection` is `"doubt"`.
        """
        if isinstance(config, KernelConfig):
            return config
        return cls(**{each.name: getattr(config, each.name) for each in fields(config)})

    @property
    def explains_after(self) -> bool:
        """Whether a judge scores a result by a score and an explanation alone, as in the paper."""
        return not self.goal_score

    @property
    def explains_before(self) -> bool:
        """The same of a call before it is made, which then is judged by itself."""
        return self.explains_after and self.pre_evaluation == "single"

    @property
    def stop_at(self) -> float:
        """Probability in (0, 1] of being right and complete at which a plan ends the search."""
        return EFFORTS[self.effort].confidence

    def most_model_calls(self, tools: int) -> int:
        """The most requests to proposer and judges, the answer included, of a search over so many tools."""
        if self.max_model_calls is not None:
            return self.max_model_calls
        drafts = tools if self.proposals == "per_tool" else 0
        scores = (drafts or self.top_k) if self.pre_evaluation == "single" else 0
        # A rollout proposes, pre-evaluates and post-evaluates; beside them there are the coarse plan and the answer.
        return self.max_rollouts * (3 + drafts + scores) + 2
