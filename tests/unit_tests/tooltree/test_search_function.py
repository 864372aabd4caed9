"""Whole searches through `search()` and `asearch()`: one tree at any timing, within every budget, on both paths."""

import asyncio
import threading
import time

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool, tool

from langchain_tooltree import ConfigurationError, HashingEmbeddings, ObjectSandbox, SearchConfig, asearch, search
from langchain_tooltree.errors import EmptyQueryError, ToolDefinitionError
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import run_flow
from tests.internals.tooltree import MANY_QUESTIONS, OWN_STEP, Planner, Turn, answered

ALPHA = {"alpha": "read"}
UNKNOWN = "gamma({'n': 1}): there is no tool of this name; the tools are alpha, beta"
READS = {"alpha": "read", "beta": "read"}


class Counter:
    """A little world to write to."""

    def __init__(self):
        self.total = 0

    def gamma(self, n: int) -> str:
        """Add a number."""
        self.total += n
        return f"total {self.total}"


@pytest.fixture
def hash_search(hashed, numbered_tools):
    """Arguments of an arbitrary but fixed search, with random delays if wished."""

    def arguments(seed, *, delay=0.0, **settings):
        sandbox = ObjectSandbox.of_methods(Counter())
        return {
            "query": "Do something.",
            "tools": [*numbered_tools("alpha", "beta", "delta", delay=delay), *sandbox.tools],
            "model": hashed(seed, delay=delay),
            "effects": READS,
            "sandbox": sandbox,
            "config": SearchConfig(
                **{"max_rollouts": 12, "post_threshold": 0.2, "seed": seed, **MANY_QUESTIONS, **settings}
            ),
        }

    return arguments


KINDS = pytest.mark.parametrize("kind", [MANY_QUESTIONS, OWN_STEP], ids=["many questions", "own step"])

SEEDS = {"together": 5, "own_step": 0}
"""By kind of proposals: with these, searches grow."""


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("parallel", range(1, 9))
async def test_sync_equals_async_at_any_timing(hash_search, parallel, kind):
    plain = search(**hash_search(SEEDS[kind["proposals"]], parallel_rollouts=parallel, **kind)).to_dict()
    assert len(plain["nodes"]) >= 8
    delayed = hash_search(SEEDS[kind["proposals"]], delay=0.004, parallel_rollouts=parallel, **kind)
    assert (await asyncio.to_thread(search, **delayed)).to_dict() == plain
    assert (await asearch(**delayed)).to_dict() == plain


@KINDS
@pytest.mark.parametrize("limit", range(1, 14))
async def test_every_limit_on_calls_holds(find, hash_search, limit, kind):
    result = await find(**hash_search(SEEDS[kind["proposals"]], max_model_calls=limit, parallel_rollouts=4, **kind))
    assert result.cost.model_calls <= limit
    result = await find(**hash_search(SEEDS[kind["proposals"]], max_tool_calls=limit, parallel_rollouts=4, **kind))
    assert result.cost.tool_calls <= limit


@pytest.mark.slow
@KINDS
async def test_the_estimate_is_never_exceeded(find, hash_search, kind):
    for seed in range(4):
        arguments = hash_search(seed, **kind)
        result = await find(**arguments)
        estimate = arguments["config"].estimate(4)
        assert result.cost.rollouts <= estimate.rollouts
        assert result.cost.model_calls <= estimate.model_calls
        assert result.cost.tool_calls <= estimate.tool_calls


async def test_what_is_counted_is_what_happened(find, offline, numbered_tools):
    model = offline(offers={(): [("alpha", {"n": 1}), ("beta", {"n": 1})]}, r_pre={"beta": 0.1}, goal={"alpha": 0.9})
    config = SearchConfig(selection="smoothed", max_proposals=1)
    result = await find("Go.", numbered_tools("alpha", "beta"), model=model, effects=READS, config=config)
    cost = result.cost
    assert (cost.rollouts, cost.nodes, cost.pruned_before, cost.pruned_after) == (1, 2, 1, 0)
    # A question for calls, two to the judge, before and after alpha; the answer.
    assert (cost.model_calls, cost.tool_calls, cost.cache_hits, cost.replayed) == (4, 1, 0, 0)
    assert cost.tokens > 0
    assert cost.seconds > 0
    assert (result.stop_reason, result.answer.text, result.fallback) == ("solved", "Done.", None)


