"""Models that make one tool call in a reply are asked for others, so that a search has something to choose from."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import PrivateAttr
from travel import APART, BOOKING, EFFECTS, PRICE, ROUND_TRIP, Agency, Step, TravelPolicy, asking

from langchain_tooltree import SearchConfig, SearchResult, asearch, search
from langchain_tooltree.testing import OfflineChatModel, Question, read_question
from tests.internals.tooltree import MANY_QUESTIONS, Call

THREAD: Any = {"configurable": {"thread_id": "1"}}
ONE_CANDIDATE = SearchConfig(top_k=1, **MANY_QUESTIONS)
"""Under it nothing is topped up: what a search makes of a model that makes one call in a reply."""


class MisledPolicy(TravelPolicy):
    """Thinks of the detours first."""

    def propose(self, question: Question) -> list[Step]:
        """The detours, then the next right step."""
        right, *detours = super().propose(question) or [None]
        return [*detours, right] if right else []


class SurePolicy(TravelPolicy):
    """Has one idea, and it is right, on a long errand; its first reply may hold detours as well."""

    def __init__(self, *, starts_sure: bool = True) -> None:
        self._starts_sure = starts_sure

    def propose(self, question: Question) -> list[Step]:
        """The next right step."""
        sure = question.path or self._starts_sure
        return list(super().propose(question)[: 1 if sure else None])

    @staticmethod
    def _steps(_: str) -> list[Step]:
        cities = [("find_hotels", {"city": city}) for city in ("Oslo", "Rome", "Bern")]
        return [("find_flights", {"city": "Oslo"}), ("read_price", {"flight": "OS-1"}), *cities]


class PowerCut(BaseException):
    """Ends a run as a kill does, past every handler."""


class WatchedModel(OfflineChatModel):
    """Keeps its prompts, and fails at one of them."""

    fails_at: int | None = None
    _prompts: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def proposals(self) -> list[str]:
        """The system prompts of the questions for calls."""
        return [prompt[0].text for prompt in self._prompts if read_question(prompt)[0].kind == "propose"]

    def _respond(self, messages: Any, tools: Any) -> Any:
        self._prompts.append(messages)
        if len(self._prompts) == self.fails_at:
            raise PowerCut
        return super()._respond(messages, tools)


class OneCallModel(WatchedModel):
    """Makes one call in a reply: the first of its ideas that its prompt does not list."""

    def _respond(self, messages: Any, tools: Any) -> Any:
        reply = super()._respond(messages, tools)
        if not isinstance(reply, AIMessage) or not reply.tool_calls:
            return reply
        ideas = {
            Call(tool=made["name"], arguments=made["args"], effect="read").label: made for made in reply.tool_calls
        }
        left = [made for label, made in ideas.items() if f"- {label}" not in messages[0].text]
        return AIMessage("" if left else "There is no other.", tool_calls=left[:1])


def find(request: str, model: OfflineChatModel, config: SearchConfig = APART, *, path: str = "sync") -> Any:
    given: Any = {"model": model, "effects": EFFECTS, "config": config}
    tools = Agency().tools
    return search(request, tools, **given) if path == "sync" else asyncio.run(asearch(request, tools, **given))


def tools_of(result: SearchResult) -> list[str]:
    return [call.tool for call in result.calls]


@pytest.mark.parametrize("policy", [TravelPolicy(), MisledPolicy()], ids=["right-first", "right-last"])
@pytest.mark.parametrize("request_", [PRICE, BOOKING, ROUND_TRIP], ids=["price", "booking", "round-trip"])
def test_the_tree_is_that_of_a_model_that_makes_all_calls_at_once(policy: Any, request_: str, path: str) -> None:
    one, several = (find(request_, kind(policy=policy), path=path) for kind in (OneCallModel, WatchedModel))

    apart = dict.fromkeys(("cost", "history", "words"))  # the models were asked in other words
    tree, other = ({**found.to_dict(), **apart} for found in (one, several))
    assert tree == other
    assert one.cost.model_calls > several.cost.model_calls


def test_a_right_call_is_found_behind_wrong_first_ideas(path: str) -> None:
    asked_once = replace(ONE_CANDIDATE, max_proposals=1)
    misled = find(PRICE, OneCallModel(policy=MisledPolicy()), asked_once, path=path)
    topped_up = find(PRICE, OneCallModel(policy=MisledPolicy()), path=path)

    assert "find_flights" not in tools_of(misled)
    assert (tools_of(topped_up), topped_up.stop_reason) == (["find_flights", "read_price"], "solved")


def test_a_model_that_once_made_several_calls_is_never_asked_for_others() -> None:
    model = WatchedModel(policy=SurePolicy(starts_sure=False))

    find(PRICE, model)

    assert len(model.proposals) >= 5
    assert not [prompt for prompt in model.proposals if "stand already" in prompt]


@pytest.mark.parametrize("kind", [OneCallModel, WatchedModel])
def test_a_model_that_is_sure_is_asked_for_others_twice(kind: Any, path: str) -> None:
    model = kind(policy=SurePolicy())

    result = find(PRICE, model, path=path)
    bare = find(PRICE, kind(policy=SurePolicy()), ONE_CANDIDATE, path=path)

    assert len(result.steps) == len(bare.steps) == 5
    assert result.cost.model_calls - bare.cost.model_calls == 2
    assert sum("stand already" in prompt for prompt in model.proposals) == 2


@pytest.mark.parametrize("budget", range(4, 14))
def test_topping_up_never_costs_the_plan_nor_more_than_the_budget(budget: int) -> None:
    config = SearchConfig(max_model_calls=budget, **MANY_QUESTIONS)

    result = find(PRICE, OneCallModel(policy=TravelPolicy()), config)

    assert result.cost.model_calls <= budget
    assert tools_of(result)[:1] == ["find_flights"]


def trees_in(saver: Any, model: OfflineChatModel, given: Any) -> list[Any]:
    """The tree of a search inside a graph with a checkpointer."""
    trees: list[Any] = []

    def plan(state: MessagesState) -> dict[str, Any]:
        result = search(state["messages"], Agency().tools, model=model, effects=EFFECTS, config=APART)
        trees.append(result.to_dict())
        return {"messages": result.messages}

    graph = StateGraph(MessagesState)
    graph.add_node("plan", plan)
    graph.add_edge(START, "plan")
    graph.compile(checkpointer=saver).invoke(given, THREAD)
    return trees


def test_a_search_killed_while_topping_up_resumes_to_the_same_tree() -> None:
    whole = OneCallModel(policy=MisledPolicy())
    [tree] = trees_in(InMemorySaver(), whole, asking(PRICE))
    topping_up = [place for place, prompt in enumerate(whole._prompts, 1) if "stand already" in prompt[0].text]
    assert len(topping_up) > 5

    for fails_at in topping_up:
        saver = InMemorySaver()
        with pytest.raises(PowerCut):
            trees_in(saver, OneCallModel(policy=MisledPolicy(), fails_at=fails_at), asking(PRICE))
        assert trees_in(saver, OneCallModel(policy=MisledPolicy()), None) == [tree]
