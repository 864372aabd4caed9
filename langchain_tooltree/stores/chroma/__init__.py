"""ChromaStore: long-term memory of LangGraph on chromadb."""

from langchain_tooltree.stores.chroma.store import ChromaStore, PatientChromaStore

__all__ = ["ChromaStore", "PatientChromaStore"]