@pytest.mark.slow
async def test_cancelling_returns_the_best_so_far(find, offline, numbered_tools):
    cancel, runs = threading.Event(), []
    [alpha] = numbered_tools("alpha")
    offers = {("alpha",) * length: [("alpha", {"n": length})] for length in range(9)}

    def on_event(event):
        if event["type"] == "execute":
            runs.append(event["call"])
            if len(runs) == 3:
                cancel.set()

    result = await find("Go.", [alpha], model=offline(offers=offers), effects=ALPHA, cancel=cancel, on_event=on_event)
    assert result.stop_reason == "cancelled"
    assert len(runs) in {3, 4}, "what was launched by then still comes to its end"
    assert result.steps
    assert result.answer is not None


async def test_a_search_cancelled_from_the_start_answers_without_a_plan(find, offline, numbered_tools):
    cancel = threading.Event()
    cancel.set()
    model = offline(offers={(): [("alpha", {"n": 1})]})
    result = await find("Go.", numbered_tools("alpha"), model=model, effects=ALPHA, cancel=cancel)
    assert (result.stop_reason, result.steps, result.answer.text) == ("cancelled", (), "Done.")
    assert result.cost.tool_calls == 0


# --- bad input, each with an error or a handled result of its own ---


@pytest.mark.parametrize("query", ["", "  \n", [], [AIMessage("hi")], [HumanMessage("")]])
async def test_an_empty_query_is_refused(find, offline, numbered_tools, query):
    with pytest.raises(EmptyQueryError, match="no request to plan for"):
        await find(query, numbered_tools("alpha"), model=offline())


async def test_no_tools_and_duplicate_tools_are_refused(find, offline, numbered_tools):
    with pytest.raises(ToolDefinitionError, match="There are no tools"):
        await find("Go.", [], model=offline())
    with pytest.raises(ToolDefinitionError, match="Two tools are named 'alpha'"):
        await find("Go.", numbered_tools("alpha", "alpha"), model=offline())


async def test_something_that_is_no_model_is_refused(find, offline, numbered_tools):
    with pytest.raises(ConfigurationError, match="model must be a chat model or a name"):
        await find("Go.", numbered_tools("alpha"), model=offline().bind(stop=["x"]))


@KINDS
async def test_a_model_that_never_calls_a_tool_answers_itself(find, offline, numbered_tools, kind):
    told = []
    parts = {"model": offline(), "effects": ALPHA, "config": SearchConfig(**kind)}
    result = await find("Go.", numbered_tools("alpha"), on_event=told.append, **parts)
    assert (result.steps, result.answer.text) == ((), "Done.")
    assert result.messages == [result.answer]
    assert result.fallback is None
    assert "fallback" not in {event["type"] for event in told}


async def test_a_search_in_which_every_call_fails_answers_without_a_plan_and_says_why(find, offline, numbered_tools):
    model = offline(offers={(): [("alpha", {"n": 1})]}, r_post={"alpha": 0.1})
    config = SearchConfig(selection="smoothed")  # Eq. 1 prunes, the posterior keeps what is better than nothing
    result = await find("Go.", numbered_tools("alpha"), model=model, effects=ALPHA, config=config)
    assert (result.steps, result.answer.text) == ((), "Done.")
    assert result.fallback == "no call was worth keeping (exhausted)"


