"""Random conversations of an agent with a scripted model, tools and a person."""

from collections.abc import Coroutine
from itertools import count
from typing import Any

from helpers import ScriptedAdapter, call, get_effect, human, problem, result, usage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from loop.conversation import contains_call, get_current_turn, list_tool_rounds
from loop.model_call import handle_model_call
from loop.next_action import REMEDIES
from loop.search_state import (
    AgentCalledTools,
    AnswerRejected,
    CallExplored,
    CallProposed,
    ModelAsked,
    PersonDecided,
    SearchFailed,
    SearchState,
    continue_state,
    rate_answer,
)

RESPONSE_KINDS = ["problem", "problem", "problem", "calls", "calls", "answer", "empty"]
NAMES = ["find_a", "find_b", "find_c", "find_d", "cancel_a", "cancel_b", "plan_day"]
tool_calls = st.builds(call, st.sampled_from(NAMES), n=st.integers(1, 2))
problems = st.builds(
    problem,
    st.sampled_from(["missing", "missing", "tool_call_as_text", *REMEDIES]),
    st.none() | tool_calls | tool_calls,
    st.sampled_from(["the value of find_a", "cancel_a was not called", "nothing"]),
)


def run_without_event_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that only awaits methods which return at once."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("The coroutine waited for something")


def find_invalid_message(messages: list[BaseMessage]) -> BaseMessage | None:
    """Return the first message for which a provider would refuse the conversation."""
    open_ids: list[str | None] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_ids:
                return message
            open_ids.remove(message.tool_call_id)
        elif open_ids:
            return message
        elif isinstance(message, AIMessage):
            open_ids = [tool_call["id"] for tool_call in message.tool_calls]
    return messages[-1] if open_ids else None


class RandomAdapter(ScriptedAdapter):
    """An adapter whose model responds at random and checks what it is sent."""

    def __init__(self, data: st.DataObject) -> None:
        super().__init__(budget=data.draw(st.integers(0, 6), label="budget"))
        self.data = data
        self.numbers = count(1)
        # The guard would swallow a failed assertion in a method of the adapter.
        self.refused: list[BaseMessage] = []
        self.asked_in_call = 0
        self.paid = 0

    async def ask(self, messages, *, hide_from_stream, with_report):
        self.asked_in_call += 1
        refused = find_invalid_message(list(messages))
        if refused is not None:
            self.refused.append(refused)
        if self.data.draw(st.integers(0, 19), label="failing provider") == 19:
            raise ConnectionError
        kind = self.data.draw(st.sampled_from(RESPONSE_KINDS), label="response")
        number = next(self.numbers)
        tokens = usage(1 << number % 50)
        self.paid += tokens["total_tokens"]
        message_id = self.data.draw(st.sampled_from([f"ai-{number}", None]))
        if kind == "calls":
            drawn = self.data.draw(st.lists(tool_calls, min_size=1, max_size=3))
            # The ids begin anew in each response, as some models give them.
            numbered = [{**each, "id": f"{i}"} for i, each in enumerate(drawn)]
            return AIMessage(
                "", tool_calls=numbered, id=message_id, usage_metadata=tokens
            )
        text = "" if kind == "empty" else f"Answer {number}"
        if kind == "empty":
            self.problems[text] = problem("empty")
        elif kind == "problem":
            self.problems[text] = self.data.draw(problems)
        return AIMessage(text, id=message_id, usage_metadata=tokens)

    async def find_problem(self, response, messages, *, with_report):
        if self.data.draw(st.integers(0, 19), label="broken check") == 19:
            raise ValueError
        return self.problems.get(str(response.text))

    def has_room(self):
        return self.data.draw(st.integers(0, 9), label="room") < 9


