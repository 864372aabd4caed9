"""Attacks of one tenant on another: ann is served, and what is bob's must be neither seen nor changed.

`ATTACKS` has them by name. Each says whether it got through; one that is refused raises an error of the package's own,
which counts as held. Anything else that is raised is a fault of the attack, and passes on.
"""

import logging
import unicodedata
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from langgraph.types import Command

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    CFGMRecallNode,
    ConfigurationError,
    Experience,
    ExperienceStore,
    SITGraphMiddleware,
    SITGraphNode,
    Trajectory,
    TrajectoryRecorder,
    create_tooltree_agent,
)
from langchain_tooltree.testing import ScriptedChatModel

HIDDEN = "The red key hangs behind the kestrel."
ASKED = "Where is the red key?"
ANSWER = '{"missing": "nothing"}\nIt is on the desk.'
ANN, BOB = {"user_id": "ann"}, {"user_id": "bob"}
READS = {"open_vault": "read"}

Attack = Callable[[], bool]
"""An attack: whether it has seen or changed what is another's."""


@tool
def open_vault(code: str) -> str:
    """Open the vault."""
    return HIDDEN


def call(number: str = "1") -> AIMessage:
    """A call that brings the secret."""
    return AIMessage(
        "", tool_calls=[{"name": "open_vault", "args": {"code": "9"}, "id": number}]
    )


class House:
    """Where bob has done something before, and ann is served next."""

    def __init__(self, variable: str | None = "user_id") -> None:
        self.variable = variable
        self.base = InMemoryStore()
        namespace = ("tooltree", *([] if variable is None else [f"{{{variable}}}"]))
        self.experience = Experience(
            self.base, verdict=lambda _: True, namespace=namespace
        )
        self.model = ScriptedChatModel(replies=[ANSWER] * 40)
        self.saver = InMemorySaver()
        self.seen: list[str] = []

    def let_bob_work(self) -> None:
        """Keep two runs of bob's, so that graph and memory have something to tell."""
        result = ToolMessage(HIDDEN, tool_call_id="1", name="open_vault")
        said = [
            HumanMessage(f"{ASKED} It is bob's."),
            call(),
            result,
            AIMessage(f"I am sure. {HIDDEN}"),
        ]
        for number in range(2):
            run = Trajectory.from_messages(said, id=f"of bob {number}", success=True)
            self.experience.within(**{str(self.variable): "bob"}).learn(run)

    def of_bob(self) -> dict[Any, Any]:
        """All that is kept for bob."""
        places = [
            place
            for place in self.base.list_namespaces(limit=10_000)
            if any("bob" in label for label in place)
        ]
        items = (
            item for place in places for item in self.base.search(place, limit=10_000)
        )
        return {(item.namespace, item.key): item.value for item in items}

    def crossed(self, attack: Callable[[], Any]) -> bool:
        """Whether bob's secret was shown to a model or returned, bob's tool was hinted at, or bob's records changed."""
        before = self.of_bob()
        try:
            returned = attack()
        except ConfigurationError:
            returned = None
        shown = f"{self.model.calls} {returned} {self.seen}"
        return (
            HIDDEN in shown
            or "Past runs went on" in shown
            or "'tool': 'open_vault'" in shown
            or self.of_bob() != before
        )


# Where memory, graph and records meet a graph that is served.


def planner(house: House) -> Any:
    """An agent that plans with experience."""
    options = {
        "effects": READS,
        "experience": house.experience,
        "context_schema": dict,
        "checkpointer": house.saver,
    }
    return create_tooltree_agent(house.model, [open_vault], **options)


def _agent(house: House, *middleware: Any) -> Any:
    options = {"context_schema": dict, "checkpointer": house.saver}
    return create_agent(house.model, [open_vault], middleware=middleware, **options)


