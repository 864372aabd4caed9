"""What tests use of CFGM beside the public names. A move inside is followed here, and nowhere else."""

# ruff: noqa: F401 - names for tests to import

from langchain_tooltree.anomaly.detector import standard_detector
from langchain_tooltree.anomaly.phrases import (
    ALFWORLD_PHRASES,
    HEAD,
    SCIENCEWORLD_PHRASES,
    WEBSHOP_PHRASES,
    Phrase,
    phrase_book,
    phrases_from,
    signals_in,
)
from langchain_tooltree.anomaly.rules import AnomalyKind, acknowledges, error_in, fields_of
from langchain_tooltree.cfgm import tips as tips_module
from langchain_tooltree.cfgm.collect import (
    DEFAULT_FAILURE_PROMPT,
    FailureForm,
    NamedTask,
    StepReading,
    Task,
    as_text,
    is_environment,
    named,
    read_step,
    resetting,
)
from langchain_tooltree.cfgm.focus import DEFAULT_FOCUS_PROMPT, LONGEST_FOCUS_POINT
from langchain_tooltree.cfgm.memory import PAPER_EMBEDDINGS
from langchain_tooltree.cfgm.recall import RecalledRun, Recollection, chain_of, most_like, recall_text
from langchain_tooltree.cfgm.reflection import (
    DEFAULT_COOLDOWN,
    DEFAULT_MAX_REFLECTIONS,
    DEFAULT_PATIENCE,
    LONGEST_CORRECTION,
    NOTE,
    NOTICES,
    REFLECTION_PROMPT,
    Reflection,
    ReflectionBudget,
    Reflector,
    advice_in,
    anomaly_in,
    correction_text,
    has_reflection,
    with_anomaly,
    with_correction,
)
from langchain_tooltree.cfgm.reflection import (
    NEXT_STEP as NEXT_STEP_MARK,
)
from langchain_tooltree.cfgm.tips import DEFAULT_COMPARISON_PROMPT, DEFAULT_SUCCESS_PROMPT, IDENTIFYING, Tip, tips_for
