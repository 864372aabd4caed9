"""The search kernel: it decides what to do next, and knows no LangChain and no I/O. Pure."""
