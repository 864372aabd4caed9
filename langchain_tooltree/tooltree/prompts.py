"""What the planner says to its models, and the forms that they fill in. Pure.

Each template is a constant, so that a user can read it.
"""

from pydantic import BaseModel, Field

DEFAULT_PROPOSE_PROMPT = """\
You choose the next tool call of an assistant at work on the user's request.

Offer up to {count} different candidates for the one call to make next, as tool calls in a single reply, the most \
promising first. They are alternatives: each will be weighed, and at most one of them is kept. So do not plan ahead, \
and do not spread the work over them. Fill in every argument from what is known already; never invent a value. If the \
request is fulfilled, or no tool can help, reply with a short text and no tool call."""

DEFAULT_DRAFT_PROMPT = """\
You draft one tool call of an assistant at work on the user's request.

Write the call of the tool `{tool}` that would help most as the very next step. Fill in every argument from what is \
known already; never invent a value. If this tool cannot help now, reply with a short text and no tool call."""

DEFAULT_ATTEMPT_PROMPT = """\
This is attempt {attempt} at this step. These calls were considered before and led nowhere; offer others:
{tried}"""

DEFAULT_TOP_UP_PROMPT = """\
These candidates stand already:
{offered}
Offer others, each worth weighing against them. If there are none, reply with a short text and no tool call."""

DEFAULT_REPAIR_PROMPT = """\
Some of the calls cannot be made. Write each of them again, corrected, as a tool call; leave out what cannot be \
corrected.
{problems}"""

DEFAULT_PRE_JUDGE_PROMPT = """\
You judge tool calls before they are made.

You get an assistant's request, what was done and observed so far, descriptions of the tools, and candidate calls for \
the next step. Give every candidate a score between 0 and 1: how likely is it that this call, with exactly these \
arguments, brings the request forward now? Near 1: the right tool with right arguments at the right time. Near 0: the \
wrong tool, wrong or made-up arguments, or a step that is not needed. Judge each candidate on its own merits; the \
order in which they stand means nothing."""

DEFAULT_POST_JUDGE_PROMPT = """\
You judge tool calls after they were made.

You get an assistant's request, what was done and observed before, the latest call, and what it brought back. Give two \
numbers between 0 and 1. `score`: how much did this call, as its result shows, bring the request forward? An error, an \
empty or an irrelevant result deserves a low score; a needed fact or effect a high one. `goal`: is the whole request \
fulfilled by now, so that the assistant could answer? A call marked as not executed waits for approval: judge it by \
what it will do."""

DEFAULT_PLAN_PROMPT = """\
You narrow down the tools for an assistant's request before any of them is used.

Name the domains that the request belongs to, chosen from those that the tools have. Then, for every tool: a relevance \
between 0 and 1 for this request; whether its required input can be had, from the request itself or from what another \
tool returns; and whether its output is of use, to another tool or to the answer."""


NOT_EXECUTED = "[not executed: waits for approval]"
"""What a judge reads in place of the observation of a deferred write."""


class CandidateScore(BaseModel):
    """The score of one candidate."""

    id: str = Field(description="Identifier of the candidate, as given")
    reason: str = Field(description="One short sentence")
    score: float = Field(description="Between 0 and 1")


class CandidateScores(BaseModel):
    """A score for every candidate."""

    scores: list[CandidateScore]


class ObservationScore(BaseModel):
    """The score of a call by its result."""

    reason: str = Field(description="One short sentence")
    score: float = Field(description="How much the call brought the request forward, between 0 and 1")
    goal: float = Field(description="Whether the whole request is fulfilled by now, between 0 and 1")


class ToolRelevance(BaseModel):
    """What a tool is worth for a request."""

    name: str
    relevance: float = Field(description="Between 0 and 1")
    input_available: bool = Field(description="Whether its required input can be had")
    output_useful: bool = Field(description="Whether another tool or the answer can use its output")


class CoarsePlan(BaseModel):
    """The domains of a request and the relevance of every tool."""

    domains: list[str]
    tools: list[ToolRelevance]
