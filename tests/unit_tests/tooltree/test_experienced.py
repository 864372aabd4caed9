"""Experience in the loop: it speaks at a doubt and nowhere else, and keeps each turn that ends."""

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Experience, Trajectory
from tests.unit_tests.tooltree.loops import FORMS, GO, READS, Shop, calls, report, scripted, shown


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
            messages += [made, ToolMessage("fine", tool_call_id=made.tool_calls[0]["id"], name=tool)]
        messages.append(AIMessage("Done."))
        experience.learn(Trajectory.from_messages(messages, success=True, id=f"run {number}"))
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
    model, messages = await played(form, either, experience, calls(("stock", "tea")), report("7."))
    assert messages[-1].text == "7."
    for prompt in model.calls:
        assert not any("past run" in message.text.casefold() or "Run:" in message.text for message in prompt)
    experience.settle()
    assert (experience.status().runs, experience.status().successes) == (2, 2)


async def test_past_runs_stand_in_the_question_for_other_calls_and_in_no_other(form, either):
    experience = experienced(["stock", "price"], ["stock", "price"], ["stock", "price"])
    doubtful = [report(f"Answer {n}.", "what it costs") for n in range(3)]
    replies = calls(("stock", "tea")), *doubtful, calls(("price", "tea")), report("2 euros.")
    model, messages = await played(form, either, experience, *replies)
    assert shown(messages)[-3:] == ["price(tea)", "tea is 2 euros", "2 euros."]
    told = [any("went on here with: price" in message.text for message in prompt) for prompt in model.calls]
    assert told == [False, False, False, False, True, False]
