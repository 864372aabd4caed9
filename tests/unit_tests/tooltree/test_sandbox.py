import threading

import pytest
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import tool_call
from langchain_core.tools import StructuredTool

from langchain_tooltree import ConfigurationError, ObjectSandbox, Sandbox, SearchConfig, SnapshotSandbox, search
from langchain_tooltree.testing import OfflineChatModel, ScriptedChatModel
from tests.internals.tooltree import Worlds, sandbox_module, snapshot_of


class Board:
    """Something to draw on."""

    def __init__(self, lines=()):
        self.lines = list(lines)

    def draw(self, line: str) -> str:
        """Draw a line."""
        self.lines.append(line)
        return f"{len(self.lines)} lines"

    def show(self) -> str:
        """Show all lines."""
        return ",".join(self.lines)

    def _hide(self) -> None:
        self.lines.clear()


class Locked(Board):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class StoredBoard:
    """A board whose state can be stored."""

    def __init__(self, lines=()):
        self.board = Board(lines)
        self.tools = [StructuredTool.from_function(self.board.draw), StructuredTool.from_function(self.board.show)]

    def fork(self):
        return StoredBoard(self.board.lines)

    def snapshot(self):
        return list(self.board.lines)

    def restore(self, snapshot):
        return StoredBoard(snapshot)


def use(sandbox, tool, **arguments):
    return next(bound for bound in sandbox.tools if bound.name == tool).invoke(arguments)


def test_public_methods_become_tools():
    sandbox = ObjectSandbox.of_methods(Board())
    assert [tool.name for tool in sandbox.tools] == ["draw", "show"]
    assert sandbox.tools[0].description == "Draw a line."
    assert set(sandbox.tools[0].args) == {"line"}


async def test_async_methods_become_tools_as_well(find, offline):
    class Clock:
        """Tells the time, slowly."""

        async def tell(self, city: str) -> str:
            """Tell the time."""
            return f"noon in {city}"

    sandbox = ObjectSandbox.of_methods(Clock())
    model = offline(offers={(): [("tell", {"city": "Bern"})]}, goal={"tell": 0.9})
    result = await find("What time is it?", sandbox.tools, model=model, sandbox=sandbox)
    assert result.steps[0].observation.content == "noon in Bern"


def test_a_method_without_a_signature_is_refused_with_the_remedy():
    with pytest.raises(ConfigurationError, match=r"make the tools yourself with ObjectSandbox\(state, bind\)"):
        ObjectSandbox.of_methods(threading.Lock())


def test_a_fork_changes_nothing_but_itself():
    board = Board(["a"])
    sandbox = ObjectSandbox.of_methods(board)
    fork = sandbox.fork()
    sibling = fork.fork()
    use(fork, "draw", line="b")
    assert use(fork, "show") == "a,b"
    assert use(sibling, "show") == use(sandbox, "show") == "a"
    assert board.lines == ["a"]
    assert use(fork.fork(), "show") == "a,b"


def test_objects_that_share_a_part_share_its_copy():
    shared = ["a"]
    left, right = Board(), Board()
    left.lines = right.lines = shared
    fork = ObjectSandbox((left, right), lambda boards: [StructuredTool.from_function(boards[0].draw)]).fork()
    use(fork, "draw", line="b")
    assert fork.state[1].lines == ["a", "b"]
    assert fork.state[0].lines is fork.state[1].lines
    assert shared == ["a"]


def test_a_state_that_cannot_be_copied_is_refused_with_the_remedy():
    with pytest.raises(ConfigurationError, match=r"cannot deep-copy its state: .*__deepcopy__"):
        ObjectSandbox.of_methods(Locked()).fork()


def test_the_protocols_tell_sandboxes_apart():
    assert isinstance(ObjectSandbox.of_methods(Board()), Sandbox)
    assert not isinstance(ObjectSandbox.of_methods(Board()), SnapshotSandbox)
    assert isinstance(StoredBoard(), SnapshotSandbox)
    assert not isinstance(Board(), Sandbox)


