"""The RAG agent of LangChain's tutorial: it looks things up in a blog, as often as a question needs."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.tools import tool

BLOG = {
    "steps": "An agent splits up a task by thinking step by step.",
    "tree": "A tree of thoughts is one of the extensions of chain of thought.",
    "tools": "Agents call tools for what they do not know.",
}
DOCUMENTS = [
    Document(text, metadata={"source": name}, id=name) for name, text in BLOG.items()
]


def similar(query: str) -> list[Document]:
    """The two documents that share most words with a query; stands for your vector store."""
    words = set(query.lower().split())
    return sorted(
        DOCUMENTS, key=lambda each: -len(words & set(each.page_content.lower().split()))
    )[:2]


@tool(response_format="content_and_artifact")
def retrieve_context(query: str) -> tuple[str, list[Document]]:
    """Retrieve what the blog says about a question."""
    found = similar(query)
    return "\n\n".join(
        f"Source: {each.metadata}\nContent: {each.page_content}" for each in found
    ), found


def build(model: Any) -> Any:
    """The agent, around a model or the name of one."""
    return create_agent(
        model,
        [retrieve_context],
        system_prompt="You look things up in a blog. Use the tool to answer the user's questions.",
    )
