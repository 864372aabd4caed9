"""Peers that draw from the global generators, made repeatable without touching anybody else's chance."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class OwnChance:
    """A state of the global generators that belongs to one run of a peer.

    Args:
        seed: Where it begins.
    """

    def __init__(self, seed: str) -> None:
        chance = random.Random(seed)  # noqa: S311 - no secret depends on it
        self._plain = chance.getstate()
        self._numpy = np.random.RandomState(chance.getrandbits(32)).get_state()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Within this, the global generators go on from where this run left them; afterwards they are as before."""
        plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 - it is the peer that uses them
        random.setstate(self._plain)
        np.random.set_state(self._numpy)  # noqa: NPY002 - as above
        try:
            yield
        finally:
            self._plain, self._numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - as above
            random.setstate(plain)
            np.random.set_state(arrays)  # noqa: NPY002 - as above