@pytest.mark.parametrize(
    ("written", "reason"),
    [({"name": "omega", "args": {}}, "there is no tool of this name"), ({"name": "alpha", "args": {"n": "x"}}, "n: ")],
)
async def test_calls_that_can_never_be_made_end_in_an_answer(find, numbered_tools, written, reason):
    wrong = AIMessage("", tool_calls=[{**written, "id": "c"}])
    told = []
    result = await find(
        "Go.",
        numbered_tools("alpha"),
        model=ScriptedChatModel(replies=[wrong] * 2 * SearchConfig().max_proposals + ["Sorry."]),
        effects=ALPHA,
        config=SearchConfig(**MANY_QUESTIONS),
        on_event=told.append,
    )
    assert (result.steps, result.answer.text, result.cost.tool_calls) == ((), "Sorry.", 0)
    [fallback] = [event for event in told if event["type"] == "fallback"]
    assert all(reason in line for line in fallback["details"])


async def test_a_proposer_that_is_down_ends_the_search_and_shows_its_error(find, numbered_tools):
    down = ScriptedChatModel(replies=[ConnectionError("down")] * 20)
    with pytest.raises(ConnectionError, match="down"):
        await find("Go.", numbered_tools("alpha"), model=down)
    assert len(down.calls) == 3 * 2 + 1


@pytest.mark.parametrize("parallel", [1, 4])
async def test_a_judge_that_always_fails_ends_the_search(find, offline, numbered_tools, parallel):
    def judge(_):
        msg = "no opinion"
        raise RuntimeError(msg)

    model = offline(offers={(): [("alpha", {"n": n}) for n in range(5)]})
    result = await find(
        "Go.",
        numbered_tools("alpha"),
        model=model,
        judge=judge,
        effects=ALPHA,
        config=SearchConfig(parallel_rollouts=parallel, **MANY_QUESTIONS),
    )
    assert (result.stop_reason, result.steps, result.answer.text) == ("judge_failed", (), "Done.")


def broken(request):
    """A judge with a bug."""
    raise KeyError(request.stage)


def half_right(request):
    """A judge that mistakes the form of its second answer."""
    return [0.9] if request.stage == "pre" else {"r_post": 0.9}


@pytest.mark.parametrize(
    ("judge", "cause"),
    [
        (broken, "the judge raised KeyError('pre')"),
        (half_right, "the judge returned {'r_post': 0.9}; expected r_post or (r_post, goal), each in [0, 1]"),
        (lambda _: "high", "the judge returned 'high'; expected a number in [0, 1] for each call"),
    ],
)
async def test_a_judge_that_cannot_be_used_is_named_as_the_cause(find, offline, numbered_tools, caplog, judge, cause):
    told = []
    parts = {"model": offline(offers={(): [("alpha", {"n": 1})]}), "judge": judge, "effects": ALPHA}
    parts["config"] = SearchConfig(**MANY_QUESTIONS)
    result = await find("Go.", numbered_tools("alpha"), on_event=told.append, **parts)
    assert result.answer.text == "Done."
    [fallback] = [event for event in told if event["type"] == "fallback"]
    assert cause in fallback["details"]
    assert result.fallback in caplog.text
    assert "the judge r" in result.fallback


async def test_a_function_judge_costs_no_model_calls(find, offline, numbered_tools):
    def judge(request):
        return [0.9] * len(request.calls) if request.stage == "pre" else (0.9, 0.9)

    told = []
    parts = {"model": offline(offers={(): [("alpha", {"n": 1}), ("alpha", {"n": 2})]}), "judge": judge}
    result = await find("Go.", numbered_tools("alpha"), effects=ALPHA, on_event=told.append, **parts)
    kinds = [event["type"] for event in told]
    assert {"judge", "evaluate"} <= set(kinds)
    assert (result.stop_reason, result.cost.model_calls) == ("solved", kinds.count("propose") + 1)


