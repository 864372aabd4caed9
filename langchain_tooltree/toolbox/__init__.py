"""Fifteen ready tools by domain, each with a card, examples, an effect and limits: `toolbox("maths", "tables")`.

All of them only read. Files come from one folder that the user names, services from addresses that the user gives;
nothing else is opened or called. A call that takes too long is ended.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from langchain_tooltree.toolbox.library import Toolbox

__all__ = ["toolbox"]


def toolbox(
    *domains: str,
    folder: str | os.PathLike[str] | None = None,
    vision: "str | BaseChatModel | None" = None,
    encyclopaedia: str | None = None,
    wikidata: str | None = None,
    seconds: float = 10.0,
) -> "Toolbox":
    """Ready tools of some domains, or of all, as a `ToolLibrary`.

    A tool that lacks a package or a setting is left out, with a line in the log, unless you name the tool itself.

    Args:
        domains: Of `"maths"`, `"units"`, `"tables"`, `"documents"`, `"images"` and `"knowledge"`, or names of tools.
            All domains if there are none.
        folder: The folder whose files the tools may read; nothing is written there.
        vision: Answers questions about images: a chat model that takes images, or a name for `init_chat_model`.
        encyclopaedia: Address of a MediaWiki, such as `"https://en.wikipedia.org/w/api.php"`.
        wikidata: Address of a SPARQL service, such as `"https://query.wikidata.org/sparql"`.
        seconds: Time limit of one call, above 0 and up to 600.

    Raises:
        ConfigurationError: For an unknown domain, a folder that does not exist, or a named tool without its setting.
        MissingExtraError: For a named tool without its package.
    """
    from langchain_tooltree.toolbox.library import make_toolbox  # noqa: PLC0415 - the process of tools does without

    settings = {"folder": folder, "vision": vision, "encyclopaedia": encyclopaedia, "wikidata": wikidata}
    return make_toolbox(domains, {**settings, "seconds": seconds})