def remembering(house: House) -> Any:
    """An agent with memory."""
    memory = CFGMMemory(house.model, house.experience.store)
    return _agent(
        house,
        CFGMMiddleware(house.model, memory, reflect=False, verdict=lambda _: True),
    )


def suggesting(house: House) -> Any:
    """An agent with suggestions."""
    return _agent(house, SITGraphMiddleware(house.experience, effects=READS))


def recorded(house: House) -> Any:
    """An agent whose runs are recorded by callbacks, into the records and into the experience."""
    recorders = [
        TrajectoryRecorder(house.experience.store, verdict=lambda _: True),
        house.experience.recorder,
    ]
    return _agent(house).with_config(callbacks=recorders)


class _Found(MessagesState):
    recalled: str
    suggestions: list[dict[str, Any]]


def nodes(house: House) -> Any:
    """A graph with a node that recalls, and one that suggests."""
    builder = StateGraph(_Found, context_schema=dict)
    builder.add_node(
        "recall", CFGMRecallNode(CFGMMemory(house.model, house.experience.store))
    )
    builder.add_node("suggest", SITGraphNode(house.experience))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "suggest")
    return builder.compile(checkpointer=house.saver)


def by_hand(house: House) -> Any:
    """A graph whose node uses the store, with the configuration that it is given and without."""
    store = house.experience.store

    def look(state: MessagesState, config: RunnableConfig) -> None:
        given = {
            "configurable": {
                key: value
                for key, value in config["configurable"].items()
                if key == "user_id"
            }
        }
        for named in (None, config, given if given["configurable"] else config):
            house.seen.append(
                str([run.messages for run in store.within_config(named).similar(ASKED)])
            )
            house.seen.append(str(store.within_config(named).get("of bob 0")))
            store.within_config(named).add(
                Trajectory.from_messages(state["messages"], id="of bob 0")
            )
        house.seen.append(str(house.experience.graph.suggest(None)))

    builder = StateGraph(MessagesState, context_schema=dict)
    builder.add_node("look", look)
    builder.add_edge(START, "look")
    return builder.compile(checkpointer=house.saver)


PLACES = (planner, remembering, suggesting, recorded, nodes, by_hand)

REQUEST = {"messages": [HumanMessage(ASKED, id="m1")]}
THREAD = {"thread_id": "1"}


def _served(graph: Any, given: Any = None, context: Any = None, **config: Any) -> Any:
    """Serve ann; what a client can set is in `config`."""
    configurable = {**THREAD, **config.pop("configurable", {})}
    return graph.invoke(
        given or REQUEST,
        {"configurable": configurable, **config},
        context=context or ANN,
    )


def configured(graph: Any) -> Any:
    """A client names bob under `configurable`."""
    return _served(graph, configurable=BOB)


def described(graph: Any) -> Any:
    """A client names bob in the metadata and tags."""
    return _served(
        graph, metadata={**BOB, "thread_id": "of bob 0"}, tags=["user_id:bob"]
    )


def nobody(graph: Any) -> Any:
    """The server says that it is nobody, and the client that it is bob."""
    return _served(graph, context={"user_id": None}, configurable=BOB)


def with_a_runtime(graph: Any) -> Any:
    """A client sends what looks like LangGraph's own values."""
    forged = {"context": BOB, "server_info": {"user": BOB}}
    return _served(
        graph, configurable={"__runtime__": forged, "runtime": forged, **forged}
    )


def around(graph: Any) -> Any:
    """The graph is a node of another one, for which the client names bob."""
    builder = StateGraph(MessagesState, context_schema=dict)
    builder.add_node("inner", graph)
    builder.add_edge(START, "inner")
    return _served(builder.compile(), configurable=BOB)


def in_a_node(graph: Any) -> Any:
    """A node, as a tool would, calls the graph with a configuration in which the client's name stands."""
    builder = StateGraph(MessagesState, context_schema=dict)
    builder.add_node(
        "call",
        lambda state: {
            "messages": graph.invoke(state, {"configurable": BOB}).get("messages", [])
        },
    )
    builder.add_edge(START, "call")
    return _served(builder.compile())