async def test_a_second_judge_scores_the_observations(find, offline, numbered_tools):
    stages = {"judge": [], "post_judge": []}

    def judge(name):
        def score(request):
            stages[name].append(request.stage)
            return [0.9] * len(request.calls) if request.stage == "pre" else 0.9

        return score

    model = offline(offers={(): [("alpha", {"n": 1})]})
    judges = {name: judge(name) for name in stages}
    await find("Go.", numbered_tools("alpha"), model=model, effects=ALPHA, **judges)
    assert stages == {"judge": ["pre"], "post_judge": ["post"]}


async def test_that_nothing_can_be_tried_out_is_said(find, offline, numbered_tools, caplog):
    await find("Go.", numbered_tools("alpha"), model=offline(), effects=ALPHA)
    assert not caplog.records
    await find("Go.", numbered_tools("alpha"), model=offline())
    assert "effects={'alpha': 'read', ...}" in caplog.text


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"effects": ["alpha"]}, r"effects must be a mapping such as \{'alpha': 'read'\}, got \['alpha'\]"),
        ({"config": {"max_rollouts": 3}}, "config must be a SearchConfig, got dict"),
        ({"sandbox": object()}, "sandbox must have `tools` and `fork"),
        ({"sandbox": ObjectSandbox}, "sandbox must have `tools` and `fork"),
        ({"embeddings": object()}, "embeddings must be a LangChain Embeddings, a name"),
        ({"query": 7}, "query must be a text, a message or a list of messages, got int 7"),
        ({"query": {"messages": ["Go."]}}, "query must be a text, a message or a list of messages, got dict"),
        ({"judge": 7}, "judge must be a chat model, the name of one, or a function, got int"),
    ],
)
async def test_parts_of_the_wrong_kind_are_refused(find, offline, numbered_tools, wrong, told):
    with pytest.raises(ConfigurationError, match=told):
        await find(**{"query": "Go.", "tools": numbered_tools("alpha"), "model": offline(), **wrong})


async def test_a_message_is_a_query(find, offline, numbered_tools):
    result = await find(HumanMessage("Go."), numbered_tools("alpha"), model=offline(), effects=ALPHA)
    assert result.query == "Go."


async def test_something_that_is_no_list_of_tools_is_refused(find, offline):
    for given, kind in ((7, "int"), (tool(Counter().gamma), "StructuredTool"), ("alpha", "str")):
        with pytest.raises(ToolDefinitionError, match=f"tools must be a list of tools and functions, .*, got {kind}"):
            await find("Go.", given, model=offline())


async def test_an_undeclared_tool_never_runs(find, offline, numbered_tools):
    model = offline(offers={(): [("alpha", {"n": 1})]}, goal={"alpha": 0.9})
    result = await find("Go.", numbered_tools("alpha"), model=model)
    assert result.cost.tool_calls == 0
    assert result.pending.call.label == "alpha(n=1)"
    assert result.answer is None
    assert result.messages[-1].tool_calls[0]["name"] == "alpha"


async def test_a_conversation_may_be_given_in_any_form(find, offline, numbered_tools):
    conversation = [("system", "Be brief."), {"role": "user", "content": "Hello?"}, ("ai", "Yes?"), ("user", "Go.")]
    result = await find(conversation, numbered_tools("alpha"), model=offline(), effects=ALPHA)
    assert result.query == "Go."


async def test_a_tool_that_changes_its_arguments_does_not_change_the_plan(find, offline):
    @tool
    def take(items: list[int]) -> str:
        """Take some items."""
        taken = len(items)
        items.clear()
        return f"{taken} taken"

    model = offline(offers={(): [("take", {"items": [1, 2]})]}, goal={"take": 0.9})
    result = await find("Go.", [take], model=model, effects={"take": "read"})
    assert result.calls[0].arguments == {"items": [1, 2]}
    assert result.messages[0].tool_calls[0]["args"] == {"items": [1, 2]}


