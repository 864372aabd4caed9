"""Experience in the loop: it speaks at a doubt and nowhere else, and keeps each turn that ends."""

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    ConfigurationError,
    Experience,
    SearchConfig,
    Trajectory,
    search_result,
)
from langchain_tooltree.experience.guide import Advice
from langchain_tooltree.tooltree.prompts import CHECK_PROMPT
from tests.unit_tests.tooltree.loops import (
    FORMS,
    GO,
    READS,
    Shop,
    calls,
    check_clean,
    report,
    scripted,
    shown,
    tokens,
)


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


def experienced(*runs):
    """An experience with runs that went well, each a sequence of tools."""
    experience = Experience(InMemoryStore(), verdict=lambda _: True, namespace=("all",))
    for number, tools in enumerate(runs):
        messages = [GO[0]]
        for tool in tools:
            made = calls((tool, "tea"))
            messages += [
                made,
                ToolMessage("fine", tool_call_id=made.tool_calls[0]["id"], name=tool),
            ]
        messages.append(AIMessage("Done."))
        experience.learn(
            Trajectory.from_messages(messages, success=True, id=f"run {number}")
        )
    experience.settle()
    return experience


async def played(form, either, experience, *replies):
    model = scripted(*replies)
    graph = FORMS[form](model, Shop().tools(), effects=READS, experience=experience)
    result = await either(graph.invoke, graph.ainvoke)({"messages": GO})
    assert set(result) == {"messages"}
    return model, result["messages"]


async def test_a_sure_run_is_told_nothing_and_is_kept(form, either):
    experience = experienced(["stock", "price"])
    model, messages = await played(
        form, either, experience, calls(("stock", "tea")), report("7.")
    )
    assert messages[-1].text == "7."
    for prompt in model.calls:
        assert [
            message
            for message in prompt
            if ("past run" in message.text.casefold() or "Run:" in message.text)
        ] == []
    experience.settle()
    assert (experience.status().runs, experience.status().successes) == (2, 2)


async def test_past_runs_stand_in_the_questions_that_follow_a_doubt_and_in_no_other(
    form, either
):
    experience = experienced(["stock", "price"], ["stock", "price"], ["stock", "price"])
    doubtful = [report(f"Answer {n}.", "what it costs") for n in range(3)]
    replies = (
        calls(("stock", "tea")),
        *doubtful,
        calls(("price", "tea")),
        report("2 euros."),
    )
    model, messages = await played(form, either, experience, *replies)
    assert shown(messages)[-3:] == ["price(tea)", "tea is 2 euros", "2 euros."]
    told = [
        "went on here with: price in 3 of 3 runs" in prompt[-1].text
        for prompt in model.calls
    ]
    assert told == [False, False, True, True, True, False]
    assert [
        message
        for prompt in model.calls
        for message in prompt[:-1]
        if "reference_material" in message.text
    ] == []


@pytest.mark.slow
async def test_a_likely_read_without_arguments_is_tried_without_a_question(
    form, either
):
    experience = experienced(*[["stock", "opening_hours"]] * 3)
    made = []

    def opening_hours() -> str:
        """Tell when the shop is open."""
        made.append("opening_hours")
        return "from nine to five"

    doubtful = [report(f"Answer {n}.", "when to come") for n in range(3)]
    model = scripted(calls(("stock", "tea")), *doubtful, report("Come at nine."))
    tools = [*Shop().tools(), StructuredTool.from_function(opening_hours)]
    graph = FORMS[form](
        model, tools, effects={**READS, "opening_hours": "read"}, experience=experience
    )
    messages = (await either(graph.invoke, graph.ainvoke)({"messages": GO}))["messages"]
    assert (messages[-1].text, made) == ("Come at nine.", ["opening_hours"])
    assert len(model.calls) == 5
    assert "recalled" not in repr(messages), (
        "what was told is noted in the record alone"
    )
    experience.settle()
    noted = [
        run.metadata["recalled"]["runs"]
        for run in experience.store.trajectories()
        if "recalled" in run.metadata
    ]
    assert noted == [["run 0"]]


async def test_a_process_gives_no_search_back_after_runs_were_forgotten(form, either):
    experience = experienced(["stock", "price"])
    doubtful = [report(f"Answer {n}.", "what it costs") for n in range(3)]
    replies = (
        calls(("stock", "tea")),
        *doubtful,
        calls(("price", "tea")),
        report("2 euros."),
    )
    _, messages = await played(form, either, experience, *replies)
    assert search_result(messages[-1]).answer.text == "2 euros."
    experience.forget(run="run 0")
    with pytest.raises(ConfigurationError, match="no longer kept"):
        search_result(messages[-1])


