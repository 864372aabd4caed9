"""Whether a proposal of one call is worth asking for others. Pure.

Some models make one tool call in a reply, whatever they are asked for. With one candidate in each state there is
nothing to choose from, and a search would follow the model's first idea wherever it leads. Nothing but its replies
tells such a model from one that has but one idea, so a search watches them.
"""

from dataclasses import dataclass

from langchain_tooltree.tooltree.config import SearchConfig
from langchain_tooltree.tooltree.operations import Outcome

FRUITLESS = 2
"""So many times in a row asking again brings nothing new before it is given up: what it costs to find out that a model
makes one call because it has but one idea."""


@dataclass(slots=True)
class TopUps:
    """How often a proposal that came back with one call may be asked for others.

    The very first proposal is topped up at once: all of the search hangs on the root's candidates. A model that was
    ever seen to make several calls in a reply means it when it makes one, and is never asked again.

    Args:
        config: The settings. A draft for each tool is one call by design and needs no topping up.
    """

    config: SearchConfig
    _several: bool = False
    _fruitless: int = 0

    @property
    def wanted(self) -> int:
        """Questions that the next proposal may spend on it."""
        pointless = self._several or self._fruitless >= FRUITLESS or self.config.proposals == "per_tool"
        return 0 if pointless else self.config.top_k - 1

    def watch(self, outcome: Outcome) -> None:
        """Learn from what came of an operation, taken in the order of launch."""
        self._several = self._several or outcome.several
        if outcome.gained is not None:
            self._fruitless = 0 if outcome.gained else self._fruitless + 1
