"""Effects: which calls only read; here, what users need not write themselves."""

from langchain_tooltree.effects.ready_made import http_reads, mcp_effects, sql_reads

__all__ = ["http_reads", "mcp_effects", "sql_reads"]
