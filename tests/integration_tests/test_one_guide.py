"""Past runs in every form and order beside the planner: who speaks tells what fits the path that the model sees, all
tell the same, and who is silent costs nothing.

The checks stand at every model call, on a straight run and on one with a branch in the state.
"""

import json
import re
from functools import cache
from typing import Any

import pytest
from agents import invoke
from composition import (
    DETOUR,
    OTHERS,
    REQUEST,
    RUNS,
    THREAD,
    Clerk,
    Depot,
    asking,
    is_note,
)
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    CFGMRecallNode,
    CFGMReflectionNode,
    Experience,
    SITGraph,
    SITGraphMiddleware,
    SITGraphNode,
    ToolTreeMiddleware,
    ToolTreeNode,
    create_tooltree_agent,
)
from langchain_tooltree.cfgm.recall import recall_text
from langchain_tooltree.sitgraph.agents import with_suggestions
from langchain_tooltree.testing import ScriptedChatModel

NAMES = ("find", "price", "order")
EFFECTS: dict[str, Any] = {"find": "read", "price": "read"}


GRAPH = SITGraph.from_trajectories(RUNS)
PLACES = (None, "before", "after")


@cache
def memory() -> CFGMMemory:
    made = CFGMMemory(ScriptedChatModel(replies=[]), InMemoryStore())
    for run in RUNS:
        made.experience.add(run)
    return made


def experience() -> Experience:
    made = Experience(InMemoryStore(), verdict=lambda _: True, namespace=("all",))
    for run in RUNS:
        made.learn(run)
    return made


def middleware_agent(
    model: Clerk, sit: str | None, cfgm: str | None, *, learns: bool
) -> Any:
    placed: dict[str | None, list[Any]] = {"before": [], "after": [], None: []}
    placed[sit].append(SITGraphMiddleware(GRAPH))
    placed[cfgm].append(
        CFGMMiddleware(ScriptedChatModel(replies=[]), memory(), record=False)
    )
    planner = ToolTreeMiddleware(
        effects=EFFECTS, experience=experience() if learns else None
    )
    middleware = [*placed["before"], planner, *placed["after"]]
    return create_agent(
        model, Depot().tools, middleware=middleware, checkpointer=InMemorySaver()
    )


def parts_agent(model: Clerk, **parts: Any) -> Any:
    return create_tooltree_agent(
        model, Depot().tools, effects=EFFECTS, checkpointer=InMemorySaver(), **parts
    )


class State(MessagesState):
    suggestions: list[dict[str, Any]]
    recalled: str


def node_graph(model: Clerk, *, sit: bool, cfgm: bool, learns: bool) -> Any:
    tools, graph = Depot().tools, StateGraph(State)
    before: list[tuple[str, Any]] = []
    if cfgm:
        reflection = CFGMReflectionNode(ScriptedChatModel(replies=[]), memory())
        before += [("reflect", reflection), ("recall", CFGMRecallNode(memory()))]
    if sit:
        before.append(("suggest", SITGraphNode(GRAPH, tools=tools)))
    planner = ToolTreeNode(
        model, tools, effects=EFFECTS, experience=experience() if learns else None
    )
    names = [*(name for name, _ in before), "model"]
    for name, node in (*before, ("model", planner), ("tools", ToolNode(tools))):
        graph.add_node(name, node)
    for source, target in zip((START, *names), names, strict=False):
        graph.add_edge(source, target)
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", names[0])
    return graph.compile(checkpointer=InMemorySaver())


def marked(text: str, source: str) -> list[str]:
    """The reference material of a source in a text."""
    return re.findall(
        rf'<reference_material source="{source}" .*?</reference_material>',
        text,
        re.DOTALL,
    )


def inside(material: list[str]) -> list[str]:
    """What it says, without its mark."""
    return [
        re.sub(r"</?reference_material[^>]*>", "", each).strip() for each in material
    ]


def path_of(prompt: list[Any]) -> list[Any]:
    """The path in a prompt: without instructions, the planner's notes, and an answer that they are about."""
    path = [each for each in prompt if not isinstance(each, SystemMessage)]
    noted = is_note(path[-1])
    while is_note(path[-1]):
        path.pop()
    if noted and isinstance(path[-1], AIMessage):
        path.pop()
    return path


