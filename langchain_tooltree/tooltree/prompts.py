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

DEFAULT_CANDIDATES_PROMPT = """\
You choose the next tool call of an assistant at work on the user's request.

Offer up to {count} different candidates for the one call to make next, as tool calls in a single reply, the most \
promising first. They are alternatives: each will be weighed, and at most one of them is kept. So do not plan ahead, \
and do not spread the work over them. Fill in every argument from what is known already; never invent a value. Give \
each candidate its `confidence`: how likely it is, between 0 and 1, that this call, with exactly these arguments, is \
right to make now."""

DEFAULT_ASSESS_PROMPT = """\
In the same reply, besides the candidates, call `{assess}` once. If the request is fulfilled, or no tool can help, \
call `{assess}` alone."""

DEFAULT_NOTHING_PROMPT = """\
If the request is fulfilled, or no tool can help, reply with a short text and no tool call."""

DEFAULT_ATTEMPT_PROMPT = """\
This is attempt {attempt} at this step."""

DEFAULT_TRIED_PROMPT = """\
These calls were made or considered here before, and did not get the request done; offer others:
{tried}"""

DEFAULT_MISSING_PROMPT = """\
A check of the work found that this part of the request is not done yet; offer calls that help to get it done:
{missing}"""

DEFAULT_STEP_PROMPT = """\
End answers with "Missing: <todo or nothing>\""""
"""Stands at the end of the agent's own instructions where a state is asked for the first time. It is short, because
each step of a search pays for it: where an agent sends 100 tokens, these 11 are a tenth."""

DEFAULT_STEP_CALLS_PROMPT = """\
End answers with {"done": "yes|no|ask user", "maybe_missing": [up to 3 {"tool": "", "args": {}, "confidence": 0-1}]}"""
"""Stands there instead where the request is large enough: an answer then also names calls that may still be needed, so
that a search that doubts the answer need not ask for them. An agent that has to ask its user can say so: else it names
the very call that it asks about, such as a booking that needs consent."""

DEFAULT_STEP_REPAIR_PROMPT = """\
Your last reply here could not be carried out:
{problems}
Reply again, with all the tool calls that you want made now, corrected."""

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

DEFAULT_CHECK_PROMPT = """\
You check an assistant's work before its answer goes to the user.

You get the user's request, what was said, done and observed, and the answer. Go through the latest request part by \
part: what of it is not done yet? Something counts as done if a result shows it, not because the answer says so. \
Something counts as missing only if the user asked for it: in words, or because what was asked for cannot be had \
without it. If the assistant rightly needs the user first, to choose or to supply what no tool can find out, nothing \
is missing. Name each missing thing in a few words, as something to do next."""

DEFAULT_PLAN_PROMPT = """\
You narrow down the tools for an assistant's request before any of them is used.

Name the domains that the request belongs to, chosen from those that the tools have. Then, for every tool: a relevance \
between 0 and 1 for this request; whether its required input can be had, from the request itself or from what another \
tool returns; and whether its output is of use, to another tool or to the answer."""


CONFIDENCE_DESCRIPTION = "How likely this is the right call to make now, 0 to 1"

ASSESS_DESCRIPTION = "Not a candidate: says how the request stands before the next call."

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


class RequestCheck(BaseModel):
    """Whether a request is fulfilled."""

    missing: list[str] = Field(description="What of the request is not done yet, each in a few words; empty if nothing")
    fulfilled: bool = Field(description="True if nothing is missing")


class Assessment(BaseModel):
    """How things stand, said beside candidates."""

    last_result: float = Field(
        description="How much the latest tool result brought the request forward, 0 to 1; near 0 for an error or an "
        "empty or irrelevant result"
    )
    missing: list[str] = Field(description="What of the request is not done yet, each in a few words; empty if nothing")
    fulfilled: bool = Field(description="True if nothing is missing")


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
