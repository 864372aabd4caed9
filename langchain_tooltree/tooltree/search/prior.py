"""What past runs say of the calls and of the end in a state, as a prior for the posterior. Pure.

A state comes with the shares of the tools that past runs called there. The share of a call's tool, against what it
would be by chance, is a likelihood ratio: a call that runs often made here is more probably right. The share of runs
that ended there moves the prior of "all is done". Both count for as much as runs speak for them, and neither is proof.

The constants were chosen on 2,643 states of recorded runs of the first 100 multi-turn tasks of
`tests.benchmarks.recorded`, with graphs of gold's calls in other tasks: of the agents' answers .15 were right where
less than .05 of the runs ended, .75 where .1 to .2 did, and .88 where .8 and more did. Whether an agent's call was
right did not depend on the share of its tool: agents seldom call the wrong tool. So ends weigh more than tools. In
`tests.benchmarks.together`, with 50 of these tasks learnt, searches solved .903 of the turns of the other 50 instead of
.892, at 1.01 times the model calls.
"""

import math
from collections.abc import Collection, Mapping

from pydantic import BaseModel, ConfigDict

from langchain_tooltree.experience.hints import NextTools

KEPT_SHARES = 5
"""Tools whose shares are kept beside those called: as many as are offered as candidates."""

RUNS_ASSUMED = 2
"""Runs of which nothing is known, and that stand against those that speak."""

SAME_TOOL, OWN_SAME_TOOL = 0.5, 0.9
"""Share, in [0, 1], of wrong calls that have the right tool and other arguments: among candidates, as in
`tests.benchmarks.compare`, and among an agent's own steps, where shares were measured to tell next to nothing."""

STRONGEST_SHARE = 2.3
"""Bound on the logarithm of a share's likelihood ratio (10 to 1): a share knows the tool, and not the arguments."""

FEWEST_WRITE_RUNS = 5
"""Distinct runs that have to have made a write before their share speaks for it."""

SURE_SHARE, SURE_RUNS, SURE = 0.5, 3, 0.9
"""Share in [0, 1] and distinct runs from which past runs agree with a call: more made it than all others together; and
the probability from which a call that they agree with needs no judge."""

USUAL_ENDS, RARE_ENDS = 0.5, 2
"""How far common ends count for "done", as the `w` of `Prior.ratio`, and the power to which rare ones count against it:
an agent that answers where runs went on is mostly too early, one that answers where they ended may be so all the same.
"""


class Prior(BaseModel):
    """How past runs went on from a state. Shares are in [0, 1]; those of all tools, `done` and `other` sum to 1."""

    model_config = ConfigDict(frozen=True)

    shares: dict[str, float] = {}  # of the tools called here, and the largest others
    runs: dict[str, int] = {}  # how many distinct runs speak for each
    done: float = 0.0  # the share of runs that ended here
    other: float = 1.0  # the share left for what no run did here
    known: int = 0  # how many distinct runs speak here at all, at the most
    tools: int = 1  # how many tools there are to call

    @classmethod
    def of(cls, known: NextTools, *, called: Collection[str], tools: int) -> "Prior":
        """What is kept of all shares in a state: those of the tools called there, and the largest others.

        `tools` is how many there are to call. Those without a share have equal parts of what is left for them. What is
        no share, or no count, may stand in a state that anybody writes; it says nothing.
        """
        seen = {tool: share for tool, share in known.shares.items() if 0 < share <= 1}
        runs = {tool: count for tool, count in known.runs.items() if count > 0}
        done, other = (
            share if 0 <= share <= 1 else unknown for share, unknown in ((known.done, 0.0), (known.other, 1.0))
        )
        unseen = other / max(tools - len(seen), 1)
        largest = sorted(seen, key=lambda tool: (-seen[tool], tool))[:KEPT_SHARES]
        kept = [*largest, *sorted(set(called) - set(largest))]
        return cls(
            shares={tool: seen.get(tool, unseen) for tool in kept},
            runs={tool: runs[tool] for tool in kept if tool in runs},
            done=done,
            other=other,
            known=sum(runs.values()) + max(known.ended, 0),
            tools=max(tools, 1),
        )

    def ratio(self, action: Mapping[str, bool], *, own_step: bool = False) -> float:
        """Likelihood ratio, right against wrong, of an action: the tools of its calls, and whether each of them writes.

        With the share `s` of a tool among the runs that went on, its share by chance `c = 1 / tools`, and the part `w`
        of wrong calls that have the right tool (`SAME_TOOL`), the ratio is `s / (w s + (1 - w) c)`. Its logarithm is
        shrunk by `n / (n + RUNS_ASSUMED)`, with n the runs that speak: for the tool, or, against it, at all. Calls made
        together count by their mean: the order in which they stand means nothing, and the more are made, the more of
        them no run has made here.
        """
        same_tool = OWN_SAME_TOOL if own_step else SAME_TOOL
        logarithms = [self._logarithm(tool, same_tool, writes=writes) for tool, writes in action.items()]
        mean = math.fsum(logarithms) / max(len(logarithms), 1)
        return math.exp(min(max(mean, -STRONGEST_SHARE), STRONGEST_SHARE))

    def _logarithm(self, tool: str, same_tool: float, *, writes: bool) -> float:
        against_chance = max(self._share(tool) * self.tools, 1e-9)
        logarithm = math.log(against_chance / (same_tool * against_chance + 1 - same_tool))
        speaking = self.runs.get(tool, 0) if logarithm > 0 else self.known
        if logarithm > 0 and writes and speaking < FEWEST_WRITE_RUNS:
            return 0.0
        return logarithm * speaking / (speaking + RUNS_ASSUMED)

    def agrees(self, action: Mapping[str, bool]) -> bool:
        """Whether enough past runs did just this that nobody need judge it."""
        return all(
            self._share(tool) >= SURE_SHARE / len(action)
            and self.runs.get(tool, 0) >= (FEWEST_WRITE_RUNS if writes else SURE_RUNS)
            for tool, writes in action.items()
        )

    def _share(self, tool: str) -> float:
        """The share of a tool among the runs that went on."""
        return self.shares.get(tool, 0.0) / max(1 - self.done, 1e-9)

    def done_or(self, assumed: float) -> float:
        """The prior probability that all is done, where this one is assumed without past runs.

        The odds are those assumed, times the ratio of the share of ends `s` in the form that tools have, with what is
        assumed for chance: `s / (w s + (1 - w) assumed)`, squared where that is below 1. What no run did here, or what
        few runs leave unknown, is worth what is assumed.
        """
        if not self.done:
            return assumed  # nobody has said how often runs end here
        unknown = max(self.other, RUNS_ASSUMED / (RUNS_ASSUMED + self.known))
        share = (1 - unknown) * self.done / max(1 - self.other, 1e-9) + unknown * assumed
        ratio = share / (USUAL_ENDS * share + (1 - USUAL_ENDS) * assumed)
        odds = assumed / (1 - assumed) * (ratio if ratio > 1 else ratio**RARE_ENDS)
        return odds / (1 + odds)
