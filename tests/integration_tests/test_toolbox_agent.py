"""An agent with the whole toolbox solves ten small tasks: results go into the next call, errors help."""

import asyncio

import pytest
from langchain_core.messages import ToolMessage

from langchain_tooltree import SearchConfig, ToolLibrary, create_tooltree_agent, search
from langchain_tooltree.testing import OfflineChatModel, ScriptedChatModel
from langchain_tooltree.toolbox import toolbox
from tests.internals.toolbox import serving

BEST = "SELECT region FROM sales GROUP BY 1 ORDER BY sum(amount) DESC LIMIT 1"
TASKS = {
    "What is 15 % of 1,280, to the power of two?": (
        [("calculator", {"expression": "(0.15 * 1280)^2"})],
        "36864",
    ),
    "I have 20 coins, of 2 and 5 euros, 61 euros in all. How many of 5?": (
        [("solve_equations", {"equations": ["x + y = 20 and 2*x + 5*y = 61"]})],  # fails: two equations in one
        "y = 7",
        [("solve_equations", {"equations": ["x + y = 20", "2*x + 5*y = 61"]})],
    ),
    "The marathon is 26.2 miles. How long does it take at 12 km/h, in hours?": (
        [
            ("convert_units", {"value": 26.2, "unit": "mile", "to": "km"}),
            ("calculator", lambda said: {"expression": f"{said.split('= ')[1].split()[0]} / 12"}),
        ],
        "3.5137",
    ),
    "The contract of 31 January 2024 runs 13 months. Which day of the week does it end on?": (
        [("add_to_date", {"start": "2024-01-31", "amount": 13, "unit": "months"})],
        "2025-02-28 (Friday)",
    ),
    "Which region sold most?": (
        [
            ("describe_tables", {}),
            (
                "query_tables",
                lambda said: {"sql": "SELECT region FROM sale", "files": [said.split(":")[0]]},
            ),  # fails: no such table
        ],
        "South",
        [("query_tables", lambda said: {"sql": BEST, "files": [said.split(":")[0]]})],
    ),
    "When is the next meeting?": (
        [
            ("list_files", {"ending": ".html"}),
            ("search_documents", lambda said: {"pattern": r"\d{4}-\d\d-\d\d", "file": said.split(" (")[0]}),
        ],
        "2026-05-04",
    ),
    "How many days of annual leave do we have?": (
        [
            ("search_documents", {"pattern": "annual leave"}),
            ("read_document", lambda said: {"file": said.split(",")[0]}),
        ],
        "28 days",
    ),
    "Which colour is the upper right quarter of flag.png?": (
        [
            ("zoom_image", {"image": "flag.png", "part": "top right"}),
            ("ask_image", lambda said: {"image": said, "question": "Which colour is it?"}),
        ],
        "It is red.",
    ),
    "What does the note say?": (
        [("read_document", {"file": "../note.txt"})],  # fails: outside
        "Die Brücke",
        [("read_document", {"file": "note.txt"})],
    ),
    "Where was Ada Lovelace born?": ([("search_encyclopaedia", {"query": "Ada Lovelace"})], "London"),
}
"""The calls that solve each request, what has to stand in the answer, and calls that are made where those fail."""


class Thinker:
    """Makes the calls of a task, takes what it has read into the next one, and makes others where one failed."""

    def propose(self, question):
        plan, _, *instead = TASKS[question.request]
        made = list(question.path)
        wrong = next((at for at, call in enumerate(made) if self.failed(call)), None)
        if wrong is not None:
            plan = [*plan[: wrong + 1], *instead[0]]
        if len(made) >= len(plan):
            return []
        tool, arguments = plan[len(made)]
        good = [call.observation or "" for call in made if not self.failed(call)]
        return [(tool, arguments(good[-1]) if callable(arguments) else arguments)]

    @staticmethod
    def failed(call):
        said = call.observation or ""
        return any(word in said for word in ("one '='", "does not exist", "not a name"))

    def score_call(self, _, __):
        return 0.9

    def score_observation(self, question, call):
        done = TASKS[question.request][1] in (call.observation or "")
        return (0.1, 0.0) if self.failed(call) else (0.9, 0.95 if done else 0.3)

    def answer(self, question):
        return f"I found: {question.path[-1].observation}" if question.path else "I know nothing."


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    from PIL import Image  # noqa: PLC0415 - an extra

    folder = tmp_path_factory.mktemp("office")
    (folder / "sales.csv").write_text("region,amount\nNorth,10\nSouth,20\nNorth,5\n")
    (folder / "minutes.html").write_text("<h1>Minutes</h1><p>Next meeting on <b>2026-05-04</b>.")
    (folder / "rules.md").write_text("# Leave\nAnnual leave is 28 days.\n")
    (folder / "note.txt").write_text("Die Brücke ist bis Mai nicht offen, und das ist für den Ort nicht gut.")
    (folder / "many.txt").write_text("a" * 60 + "b")
    flag = Image.new("RGB", (80, 40), "white")
    flag.paste((255, 0, 0), (40, 0, 80, 40))
    flag.save(folder / "flag.png")
    page = {"title": "Ada Lovelace", "extract": "Born in London in 1815.", "index": 1}
    with serving(lambda _: {"query": {"pages": [page]}}) as address:
        vision = ScriptedChatModel(replies=["It is red."] * 20)
        yield toolbox(folder=folder, vision=vision, encyclopaedia=address, wikidata=address, seconds=5)


@pytest.mark.parametrize("task", TASKS)
def test_a_search_with_all_tools_solves_the_task(box, task):
    assert len(box) == 15
    outcome = search(
        task, box, model=OfflineChatModel(policy=Thinker()), effects=box.effects, config=SearchConfig(max_rollouts=8)
    )
    assert TASKS[task][1] in outcome.answer.text


def test_an_agent_with_all_tools_calls_them_and_answers(box):
    agent = create_tooltree_agent(OfflineChatModel(policy=Thinker()), box, effects=box.effects)
    task = "Which colour is the upper right quarter of flag.png?"
    messages = agent.invoke({"messages": [("user", task)]})["messages"]
    assert "It is red." in messages[-1].text
    assert [message.name for message in messages if isinstance(message, ToolMessage)] == ["zoom_image", "ask_image"]


async def test_tools_run_beside_an_event_loop_and_outlive_a_call_that_was_given_up(box):
    for_ever = {"pattern": "(a+)+$", "file": "many.txt"}
    slow = asyncio.create_task(box.tool("search_documents").ainvoke(for_ever))
    turns = 0
    while not slow.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert "was stopped" in await slow
    assert turns > 10
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(box.tool("search_documents").ainvoke(for_ever), 0.1)
    numbers = range(1, 20)
    said = await asyncio.gather(*(box.tool("calculator").ainvoke({"expression": f"{n} * 7"}) for n in numbers))
    assert said == [str(n * 7) for n in numbers]


def test_one_more_tool_goes_beside_them(box):
    def my_tool(text: str) -> str:
        """Echo."""
        return text

    library = ToolLibrary([*box, my_tool])
    assert len(library) == len(box) + 1
    assert library.card("calculator") == box.card("calculator")