WAYS = (configured, described, nobody, with_a_runtime, around, in_a_node)


# What a run has noted in its state, where clients write, too.

_NOTE = {
    "namespace": {"user_id": "bob"},
    "first": ASKED,
    "request": "m1",
    "runs": ["of bob 0", "of bob 1"],
    "tips": [],
    "latest": ASKED,
}
FORGED = {"cfgm_recalled": {**_NOTE, "text": ""}, "tooltree_recalled": _NOTE}


def as_input(graph: Any) -> Any:
    """The note comes with the request."""
    return _served(graph, {**REQUEST, **FORGED})


def as_update(graph: Any) -> Any:
    """The note comes as a command, in a thread that has begun."""
    _served(graph)
    update = {"messages": [HumanMessage("And now?", id="m2")], **_known(graph)}
    return _served(graph, Command(update=update, goto="model"))


def as_state(graph: Any) -> Any:
    """The note is written into the state where a run would go on behind the node that makes it."""
    node = next(name for name in graph.nodes if name.endswith(".before_agent"))
    config = {"configurable": THREAD}
    graph.update_state(config, {**REQUEST, **_known(graph)}, as_node=node)
    return graph.invoke(None, config, context=ANN)


def _known(graph: Any) -> dict[str, Any]:
    return {key: note for key, note in FORGED.items() if key in graph.channels}


def _attacked(place: Callable[[House], Any], way: Callable[[Any], Any]) -> bool:
    house = House()
    house.let_bob_work()
    return house.crossed(lambda: way(place(house)))


# A LangGraph server authenticates, and its clients set the context, too.


class User(SimpleNamespace):
    """Whom a server has authenticated."""

    identity = "ann"
    is_authenticated = True


def _authenticated(
    place: Callable[[House], Any],
    context: Mapping[str, Any],
    configurable: Mapping[str, Any],
) -> bool:
    house = House("langgraph_auth_user_id")
    house.let_bob_work()
    served = {"langgraph_auth_user": User(), **configurable}
    return house.crossed(
        lambda: _served(place(house), context=context, configurable=served)
    )


# Values that are alike, and no two of the same tenant.

ALIKE: tuple[tuple[Any, Any], ...] = (
    (7, "<int>7"),
    (True, 1),
    (1, 1.0),
    (b"ann", "ann"),
    (None, "None"),
    ("", "None"),
    ("ann", "ann "),
    ("ann", "Ann"),
    ("ann", "\u0430nn"),
    (
        unicodedata.normalize("NFC", "zo\u00e9"),
        unicodedata.normalize("NFD", "zo\u00e9"),
    ),
    ("{user_id}", "ann"),
    ("ann.bob", "ann"),
    ("ann\x00", "ann"),
    ("x" * 5_000, "x" * 4_999),
    ("\ud800", "?"),
    ("%", "ann"),
    ("_nn", "ann"),
    (("ann",), "ann"),
    (["ann"], "('ann',)"),
    ("ann", "ann\u200b"),
)


def _mistaken(one: Any, other: Any) -> bool:
    with SqliteStore.from_conn_string(
        ":memory:"
    ) as base:  # whose prefixes are patterns, without case
        base.setup()
        store = ExperienceStore(base, namespace=("tooltree", "{user_id}"))
        run = Trajectory.from_messages([HumanMessage(ASKED)], id="of one", success=True)
        try:
            store.within(user_id=one).add(run)
            theirs = store.within(user_id=other)
            return bool(
                theirs.get("of one")
                or list(theirs.trajectories())
                or theirs.similar(ASKED)
            )
        except ConfigurationError:
            return False


def _joined() -> bool:
    try:
        store = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{org}-{user}"))
    except ConfigurationError:
        return False
    return (
        store.within(org="a", user="b-c").place
        == store.within(org="a-b", user="c").place
    )


