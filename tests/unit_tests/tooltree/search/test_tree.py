import pytest

from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.tree import Action, Node, Tree


def call(tool="look", effect="read", **arguments):
    return Action(tool=tool, arguments=arguments, effect=effect)


def test_equal_arguments_in_another_order_have_the_same_key():
    assert call(a=1, b={"x": 1, "y": 2}).key == call(b={"y": 2, "x": 1}, a=1).key


def test_a_number_and_its_text_have_different_keys():
    assert call(a=1).key != call(a="1").key


def test_the_label_reads_like_a_call():
    assert (
        call("book", city="Zürich", nights=2).label == 'book(city="Zürich", nights=2)'
    )


def test_backpropagation_keeps_the_running_mean_on_the_path_alone(grow):
    tree = Tree()
    left = grow(tree, tree.root, "left", rewards=(0.2,))
    right = grow(tree, tree.root, "right", rewards=(0.8,))
    below = grow(tree, left, "below", rewards=(0.9,))

    assert (below.visits, below.value) == (1, 0.9)
    assert (left.visits, left.value) == (2, pytest.approx(0.55))
    assert (right.visits, right.value) == (1, 0.8)
    assert (tree.root.visits, tree.root.value) == (3, pytest.approx(1.9 / 3))
    assert tree.state_visits(tree.root) == 3
    assert tree.state_visits(left) == 1


def test_occupying_counts_every_node_from_the_root_down(grow):
    tree = Tree()
    first = grow(tree, tree.root, "first")
    second = grow(tree, first, "second")
    other = grow(tree, tree.root, "other")
    tree.occupy(second, 1)
    tree.occupy(first, 1)
    assert [node.in_flight for node in (tree.root, first, second, other)] == [
        2,
        2,
        1,
        0,
    ]
    tree.occupy(second, -1)
    assert [node.in_flight for node in (tree.root, first, second, other)] == [
        1,
        1,
        0,
        0,
    ]


def test_a_path_leads_from_the_first_call_to_the_node(grow):
    tree = Tree()
    first = grow(tree, tree.root, "first")
    second = grow(tree, first, "second")
    assert tree.path(second) == [first, second]
    assert tree.path(tree.root) == []
    assert tree.state_before(first) is tree.state_before(tree.root) is tree.root


def test_path_value_is_goal_times_mean_reward(grow):
    tree = Tree()
    first = grow(tree, tree.root, "first", rewards=(0.4,))
    second = grow(tree, first, "second", rewards=(0.8,))
    second.goal = 0.5
    assert tree.path_value(second) == pytest.approx(0.3)
    second.goal = 1.0
    assert tree.path_value(second) == pytest.approx(0.6)
    assert tree.path_value(first) == 0.0
    assert tree.path_value(tree.root) == 0.0


def test_only_sandboxed_calls_change_the_world():
    tree = Tree()
    read = tree.add(tree.root, call("look"))
    write = tree.add(tree.root, call("send", "write"))
    paint = tree.add(tree.root, call("paint", "sandboxed"))
    assert read.world == write.world == ""
    assert paint.world
    assert tree.add(paint, call("look")).world == paint.world
    assert tree.add(paint, call("paint", "sandboxed")).world != paint.world


def test_the_same_writes_lead_to_the_same_world_on_any_path():
    tree = Tree()
    direct = tree.add(tree.root, call("paint", "sandboxed"))
    after_a_look = tree.add(
        tree.add(tree.root, call("look")), call("paint", "sandboxed")
    )
    assert direct.world == after_a_look.world


def test_only_writes_are_deferred():
    tree = Tree()
    nodes = [
        tree.add(tree.root, call(effect, effect))
        for effect in ("read", "write", "sandboxed")
    ]
    assert [node.deferred for node in nodes] == [False, True, False]
    assert not tree.root.deferred


def test_jitter_depends_on_seed_and_node_alone():
    nodes = [Node(number) for number in range(1, 20)]
    jitters = [Tree(KernelConfig(seed=1)).jitter(node) for node in nodes]
    assert jitters == [Tree(KernelConfig(seed=1)).jitter(node) for node in nodes]
    assert jitters != [Tree(KernelConfig(seed=2)).jitter(node) for node in nodes]
    assert len(set(jitters)) == len(jitters)
    assert [jitter for jitter in jitters if not (0 <= jitter < 1)] == []