async def test_a_model_that_sees_no_use_in_the_tools_shown_is_asked_about_the_others(find, offline, numbered_tools):
    names = [f"tool_{number}" for number in range(30)]
    model = offline(offers={(): [("tool_29", {"n": 1})]}, goal={"tool_29": 0.9})
    config = SearchConfig(retrieve_top=20, always_include=tuple(names[:1]), **MANY_QUESTIONS)
    result = await find("Use tool_1 tool_2.", numbered_tools(*names), model=model, config=config)
    assert [call.tool for call in result.calls] == ["tool_29"]
    config = SearchConfig(**MANY_QUESTIONS)
    few = await find("Go.", numbered_tools("alpha"), model=offline(), effects=ALPHA, config=config)
    assert few.cost.model_calls == 2  # one question and the answer: with all tools seen, no means no


async def test_a_judge_without_goal_scores_still_gets_the_whole_plan(find, offline, numbered_tools):
    def judge(request):
        right = [call.tool == "alpha" for call in request.calls]
        return [0.9 if fits else 0.4 for fits in right] if request.stage == "pre" else (0.8 if right[0] else 0.2)

    steps = {("alpha",) * made: [("alpha", {"n": made}), ("beta", {"n": made})] for made in range(3)}
    result = await find("Go.", numbered_tools("alpha", "beta"), model=offline(offers=steps), judge=judge, effects=READS)
    assert [call.label for call in result.calls] == ["alpha(n=0)", "alpha(n=1)", "alpha(n=2)"]


async def test_odd_characters_in_arguments_do_not_end_the_search(find, offline):
    class Notes:
        """Keeps notes."""

        def note(self, text: str) -> str:
            """Keep a note."""
            return "kept"

    sandbox = ObjectSandbox.of_methods(Notes())
    model = offline(offers={(): [("note", {"text": "\ud800"})]}, goal={"note": 0.9})
    result = await find("Go.", sandbox.tools, model=model, sandbox=sandbox)
    assert result.steps[0].observation.content == "kept"


async def test_embeddings_that_are_down_end_in_the_fallback(find, offline, numbered_tools):
    class Down(HashingEmbeddings):
        def embed_documents(self, texts):
            raise ConnectionError("down")

    names = [f"tool_{number}" for number in range(21)]
    given = {"embeddings": Down(), "config": SearchConfig(tool_tokens=100), "effects": {"tool_0": "read"}}
    result = await find("Go.", numbered_tools(*names), model=offline(), **given)
    assert result.stop_reason == "proposer_failed"
    assert "the tools could not be ranked: ConnectionError: down" in result.fallback


@pytest.mark.slow
async def test_time_spent_waiting_for_a_turn_counts(offline, numbered_tools):
    def slow(n: int) -> str:
        """Take a while."""
        time.sleep(0.1)
        return str(n)

    planner = Planner(
        offline(offers={(): [("slow", {"n": n}) for n in range(5)]}, r_post={"slow": 0.1}),
        [StructuredTool.from_function(slow)],
        effects={"slow": "read"},
        config=SearchConfig(parallel_rollouts=5, max_proposals=1, **MANY_QUESTIONS),
    )
    began = time.monotonic()
    result = await asyncio.to_thread(
        run_flow, answered(Turn(planner=planner, messages=[HumanMessage("Go.")], config={"max_concurrency": 1}))
    )
    elapsed = time.monotonic() - began
    assert result.cost.tool_calls == 5
    assert 0.5 < result.cost.seconds <= elapsed


@pytest.mark.slow
async def test_tools_left_out_for_want_of_budget_are_not_taken_as_useless(find, offline, numbered_tools):
    model = offline(offers={(): [("gamma", {"n": 1})]})
    config = SearchConfig.paper(max_model_calls=3)
    names = ("alpha", "beta", "gamma")
    result = await find("Go.", numbered_tools(*names), model=model, config=config, effects=dict.fromkeys(names, "read"))
    assert result.fallback is not None
    assert "the budget left no question about this tool" in result.tree.root.dropped[-1]


