"""Services that the user names: an encyclopaedia and a knowledge graph. No redirect is followed."""

import json
from typing import Any

from langchain_tooltree.errors import import_extra
from langchain_tooltree.text import one_line
from langchain_tooltree.toolbox.process import refuse

MAX_ANSWER = 2_000_000  # bytes of an answer that are read
MAX_ROWS = 100  # rows of a SPARQL query that are shown
AGENT = "langchain-tooltree (https://github.com/langchain-tooltree/langchain-tooltree)"  # for Wikimedia


def _ask(address: str, parameters: dict[str, Any], seconds: float, accept: str = "application/json") -> Any:
    """What a service answers, as JSON, bounded in size. Refusals name its host alone, as an address may hold a key."""
    httpx = import_extra("httpx", "toolbox", "knowledge")
    url, data = httpx.URL(address).copy_merge_params(parameters), bytearray()
    try:
        headers = {"User-Agent": AGENT, "Accept": accept}
        with httpx.stream("GET", url, timeout=0.8 * seconds, headers=headers) as answer:  # less than the call's
            for part in answer.iter_bytes():
                data += part
                if len(data) > MAX_ANSWER:
                    refuse(f"{url.host} answered with more than {MAX_ANSWER:,} bytes. Ask for less.")
        if not answer.is_success:
            refuse(f"{url.host} answered {answer.status_code}: {one_line(data.decode('utf-8', 'replace'), 500)}")
        return json.loads(data)
    except (httpx.HTTPError, ValueError) as error:
        refuse(f"{url.host} did not answer with JSON: {type(error).__name__}. Try again later, or another tool.")


def search_encyclopaedia(query: str, *, encyclopaedia: str, seconds: float) -> str:
    """Find articles of an encyclopaedia, with the beginning of each.

    Args:
        query: A name or a few words.
    """
    search = {"action": "query", "format": "json", "formatversion": 2, "generator": "search", "gsrsearch": query}
    extracts = {"prop": "extracts", "gsrlimit": 5, "exlimit": 5, "exintro": 1, "explaintext": 1, "exchars": 1_200}
    answer = _ask(encyclopaedia, {**search, **extracts}, seconds)
    if "error" in answer:  # MediaWiki's come with status 200
        refuse(f"The encyclopaedia answered: {answer['error'].get('info')}")
    pages = sorted(answer.get("query", {}).get("pages", []), key=lambda page: page.get("index", 0))
    return "\n\n".join(f"{page['title']}: {page.get('extract', '').strip()}" for page in pages) or "Nothing was found."


def query_knowledge_graph(sparql: str, *, wikidata: str, seconds: float) -> str:
    """Ask a knowledge graph (Wikidata's prefixes) a SPARQL query.

    Args:
        sparql: A SELECT or ASK query, with a LIMIT.
    """
    answer = _ask(wikidata, {"query": sparql, "format": "json"}, seconds, "application/sparql-results+json")
    if "boolean" in answer:
        return str(answer["boolean"]).lower()
    names, rows = answer["head"]["vars"], answer["results"]["bindings"]
    lines = [" | ".join(str(row.get(name, {}).get("value", "")) for name in names) for row in rows[:MAX_ROWS]]
    lines += [f"[more rows: the first {MAX_ROWS} are shown]"] * (len(rows) > MAX_ROWS)
    return "\n".join([" | ".join(names), *lines])
