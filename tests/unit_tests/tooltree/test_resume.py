"""Which earlier search a conversation points to, and whether the world is still the one that it explored."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.internals.experience import as_reference
from tests.internals.tooltree import Call, Observation, effects_as, last_search, warm_start_of

EFFECTS = {"look": "read", "ask": "read", "paint": "sandboxed", "send": "write"}


@pytest.fixture
def search(search_in):
    """Its plan: paint, then look."""
    return search_in(
        {
            "offers": {(): "paint ask send", ("paint",): "look"},
            "effects": EFFECTS,
            "goal": {"look": 0.9},
            "r_post": {"ask": 0.45, "send": 0.45},
        }
    )


def planned(search, tool, **changes):
    """The message of a planned call."""
    node = next(node for node in search.tree.nodes if node.call and node.call.tool == tool)
    call = {"name": tool, "args": dict(node.call.arguments), "id": f"call_{node.id}", **changes}
    mark = {"search": "model:1", "node": node.id}
    return AIMessage("", tool_calls=[call], response_metadata={"tooltree": mark})


def result(message, content, status="success"):
    call = message.tool_calls[0]
    return ToolMessage(content, tool_call_id=call["id"], name=call["name"], status=status)


def found(search, *messages, **changes):
    given = {"effects": effects_as(EFFECTS), "same_request": True, "repeatable": {"look", "ask"}}
    return warm_start_of(search, [HumanMessage("Paint it."), *messages], **{**given, **changes})


def test_the_last_marked_message_names_the_search(search):
    unmarked = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "a"}])
    assert last_search([HumanMessage("Paint it."), planned(search, "paint"), unmarked]) == "model:1"
    assert last_search([HumanMessage("Paint it."), unmarked]) is None
    assert last_search([]) is None


def test_a_write_that_came_out_as_tried_leads_to_the_tree_below_it(search):
    call = planned(search, "paint")
    continuation = found(search, call, result(call, "paint ran"))
    assert [node.call.tool for node in continuation.nodes[1:]] == ["look"]
    assert not continuation.carried_out


def test_advice_on_a_result_does_not_change_what_came_out(search):
    call = planned(search, "paint")
    advice = as_reference("Let it dry.", source="reflection")
    written = result(call, f"paint ran\n\n{advice}")
    advised = written.model_copy(update={"response_metadata": {"tooltree": {"added": [advice]}}})
    assert [node.call.tool for node in found(search, call, advised).nodes[1:]] == ["look"]
    assert "came out as" in found(search, call, written).anew


def test_a_tree_is_worth_nothing_for_another_request(search):
    call = planned(search, "paint")
    left = found(search, call, result(call, "paint ran"), same_request=False)
    assert (left.nodes, left.anew) == ([], "the request is another one")


def test_only_reads_that_depend_on_their_arguments_alone_are_known(search):
    call = planned(search, "paint")
    since = [call, result(call, "paint ran"), AIMessage("Done."), HumanMessage("Look at it.")]
    assert found(search, *since, repeatable=()).known == []


@pytest.mark.parametrize(("content", "status"), [("paint ran out", "success"), ("paint ran", "error"), ("", "success")])
def test_a_write_that_came_out_otherwise_leads_nowhere(search, content, status):
    call = planned(search, "paint")
    left = found(search, call, result(call, content, status))
    assert left.nodes == []
    assert left.anew == f"paint() came out as {status} {content!r}, not as success 'paint ran'"


@pytest.mark.parametrize("real", ["paint ran at 95", "ran paint"])
def test_where_the_user_calls_another_result_the_same_nothing_read_or_said_after_it_is_kept(search, real):
    call = planned(search, "paint")
    painted, look = search.tree[1], next(node for node in search.tree.nodes if node.call and node.call.tool == "look")
    glue = search.tree.add(painted, Call(tool="glue", arguments={}, effect="sandboxed"))
    glue.r_pre, glue.observation, look.answer = 0.8, Observation(content="ok"), {"data": {"content": "It is red"}}
    left = found(search, call, result(call, real), same=lambda *_: True)
    assert (left.anew, [node.call.tool for node in left.nodes[1:]]) == ("", ["glue"])
    assert [node.answer for node in left.nodes] == [None, None]


def test_a_write_that_was_not_carried_out_leads_nowhere(search):
    assert found(search, planned(search, "paint")).anew == "paint() was not carried out"
    assert found(search, planned(search, "paint"), HumanMessage("Well?")).anew == "paint() was not carried out"


@pytest.mark.parametrize("changes", [{"args": {"colour": "red"}}, {"name": "glue"}])
def test_a_changed_call_is_not_the_one_that_was_tried(search, changes):
    call = planned(search, "paint", **changes)
    assert found(search, call, result(call, "paint ran")).anew == "a planned call was changed or left out"


def test_a_write_that_was_never_tried_leads_nowhere(search):
    call = planned(search, "send")
    assert found(search, call, result(call, "send ran")).anew == "send() could not be tried while searching"


@pytest.mark.parametrize("node", [0, -1, 99, "1", None])
def test_a_mark_that_fits_no_node_leads_nowhere(search, node):
    call = planned(search, "paint")
    call.response_metadata["tooltree"]["node"] = node
    assert found(search, call, result(call, "paint ran")).anew == "a planned call was changed or left out"


def test_after_a_new_request_only_reads_of_the_present_world_are_known(search):
    call = planned(search, "paint")
    painted = [call, result(call, "paint ran")]

    continuation = found(search, *painted, AIMessage("It is painted."), HumanMessage("Look at it."))

    assert continuation.nodes == []
    assert [read.tool for read, _ in continuation.known] == ["look"], "ask was tried before it was painted"


def test_a_read_whose_result_is_shown_is_not_known(search):
    call, look = planned(search, "paint"), AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "x"}])
    painted = [call, result(call, "paint ran"), look, result(look, "look ran"), AIMessage("Done.")]
    assert found(search, *painted, HumanMessage("Look again.")).known == []


@pytest.mark.parametrize("tool", ["send", "paint", "unheard_of"])
def test_another_write_since_leaves_nothing_known(search, tool):
    call, other = planned(search, "paint"), AIMessage("", tool_calls=[{"name": tool, "args": {}, "id": "x"}])
    since = [call, result(call, "paint ran"), other, result(other, "ok"), AIMessage("Done."), HumanMessage("And now?")]
    assert found(search, *since).anew == f"{tool} may have changed the world since"


@pytest.fixture
def batch(search_in):
    """Its plan: paint and glue in one reply, then look."""
    search = search_in({"offers": {(): "paint"}, "effects": {"glue": "sandboxed", **EFFECTS}, "goal": {"paint": 0.1}})
    tree = search.tree
    glue = tree.add(tree[1], Call(tool="glue", arguments={}, effect="sandboxed"), batched=True)
    look = tree.add(glue, Call(tool="look", arguments={}, effect="read"))
    for node in (glue, look):
        node.r_pre, node.observation = 0.8, Observation(content=f"{node.call.tool} ran")
    return search


def planned_together(*tools, node=2):
    calls = [{"name": name, "args": {}, "id": f"call_{name}"} for name in tools]
    return AIMessage("", tool_calls=calls, response_metadata={"tooltree": {"search": "model:1", "node": node}})


def results(message, **changed):
    return [
        ToolMessage(changed.get(call["name"], f"{call['name']} ran"), tool_call_id=call["id"], name=call["name"])
        for call in message.tool_calls
    ]


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "the other way round"])
def test_calls_of_one_reply_that_all_came_out_as_tried_lead_to_the_tree_below_the_last(batch, order):
    message = planned_together("paint", "glue")
    continuation = found(batch, message, *results(message)[::order])
    assert [node.call.tool for node in continuation.nodes[1:]] == ["look"]


def test_calls_of_one_reply_lead_nowhere_if_one_came_out_otherwise_or_not_at_all(batch):
    message = planned_together("paint", "glue")
    assert "no paint left" in found(batch, message, *results(message, paint="no paint left")).anew
    assert found(batch, message, *results(message)[:1]).anew == "glue() was not carried out"
    assert found(batch, message, *results(message)[1:]).anew == "paint() was not carried out"


@pytest.mark.parametrize("tools", [["glue"], ["glue", "paint"], ["paint"], ["paint", "glue", "look"]])
def test_a_reply_of_which_calls_were_left_out_or_changed_is_not_the_one_that_was_tried(batch, tools):
    message = planned_together(*tools)
    assert found(batch, message, *results(message)).anew == "a planned call was changed or left out"


def test_reads_of_the_same_reply_that_ran_while_searching_stand_apart(batch):
    batch.tree[1].call = Call(tool="ask", arguments={}, effect="read")
    message = planned_together("glue")
    assert [node.call.tool for node in found(batch, message, *results(message)).nodes[1:]] == ["look"]
