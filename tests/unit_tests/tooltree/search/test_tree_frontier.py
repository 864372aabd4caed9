"""What may be worked on: calls to run, states to ask, observations to judge; and what is closed for good."""

import pytest

from langchain_tooltree import SearchConfig
from tests.internals.tooltree import MANY_QUESTIONS, OWN_STEP, Call, Frontier, Observation, Openings, Tree

RULES = ("posterior", "smoothed")


def frontier_of(tree, **settings):
    """What may be done under many questions, by the posterior if nothing else is said."""
    questions = {} if settings.get("selection") == "smoothed" else MANY_QUESTIONS
    return Frontier(tree, SearchConfig(**{**questions, **settings}))


def seen(node, **observation):
    node.observation = Observation(**{"content": "seen", **observation})
    return node


@pytest.fixture
def call(grow):
    """A candidate below the request."""
    tree = Tree()
    tree.root.proposals = 1
    return tree, grow(tree, tree.root, "look")


def test_a_scored_candidate_may_be_run(call):
    tree, node = call
    assert frontier_of(tree).runnable(node)
    assert not frontier_of(tree).askable(node)
    assert not frontier_of(tree).judgeable(node)


@pytest.mark.parametrize(
    "change",
    [
        {"r_pre": None},
        {"pruned": "top_k"},
        {"closed": True},
        {"in_flight": 1},
        {"r_post": 0.5},
        {"observation": Observation(content="seen")},
    ],
)
def test_a_call_that_is_out_under_way_or_done_may_not_be_run(call, change):
    tree, node = call
    for name, value in change.items():
        setattr(node, name, value)
    assert not frontier_of(tree).runnable(node)


@pytest.mark.parametrize("rule", RULES)
def test_the_request_may_be_asked_from_the_start(rule):
    tree = Tree()
    assert frontier_of(tree, selection=rule).askable(tree.root)


@pytest.mark.parametrize(
    ("settings", "may"),
    [
        ({"selection": "posterior"}, True),
        ({"selection": "posterior", "post_evaluation": "always"}, False),
        ({"selection": "smoothed"}, False),
    ],
)
def test_a_call_that_brought_something_back_is_asked_unjudged_only_where_judging_can_wait(call, settings, may):
    tree, node = call
    seen(node)
    assert frontier_of(tree, **settings).askable(node) is may
    node.r_post = 0.5
    assert frontier_of(tree, **settings).askable(node)


@pytest.mark.parametrize("kind", ["exception", "timeout", "invalid_arguments", "unsupported"])
def test_a_call_that_failed_is_judged_before_it_is_asked(call, kind):
    tree, node = call
    seen(node, kind=kind)
    assert frontier_of(tree).judgeable(node)
    assert not frontier_of(tree).askable(node)
    node.r_post = 0.5
    assert frontier_of(tree).askable(node)


@pytest.mark.parametrize(
    "change",
    [
        {"closed": True},
        {"proposing": True},
        {"finished": True},
        {"pruned": "post_evaluation"},
        {"proposals": 3},
    ],
)
def test_a_state_that_is_out_being_asked_or_asked_enough_may_not_be_asked(call, change):
    tree, node = call
    seen(node)
    for name, value in change.items():
        setattr(node, name, value)
    assert not frontier_of(tree).askable(node)


def test_nothing_follows_a_deferred_write_or_the_deepest_call(call, grow):
    tree, node = call
    seen(node)
    assert frontier_of(tree, max_depth=1).is_deepest(node)
    assert not frontier_of(tree, max_depth=1).askable(node)
    assert not frontier_of(tree, max_depth=2).is_deepest(node)
    write = grow(tree, tree.root, "send", rewards=(0.9,))
    write.call = write.call.model_copy(update={"effect": "write"})
    assert not frontier_of(tree).askable(write)


@pytest.mark.parametrize("change", [{}, {"r_post": 0.5}, {"evaluating": True}, {"pruned": "post_evaluation"}])
def test_an_observation_is_judged_once(call, change):
    tree, node = call
    seen(node)
    for name, value in change.items():
        setattr(node, name, value)
    assert frontier_of(tree).judgeable(node) is (not change)


