"""Ready tools by domain, each with a card, examples, an effect and limits: `toolbox("maths", "text")`.

All of them only read. Files come from one folder that the user names, services from addresses and keys that the user
gives; nothing else is opened or called. What takes long is ended.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from langchain_tooltree.toolbox.library import Toolbox

__all__ = ["toolbox"]

SECONDS = 10.0
"""How long one call may take if nothing else is said."""


def toolbox(
    *domains: str,
    folder: str | os.PathLike[str] | None = None,
    model: "str | BaseChatModel | None" = None,
    vision: "str | BaseChatModel | None" = None,
    search: Callable[[str], Any] | Any = None,
    encyclopaedia: str | None = None,
    wikidata: str | None = None,
    pubmed: str | None = None,
    wolfram: str | None = None,
    seconds: float = SECONDS,
) -> "Toolbox":
    """Ready tools of some domains, or of all, as a `ToolLibrary`.

    ```python
    from langchain_tooltree import create_tooltree_agent
    from langchain_tooltree.toolbox import toolbox

    box = toolbox("maths", "tables", folder="data")
    agent = create_tooltree_agent("openai:gpt-4.1-mini", box, effects=box.effects)
    ```

    A tool that lacks a package, a program or a setting is left out, with one line in the log, and stands in
    `left_out`. Named itself (`toolbox("read_image_text", folder=...)`), it raises instead.

    Args:
        domains: Of `"maths"`, `"units"`, `"tables"`, `"text"`, `"documents"`, `"images"`, `"knowledge"`, or names of
            tools. All domains if there are none.
        folder: Whose files tools may read; never written.
        model: Writes summaries: a chat model, or a name for `init_chat_model`.
        vision: Looks at images: a chat model that takes them, or a name.
        search: Searches the web: a function from a query to a text or a list, a LangChain tool or a retriever.
        encyclopaedia: Address of a MediaWiki, such as `"https://en.wikipedia.org/w/api.php"`.
        wikidata: Address of a SPARQL service, such as `"https://query.wikidata.org/sparql"`.
        pubmed: Address of the E-utilities, `"https://eutils.ncbi.nlm.nih.gov/entrez/eutils"`.
        wolfram: An app id of Wolfram Alpha's LLM API.
        seconds: How long one call may take.

    Raises:
        ConfigurationError: For an unknown domain, a folder that does not exist, or a named tool without its setting.
        MissingExtraError: For a named tool without its package or program.
    """
    from langchain_tooltree.toolbox.library import chosen  # noqa: PLC0415 - the process of `bounded` does without

    settings = {"folder": folder, "model": model, "vision": vision, "search": search, "encyclopaedia": encyclopaedia}
    return chosen(domains, {**settings, "wikidata": wikidata, "pubmed": pubmed, "wolfram": wolfram, "seconds": seconds})
