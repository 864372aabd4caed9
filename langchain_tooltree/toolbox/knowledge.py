"""Knowledge: services that the user names. Nothing else is called."""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from langchain_tooltree.errors import import_extra
from langchain_tooltree.toolbox.entries import RefusedError, check_text, entry

MAX_QUERY = 5_000
"""Characters of a query."""

MAX_ANSWER = 2_000_000
"""Bytes of an answer that are read."""

MAX_HITS = 10
"""Hits of a search that are shown."""

MAX_BINDINGS = 100
"""Rows of a SPARQL query that are shown."""

PATIENCE = 0.8
"""Share of a call's time that a service may be silent, so that the model reads of it before the call is ended."""

AGENT = "langchain-tooltree (https://github.com/langchain-tooltree/langchain-tooltree)"
"""Wikimedia asks every program to say what it is."""


def _get(address: str, parameters: dict[str, Any], seconds: float, accept: str = "application/json") -> str:
    """What a service answers, as text; bounded in size, and without following it anywhere else."""
    httpx = import_extra("httpx", "toolbox", "knowledge")
    data, headers = bytearray(), {"User-Agent": AGENT, "Accept": accept}
    host, patience = urlsplit(address).hostname, PATIENCE * seconds
    try:
        wanted = httpx.URL(address).copy_merge_params(parameters)
        with httpx.stream("GET", wanted, timeout=patience, headers=headers) as answer:
            for part in answer.iter_bytes():
                data += part
                if len(data) > MAX_ANSWER:
                    msg = f"{host} answered with more than {MAX_ANSWER:,} bytes."
                    raise RefusedError(msg)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        msg = f"{host} cannot be asked: {type(error).__name__}. Try again later, or another tool."
        raise RefusedError(msg) from error
    text = data.decode("utf-8", "replace")
    if not answer.is_success:
        msg = f"{host} answered {answer.status_code}: {_bare(text)[:500]}"
        raise RefusedError(msg)
    return text


def _json(address: str, parameters: dict[str, Any], seconds: float, accept: str = "application/json") -> Any:
    try:
        return json.loads(_get(address, parameters, seconds, accept))
    except (ValueError, RecursionError) as error:
        msg = f"{urlsplit(address).hostname} did not answer with JSON."
        raise RefusedError(msg) from error


def _bare(text: Any) -> str:
    """Text without tags, on one line."""
    return " ".join(re.sub(r"<[^<>]{0,1000}>", " ", str(text)).split())


@entry("knowledge", {"query": "population of Granada 2024"}, bounded=False)
def search_web(query: str, *, search: Callable[[str], Any]) -> str:
    """Search the web, for what is new or stands nowhere else.

    Args:
        query: What to search for.
    """
    found = (search.invoke if hasattr(search, "invoke") else search)(check_text("query", query, MAX_QUERY))
    if isinstance(found, list):
        return "\n".join(str(getattr(each, "page_content", each)) for each in found[:MAX_HITS]) or "Nothing was found."
    return str(found)


@entry("knowledge", {"query": "Alhambra"}, packages=("httpx",))
def search_encyclopaedia(query: str, *, encyclopaedia: str, seconds: float) -> str:
    """Find articles of an encyclopaedia, with the beginning of each.

    Args:
        query: A name or a few words.
    """
    parameters = {"action": "query", "format": "json", "formatversion": 2, "generator": "search", "prop": "extracts"}
    parameters |= {"gsrsearch": check_text("query", query, MAX_QUERY), "gsrlimit": 5, "exlimit": 5}
    answer = _json(encyclopaedia, {**parameters, "exintro": 1, "explaintext": 1, "exchars": 1_200}, seconds)
    try:
        if "error" in answer:  # MediaWiki's come with status 200
            msg = f"{urlsplit(encyclopaedia).hostname} answered: {_bare(answer['error'].get('info'))[:500]}"
            raise RefusedError(msg)
        pages = sorted(answer.get("query", {}).get("pages", []), key=lambda page: page.get("index", 0))
        texts = [f"{page['title']}: {page.get('extract', '').strip()}" for page in pages]
    except (AttributeError, KeyError, TypeError) as error:
        raise _strange(encyclopaedia) from error
    return "\n\n".join(texts) or "Nothing was found."


def _strange(address: str) -> RefusedError:
    return RefusedError(f"{urlsplit(address).hostname} answered in a form that is not known.")


@entry("knowledge", {"sparql": "SELECT ?population WHERE { wd:Q8810 wdt:P1082 ?population }"}, packages=("httpx",))
def query_knowledge_graph(sparql: str, *, wikidata: str, seconds: float) -> str:
    """Ask a knowledge graph (Wikidata's prefixes) a SPARQL query.

    Args:
        sparql: A SELECT or ASK query, with a LIMIT.
    """
    parameters = {"query": check_text("sparql", sparql, MAX_QUERY), "format": "json"}
    answer = _json(wikidata, parameters, seconds, "application/sparql-results+json")
    try:
        if "boolean" in answer:
            return str(answer["boolean"]).lower()
        names, rows = answer["head"]["vars"], answer["results"]["bindings"]
        lines = [" | ".join(str(row.get(name, {}).get("value", "")) for name in names) for row in rows[:MAX_BINDINGS]]
    except (AttributeError, KeyError, TypeError) as error:
        raise _strange(wikidata) from error
    lines += [f"[more rows: the first {MAX_BINDINGS} are shown]"] * (len(rows) > MAX_BINDINGS)
    return "\n".join([" | ".join(names), *lines])


@entry("knowledge", {"query": "aspirin stroke prevention"}, packages=("httpx",))
def search_pubmed(query: str, *, pubmed: str, seconds: float) -> str:
    """Find medical articles in PubMed: title, journal, date and number of each.

    Args:
        query: Words, or PubMed's own syntax.
    """
    base = pubmed.rstrip("/")
    common = {"db": "pubmed", "retmode": "json"}
    terms = {"term": check_text("query", query, MAX_QUERY), "retmax": MAX_HITS}
    found = _json(f"{base}/esearch.fcgi", {**common, **terms}, seconds)
    try:
        numbers = [str(int(each)) for each in found["esearchresult"]["idlist"]][:MAX_HITS]
        if not numbers:
            return "Nothing was found."
        about = _json(f"{base}/esummary.fcgi", {**common, "id": ",".join(numbers)}, seconds)["result"]
        articles = [(number, about[number]) for number in numbers if "title" in about.get(number, {})]
        return "\n".join(
            f"{_bare(each['title'])} {each.get('source', '')}, {each.get('pubdate', '')}. PMID {number}"
            for number, each in articles
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _strange(pubmed) from error


@entry("knowledge", {"question": "distance from Earth to Jupiter today"}, packages=("httpx",))
def ask_wolfram_alpha(question: str, *, wolfram: str, seconds: float) -> str:
    """Ask Wolfram Alpha, which computes and knows figures of science, geography, nutrition and finance.

    Args:
        question: In English, or a formula.
    """
    address = "https://api.wolframalpha.com/v1/llm-api"
    parameters = {"input": check_text("question", question, MAX_QUERY), "appid": wolfram}
    try:
        return _get(address, parameters, seconds, "text/plain").replace(wolfram, "(key)")
    except RefusedError as refused:
        raise RefusedError(str(refused).replace(wolfram, "(key)")) from None