def test_a_state_is_spent_when_every_child_is_pruned_or_closed(call, grow):
    tree, node = call
    other = grow(tree, tree.root, "ask")
    frontier = frontier_of(tree)
    assert frontier.spent(node)
    assert not frontier.spent(tree.root)
    node.pruned = "top_k"
    assert not frontier.spent(tree.root)
    other.closed = True
    assert frontier.spent(tree.root)


def test_a_state_is_closed_with_its_parents_once_nothing_is_left_below(call, grow):
    tree, node = call
    child = grow(tree, node, "ask")
    frontier = frontier_of(tree)
    for state in (tree.root, node, child):
        state.proposals = 3
    frontier.close_upwards(child)
    assert [state.closed for state in tree.nodes] == [True, True, True]


@pytest.mark.parametrize("open_end", [{"proposals": 1}, {"proposing": True}])
def test_closing_stops_at_a_state_that_is_or_may_be_asked(call, open_end):
    tree, node = call
    tree.root.proposals = node.proposals = 3
    for name, value in open_end.items():
        setattr(tree.root, name, value)
    frontier_of(tree).close_upwards(node)
    assert (node.closed, tree.root.closed) == (True, False)


def test_closing_stops_at_a_state_with_an_open_child(call, grow):
    tree, node = call
    grow(tree, tree.root, "ask")
    tree.root.proposals = node.proposals = 3
    frontier_of(tree).close_upwards(node)
    assert (node.closed, tree.root.closed) == (True, False)


def test_a_state_whose_model_had_no_more_calls_is_closed_however_often_it_was_asked(call):
    tree, node = call
    seen(node).finished = True
    tree.root.proposals = 3
    frontier_of(tree).close_upwards(node)
    assert tree.root.closed


@pytest.mark.parametrize("kind", ["ok", "exception", "timeout"])
def test_where_scores_come_with_the_next_question_nothing_is_judged_before_it(call, kind):
    tree, node = call
    seen(node, kind=kind)
    assert frontier_of(tree, **OWN_STEP).openings(tree[1]) == Openings(run=False, ask=True, judge=False, end=True)


def test_an_answer_of_which_nobody_said_whether_all_is_done_may_be_checked_once(call):
    tree, node = call
    seen(node).answer = {"content": "done"}
    frontier = frontier_of(tree, **OWN_STEP)
    assert frontier.judgeable(node)
    node.evaluating = True
    assert not frontier.judgeable(node)
    node.evaluating, node.goal = False, 0.0
    assert not frontier.judgeable(node)


def test_a_plan_may_end_with_an_answer_before_any_call_or_at_a_deferred_write_that_was_scored(call, grow):
    tree, _ = call
    write = tree.add(tree.root, Call(tool="send", arguments={}, effect="write"))
    frontier = frontier_of(tree, **OWN_STEP)
    assert [frontier.openings(each).end for each in tree.nodes] == [False, False, False]
    tree.root.answer = {"content": "Hello!"}
    assert [frontier.openings(each).end for each in tree.nodes] == [True, False, False]
    write.r_pre = 0.8
    assert frontier.openings(write) == Openings(run=False, ask=False, judge=False, end=True)


@pytest.mark.parametrize("settings", [OWN_STEP, {}], ids=["own_step", "many"])
def test_nobody_is_asked_and_no_plan_ends_between_the_calls_of_one_reply(call, settings):
    tree, node = call
    other = tree.add(node, Call(tool="ask", arguments={}, effect="read"), batched=True)
    other.r_pre = node.r_pre
    frontier = frontier_of(tree, **settings)
    assert (frontier.runnable(node), frontier.runnable(other)) == (True, False)
    seen(node)
    seen(other)
    between, after = map(frontier.openings, tree.nodes[1:3])
    assert (between.ask, between.end) == (False, False)
    assert (after.ask, after.end) == (True, True)


@pytest.mark.parametrize("settings", [OWN_STEP, {}], ids=["own_step", "many"])
def test_a_known_result_in_a_reply_is_no_place_to_go_on_before_the_calls_before_it_have_run(call, settings):
    tree, node = call
    other = seen(tree.add(node, Call(tool="ask", arguments={}, effect="read"), batched=True))
    other.r_pre = node.r_pre
    frontier = frontier_of(tree, **settings)
    assert not frontier.askable(other)
    assert not frontier.judgeable(other)
    seen(node)
    assert frontier.askable(other)
