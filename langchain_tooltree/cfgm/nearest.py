"""Which of the experiences that are like a task to recall: together they are to speak for all of it. Pure."""

import math
from collections import Counter
from collections.abc import Sequence

from langchain_tooltree.cfgm.words import weight, words_of

ONCE_MORE = 0.25
"""What a word of the task counts for that one chosen before has already, beside 1 for one that none has."""


def complementary(task: str, others: Sequence[str], k: int) -> list[int]:
    """Choose the tasks that together are most like a task.

    The nearest ones by similarity tend to be near for the same reason: of "melt water" and its like, those with the
    water. So the first one is the most similar, and each further one is that which shares the most words with
    the task, where words that all have in common count little, and words that one chosen before shares, only a quarter.

    Args:
        task: The task.
        others: Tasks to choose from, most similar first; the same task twice counts once, as long as there are others.
        k: How many to choose.

    Returns:
        Places in `others`, in the order they were chosen.
    """
    words = [frozenset(words_of(other)) for other in others]
    known = Counter(word for text in set(words) for word in text)
    worth = {word: math.log((1 + len(set(words))) / (1 + known[word])) * weight(word) for word in words_of(task)}
    chosen: list[int] = []
    covered: set[str] = set()
    left = list(range(len(others)))
    while left and len(chosen) < k:
        taken = {others[place] for place in chosen}
        fresh = [place for place in left if others[place] not in taken] or left
        gains = {
            place: sum(
                worth[word] * (ONCE_MORE if word in covered else 1) for word in sorted(worth.keys() & words[place])
            )
            for place in fresh
        }
        best = max(fresh, key=lambda place: (gains[place], -place)) if chosen else fresh[0]
        chosen.append(best)
        left.remove(best)
        covered |= words[best]
    return chosen
