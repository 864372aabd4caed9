"""Approval: what a person sees of a call before it runs, on the forms of LangChain's own."""