def test_only_a_sandbox_with_snapshots_has_one():
    assert snapshot_of(StoredBoard(["a"])) == ["a"]
    assert snapshot_of(ObjectSandbox.of_methods(Board())) is None


def test_the_tools_of_a_fork_are_its_own_and_take_what_those_before_took():
    sandbox = ObjectSandbox.of_methods(Board())
    fork = sandbox.fork()
    for tool, forked in zip(sandbox.tools, fork.tools, strict=True):
        assert forked.args_schema is tool.args_schema  # which takes a millisecond to make
        assert (forked.func or forked.coroutine).__self__ in fork.state
        assert (tool.func or tool.coroutine).__self__ in sandbox.state


def test_worlds_are_kept_by_version_and_forked_on_demand():
    worlds = Worlds(ObjectSandbox.of_methods(Board(["root"])))
    assert worlds.knows("")
    assert not worlds.knows("v1")
    first = worlds.fork("")
    use(first, "draw", line="one")
    worlds.keep("v1", first)
    assert worlds.knows("v1")
    assert use(worlds.fork("v1"), "show") == "root,one"
    assert worlds.fork("v1") is not first
    assert use(worlds.fork(""), "show") == "root"


def test_a_world_is_known_again_from_its_snapshot():
    worlds = Worlds(StoredBoard())
    worlds.restore("v1", ["a", "b"])
    assert use(worlds.fork("v1"), "show") == "a,b"


def test_without_snapshots_nothing_is_restored():
    worlds = Worlds(ObjectSandbox.of_methods(Board()))
    worlds.restore("v1", ["a"])
    assert not worlds.knows("v1")


def test_the_world_unused_for_longest_is_forgotten(monkeypatch):
    monkeypatch.setattr(sandbox_module, "KEPT_WORLDS", 2)
    worlds = Worlds(StoredBoard())
    for version in ("v1", "v2", "v3"):
        worlds.keep(version, StoredBoard([version]))
    assert [worlds.knows(version) for version in ("v1", "v2", "v3")] == [False, True, True]


def test_forking_a_world_is_using_it(monkeypatch):
    monkeypatch.setattr(sandbox_module, "KEPT_WORLDS", 2)
    worlds = Worlds(StoredBoard())
    worlds.keep("v1", StoredBoard(["v1"]))
    worlds.keep("v2", StoredBoard(["v2"]))
    worlds.fork("v1")
    worlds.keep("v3", StoredBoard(["v3"]))
    assert [worlds.knows(version) for version in ("v1", "v2", "v3")] == [True, False, True]


PAINTED = {
    "offers": {
        (): [("draw", {"line": "a"})],
        ("draw",): [("show", {}), ("draw", {"line": "b"})],
        ("draw", "draw"): [("show", {})],
    },
    "r_pre": {"draw": 0.9, "show": 0.5},
    "goal": {"show": 0.5},
}


@pytest.mark.parametrize("parallel", [1, 4])
async def test_writes_are_tried_out_in_forks_and_the_original_is_untouched(find, offline, parallel):
    board = Board(["root"])
    sandbox = ObjectSandbox.of_methods(board)
    result = await find(
        "Draw.",
        sandbox.tools,
        model=offline(**PAINTED),
        sandbox=sandbox,
        effects={"show": "read"},
        config=SearchConfig(selection="smoothed", parallel_rollouts=parallel),
    )
    shown = {
        tuple(step.call.arguments.get("line") for step in result.tree.path(node)): node.observation.content
        for node in result.tree.nodes[1:]
    }
    assert shown == {
        ("a",): "2 lines",
        ("a", None): "root,a",
        ("a", "b"): "3 lines",
        ("a", "b", None): "root,a,b",
    }
    assert board.lines == ["root"]
    assert result.pending.call.label == 'draw(line="a")'
    assert result.answer is None