# One name for what belongs to two.


def _replaced(place: Callable[[House], Any]) -> bool:
    """Two deployments share a store, their threads have one name, and their clients number requests from 1."""
    house = House(None)
    for words in (HIDDEN, "Something else."):
        said = f'{{"missing": "nothing"}}\n{words}'
        house.saver, house.model = (
            InMemorySaver(),
            ScriptedChatModel(replies=[said] * 9),
        )
        place(house).invoke(REQUEST, {"configurable": THREAD}, context={})
    return HIDDEN not in str(
        [run.messages for run in house.experience.store.trajectories()]
    )


def _kept_in_process(place: Callable[[House], Any], *, context: bool) -> bool:
    """Bob is served by the same agent just before: the same thread, request and words."""
    house = House()
    house.let_bob_work()
    house.saver = None  # type: ignore[assignment] # a thread would be the host's to guard
    agent = place(house)
    for user in (BOB, ANN):
        before, seen = house.of_bob(), len(house.model.calls)
        configurable = {"configurable": {**THREAD, **({} if context else user)}}
        result = agent.invoke(
            REQUEST, configurable, **({"context": user} if context else {})
        )
    return HIDDEN in f"{house.model.calls[seen:]} {result}" or house.of_bob() != before


def _warmed() -> bool:
    """Ann brings a message of bob's search along, which names it."""
    house = House()
    house.model.replies = [call(), ANSWER, ANSWER, ANSWER]
    agent = planner(house)
    planned = agent.invoke(REQUEST, {"configurable": THREAD}, context=BOB)["messages"][
        1
    ]
    before, seen = house.of_bob(), len(house.model.calls)
    given = [
        HumanMessage(ASKED),
        planned,
        ToolMessage("Not now.", tool_call_id="1"),
        HumanMessage("Once more."),
    ]
    agent.invoke({"messages": given}, {"configurable": {"thread_id": "2"}}, context=ANN)
    return HIDDEN in str(house.model.calls[seen:]) or house.of_bob() != before


ATTACKS: dict[str, Attack] = {
    **{
        f"{way.__name__} in {place.__name__}": partial(_attacked, place, way)
        for place in PLACES
        for way in WAYS
    },
    **{
        f"noted {way.__name__} in {place.__name__}": partial(_attacked, place, way)
        for place in (planner, remembering)
        for way in (as_input, as_update, as_state)
    },
    **{
        f"authenticated, {what} in {place.__name__}": partial(
            _authenticated, place, *said
        )
        for place in (planner, by_hand)
        for what, said in {
            "configured": ({}, {"langgraph_auth_user_id": "bob"}),
            "context": ({"langgraph_auth_user_id": "bob"}, {}),
            "both": (
                {"langgraph_auth_user_id": "bob"},
                {"langgraph_auth_user_id": "bob"},
            ),
        }.items()
    },
    **{
        f"{one!r:.20} for {other!r:.20}": partial(_mistaken, one, other)
        for one, other in ALIKE
    },
    "two variables in a label": _joined,
    **{
        f"one thread name in {place.__name__}": partial(_replaced, place)
        for place in (planner, remembering, recorded)
    },
    **{
        f"after bob in {place.__name__}, by {'context' if context else 'configurable'}": partial(
            _kept_in_process, place, context=context
        )
        for place in (planner, remembering, suggesting)
        for context in (True, False)
    },
    "a message of bob's search": _warmed,
}
"""All attacks by name."""


def measure(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Attack, and count what got through."""
    logging.getLogger("langchain_tooltree").setLevel(
        logging.CRITICAL
    )  # most attacks are logged at length
    through = [name for name, attack in ATTACKS.items() if attack()]
    return {
        "tenants": {
            "attacks": len(ATTACKS),
            "crossed": len(through),
            **({"through": through} if through else {}),
        }
    }
