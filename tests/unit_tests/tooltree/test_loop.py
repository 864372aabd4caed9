"""The search in the host's own loop: in an agent and in a graph of one's own, by what users and models see of it."""

import json

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.types import Command
from pydantic import BaseModel

from langchain_tooltree import (
    ConfigurationError,
    SearchConfig,
    ToolTreeMiddleware,
    create_tooltree_agent,
    search_result,
)
from langchain_tooltree.tooltree.completeness_report import (
    REPORT_AND_CALL_PROMPT,
    REPORT_PROMPT,
)
from langchain_tooltree.tooltree.prompts import (
    AGAIN_PROMPT,
    IDLE_PROMPT,
    OPEN_PROMPT,
    OTHERS_PROMPT,
)
from tests.unit_tests.tooltree.loops import (
    FORMS,
    GO,
    READS,
    AddedUp,
    Shop,
    agent_of,
    calls,
    check_clean,
    graph_of,
    naming,
    report,
    scripted,
    shown,
    tokens,
)

THREAD = {"configurable": {"thread_id": "1"}}


class Usage(BaseCallbackHandler):
    """What all model calls of a run cost."""

    def __init__(self):
        self.tokens = 0

    def on_llm_end(self, response, **_):
        self.tokens += response.generations[0][0].message.usage_metadata["total_tokens"]


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture
def run(form, shop, either):
    """Runs a scripted model in either form, and checks what holds for every run; returns the conversation."""

    async def play(model, *, messages=GO, config=None, **options):
        graph = FORMS[form](model, shop.tools(), **{"effects": READS, **options})
        usage = Usage()
        config = {**(config or {}), "callbacks": [usage]}
        result = await either(graph.invoke, graph.ainvoke)(
            {"messages": messages}, config
        )
        if "messages" in result and "__interrupt__" not in result:
            check_clean(result["messages"])
            assert tokens(result["messages"]) == usage.tokens, (
                "all that was spent is told"
            )
        assert set(result) <= {"messages", "__interrupt__"}
        return result["messages"]

    return play


def about(messages):
    return messages[-1].response_metadata.get("tooltree")


# --- without a doubt ---