async def test_snapshots_travel_with_the_observations(find, offline):
    sandbox = StoredBoard()
    result = await find("Draw.", sandbox.tools, model=offline(**PAINTED), sandbox=sandbox, effects={"show": "read"})
    assert result.tree[1].observation.snapshot == ["a"]
    assert sandbox.board.lines == []


async def test_a_world_that_was_forgotten_is_rebuilt_from_its_path(find, offline, monkeypatch):
    monkeypatch.setattr(sandbox_module, "KEPT_WORLDS", 1)
    sandbox = ObjectSandbox.of_methods(Board())
    config = SearchConfig(selection="smoothed", parallel_rollouts=1)
    result = await find("Draw.", sandbox.tools, model=offline(**PAINTED), sandbox=sandbox, config=config)
    assert {node.observation.content for node in result.tree.nodes[1:]} >= {"2 lines", "a,b"}
    assert result.cost.replayed > 0


class Erasing(Board):
    def erase(self, line: str) -> str:
        """Erase a line."""
        self.lines = [each for each in self.lines if each != line]
        return "erased"


class Keeping(Erasing):
    """What it keeps is not all written down, but it copies itself as a whole."""

    def __deepcopy__(self, memo):
        return type(self)(self.lines)

    def __getstate__(self):
        return {}


class StoredErasing(StoredBoard):
    def __init__(self, lines=()):
        super().__init__(lines)
        self.board = Erasing(lines)
        self.tools = [StructuredTool.from_function(getattr(self.board, each)) for each in ("draw", "erase", "show")]

    def fork(self):
        return type(self)(self.board.lines)

    def restore(self, snapshot):
        return type(self)(snapshot)


class Shapeless(StoredErasing):
    def snapshot(self):
        return {"lines": set(self.board.lines)}


ERASED = {"offers": {(): [("erase", {"line": "a"}), ("draw", {"line": "b"})]}, "goal": {"erase": 0.3, "draw": 0.3}}


@pytest.mark.parametrize("write", ["erase", "draw"])
@pytest.mark.parametrize(
    ("sandbox", "compared"),
    [
        (ObjectSandbox.of_methods(Erasing(["root"])), True),
        (StoredErasing(["root"]), True),
        (ObjectSandbox.of_methods(Keeping(["root"])), False),
        (Shapeless(["root"]), False),
    ],
    ids=["pickled", "snapshot", "copies itself", "no JSON"],
)
async def test_a_write_that_changes_nothing_is_seen_where_the_states_can_be_compared(
    find, offline, sandbox, compared, write
):
    model = offline(**{**ERASED, "r_pre": {write: 0.9}})
    config = SearchConfig(selection="smoothed", parallel_rollouts=1)
    result = await find("Tidy up.", sandbox.tools, model=model, sandbox=sandbox, config=config)
    node = next(node for node in result.tree.nodes[1:] if node.call.tool == write)
    assert node.observation.unchanged is (compared and write == "erase")
    assert (node.world == "") is node.observation.unchanged


async def test_a_call_in_a_sandbox_costs_one_snapshot(find, offline, monkeypatch):
    taken = []
    monkeypatch.setattr(
        StoredBoard, "snapshot", lambda self: taken.append([*self.board.lines]) or list(self.board.lines)
    )
    sandbox = StoredBoard()
    config = SearchConfig(selection="smoothed", parallel_rollouts=1)
    await find(
        "Draw.", sandbox.tools, model=offline(**PAINTED), sandbox=sandbox, effects={"show": "read"}, config=config
    )
    assert taken[0] == [], "that of the world before any call"
    assert sorted(taken[1:]) == [["a"], ["a"], ["a", "b"], ["a", "b"]], "after a write, and after the read in its world"


async def test_an_uncopyable_world_ends_the_search_with_a_clear_error(find, offline):
    sandbox = ObjectSandbox.of_methods(Locked())
    with pytest.raises(ConfigurationError, match="cannot deep-copy"):
        await find("Draw.", sandbox.tools, model=offline(**PAINTED), sandbox=sandbox)


