"""When to reflect: once for each episode of trouble, not too often, and not without end. Pure.

An episode begins with an anomalous observation and ends with the first normal one. At its beginning there is a
reflection. After that, the agent is left alone for some rounds, since it needs them to act on it; trouble that goes
on all the same shows that the reflection has not helped, and there is another one. New episodes that follow close
upon the last one wait, too: trouble that comes and goes in every other step is one and the same.

All of it follows from one rule, which looks at nothing but how long ago the last reflections were. So it needs no
state of its own: the conversation tells, and a thread that is resumed goes on right.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from langchain_tooltree.checks import check_count

DEFAULT_COOLDOWN = 3
DEFAULT_MAX_REFLECTIONS = 5


@dataclass(frozen=True, slots=True)
class ReflectionPace:
    """How often an agent is helped in one run, which begins with the latest message of its user.

    A *round* is what came back of the calls in one message of the model. Calls that were made in parallel are one
    round: the model has seen none of their results when it makes the others.

    Args:
        cooldown: A reflection is followed by another one in the `cooldown`th round after it at the earliest.
        max_reflections: How many reflections there may be in one run. Those that failed count.

    Raises:
        ConfigurationError: If one of them is no whole number of 1 or more.
    """

    cooldown: int = DEFAULT_COOLDOWN
    max_reflections: int = DEFAULT_MAX_REFLECTIONS

    def __post_init__(self) -> None:
        check_count("cooldown", self.cooldown)
        check_count("max_reflections", self.max_reflections)

    def allows(self, reflected: Iterable[bool]) -> bool:
        """Whether to reflect on an anomaly now.

        Args:
            reflected: For each round of the run before this one, latest first, whether there was a reflection on it.
                It is read only as far as necessary.

        Returns:
            Whether there is to be a reflection.
        """
        spent = 0
        for rounds_ago, there_was in enumerate(reflected, start=1):
            if there_was:
                spent += 1
                if rounds_ago < self.cooldown or spent >= self.max_reflections:
                    return False
        return True