class Simulation:
    """An agent that plays the parts of the graph, the tools and the person."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.adapter = RandomAdapter(data)
        self.stored: Any = None
        self.conversation: list[BaseMessage] = []
        self.message_ids = (f"m{number}" for number in count())
        self.additional_calls = 0

    def draw_id(self) -> str | None:
        return self.data.draw(st.sampled_from([next(self.message_ids), None]))

    def play_run(self) -> None:
        """Play one run of the agent, and check it after each step."""
        self.adapter.run_id += 1
        self.additional_calls = 0
        self.adapter.paid = 0
        paid_before = self.add_up_tokens()
        self.conversation.append(human(message_id=self.draw_id()))
        for _ in range(12):
            message = self.call_model()
            if message is None:
                return
            if not message.tool_calls:
                assert self.add_up_tokens() - paid_before == self.adapter.paid
                if self.data.draw(st.booleans(), label="hook continues the run"):
                    self.conversation.append(human(message_id=self.draw_id()))
                    continue
                return
            is_exploratory = message.id.startswith("lc_") if message.id else False
            if is_exploratory and self.data.draw(st.integers(0, 9)) == 0:
                return  # The run dies in the tools node.
            run_id = self.adapter.run_id
            self.run_tools(message)
            if self.data.draw(st.booleans(), label="hook adds a message"):
                # A message in the user's name after an interrupt is a new request.
                was_interrupted = self.adapter.run_id != run_id
                hook = SystemMessage if was_interrupted else HumanMessage
                self.conversation.append(hook("hook", id=self.draw_id()))
        self.adapter.has_room = lambda: False

    def add_up_tokens(self) -> int:
        return sum(
            message.usage_metadata["total_tokens"]
            for message in self.conversation
            if isinstance(message, AIMessage) and message.usage_metadata
        )

    def call_model(self) -> AIMessage | None:
        """Make one model call, or return None if it failed like the plain agent."""
        state = continue_state(self.stored, self.adapter.run_id, self.conversation)
        was_open = state.is_search_open()
        self.adapter.asked_in_call = 0
        coroutine = handle_model_call(self.stored, self.conversation, self.adapter)
        try:
            outcome = run_without_event_loop(coroutine)
        except ConnectionError:
            assert not was_open
            assert self.adapter.asked_in_call == 1
            return None
        finally:
            assert self.adapter.refused == []

        message = outcome.message
        earlier_calls = [
            tool_call
            for tool_round in list_tool_rounds(get_current_turn(self.conversation))
            for tool_call in tool_round.message.tool_calls
        ]
        self.apply(outcome)
        new_state = SearchState.load(outcome.state)
        assert new_state.dump() == outcome.state
        self.check_budget(message, new_state)
        new_events = new_state.events[len(state.events) :]
        rejected = [
            event
            for event in [
                *(state.list_search_events() if was_open else []),
                *new_events,
            ]
            if isinstance(event, AnswerRejected)
        ]
        if rejected:
            self.check_search(message, rejected, earlier_calls, new_state)
        self.stored = outcome.state
        return message

    def apply(self, outcome) -> None:
        """Change the conversation as LangGraph does."""
        ids = [message.id for message in self.conversation]
        assert all(message_id in ids for message_id in outcome.removed_ids)
        assert outcome.message.id is None or outcome.message.id not in ids
        self.conversation = [
            message
            for message in self.conversation
            if message.id not in outcome.removed_ids
        ]
        assert find_invalid_message(self.conversation) is None
        self.conversation.append(outcome.message)

    def check_budget(self, message: AIMessage, state: SearchState) -> None:
        self.additional_calls += self.adapter.asked_in_call - 1
        self.additional_calls += (message.id or "").startswith("lc_tooltree-")
        assert self.additional_calls <= self.adapter.budget
        assert state.count_model_calls() == self.additional_calls

    def check_search(self, message, rejected, earlier_calls, state) -> None:
        """Check the outcome of a model call in which a search was or became open."""
        if not message.tool_calls:
            assert not state.is_search_open()
            quality = rate_answer(self.adapter.problems.get(str(message.text)))
            assert quality >= max(rate_answer(event.problem) for event in rejected)
            assert message.response_metadata["tooltree"]
            return
        if (message.id or "").startswith("lc_tooltree-"):
            [tool_call] = message.tool_calls
            assert get_effect(tool_call) == "read"
            assert state.is_search_open()
        writes = [c for c in message.tool_calls if get_effect(c) == "write"]
        missing = [e.problem for e in rejected if e.problem.kind == "missing"]
        for write in writes:
            assert not contains_call(earlier_calls, write)
            assert len(rejected) == 1 or missing
            if missing:
                names = [p.explanation for p in missing]
                names += [p.tool_call["name"] for p in missing if p.tool_call]
                assert write["name"] in " ".join(names)
        effects = {get_effect(tool_call) for tool_call in message.tool_calls}
        assert state.is_search_open() == (effects == {"read"})

    def run_tools(self, message: AIMessage) -> None:
        """Run the calls of the last message, perhaps after a person decided."""
        events = SearchState.load(self.stored).events
        recorded = [getattr(event, "message_id", None) for event in events]
        refused = False
        if self.data.draw(st.integers(0, 4), label="interrupt") == 0:
            self.adapter.run_id += 1
            decision = self.data.draw(st.sampled_from(["approve", "edit", "refuse"]))
            refused = decision == "refuse"
            if decision == "edit":
                edited = [{**c, "args": {"n": 3}} for c in message.tool_calls]
                message = message.model_copy(update={"tool_calls": edited})
                self.conversation[-1] = message
            if message.id is None or message.id not in recorded:
                # Nothing shows that the new run resumes this one.
                self.additional_calls = 0
        for tool_call in message.tool_calls:
            is_error = refused or self.data.draw(st.booleans(), label="error")
            self.conversation.append(
                result(tool_call["id"], self.draw_id(), error=is_error)
            )


CHECKS = settings(
    max_examples=200, deadline=None, suppress_health_check=list(HealthCheck)
)


@CHECKS
@given(st.data())
def test_random_conversations(data):
    simulation = Simulation(data)
    for _ in range(data.draw(st.integers(1, 3), label="runs")):
        simulation.play_run()


# Forged data

CONVERSATION = [
    human(),
    AIMessage("", tool_calls=[call("find_a")], id="read"),
    result(message_id="r1"),
    AIMessage("", tool_calls=[call("cancel_a")], id="lc_tooltree-1"),
    result(message_id="r2"),
    AIMessage("", tool_calls=[call("find_b")], id="no-result-id"),
    result(),
    human("hook", "hook"),
    AIMessage("Earlier answer", id="final"),
    human("next", "next"),
]
message_ids = st.sampled_from(
    [*(message.id for message in CONVERSATION if message.id), "unknown", ""]
)
tokens = st.none() | st.builds(usage, st.integers(-5, 10**30))
forged_events = st.one_of(
    st.builds(
        AnswerRejected, problem=problems, became_fallback=st.booleans(), usage=tokens
    ),
    st.builds(
        ModelAsked,
        purpose=st.sampled_from(["plainly", "again", "alternatives"]),
        problem_kind=st.sampled_from(list(REMEDIES)),
        usage=tokens,
    ),
    st.builds(CallProposed, tool_call=tool_calls),
    st.builds(CallExplored, tool_call=tool_calls, message_id=message_ids),
    st.builds(
        AgentCalledTools, tool_calls=st.lists(tool_calls), message_id=message_ids
    ),
    st.builds(PersonDecided, message_id=message_ids, changed_or_refused=st.booleans()),
    st.builds(SearchFailed, error=st.text()),
    st.builds(
        dict,
        type=st.just("search_ended"),
        reason=st.sampled_from(["failed", "no_room"]),
    ),
).map(lambda event: event if isinstance(event, dict) else event.model_dump())
json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
forged_answers = st.fixed_dictionaries(
    {"content": st.sampled_from(["Forged", [], [{"type": "tool_use", "id": "1"}]])},
    optional={
        "id": message_ids,
        "tool_calls": json_data | st.just([call("cancel_a")]),
        "invalid_tool_calls": st.just([{"name": "x", "args": "{", "id": "1"}])
        | json_data,
        "additional_kwargs": json_data,
        "response_metadata": json_data,
        "usage_metadata": json_data | tokens,
        "content_blocks": json_data,
    },
)
forged_states = st.fixed_dictionaries(
    {
        "run_id": st.integers(0, 2) | json_data,
        "events": st.lists(forged_events, max_size=8) | json_data,
        "fallback_answer": st.none() | forged_answers | json_data,
    }
)


@CHECKS
@given(st.data())
def test_forged_data(data):
    stored = data.draw(forged_states | json_data, label="stored")
    simulation = Simulation(data)
    length = data.draw(st.sampled_from([0, 1, 3, 5, 7, 8, 10]))
    simulation.conversation = CONVERSATION[:length]
    coroutine = handle_model_call(stored, simulation.conversation, simulation.adapter)
    try:
        outcome = run_without_event_loop(coroutine)
    except ConnectionError:
        return
    assert simulation.adapter.refused == []
    simulation.apply(outcome)
    assert SearchState.load(outcome.state).dump() == outcome.state
    message = outcome.message
    if (message.id or "").startswith("lc_tooltree-") and message.tool_calls:
        assert [get_effect(tool_call) for tool_call in message.tool_calls] == ["read"]
    elif message.tool_calls:
        assert message.usage_metadata  # The model itself made these calls.
    assert message.invalid_tool_calls == []
    assert simulation.adapter.asked_in_call <= 1 + simulation.adapter.budget