def fresh_hint(path: list[Any]) -> list[str]:
    """What the graph says at the end of a path."""
    made = [
        call["name"]
        for each in path
        if isinstance(each, AIMessage)
        for call in each.tool_calls
    ]
    found = GRAPH.suggest(made[-1] if made else None, messages=path, allowed=NAMES)
    told = with_suggestions([], [each for each in found if each.score >= 0.1])
    return inside(marked(told[0].text, "next tools")) if told else []


def check_calls(model: Clerk, *, sit: bool, cfgm: bool, asks: bool) -> None:
    recalled = inside([recall_text(memory().recall(REQUEST), max_characters=6_000)])
    for prompt in model.calls:
        path, system = (
            path_of(prompt),
            prompt[0].text if isinstance(prompt[0], SystemMessage) else "",
        )
        question = (
            prompt[-1].text if is_note(prompt[-1]) and OTHERS in prompt[-1].text else ""
        )
        hint, others = (
            inside(marked(system, "next tools")),
            marked(question, "past runs"),
        )
        if sit and not question:
            assert hint == fresh_hint(path)
        elif not sit:
            assert hint == []
        else:  # a question at a weaker state is told what fits it, or nothing
            assert hint in ([], fresh_hint(path))
        assert inside(marked(system, "(?:past runs|memory)")) == (
            recalled if cfgm else []
        )
        assert bool(others) == bool(question and asks)
        for told in others:
            assert len(told) <= 800
            assert "find in 8 of 8 runs" in told
            assert "A similar run that went well: find" in told
        for each in path[1:]:
            assert not marked(each.text, ".*?"), (
                "nothing of past runs stands in the thread"
            )


@pytest.fixture(params=["straight", "branch"])
def clerk(request: Any) -> Clerk:
    return Clerk(detour=DETOUR if request.param == "branch" else None)


def check_run(agent: Any, clerk: Clerk, way: str, **told: bool) -> None:
    output = invoke(agent, asking(), THREAD, path=way)
    assert output["messages"][-1].text.endswith("price bolt: 90")
    assert [
        each
        for each in output["messages"]
        if DETOUR[1] in [call["args"] for call in getattr(each, "tool_calls", ())]
    ] == []
    asked = [
        prompt
        for prompt in clerk.calls
        if is_note(prompt[-1]) and OTHERS in prompt[-1].text
    ]
    assert bool(asked) == (clerk.detour is not None)
    check_calls(clerk, **told)


@pytest.mark.parametrize("sit", PLACES)
@pytest.mark.parametrize("cfgm", PLACES)
@pytest.mark.parametrize("learns", [False, True])
def test_middleware_in_any_order_tells_what_fits_the_path(
    sit, cfgm, learns, clerk, path
):
    agent = middleware_agent(clerk, sit, cfgm, learns=learns)
    check_run(
        agent, clerk, path, sit=sit is not None, cfgm=cfgm is not None, asks=learns
    )


@pytest.mark.parametrize("sit", [False, True])
@pytest.mark.parametrize("cfgm", [False, True])
@pytest.mark.parametrize("learns", [False, True])
def test_nodes_in_one_graph_tell_what_fits_the_path(sit, cfgm, learns, clerk, path):
    check_run(
        node_graph(clerk, sit=sit, cfgm=cfgm, learns=learns),
        clerk,
        path,
        sit=sit,
        cfgm=cfgm,
        asks=learns,
    )


def parts_of(names: str) -> dict[str, Any]:
    make: dict[str, Any] = {
        "experience": experience,
        "graph": lambda: GRAPH,
        "memory": memory,
    }
    verdict = {} if "experience" in names else {"verdict": lambda _: None}
    parts = [make[name]() for name in names.split()]
    return {"experience": parts if len(parts) > 1 else parts[0], **verdict}