class Forgetful:
    """An `experience` that recalls another run, and another tip, at each question."""

    def __init__(self):
        self.told = []

    async def begin(self, said, earlier=None):
        return {"namespace": {}, "first": "", "request": None}

    async def guide(self, remembered, said):
        return self

    async def advice(self, path, missing, *, trials, names):
        number = len(self.told)
        self.told.append(missing)
        tip = {f"tip {number}": [f"source {number}"]}
        return Advice(
            "Look.", (), {"runs": [f"run {number}"], "tips": [*tip], "sources": tip}
        )

    async def remedy(self, said, tools, meter):
        return ""

    async def failed(self, attempts):
        pass

    async def end(self, messages, remembered, **_):
        self.kept = remembered["recalled"]


async def test_what_each_question_was_told_is_noted_so_that_it_can_be_forgotten(
    form, either
):
    experience = Forgetful()
    doubtful = [report(f"Answer {n}.", "what it costs") for n in range(3)]
    replies = (
        calls(("stock", "tea")),
        *doubtful,
        calls(("price", "tea")),
        report("2 euros."),
    )
    await played(form, either, experience, *replies)
    numbers = range(len(experience.told))
    assert len(numbers) > 1
    assert experience.kept == {
        "runs": [f"run {n}" for n in numbers],
        "tips": [f"tip {n}" for n in numbers],
        "sources": {f"tip {n}": [f"source {n}"] for n in numbers},
    }


# --- a write that good runs hardly ever made there ---

CHECKED = SearchConfig(check_writes=True)


async def checked(form, either, *replies, config=CHECKED, runs=3):
    shop, model = Shop(), scripted(*replies)
    experience = experienced(*[["stock", "price"]] * runs)
    graph = FORMS[form](
        model, shop.tools(), effects=READS, experience=experience, config=config
    )
    messages = (await either(graph.invoke, graph.ainvoke)({"messages": GO}))["messages"]
    check_clean(messages)
    return shop, model, messages


ORDERS = calls(("order", "tea")), calls(("order", "tea")), report("Ordered.")


async def test_an_unusual_write_is_checked_by_one_more_step_and_then_made(form, either):
    shop, model, messages = await checked(form, either, *ORDERS)
    assert shop.made == ["order(tea)"]
    own, check, after = model.calls
    assert check[-1].text == CHECK_PROMPT
    assert [each.text for each in check[:-1]] == [each.text for each in own]
    assert [
        name for name in ("order", "stock", "price", "runs") if name in check[-1].text
    ] == []
    assert CHECK_PROMPT not in [each.text for each in after]
    plain = await checked(form, either, *ORDERS[1:], config=None)
    assert tokens(messages) > tokens(plain[2]), (
        "what the check cost is added to the step"
    )


@pytest.mark.slow
async def test_after_a_check_the_agent_may_read_first_or_ask_and_is_not_checked_again(
    form, either
):
    replies = (
        ORDERS[0],
        calls(("stock", "tea")),
        calls(("order", "tea")),
        report("Ordered."),
    )
    shop, model, _ = await checked(form, either, *replies)
    assert shop.made == ["stock(tea)", "order(tea)"]
    assert [prompt[-1].text == CHECK_PROMPT for prompt in model.calls] == [
        False,
        True,
        False,
        False,
    ]
    shop, model, messages = await checked(
        form, either, ORDERS[0], report("Shall I order it?")
    )
    assert (shop.made, messages[-1].text) == ([], "Shall I order it?")


@pytest.mark.parametrize(
    ("config", "runs", "first"),
    [
        (None, 3, "order"),
        (SearchConfig(check_writes=False), 3, "order"),
        (CHECKED, 2, "order"),
        (CHECKED, 3, "stock"),
    ],
)
async def test_nothing_is_checked_by_default_nor_on_few_runs_nor_before_a_read(
    form, either, config, runs, first
):
    shop, model, _ = await checked(
        form, either, calls((first, "tea")), report("Done."), config=config, runs=runs
    )
    assert shop.made == [f"{first}(tea)"]
    assert len(model.calls) == 2