async def test_a_fork_that_is_no_sandbox_ends_the_search_with_a_clear_error(find, offline):
    class Torn(ObjectSandbox):
        def fork(self):
            return None

    sandbox = Torn(Board(), lambda board: [board.draw])
    with pytest.raises(ConfigurationError, match=r"fork\(\) of Torn must return a sandbox, got NoneType"):
        await find("Draw.", sandbox.tools, model=offline(**PAINTED), sandbox=sandbox)


def test_something_that_cannot_fork_is_no_sandbox(offline, numbered_tools):
    with pytest.raises(ConfigurationError, match="sandbox must have `tools` and `fork\\(\\)`, got Board"):
        search("Draw.", numbered_tools("a"), model=offline(), sandbox=Board())


def test_a_sandbox_that_counts_as_empty_is_one_all_the_same():
    class EmptyBoard(ObjectSandbox):
        def __len__(self):
            return len(self.state.lines)

        def fork(self):
            return EmptyBoard(Board(self.state.lines), board_tools)

    sandbox = EmptyBoard(Board(), board_tools)
    call = {"name": "draw", "args": {"line": "x"}, "id": "1"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call]), "It is drawn. Missing: nothing"])
    result = search("Draw a line.", sandbox.tools, model=model, sandbox=sandbox)
    assert [step.observation.content for step in result.steps] == ["1 lines"]
    assert sandbox.state.lines == []


class Scribe:
    """Offers lines for a board, of which it takes one only, and judges by whether it was taken."""

    def __init__(self, *, vain_score):
        self._vain_score = vain_score

    def act(self, question):
        return [] if question.path else self.propose(question)[:1]

    def propose(self, question):
        return [] if self.missing(question) == [] else [("draw", {"line": line}) for line in ("x", "y")]

    def score_call(self, question, call):
        return 0.8

    def score_observation(self, question, call):
        return (self._vain_score, 0.0) if "taken" not in call.observation else (0.9, 0.95)

    def missing(self, question):
        return [] if any("taken" in made.observation for made in question.path) else ["a line on the board"]

    def answer(self, question):
        return question.path[-1].observation


class Picky(Board):
    def draw(self, line: str) -> str:
        """Draw a line."""
        if line == "x":
            return "refused"
        self.lines.append(line)
        return "taken"


@pytest.mark.parametrize(("score", "planned"), [(0.1, ["y"]), (0.9, ["x", "y"])])
def test_what_was_tried_in_vain_is_not_planned(score, planned):
    sandbox = ObjectSandbox(Picky(), board_tools)
    model = OfflineChatModel(policy=Scribe(vain_score=score))
    result = search("Draw a line.", sandbox.tools, model=model, sandbox=sandbox)
    assert [call.arguments["line"] for call in result.calls] == planned


def board_tools(board):
    return [StructuredTool.from_function(board.draw), StructuredTool.from_function(board.show)]


class Hours:
    """A calendar that refuses an hour."""

    def __init__(self):
        self.moved = []

    def move(self, hour: int) -> str:
        """Move the meeting."""
        if hour < 14:
            return f"Refused: {hour}:00 is taken by the interview."
        self.moved.append(hour)
        return f"The meeting is now at {hour}:00."


def test_a_write_that_was_refused_in_a_fork_is_not_planned_though_nobody_scored_it():
    moves = [AIMessage("", tool_calls=[tool_call(name="move", args={"hour": hour}, id=str(hour))]) for hour in (11, 14)]
    model = ScriptedChatModel(replies=[*moves, 'It is at 14:00. {"missing": "nothing"}'])
    hours = Hours()
    sandbox = ObjectSandbox.of_methods(hours)

    result = search("Move the meeting to a later hour.", sandbox.tools, model=model, sandbox=sandbox)

    assert [step.call.arguments for step in result.steps] == [{"hour": 14}]
    assert len(model.calls) == 3
    assert hours.moved == []
