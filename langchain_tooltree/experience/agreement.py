"""How far verdicts can be trusted: their agreement with what people said of the same runs. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

from langchain_tooltree.experience.records import Record

FEWEST_SAMPLES = 10
"""Samples from which on verdicts may be doubted. Of ten, a verdict that is right nine times in ten agrees with six or
fewer once in 78, and one that is right every other time does in 83 of 100 (binomial)."""

FEWEST_OF_A_KIND = 3
"""Samples that people called successes, and failures, before kappa is trusted: where nearly all are of one kind, kappa
is near 0 whatever the agreement (Feinstein and Cicchetti, J. Clin. Epidemiol. 43(6), 1990)."""

DOUBTFUL = 0.2
"""Agreement beyond chance up to here is slight (Landis and Koch, Biometrics 33(1), 1977): with as many successes as
failures, at most six verdicts of ten are right. A strict verdict, which is what learning wants, may lie little above:
one that let 2 of 16 failures of an airline's agent pass, and only 8 of 16 successes, had .375."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often verdicts and people agree, by what both have said of the same runs.

    Attributes:
        both_success: Runs that both call a success.
        both_failure: Runs that both call a failure.
        false_success: Runs that the verdict calls a success, and a person a failure: what is learnt wrongly.
        false_failure: Runs that the verdict calls a failure, and a person a success.
        unclear: Runs that a person has judged, and the verdict has not. They count nowhere else: nobody learns of them.
    """

    both_success: int = 0
    both_failure: int = 0
    false_success: int = 0
    false_failure: int = 0
    unclear: int = 0

    def __add__(self, other: "Agreement") -> "Agreement":
        """The agreement on the runs of both."""
        return Agreement(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    @property
    def count(self) -> int:
        """Samples: runs that both have judged."""
        return self.both_success + self.both_failure + self.false_success + self.false_failure

    @property
    def share(self) -> float | None:
        """The share of the samples on which both agree; `None` without samples."""
        return (self.both_success + self.both_failure) / self.count if self.count else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: `(p_o - p_e) / (1 - p_e)`, 1 for full agreement and 0 for as much as chance would bring.

        `p_o` is the share of agreement, and `p_e` the one to be expected if both said what they say as often as they
        do, independently of each other (Cohen, Educ. Psychol. Meas. 20(1), 1960). It is `None` where it is not defined:
        without samples, and where both always say the same word.
        """
        if self.share is None:
            return None
        said, labelled = self.both_success + self.false_success, self.both_success + self.false_failure
        # In whole numbers, so that rounding makes no chance of 1 out of one that is not.
        by_chance = said * labelled + (self.count - said) * (self.count - labelled)
        agreed = (self.both_success + self.both_failure) * self.count
        return None if by_chance == self.count**2 else (agreed - by_chance) / (self.count**2 - by_chance)

    @property
    def is_doubtful(self) -> bool:
        """Whether there are samples enough to say that nothing should be learnt of these verdicts.

        Where people have called nearly all samples the same, kappa says nothing, and the share of agreement decides:
        `2 p_o - 1` is the kappa of two who use both words equally often (Byrt et al., J. Clin. Epidemiol. 46(5), 1993).
        """
        if self.count < FEWEST_SAMPLES:
            return False
        successes = self.both_success + self.false_failure
        told = min(successes, self.count - successes) >= FEWEST_OF_A_KIND
        kappa = self.kappa if told else None
        balanced = (2 * (self.both_success + self.both_failure) - self.count) / self.count
        return (balanced if kappa is None else kappa) <= DOUBTFUL


Sample = tuple[bool | None, bool]
"""What a verdict said of a run, and what a person did."""


def agreement(samples: Iterable[Sample | Record]) -> Agreement:
    """How far verdicts and people agree.

    By pairs of what the verdict and a person said of a run; or by runs, of which those count that had a verdict when a
    person judged them.
    """
    counted = Counter(pair for each in samples for pair in _pairs(each))
    return Agreement(
        both_success=counted[True, True],
        both_failure=counted[False, False],
        false_success=counted[True, False],
        false_failure=counted[False, True],
        unclear=counted[None, True] + counted[None, False],
    )


def _pairs(sample: Sample | Record) -> Iterator[Sample]:
    if not isinstance(sample, Record):
        yield sample
    elif sample.source == "user" and sample.success is not None and sample.overruled is not None:
        said = sample.overruled.get("success")
        yield said if isinstance(said, bool) else None, sample.success
