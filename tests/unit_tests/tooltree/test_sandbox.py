import threading

import pytest
from langchain_core.tools import StructuredTool

from langchain_tooltree import ConfigurationError, ObjectSandbox, Sandbox


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


def use(sandbox, tool, **arguments):
    return next(bound for bound in sandbox.tools if bound.name == tool).invoke(
        arguments
    )


def test_public_methods_become_tools():
    sandbox = ObjectSandbox.of_methods(Board())
    assert [tool.name for tool in sandbox.tools] == ["draw", "show"]
    assert sandbox.tools[0].description == "Draw a line."
    assert set(sandbox.tools[0].args) == {"line"}


def test_a_method_without_a_signature_is_refused_with_the_remedy():
    with pytest.raises(
        ConfigurationError,
        match=r"make the tools yourself with ObjectSandbox\(state, bind\)",
    ):
        ObjectSandbox.of_methods(type("Odd", (), {"pick": staticmethod(max)})())


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
    fork = ObjectSandbox(
        (left, right), lambda boards: [StructuredTool.from_function(boards[0].draw)]
    ).fork()
    use(fork, "draw", line="b")
    assert fork.state[1].lines == ["a", "b"]
    assert fork.state[0].lines is fork.state[1].lines
    assert shared == ["a"]


def test_a_state_that_cannot_be_copied_is_refused_with_the_remedy():
    with pytest.raises(
        ConfigurationError, match=r"cannot deep-copy its state: .*__deepcopy__"
    ):
        ObjectSandbox.of_methods(Locked()).fork()


def test_the_protocol_tells_sandboxes_apart():
    assert isinstance(ObjectSandbox.of_methods(Board()), Sandbox)
    assert not isinstance(Board(), Sandbox)


def test_the_tools_of_a_fork_are_its_own_and_take_what_those_before_took():
    sandbox = ObjectSandbox.of_methods(Board())
    fork = sandbox.fork()
    for tool, forked in zip(sandbox.tools, fork.tools, strict=True):
        assert (
            forked.args_schema is tool.args_schema
        )  # which takes a millisecond to make
        assert (forked.func or forked.coroutine).__self__ in fork.state
        assert (tool.func or tool.coroutine).__self__ in sandbox.state
