"""Questions about data: an instruction, and all that it needs as one JSON document."""

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage


def document_prompt(instruction: str, document: Mapping[str, Any]) -> list[BaseMessage]:
    """The prompt of a question about data.

    Args:
        instruction: What the model is to do.
        document: What it needs for that; what JSON has no form for is shown as text.

    Returns:
        A system message with the instruction, and a user message with the document.
    """
    written = json.dumps(document, ensure_ascii=False, indent=1, default=str)
    return [SystemMessage(instruction), HumanMessage(written)]
