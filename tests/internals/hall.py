"""Helpers of tests around the parts that all rooms share."""

from langchain_tooltree.effects import CallEffects
from langchain_tooltree.models import document_prompt
from langchain_tooltree.tools import check_effects


def told_as_data(instruction):
    """An instruction as a model reads it before a document."""
    return document_prompt(instruction, {})[0].text


def classify_tools(library, effects=None, sandbox=None):
    """What each tool's calls do, by what is known of it without arguments, as a planner with these options takes it."""
    declared = CallEffects.declared_as(effects)
    check_effects(
        library, declared, [tool.name for tool in sandbox.tools] if sandbox else ()
    )
    known = declared.among(library)
    return {name: known.of(name, {}) for name in library.names}