async def test_a_sure_answer_is_the_plain_agent_s(run, shop):
    replies = (
        calls(("stock", "tea"), ("order", "milk"), text="Looking."),
        "There are 7.",
    )
    plain = create_agent(scripted(*replies), shop.tools()).invoke({"messages": GO})[
        "messages"
    ]
    model = scripted(replies[0], report(replies[1]))
    messages = await run(model)
    assert shown(messages) == shown(plain)
    assert [message.tool_calls for message in messages[1::3]] == [
        message.tool_calls for message in plain[1::3]
    ]
    assert about(messages) is None
    for prompt in model.calls:
        assert prompt[0].text == REPORT_PROMPT
    assert shown(model.calls[1][1:]) == shown(plain[:-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer", ["There are 7.", '{"tea": 7}', '{"amount": 7} of them', '{"tea', "[7]"]
)
async def test_an_answer_without_a_report_is_taken_as_it_is(run, answer):
    messages = await run(scripted(calls(("stock", "tea")), answer))
    assert messages[-1].text == answer
    assert about(messages) is None


async def test_the_report_stands_behind_the_agent_s_instructions_and_names_a_call_in_large_requests(
    shop,
):
    for size, line in ((10, REPORT_PROMPT), (6_000, REPORT_AND_CALL_PROMPT)):
        model = scripted(report("Hello."))
        system = SystemMessage("x" * size)
        create_agent(
            model,
            shop.tools(),
            system_prompt=system,
            middleware=[ToolTreeMiddleware(effects=READS)],
        ).invoke({"messages": [HumanMessage("Hello")]})
        assert model.calls[0][0].text == f"{'x' * size}\n\n{line}"


async def test_requests_that_have_no_room_for_a_report_go_as_they_are(shop):
    class Forced(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(tool_choice="any"))

    model = scripted("Hello.")
    create_agent(
        model, shop.tools(), middleware=[Forced(), ToolTreeMiddleware(effects=READS)]
    ).invoke({"messages": GO})
    assert model.calls == [GO]
    bare = scripted("Hello.")
    create_agent(bare, [], middleware=[ToolTreeMiddleware()]).invoke({"messages": GO})
    assert bare.calls == [GO]


# --- what is done at a doubt, cheapest first ---


async def test_a_named_read_is_run_and_the_agent_goes_on(run, shop):
    model = scripted(
        calls(("stock", "tea")),
        report(
            "7, but what they cost I cannot tell.",
            "the price",
            **naming("price", "tea"),
        ),
        report("7, at 2 euros."),
    )
    messages = await run(model)
    assert shown(messages)[1:] == [
        "stock(tea)",
        "7 of tea",
        "price(tea)",
        "tea is 2 euros",
        "7, at 2 euros.",
    ]
    assert shop.made == ["stock(tea)", "price(tea)"]
    told = {"stop_reason": "answered", "model_calls": 1, "tried": [], "missing": ""}
    assert {name: about(messages)[name] for name in told} == told
    *path, note = shown(model.calls[-1])[1:]
    assert path == shown(messages)[:-1], "the doubtful answer is not in the way"
    assert note == OPEN_PROMPT.format(missing="the price")


@pytest.mark.parametrize(
    "named", [("order", "tea"), ("nothing", "tea"), ("stock", "tea")], ids=" ".join
)
async def test_no_write_unknown_tool_or_call_made_before_is_run_because_a_report_names_it(
    run, shop, named
):
    model = scripted(
        calls(("stock", "tea")),
        report("7.", "a thing", **naming(*named)),
        report("Still 7."),
    )
    messages = await run(model)
    assert shop.made == ["stock(tea)"]
    assert model.calls[-1][-1].text == AGAIN_PROMPT.format(missing="a thing")
    assert messages[-1].text == "Still 7."


async def test_the_agent_is_asked_again_with_what_it_left_open_and_may_mend_its_words(
    run,
):
    model = scripted(
        calls(("stock", "tea")), report("A lot.", "the number"), report("7.")
    )
    messages = await run(model)
    assert messages[-1].text == "7."
    asked = model.calls[-1]
    assert shown(asked)[-2:] == ["A lot.", AGAIN_PROMPT.format(missing="the number")]
    assert isinstance(asked[-1], HumanMessage)


async def test_an_answer_that_mends_nothing_leaves_the_first_one(run):
    model = scripted(
        calls(("stock", "tea")),
        *[report(f"Answer {n}.", "the colour") for n in range(3)],
        "No idea.",
    )
    messages = await run(model)
    assert messages[-1].text == "Answer 0."
    assert (about(messages)["missing"], about(messages)["stop_reason"]) == (
        "the colour",
        "exhausted",
    )


def others(*offered):
    """A run that comes to ask for other calls, and is offered these."""
    doubtful = [report(f"Answer {n}.", "the colour") for n in range(3)]
    return [calls(("stock", "tea")), *doubtful, calls(*offered)]


async def test_other_calls_are_asked_for_and_the_first_untried_read_is_run(run, shop):
    offered = ("order", "tea"), ("stock", "tea"), ("price", "tea"), ("stock", "milk")
    model = scripted(*others(*offered), report("It is black."))
    messages = await run(model)
    assert shop.made == ["stock(tea)", "price(tea)"]
    note = model.calls[4][-1].text
    assert note == OTHERS_PROMPT.format(
        count=5, missing="the colour", tried='stock(item="tea")', past=""
    )
    assert shown(messages)[-3:] == ["price(tea)", "tea is 2 euros", "It is black."]
    assert about(messages)["model_calls"] == 4


async def test_a_branch_that_brought_nothing_back_is_pruned_and_the_next_one_is_run_without_a_question(
    run, shop
):
    model = scripted(
        *others(("broken", "tea"), ("price", "tea")), report("It is black.")
    )
    messages = await run(model)
    assert shop.made == ["stock(tea)", "broken(tea)", "price(tea)"]
    assert shown(messages)[1:] == [
        "stock(tea)",
        "7 of tea",
        "price(tea)",
        "tea is 2 euros",
        "It is black.",
    ]
    assert about(messages)["tried"] == ['broken(item="tea")']
    assert [line for line in shown(model.calls[-1]) if "broken" in line] == []
    tree = search_result(messages[-1]).tree
    assert [node.pruned for node in tree.nodes] == [None, None, "post_evaluation", None]


async def test_reads_that_failed_are_where_a_search_goes_back_to(run, shop):
    doubtful = [report(f"Answer {n}.", "the colour") for n in range(3)]
    model = scripted(
        calls(("broken", "tea")), *doubtful, calls(("price", "tea")), report("Black.")
    )
    messages = await run(model)
    assert shown(model.calls[4])[-2] == GO[0].text, (
        "the weakest state is the one before the read that failed"
    )
    assert shown(messages) == [GO[0].text, "price(tea)", "tea is 2 euros", "Black."]
    assert about(messages)["tried"] == ['broken(item="tea")']


@pytest.mark.parametrize(
    "result",
    [
        "[]",
        "",
        "null",
        '{"results": []}',
        '{"items": [], "more": false}',
        "No flights found.",
        "No results were found.",
        "Error: no such item",
    ],
)
async def test_a_read_without_data_is_left_out_of_the_conversation(run, shop, result):
    shop.result_of_broken = result
    doubtful = [report(f"Answer {n}.", "the colour") for n in range(3)]
    model = scripted(
        calls(("broken", "tea")), *doubtful, calls(("price", "tea")), report("Black.")
    )

    messages = await run(model)

    assert shown(messages) == [GO[0].text, "price(tea)", "tea is 2 euros", "Black."]
    assert about(messages)["tried"] == ['broken(item="tea")']


@pytest.mark.parametrize("result", ['{"results": ["tea"]}', "No sugar in it: black."])
async def test_a_read_with_data_stays_in_the_conversation(run, shop, result):
    shop.result_of_broken = result
    doubtful = [report(f"Answer {n}.", "the colour") for n in range(3)]
    model = scripted(
        calls(("broken", "tea")), *doubtful, calls(("price", "tea")), report("Black.")
    )

    messages = await run(model)

    assert shown(messages)[1:3] == ["broken(tea)", result]


async def test_no_branch_begins_before_a_write(run, shop):
    doubtful = [report(f"Answer {n}.", "the colour") for n in range(3)]
    model = scripted(
        calls(("broken", "tea")),
        calls(("order", "tea")),
        *doubtful,
        calls(("price", "tea")),
        report("Black."),
    )
    messages = await run(model)
    assert shown(model.calls[5])[-5:-1] == [
        "broken(tea)",
        "",
        "order(tea)",
        "ordered tea",
    ]
    assert [line for line in shown(messages) if "(" in line] == [
        "broken(tea)",
        "order(tea)",
        "price(tea)",
    ]


async def test_a_turn_that_ends_without_any_call_is_asked_once_more_where_a_tool_fits(
    run, shop
):
    asked = [HumanMessage("Count the tea in the stock.", id="go")]
    model = scripted(report("I cannot know."), calls(("stock", "tea")), report("7."))
    messages = await run(model, messages=asked)
    assert shown(model.calls[1])[-2:] == ["I cannot know.", IDLE_PROMPT]
    assert (messages[-1].text, shop.made) == ("7.", ["stock(tea)"])
    small = scripted(report("Hello."))
    assert (await run(small, messages=[HumanMessage("Hello!", id="go")]))[
        -1
    ].text == "Hello."


# --- writes ---


@pytest.mark.slow
async def test_a_write_after_an_answer_needs_a_report_that_misses_it(run, shop):
    first = calls(("stock", "tea"))
    alone = scripted(first, report("7.", "the colour"), calls(("order", "tea")))
    messages = await run(alone)
    assert (shop.made, messages[-1].text) == (["stock(tea)"], "7.")
    assert about(messages)["stop_reason"] == "write_not_missing"
    both = scripted(
        first,
        report("7.", "the order of tea"),
        calls(("order", "tea")),
        report("Ordered."),
    )
    messages = await run(both)
    assert shop.made[1:] == ["stock(tea)", "order(tea)"]
    assert (messages[-1].text, about(messages)["missing"]) == ("Ordered.", "")


async def test_an_answer_after_a_write_is_the_only_one_that_is_still_true(run):
    ordered = (
        calls(("order", "tea")),
        report("Ordered, I believe.", "a receipt"),
        report("Ordered.", "a receipt"),
    )
    replies = (
        calls(("stock", "tea")),
        report("7.", "the order of tea"),
        *ordered,
        report("Ordered!", "a receipt"),
    )
    messages = await run(scripted(*replies))
    assert messages[-1].text == "Ordered, I believe."
    assert "order(tea)" in shown(messages)


async def test_what_a_person_decided_on_stays_in_the_conversation(shop):
    approval = HumanInTheLoopMiddleware({"price": True})
    model = scripted(*others(("price", "tea"), ("stock", "milk")), report("Unknown."))
    agent = agent_of(
        model,
        shop.tools(),
        effects=READS,
        middleware=[approval],
        checkpointer=InMemorySaver(),
    )
    stopped = agent.invoke({"messages": GO}, THREAD)
    [question] = stopped["__interrupt__"]
    assert question.value["action_requests"][0]["name"] == "price"
    no = Command(resume={"decisions": [{"type": "reject", "message": "Not that."}]})
    messages = agent.invoke(no, THREAD)["messages"]
    check_clean(messages)
    assert "price(tea)" in shown(messages)
    assert "price(tea)" not in shop.made


# --- limits ---


@pytest.mark.parametrize(
    ("config", "extra"),
    [
        (SearchConfig(effort="frugal"), 2),
        (SearchConfig(), 4),
        (SearchConfig(effort="thorough"), 8),
        (SearchConfig(max_model_calls=1), 1),
        (SearchConfig(max_seconds=1e-9), 0),
    ],
    ids=["frugal", "balanced", "thorough", "one", "no time"],
)
async def test_what_a_search_may_cost_is_bounded_by_effort_calls_and_time(
    shop, config, extra
):
    asked = 0

    def doubtful(messages):
        nonlocal asked
        asked += 1
        if messages[-1].text.endswith(OTHERS_PROMPT.rpartition("\n")[2]):
            return calls(*(("stock", f"{asked}{n}") for n in range(5)))
        return report("Unknown.", "the colour")

    agent = agent_of(
        scripted(*[doubtful] * 40), shop.tools(), effects=READS, config=config
    )
    messages = agent.invoke({"messages": GO})["messages"]
    assert messages[-1].text == "Unknown."
    assert 1 <= asked - 1 <= max(extra, 1)
    assert extra == 0 or asked - 1 >= extra / 2


@pytest.mark.slow
@pytest.mark.parametrize("limit", [*range(4, 20, 3), 20, 25])
def test_a_graph_s_recursion_limit_ends_a_search_with_the_best_answer(shop, limit):
    replies = [*others(("broken", "tea"), ("price", "tea")), report("It is black.")]
    graph = graph_of(scripted(*replies), shop.tools(), effects=READS)
    messages = graph.invoke({"messages": GO}, {"recursion_limit": limit})["messages"]
    check_clean(messages)
    assert messages[-1].text in {"Answer 0.", "It is black."}
    assert limit < 20 or messages[-1].text == "It is black."


def test_a_recursion_limit_that_the_plain_agent_exceeds_is_exceeded(shop):
    with pytest.raises(GraphRecursionError):
        graph_of(scripted(calls(("broken", "tea"))), shop.tools()).invoke(
            {"messages": GO}, {"recursion_limit": 2}
        )


def test_a_limit_of_the_user_s_ends_a_search_and_no_branch_stays(shop):
    limit = ModelCallLimitMiddleware(run_limit=3, exit_behavior="end")
    replies = [
        calls(("broken", "tea")),
        *others(("price", "tea"))[1:],
        report("Black."),
    ]
    agent = create_tooltree_agent(
        scripted(*replies), shop.tools(), effects=READS, middleware=[limit]
    )
    messages = agent.invoke({"messages": GO})["messages"]
    check_clean(messages)
    assert [
        line for line in shown(messages) if len(messages) > 3 and "broken" in line
    ] == []


# --- the state ---


def test_a_reducer_that_cannot_remove_messages_is_left_with_one_path(shop):
    model = scripted(calls(("stock", "tea")), report("7.", "the colour"))
    graph = graph_of(model, shop.tools(), effects=READS, state=AddedUp)
    messages = graph.invoke({"messages": [HumanMessage(GO[0].text)]})["messages"]
    assert shown(messages) == [GO[0].text, "stock(tea)", "7 of tea", "7."]
    assert messages[-1].response_metadata.get("tooltree") is None


def saved(form, shop, *replies, **options):
    model = scripted(*replies)
    return model, FORMS[form](
        model, shop.tools(), effects=READS, checkpointer=InMemorySaver(), **options
    )


BRANCHED = [*others(("broken", "tea"), ("price", "tea")), report("It is black.")]


def test_the_next_turn_begins_anew_on_the_clean_path(form, shop):
    model, graph = saved(
        form, shop, *BRANCHED, report("Hm.", "the colour"), report("Green.")
    )
    graph.invoke({"messages": GO}, THREAD)
    before = graph.get_state(THREAD).values["messages"]
    messages = graph.invoke(
        {"messages": [HumanMessage("And the other?", id="next")]}, THREAD
    )["messages"]
    assert shown(model.calls[6])[1:] == [*shown(before), "And the other?"]
    assert shown(messages) == [*shown(before), "And the other?", "Green."]
    check_clean(messages)
    assert about(messages)["model_calls"] == 1


def test_from_every_checkpoint_of_a_search_the_run_goes_on_as_it_did(form, shop):
    _, graph = saved(form, shop, *BRANCHED)
    end = graph.invoke({"messages": GO}, THREAD)["messages"]
    replies = list(BRANCHED)
    tried = 0
    for snapshot in list(graph.get_state_history(THREAD)):
        if not snapshot.next or snapshot.next == ("__start__",):
            continue
        asked = sum(
            {"": 0, "stock": 1, "broken": 5, "price": 5}[message.name or ""]
            for message in snapshot.values["messages"][-1:]
        )
        if snapshot.next[0] == "tools":
            continue
        model = scripted(*replies[asked:])
        again = FORMS[form](
            model, shop.tools(), effects=READS, checkpointer=graph.checkpointer
        )
        messages = again.invoke(None, snapshot.config)["messages"]
        assert shown(messages) == shown(end)
        check_clean(messages)
        tried += 1
    assert tried == 4


def test_a_search_that_is_left_for_another_message_leaves_no_branch_in_the_next_turn_s_prompt(
    shop,
):
    _, graph = saved("agent", shop, *BRANCHED)
    graph.invoke({"messages": GO}, THREAD)
    middle = next(
        each.config
        for each in graph.get_state_history(THREAD)
        if each.next == ("model",) and each.values["messages"][-1].name == "price"
    )
    fork = graph.update_state(
        middle,
        {"messages": [HumanMessage("Never mind: hello!", id="other")]},
        as_node="tools",
    )
    model = scripted(report("Hello."))
    other = agent_of(
        model, shop.tools(), effects=READS, checkpointer=graph.checkpointer
    )
    messages = other.invoke(None, fork)["messages"]
    assert shown(model.calls[0])[1:] == [
        GO[0].text,
        "stock(tea)",
        "7 of tea",
        "price(tea)",
        "tea is 2 euros",
        "Never mind: hello!",
    ]
    assert messages[-1].text == "Hello."
    check_clean(messages)


def test_messages_that_other_middleware_removes_are_forgotten(shop):
    class Forgetful(AgentMiddleware):
        """Removes the first call of a turn and its result, before the question that follows its third result."""

        def before_model(self, state, runtime):
            results = [each for each in state["messages"] if each.type == "tool"]
            gone = state["messages"][1:3] if len(results) == 3 else ()
            return (
                {"messages": [RemoveMessage(id=each.id) for each in gone]}
                if gone
                else None
            )

    model = scripted(*BRANCHED)
    agent = agent_of(model, shop.tools(), effects=READS, middleware=[Forgetful()])
    messages = agent.invoke({"messages": GO})["messages"]
    check_clean(messages)
    assert shown(messages) == [
        GO[0].text,
        "price(tea)",
        "tea is 2 euros",
        "It is black.",
    ]


def test_a_summary_in_the_middle_of_a_search_leaves_an_answer_and_a_clean_path(shop):
    class Summing(AgentMiddleware):
        """Puts a summary in the place of everything, as `SummarizationMiddleware` does, at the third result."""

        def before_model(self, state, runtime):
            results = [each for each in state["messages"] if each.type == "tool"]
            if len(results) < 3:
                return None
            summary = HumanMessage(
                "There are 7, it costs 2.",
                additional_kwargs={"lc_source": "summarization"},
            )
            return {"messages": [RemoveMessage(id="__remove_all__"), summary]}

    model = scripted(*BRANCHED)
    agent = agent_of(model, shop.tools(), effects=READS, middleware=[Summing()])
    messages = agent.invoke({"messages": GO})["messages"]
    check_clean(messages)
    assert shown(messages) == ["There are 7, it costs 2.", "It is black."]


# --- judges ---


class Careful:
    """A judge by functions: what it scores, and what it says of answers."""

    def __init__(self, *, pre=(), post=0.9, goal=0.9):
        self.pre, self.post, self.goal = dict(pre), post, goal
        self.stages = []

    def __call__(self, request):
        self.stages.append(request.stage)
        if request.stage == "pre":
            return [self.pre.get(call.tool, 0.9) for call in request.calls]
        return self.post, self.goal(request) if callable(self.goal) else self.goal


async def test_a_judge_doubts_an_answer_that_reports_nothing(run):
    model = scripted(calls(("stock", "tea")), report("A lot."), report("7."))
    messages = await run(
        model, judge=Careful(goal=lambda request: float("7" in request.answer))
    )
    assert messages[-1].text == "7."
    assert about(messages)["model_calls"] == 1
    assert (
        AGAIN_PROMPT.format(missing="something, as a check of the answer says")
        == model.calls[-1][-1].text
    )


@pytest.mark.slow
async def test_a_judge_orders_and_prunes_candidates_and_rejects_what_they_brought_back(
    run, shop
):
    judge = Careful(pre={"broken": 0.1, "stock": 0.5}, goal=1.0)
    offered = ("broken", "tea"), ("stock", "milk"), ("price", "tea")
    messages = await run(
        scripted(*others(*offered), report("It is black.")), judge=judge
    )
    assert shop.made == ["stock(tea)", "price(tea)"]
    picky = Careful(post=0.1, goal=1.0)
    messages = await run(
        scripted(*others(*offered), report("It is black.")), post_judge=picky
    )
    assert shop.made[2:] == ["stock(tea)", "broken(tea)", "stock(milk)", "price(tea)"]
    assert shown(messages)[1:3] == ["stock(tea)", "7 of tea"]


# --- what is told ---


@pytest.mark.slow
async def test_a_search_tells_what_it_does_and_what_it_was(run, shop):
    told = []

    class Events(BaseCallbackHandler):
        def on_custom_event(self, name, data, **_):
            told.append((name, data))

    model = scripted(*BRANCHED)
    agent = agent_of(model, shop.tools(), effects=READS)
    streamed = [
        *agent.stream({"messages": GO}, {"callbacks": [Events()]}, stream_mode="custom")
    ]
    kinds = ["doubt", "doubt", "doubt", "candidates", "explore", "explore", "stop"]
    assert [each["tooltree"]["type"] for each in streamed] == kinds
    assert [(name, data["type"]) for name, data in told] == [
        (f"tooltree.{kind}", kind) for kind in kinds
    ]
    messages = await run(scripted(*BRANCHED))
    result = search_result(messages[-1])
    assert [call.label for call in result.calls] == [
        'stock(item="tea")',
        'price(item="tea")',
    ]
    assert (result.query, result.answer, result.stop_reason) == (
        GO[0].text,
        messages[-1],
        "answered",
    )
    assert (result.cost.tool_calls, result.cost.rollouts, result.cost.tokens) == (
        3,
        2,
        tokens(messages),
    )
    assert "broken" in result.to_svg()


def test_searches_are_kept_for_a_while_and_answers_without_one_are_refused(
    shop, tmp_path
):
    agent = agent_of(
        scripted(*BRANCHED), shop.tools(), effects=READS, record_searches=str(tmp_path)
    )
    answer = agent.invoke({"messages": GO})["messages"][-1]
    [kept] = tmp_path.glob("*.json")
    whole = json.loads(kept.read_text(encoding="utf-8"))
    assert (whole["query"], whole["answer"]) == (GO[0].text, answer.text)
    with pytest.raises(ConfigurationError, match="No search made this HumanMessage"):
        search_result(GO[0])
    with pytest.raises(ConfigurationError, match="No search made this AIMessage"):
        search_result(AIMessage("Hello."))
    with pytest.raises(ConfigurationError, match="no longer kept"):
        search_result(
            AIMessage("Hello.", response_metadata={"tooltree": {"search": "gone"}})
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": {"effort": "frugal"}}, "config must be a SearchConfig, got dict"),
        ({"sandbox": object()}, "sandbox must be an object with `tools` and `fork"),
        ({"prompts": "Be brief."}, "prompts must be a Prompts, such as .*, got str"),
        (
            {"record_searches": 7},
            "record_searches must be the path of a folder, got int 7",
        ),
        ({"effects": ["stock"]}, "effects must be a mapping"),
        (
            {"judge": 7},
            "judge must be a chat model, the name of one, or a function, got int",
        ),
        ({"experience": "runs"}, "experience must be an Experience, got str"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_parts_of_the_wrong_kind_are_refused(form, shop, options, message):
    with pytest.raises(ConfigurationError, match=message):
        FORMS[form](scripted(), shop.tools(), **options)


def test_a_tool_that_ends_the_run_or_commands_the_graph_is_offered_and_never_tried(
    shop,
):
    def finish(item: str) -> str:
        """End it all."""
        shop.made.append(f"finish({item})")
        return "over"

    def jump(item: str) -> Command[str]:
        """Go elsewhere."""
        shop.made.append(f"jump({item})")
        return Command(goto="elsewhere")

    last = [
        StructuredTool.from_function(finish, return_direct=True),
        StructuredTool.from_function(jump),
    ]
    model = scripted(
        *others(("finish", "tea"), ("jump", "tea"), ("price", "tea")),
        report("It is black."),
    )
    agent = agent_of(
        model,
        [*shop.tools(), *last],
        effects=READS | {"finish": "read", "jump": "read"},
    )
    agent.invoke({"messages": GO})
    assert shop.made == ["stock(tea)", "price(tea)"]


async def test_no_structured_response_stands_beside_an_answer_that_it_is_not_of(
    shop, either
):
    class Form(BaseModel):
        price: int

    def formed(request):
        return request.override(response_format=ProviderStrategy(Form))

    class Inside(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(formed(request))

        async def awrap_model_call(self, request, handler):
            return await handler(formed(request))

    answers = [f'{{"price": {price}}}' for price in (7, 1, 2, 3)]
    planner = ToolTreeMiddleware(effects=READS, post_judge=lambda _: (0.9, 0.1))
    agent = create_agent(
        scripted(calls(("stock", "tea")), *answers),
        shop.tools(),
        middleware=[planner, Inside()],
    )
    state = await either(agent.invoke, agent.ainvoke)({"messages": GO})
    assert state["messages"][-1].text == '{"price": 7}'
    assert state.get("structured_response") is None
