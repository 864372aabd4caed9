"""ChromaStore: long-term memory of LangGraph on chromadb."""
