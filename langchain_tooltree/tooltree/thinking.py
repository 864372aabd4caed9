"""Separate the thinking of a model from the text of its answer.

Some models think aloud before they answer, between tags: `<think>Hm.</think>Yes.`
"""

import re

THINK_START = "<think>"
THINK_END = "</think>"

_THINKING = re.compile(r"\A\s*(?:<think>.*?(?:</think>\s*|\Z))?", re.DOTALL)


def split_thinking(text: str) -> tuple[str, str]:
    r"""Split a text after the `<think>` block at its beginning.

    White space before the answer belongs to the first part. A block that is not closed
    goes on to the end of the text.

    Example:
        ```python
        assert split_thinking("<think>Hm.</think>\nYes.") == (
            "<think>Hm.</think>\n",
            "Yes.",
        )
        ```

    Args:
        text: The text of a model response.

    Returns:
        The block, which is empty if there is none, and the answer after it.
    """
    answer = _THINKING.sub("", text, count=1)
    return text[: len(text) - len(answer)], answer
