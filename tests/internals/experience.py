"""Helpers of tests around runs."""

from langchain_tooltree.experience.verdict import resolve_verdict
from langchain_tooltree.flows import async_twin, driven


@driven
def judged(trajectory, verdict):
    """A trajectory with its verdict, as recorders give it one."""
    given = yield from resolve_verdict(verdict)(trajectory)
    return trajectory.judged(given.success, given.reasons)


ajudged = async_twin(judged)