@pytest.mark.parametrize("names", ["experience", "graph memory", "graph", "memory"])
def test_parts_are_silent_where_there_is_no_doubt_and_cost_what_the_planner_costs(
    names, clerk, path
):
    parts = parts_of(names)
    bare = clerk.model_copy(update={"calls": [], "shown": []})
    before = invoke(parts_agent(bare), asking(), THREAD, path=path)["messages"]
    after = invoke(parts_agent(clerk, **parts), asking(), THREAD, path=path)["messages"]
    assert len(clerk.calls) == len(bare.calls)
    for prompt, other in zip(clerk.calls, bare.calls, strict=True):
        assert texts(prompt, told=True) == texts(other, told=True)
        if not marked(prompt[-1].text, "past runs"):
            assert texts(prompt) == texts(other)
    if clerk.detour is None:
        assert [each.usage_metadata for each in ai(after)] == [
            each.usage_metadata for each in ai(before)
        ]
    elif "graph" in names or "experience" in names:
        told = {
            prompt[-1].text: marked(prompt[-1].text, "past runs")
            for prompt in clerk.calls
            if is_note(prompt[-1])
        }
        assert [note for note, material in told.items() if material] != [], told
        assert [
            each for material in told.values() for each in material if len(each) > 800
        ] == []


def texts(prompt: list[Any], *, told: bool = False) -> list[str]:
    """The texts of a prompt; with `told`, without what past runs say."""
    material = r"<reference_material.*?</reference_material>\n?" if told else r"(?!)"
    return [re.sub(material, "", each.text, flags=re.DOTALL) for each in prompt]


def ai(messages: list[Any]) -> list[AIMessage]:
    return [each for each in messages if isinstance(each, AIMessage)]


# --- reflection in the planner's loop ---

REFUSAL = '{"error": "no such shelf"}'
KEY = {
    "objective": "Find the part.",
    "initial_environment": "Shelves.",
    "progress": "None.",
}
REVIEW = {
    "key_information": KEY,
    "questions": [{"question": "What now?", "answer": "Another shelf."}],
    "next_step": "Look at shelf 2.",
}


def shelves(seen: list[str]) -> list[Any]:
    @tool
    def look(shelf: str) -> str:
        """Look at a shelf."""
        seen.append(shelf)
        return "a lamp" if shelf == "2" else REFUSAL

    return [look]


def looking(shelf: str) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[{"name": "look", "args": {"shelf": shelf}, "id": f"look {shelf}"}],
    )


OPEN = [f'{{"missing": "the lamp"}}\nAnswer {n}.' for n in range(3)]
OFFERED = AIMessage("", tool_calls=[*looking("8").tool_calls, *looking("2").tool_calls])


@pytest.mark.parametrize("form", ["before", "after", "nodes"])
def test_a_reflection_sees_each_observation_also_where_the_planner_explores(form, path):
    seen: list[str] = []
    tools, reads = shelves(seen), {"look": "read"}
    model = ScriptedChatModel(
        replies=[looking("9"), *OPEN, OFFERED, '{"missing": "nothing"}\nA lamp.']
    )
    reviewer = ScriptedChatModel(replies=[REVIEW] * 3)
    if form == "nodes":
        graph = StateGraph(MessagesState)
        graph.add_node("model", ToolTreeNode(model, tools, effects=reads))
        graph.add_node("tools", ToolNode(tools))
        graph.add_node("reflect", CFGMReflectionNode(reviewer, patience=0, cooldown=1))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "reflect")
        graph.add_edge("reflect", "model")
        agent: Any = graph.compile()
    else:
        helper, planner = (
            CFGMMiddleware(reviewer, patience=0, cooldown=1),
            ToolTreeMiddleware(effects=reads),
        )
        agent = create_agent(
            model,
            tools,
            middleware=[helper, planner] if form == "before" else [planner, helper],
        )

    messages = invoke(
        agent, {"messages": [HumanMessage("Where is the lamp?")]}, path=path
    )["messages"]

    assert (messages[-1].text, seen) == ("A lamp.", ["9", "8", "2"])
    assert len(reviewer.calls) == 2, "one for the agent's own step, one for the branch"
    steps = [json.loads(call[1].text)["step"] for call in reviewer.calls]
    assert [json.loads(step["arguments"]) for step in steps] == [
        {"shelf": "9"},
        {"shelf": "8"},
    ]
    assert "Look at shelf 2." in model.calls[1][-1].text
    *_, last = model.calls
    assert [each for each in last if "Look at shelf" in each.text] == [], (
        "the branches are not on the path"
    )
