"""ChromaStore: long-term memory of LangGraph on chromadb."""

from langchain_tooltree.stores.chroma.store import ChromaStore

__all__ = ["ChromaStore"]