async def test_an_image_is_a_request_too(find, offline, numbered_tools):
    image = HumanMessage([{"type": "image_url", "image_url": {"url": "data:,"}}])
    result = await find([image], numbered_tools("alpha"), model=offline(), effects=ALPHA)
    assert result.query == "[image_url]"


async def test_inner_runs_bear_the_names_that_the_readme_gives(find, offline, numbered_tools):
    class Names(BaseCallbackHandler):
        def __init__(self):
            self.seen = set()

        def on_chat_model_start(self, serialized, messages, *, name=None, **_):
            self.seen.add(name)

        def on_chain_start(self, serialized, inputs, *, name=None, **_):
            self.seen.add(name)  # structured output is a chain of the model and a parser, and bears the name itself

    names = Names()
    model = offline(offers={(): [("alpha", {"n": 1})]}, goal={"alpha": 0.9})
    config = SearchConfig(**MANY_QUESTIONS)
    await find("Go.", numbered_tools("alpha"), model=model, effects=ALPHA, config=config, callbacks=[names])
    assert names.seen >= {"tooltree.propose", "tooltree.pre_judge", "tooltree.post_judge", "tooltree.answer"}


async def test_a_judge_is_told_which_tools_there_are_what_was_offered_before_and_what_writes(find, hash_search):
    asked = []

    def judge(request):
        asked.append(request)
        return [0.5 for _ in request.calls] if request.stage == "pre" else (0.5, 0.1)

    await find(**hash_search(5, top_k=2) | {"judge": judge})
    assert {tuple(request.tool_names) for request in asked} == {("alpha", "beta", "delta", "gamma")}
    assert {call.tool: call.writes for request in asked for call in request.calls} == {
        "alpha": False,
        "beta": False,
        "delta": True,
        "gamma": True,
    }
    [later, *_] = [request for request in asked if request.stage == "pre" and request.tried]
    before = [
        request for request in asked if request.stage == "pre" and request.metadata["node"] == later.metadata["node"]
    ]
    first = [call.tool for call in before[0].calls]
    assert [line.partition("(")[0] for line in later.tried][: len(first)] == first


def test_a_plain_answer_is_asked_with_no_more_tools_than_a_provider_takes(numbered_tools):
    bound = []

    class Counting(ScriptedChatModel):
        def bind_tools(self, tools, **options):
            bound.append(len(tools))
            return super().bind_tools(tools, **options)

    def down(text):
        raise ConnectionError(text)

    tools = numbered_tools(*(f"tool_{number}" for number in range(200)))
    found = search("Go.", tools, model=Counting(replies=["Plain."]), retriever=down)
    assert found.fallback.endswith("the tools could not be ranked: ConnectionError: Go.")
    assert found.answer.text == "Plain."
    assert len(bound) == 1
    assert bound[0] <= 128


def test_a_call_that_could_not_be_made_is_told_also_where_the_model_wrote_it_again(numbered_tools, caplog):
    def written(name, **arguments):
        return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "1"}])

    events = []
    answer = 'It is 1. {"missing": "nothing"}'
    for first, told in ((written("alpha"), "alpha(): n: "), (written("gamma", n=1), UNKNOWN)):
        for second in (answer, written("alpha", n=1)):
            caplog.clear()
            events.clear()
            model = ScriptedChatModel(replies=[first, second, answer])
            with caplog.at_level("INFO", "langchain_tooltree"):
                result = search(
                    "Which?", numbered_tools("alpha", "beta"), model=model, effects=READS, on_event=events.append
                )
            [dropped] = result.tree.root.dropped
            assert dropped.startswith(told)
            assert dropped in caplog.text
            assert next(each["dropped"] for each in events if each["type"] == "propose") == [dropped]
            assert result.to_dict()["nodes"][0]["dropped"] == [dropped]
            assert (result.stop_reason, result.cost.model_calls) == ("solved", 2 if second == answer else 3)
