"""Pages in a real browser: every control, hostile words, thousands of calls and edges, light and dark."""

import json
import re
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from browser import PROGRAM, SHELL, Browser
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    Experience,
    SearchConfig,
    SITGraph,
    Trajectory,
    demo,
    write_page,
)
from langchain_tooltree.cli import main
from langchain_tooltree.experience.trajectory import Branch
from langchain_tooltree.pages import in_notebook, page
from langchain_tooltree.pages.search import to_html
from tests.internals.pages import data_in, made, search_of
from tests.internals.sign_reader import sign_reader

pytestmark = pytest.mark.skipif(
    not (PROGRAM and SHELL), reason="no chromium is installed"
)

WIDTHS = (1280, 400)  # pixels: a desk, a phone
MARKUP = (
    "{}",
    "<b>{}</b>",
    "</script>{}",
    "<!--{}",
    "</textarea></title>{}",
    '"]}}{}',
    "\u202e{}\u2066",
    "{}" * 20,
)
WORDS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "https://example.org/?secret",
    "שלום עולם",
    "🤷🏽‍♀️👩‍👩‍👧‍👦",
    "e\u0301\u0302\u0303 a\u0338\u0337\u0321 漢字 \x1b[31m\x00",
)
HOSTILE = [  # each way to mark up with every other word
    markup.replace("{}", word).replace("}}", "}")
    for (way, markup), (place, word) in product(enumerate(MARKUP), enumerate(WORDS))
    if (way + place) % 2 == 0
] + ["x" * 1_000_000]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that the demo ends with."""
    file = tmp_path_factory.mktemp("story") / "search.html"
    assert main(["demo", "-o", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a deep search for the demo's task, which can be replayed."""
    deep = demo.solved(sign_reader(), config=SearchConfig(selection="posterior"))
    return page_of(deep.to_dict(), tmp_path_factory.mktemp("replayed"))


def page_of(search: Any, folder: Path) -> Path:
    file = folder / "search.html"
    file.write_text(to_html(search), encoding="utf-8")
    return file


def calling(
    tools: list[str], said: str = "", state: str = "", **given: Any
) -> Trajectory:
    """A run that calls some tools one after the other; with a `state` that it sums up before each."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": said or "Go on."}]
    for number, tool in enumerate(tools):
        for name, arguments in (
            [("summarize_state", {"summary": state})] if state else []
        ) + [(tool, {"at": said})]:
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"{number}{name}", "type": "function", "function": function}
            messages.append(
                {"role": "assistant", "content": said, "tool_calls": [call]}
            )
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "content": said or f"Result {number}.",
                }
            )
    return Trajectory.from_chat(
        [*messages, {"role": "assistant", "content": said or "Done."}],
        success=True,
        **given,
    )


@pytest.fixture(scope="module")
def tools_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a graph of three ways from `find`."""
    ways = [["find", "read", "send"]] * 3 + [["find", "find", "send"]] * 2 + [["look"]]
    runs = [
        calling(way, id=f"run {number}", state=f"State {number}.")
        for number, way in enumerate(ways)
    ]
    file = tmp_path_factory.mktemp("graph") / "graph.html"
    write_page(SITGraph.from_trajectories(runs), file)
    return file


def check_quiet(browser: Browser, file: Path) -> None:
    """A page has asked nobody for anything, and nothing went wrong."""
    assert (browser.requests(), browser.complaints()) == ([file.as_uri()], [])


def test_a_notebook_shows_the_page_in_a_frame_that_reaches_nothing_of_its_own(
    browser: Browser, tmp_path: Path
) -> None:
    graph = SITGraph.from_trajectories([calling(["find", "send"], said=HOSTILE[0])])
    search = in_notebook(to_html(search_of(query=HOSTILE[1])))
    file = tmp_path / "notebook.html"
    write_page(graph, file)
    shown = in_notebook(file.read_text(encoding="utf-8"))
    file.write_text(f"<!doctype html><p>{shown}</p><p>{search}</p>", encoding="utf-8")
    browser.open(file)
    frames = [
        each
        for each in browser.call("Target.getTargets")["targetInfos"]
        if each["url"] == "about:srcdoc"
    ]

    check_quiet(browser, file)
    assert browser.run(
        "[...document.querySelectorAll('iframe')].map((frame) => frame.contentDocument)"
    ) == [None, None]
    assert {
        browser.inside(each["targetId"], "document.querySelector('h1').textContent")
        for each in frames
    } == {
        HOSTILE[1],
        "Which tool came next",
    }


def middle_of(browser: Browser, node: int) -> tuple[float, float]:
    code = f"(() => {{ const at = stage.getBoundingClientRect(), node = data.nodes[{node}]; "
    code += "return [at.x + x0 + (node.x + 60) * size, at.y + y0 + node.y * size]; })()"
    x, y = browser.run(code)
    return x, y


def test_keys_lead_through_the_tree_and_say_where_they_are(
    browser: Browser, story: Path
) -> None:
    browser.open(story)
    browser.run("stage.focus()")
    browser.press("ArrowRight", "ArrowRight")
    assert browser.run("[selected.id, $('live').textContent]") == [
        2,
        'Plan, step 2. zoom_image(image="road.png", part="top right"). 1 call next',
    ]
    browser.press("ArrowDown")
    assert browser.run("selected.id") == 5
    browser.press("ArrowLeft", "ArrowRight", "ArrowRight")
    assert browser.run("selected.id") == 3
    browser.press("Enter")
    assert browser.run("document.activeElement.id") == "details"
    check_quiet(browser, story)


def test_a_click_tells_all_of_a_call_and_its_links_lead_on(
    browser: Browser, story: Path
) -> None:
    browser.open(story)
    whole = browser.run("$('details').innerText")
    assert "The answer\nIt is about 213 miles to Granite Pass." in whole
    assert "Alternative" not in whole
    assert browser.run("[...$('legend').children].map((each) => each.textContent)") == [
        "plan",
        "considered",
    ]
    browser.click(*middle_of(browser, 1))
    told = browser.run("$('details').innerText")
    for part in ("Step 1 of the plan", "read_sign (read)", "too coarse"):
        assert part in told
    browser.run(
        "[...document.querySelectorAll('#details button')].find((it) => it.textContent.includes('top left')).click()"
    )
    assert browser.run("selected.id") == 5
    assert "Nothing: it was not run." in browser.run("$('details').innerText")
    browser.run("document.querySelector('#details .links button').focus()")
    browser.press("Enter")
    assert browser.run("document.activeElement.id") == "details", (
        "who reads on with the keyboard stays there"
    )
    browser.press("Escape")
    assert browser.run("document.activeElement.id") == "stage"


def test_the_slider_replays_the_search(browser: Browser, replayed: Path) -> None:
    browser.open(replayed)
    assert "Considered, not run, best first" in browser.run("$('details').innerText")
    browser.click(*middle_of(browser, 1))
    told = browser.run("$('details').innerText")
    assert re.search(r"What it cost\s+\d model calls?, [\d,]+ tokens", told)
    assert "already made on this path" in told
    assert "a distance that can be" in told
    there = "view.boxes.filter(isThere).length"
    assert browser.run(f"[{there}, $('count').textContent]") == [17, "step 5 of 5"]
    assert browser.run("$('summary').textContent").startswith("4 rollouts"), (
        "as elsewhere, those that tried a call"
    )
    browser.run("$('when').focus()")
    browser.press("Home")
    assert browser.run(f"[{there}, $('change').textContent]") == [
        1,
        "What the search began with.",
    ]
    browser.press("ArrowRight", "ArrowRight")
    assert browser.run(there) == 10
    assert "ran read_sign" in browser.run("$('change').textContent")
    assert "step 2 of 5. ran read_sign" in browser.run(
        "$('when').getAttribute('aria-valuetext')"
    )
    assert (
        browser.run(
            "document.querySelector('footer').querySelectorAll('[aria-live], output').length"
        )
        == 0
    )
    browser.run("view.setWhen(view.last - 1), $('play').click()")
    ended = "view.when >= view.last ? done(timer) : setTimeout(wait, 50)"
    assert (
        browser.run(f"new Promise((done) => {{ const wait = () => {ended}; wait(); }})")
        == 0
    )


def names_of_controls(browser: Browser) -> set[tuple[str, str]]:
    """Roles and names of all that a page can be used with, as a screen reader has them."""
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {
        "button",
        "searchbox",
        "slider",
        "application",
        "complementary",
        "link",
        "checkbox",
        "combobox",
        "region",
    }
    roles |= {"DisclosureTriangle", "textbox", "spinbutton", "listbox"}
    named = [
        (each["role"]["value"], each["name"]["value"])
        for each in nodes
        if each.get("role", {}).get("value") in roles
    ]
    assert [role for role, name in named if not name] == []
    return {*named}


def reached_by_tab(browser: Browser, presses: int = 30) -> set[str]:
    reached = set()
    for _ in range(presses):
        browser.press("Tab")
        reached.add(browser.run("document.activeElement.id"))
    return reached


def test_every_control_has_a_name_and_can_be_reached(
    browser: Browser, replayed: Path, tools_graph: Path
) -> None:
    browser.open(replayed)
    assert {
        ("slider", "Step"),
        ("application", "Search tree"),
        ("button", "Larger"),
    } <= names_of_controls(browser)
    assert {
        "find",
        "smaller",
        "larger",
        "fit",
        "stage",
        "play",
        "when",
    } <= reached_by_tab(browser)
    assert browser.run(f"{WALK}([{ARROWS}])") == 17
    assert browser.run("document.querySelector('main').contains(stage)")
    browser.open(tools_graph)
    names = {
        ("slider", "Edges drawn"),
        ("application", "Tool graph"),
        ("searchbox", "Find"),
    }
    assert names <= names_of_controls(browser)
    assert {"find", "most", "smaller", "larger", "fit", "stage"} <= reached_by_tab(
        browser
    )
    assert browser.run(f"{WALK}([{ARROWS}, 'e'])") == 5 + 6, "tools and edges"


WALK = """((keys) => {
  const reached = new Set([view.boxes[0]]), open = [view.boxes[0]];
  while (open.length) {
    const from = open.pop();
    for (const key of keys) {
      select(from);
      stage.dispatchEvent(new KeyboardEvent("keydown", { key }));
      if (!reached.has(selected)) { reached.add(selected); open.push(selected); }
    }
  }
  return reached.size;
})"""
"""How many things keys lead to from the first."""
ARROWS = "'ArrowRight', 'ArrowLeft', 'ArrowUp', 'ArrowDown'"


OUT = "document.documentElement.scrollWidth > innerWidth"
"""Whether something stands out of the page."""
OUT_BESIDE = "document.querySelector('aside').scrollWidth > document.querySelector('aside').clientWidth"


UNFOLDED = "each.querySelectorAll('details').forEach((it) => { it.open = true; })"


def check_hostile(
    browser: Browser, file: Path, things: str, show: str, out: str = OUT
) -> None:
    """Show all things of a page at a desk and on a phone: nothing stands out, and no hostile word is run.

    Args:
        browser: Where it is opened.
        file: The page.
        things: An array, in JavaScript.
        show: A statement that shows `each` of them, and may wait.
        out: Whether something stands out then.
    """
    for width in WIDTHS:
        browser.open(file, width=width)
        assert browser.run(f"{things}.length") >= len(HOSTILE) > 30
        code = f"(async () => {{ const wide = []; for (const each of {things}) {{ {show}; if ({out}) wide.push(each); }}"
        assert browser.run(f"{code} return wide.length; }})()") == 0
        assert browser.run("[document.scripts.length, document.images.length]") == [
            2,
            0,
        ]
        assert browser.run(
            "[...document.links].every((each) => each.getAttribute('href').startsWith('#'))"
        )
        check_quiet(browser, file)


def test_hostile_words_are_shown_and_never_run(
    browser: Browser, tmp_path: Path
) -> None:
    nodes, history = [], []
    for number, text in enumerate(HOSTILE):
        said = {
            "reasons": {"r_post": text},
            "answer": text,
            "missing": [text],
            "dropped": [text],
        }
        nodes.append(
            made(text[:5_000], arguments={"at": text}, seen=text, r_post=0.5, **said)
        )
        cost = {
            "model_calls": 1,
            "tokens": 1,
            "nodes": number + 2,
            "ran": [],
            "pruned": [],
        }
        history.append(
            {
                "rollout": number,
                "kind": "evaluate",
                "node": number + 1,
                "best": None,
                **cost,
            }
        )
    file = page_of(search_of(*nodes, query=HOSTILE[0] * 50, history=history), tmp_path)
    check_hostile(
        browser, file, "data.nodes", "select(each); await 0", f"{OUT} || {OUT_BESIDE}"
    )
    assert "<script>alert(1)</script>" in browser.run("$('title').textContent")


def test_two_thousand_calls_are_all_there(browser: Browser, tmp_path: Path) -> None:
    nodes = [
        made(
            f"tool_{number % 9}",
            parent=max(0, number - number % 17 - 3),
            arguments={"number": number, "text": "word"},
            seen=f"Result {number}.",
            r_pre=number % 10 / 10,
        )
        for number in range(2_000)
    ]
    file = page_of(search_of(*nodes), tmp_path)
    browser.open(file)
    assert browser.run("data.nodes.length") == len(nodes) + 1
    assert file.stat().st_size < 2_000_000


def test_light_and_dark_follow_the_system_and_have_contrast(
    browser: Browser, story: Path, tools_graph: Path
) -> None:
    seen = []
    for dark in (False, True):
        browser.open(tools_graph, dark=dark)
        assert browser.run("select(view.lines[0]), " + CONTRASTS) == []
        browser.open(story, dark=dark)
        for node in (0, 1, 2):
            assert browser.run(f"select(data.nodes[{node}]), " + CONTRASTS) == []
        seen.append(
            browser.run(
                "[getComputedStyle(document.body).backgroundColor, colours.ink]"
            )
        )
    assert seen == [["rgb(255, 255, 255)", "#1f2328"], ["rgb(13, 17, 23)", "#f0f6fc"]]


def test_keys_and_clicks_lead_through_a_graph(
    browser: Browser, tools_graph: Path
) -> None:
    browser.open(tools_graph)
    browser.run("stage.focus()")
    browser.press("Home", "ArrowRight")
    assert browser.run("[selected.name, $('live').textContent]") == [
        "find",
        "find, called 7 times. Most often next: read, 43%",
    ]
    browser.press("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "e")
    assert browser.run("$('live').textContent") == "find → read, 43%, followed 3 times"
    told = browser.run("$('details').innerText")
    for part in (
        "State 0.",
        "run 0",
        "Tasks that support it\t3",
        "Followed\t3 times",
        "Raw weight",
    ):
        assert part in told
    browser.press("Enter")
    assert browser.run("document.activeElement.id") == "details"
    x, y = browser.run(
        "(() => { const at = stage.getBoundingClientRect(), edge = view.boxes[0].out[1]; "
        "const [x, y] = pointOn(edge.way, 0.3); return [at.x + x0 + x * size, at.y + y0 + y * size]; })()"
    )
    browser.click(x, y)
    assert browser.run("selected.name") == "start → look"
    check_quiet(browser, tools_graph)


def test_a_graph_is_searched_by_tool_and_by_state_and_draws_as_many_edges_as_one_likes(
    browser: Browser, tools_graph: Path
) -> None:
    browser.open(tools_graph)
    assert browser.run(
        "[view.lines.length, view.boxes.length, $('controls').innerText]"
    ) == [
        6,
        5,
        "Edges drawn\n6 of 6",
    ]
    browser.run("$('most').focus()")
    browser.press("Home")
    assert browser.run("[view.lines.length, $('controls').innerText]") == [
        1,
        "Edges drawn\n1 of 6",
    ]
    browser.press("/", *"look", "Enter")
    assert browser.run(
        "[selected.name, view.boxes.includes(selected), $('hits').textContent]"
    ) == [
        "look",
        True,
        "1 of 1",
    ]
    browser.run("$('find').value = ''")
    browser.press(*"state 4", "Enter", "Enter")
    assert browser.run("[matches.map((each) => each.name), $('hits').textContent]") == [
        ["start → find", "find → find", "find → send"],
        "2 of 3",
    ]
    assert browser.run("[matches[1] === selected, view.lines.includes(selected)]") == [
        True,
        True,
    ]


def test_three_thousand_edges_are_on_a_page_below_a_megabyte(tmp_path: Path) -> None:
    ways = [
        [f"tool_{(number * 7 + step * step) % 300}" for step in range(13)]
        for number in range(300)
    ]
    graph = SITGraph.from_trajectories(
        calling(way, id=f"{number}") for number, way in enumerate(ways)
    )
    edges = {pair for way in ways for pair in pairwise(way)}
    assert len(edges) > 3_000
    file = tmp_path / "graph.html"
    write_page(graph, file)
    assert file.stat().st_size < 1_000_000
    shown = data_in(file.read_text())
    assert len(
        {tuple(edge[:2]) for edge in shown["edges"] if edge[0] != shown["start"]}
    ) == len(edges)


def test_hostile_names_and_states_are_shown_in_a_graph_and_never_run(
    browser: Browser, tmp_path: Path
) -> None:
    runs = [
        calling([text[:5_000], "look"], state=text, id=text[:5_000]) for text in HOSTILE
    ]
    file = tmp_path / "graph.html"
    write_page(SITGraph.from_trajectories(runs), file)
    check_hostile(
        browser,
        file,
        "view.searched",
        "select(each); await 0",
        f"{OUT} || {OUT_BESIDE}",
    )
    assert browser.run("data.edges.length") > 2 * len(HOSTILE) - 2


CONTRASTS = """(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].reduce((sum, each, at) => {
    const c = each / 255;
    return sum + [0.2126, 0.7152, 0.0722][at] * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  }, 0);
  const behind = (each) => {
    for (; each; each = each.parentElement) {
      const colour = numbers(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
  };
  const low = new Set(), ratio = (one, other) => {
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  // What pictures are painted in: texts on what is behind them, then lines and borders.
  const painted = (name) => {
    const made = document.createElement("i");
    made.style.color = `var(--${name})`;
    document.body.append(made);
    const colour = numbers(getComputedStyle(made).color);
    made.remove();
    return colour;
  };
  for (const [least, fore, back] of [
    [4.5, "ink dim score open way", "page box found plan otherbox"], [4.5, "page", "way other"],
    [3, "line way other focus", "page box"],
  ]) for (const a of fore.split(" ")) for (const b of back.split(" "))
    if (ratio(painted(a), painted(b)) < least) low.add(a + " on " + b);
  for (const each of document.body.querySelectorAll("*")) {
    const says = [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!says || each.matches("script, :disabled, .unseen")) continue;
    if (ratio(numbers(getComputedStyle(each).color), behind(each)) < 4.5) low.add(each.tagName + "." + each.className);
  }
  return [...low];
})()"""


def noted_run() -> Trajectory:
    """A run with all that a page marks: a call that failed, an anomaly, a reflection, a branch, and a verdict."""
    run = calling(["find", "send"], id="run 1")
    off = {"kind": "error", "evidence": "It is closed.", "confidence": 0.9}
    added = '<reference_material source="reflection" id="0123456789ab">\nKnock first.\n</reference_material>'
    noted = {
        "response_metadata": {
            "tooltree": {"anomaly": off, "reflected": True, "added": [added]}
        }
    }
    usual = {
        "suggested": [
            {"tool": "find", "share": 0.8, "runs": 3},
            {"tool": "look", "share": 0.1, "runs": 1},
        ]
    }
    used = {
        "usage_metadata": {"total_tokens": 250},
        "response_metadata": {"tooltree": usual},
    }
    messages = [
        {"role": "system", "content": "Be brief. " * 100},
        *map(dict, run.messages),
    ]
    messages[2] |= {"langchain": used, "timestamp": "2026-01-01T10:00:00"}
    messages[3] |= {
        "langchain": noted,
        "error": True,
        "content": "It is closed. " * 100,
    }
    messages[4] |= {"langchain": used, "timestamp": "2026-01-01T10:00:04"}
    branch = Branch("helper", 3, tuple(calling(["look"]).messages))
    about = {
        "came_from": "ada",
        "recalled": {"runs": ["run 2", "gone"], "tips": ["tip"]},
    }
    made = Trajectory.from_chat(
        messages, id="run 1", success=True, branches=[branch], metadata=about
    )
    return made.judged(True, "It went well.", source="verdict").judged(
        False, "Too slow.", source="user"
    )


def test_a_run_is_read_and_searched(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    write_page(noted_run(), file)
    for dark in (False, True):
        browser.open(file, dark=dark)
        assert browser.run(CONTRASTS) == []
    told = browser.run("document.body.innerText")
    for part in (
        "failure",
        "by a person",
        "Too slow.",
        "ada",
        "Sub-agent helper",
        "Anomaly, found by the rule error, 90% sure: It is closed.",
        "A reflection advised the agent here. Its words are not part of the record.",
        "Past runs went on here with find 80% (3 runs), look 10% (1 run): followed.",
        "Past runs went on here with find 80% (3 runs), look 10% (1 run): not followed.",
        "Run gone",
        "500",
        "calls look",
    ):
        assert part in told
    browser.press("/")
    browser.press(*"closed", "Enter")
    assert browser.run("[$('hits').textContent, document.activeElement.className]") == [
        "1 of 1",
        "message observation wrong hit",
    ]
    assert browser.run("document.activeElement.querySelector('details').open")
    assert "Agent · 2026-01-01T10:00:00 · 250 tokens" in browser.run(
        "document.body.innerText"
    )
    assert ("searchbox", "Find") in names_of_controls(browser)
    assert {"find", "next"} <= reached_by_tab(browser)
    check_quiet(browser, file)


def hostile_notes(text: str) -> dict[str, Any]:
    """What somebody may have written beside a message, of the kinds that are shown and of others."""
    shares: list[Any] = [
        text,
        {"tool": text, "share": 0.5, "runs": text},
        {"tool": 3, "share": "x"},
        {"share": 2},
    ]
    off = {"kind": text, "tool": text, "evidence": text, "confidence": text}
    return {"response_metadata": {"tooltree": {"suggested": shares, "anomaly": off}}}


def test_hostile_words_in_a_run_are_shown_and_never_run(
    browser: Browser, tmp_path: Path
) -> None:
    made = [{"role": "user", "content": HOSTILE[0]}]
    for text in HOSTILE:
        made += [dict(message) for message in calling([text], said=text).messages]
        made[-2]["langchain"] = hostile_notes(text)
        made[-1]["langchain"] = hostile_notes(text)
    file = tmp_path / "run.html"
    about = {"came_from": HOSTILE[2], "recalled": {"runs": HOSTILE, "tips": HOSTILE}}
    run = Trajectory.from_chat(made, id=HOSTILE[1], metadata=about).judged(
        True, HOSTILE[-1]
    )
    write_page(run, file)
    assert file.stat().st_size < 1_000_000
    check_hostile(browser, file, "[...document.querySelectorAll('.message')]", UNFOLDED)
    assert browser.run("document.querySelectorAll('.message').length") > 4 * 30


def test_an_experience_is_filtered_and_leads_into_its_runs_and_back(
    browser: Browser, tmp_path: Path
) -> None:
    experience = Experience(InMemoryStore(), namespace=("tooltree",))
    experience.learn(noted_run())
    experience.learn(calling(["look"], said="Have a look.", id="run 2"))
    file = tmp_path / "experience.html"
    write_page(experience, file)
    for dark in (False, True):
        browser.open(file, dark=dark)
        assert browser.run(CONTRASTS) == []
    rows = "[...document.querySelectorAll('a')].map((each) => each.textContent)"
    assert browser.run(f"{rows}.sort()") == ["Go on.", "Have a look."]
    browser.press("/")
    browser.press(*"too slow")
    assert browser.run(rows) == ["Go on."]
    browser.run("document.querySelector('a').focus()")
    browser.press("Enter")
    browser.run("new Promise((done) => setTimeout(done, 50))")
    assert browser.run("[$('title').textContent, document.activeElement.id]") == [
        "Go on.",
        "title",
    ]
    told = browser.run("document.body.innerText")
    for part in (
        "It is closed.",
        "Run run 2\nHave a look.",
        "Run gone\nnot in this page",
    ):
        assert part in told
    browser.press("/", *"closed", "Enter")
    assert browser.run("[$('hits').textContent, document.activeElement.tagName]") == [
        "1 of 1",
        "SECTION",
    ]
    assert browser.run(CONTRASTS) == []
    browser.press("Escape")
    browser.run("new Promise((done) => setTimeout(done, 50))")
    assert browser.run(
        "[$('title').textContent, document.activeElement.dataset.key]"
    ) == ["What was learnt", "run 1"]
    assert ("link", "Have a look.") in names_of_controls(browser)
    check_quiet(browser, file)


def test_progress_and_runs_are_tables_that_are_sorted_and_lead_to_the_runs_of_a_day(
    browser: Browser, tmp_path: Path
) -> None:
    experience = Experience(InMemoryStore(), namespace=("tooltree",))
    experience.learn(noted_run())
    file = tmp_path / "experience.html"
    write_page(experience, file)
    browser.open(file)
    browser.run(
        "data.runs = Array.from({ length: 6 }, (_, number) => "
        "({ ...data.runs[0], id: String(number), outcome: number % 3 ? 'success' : 'failure', "
        "kept: new Date((number >> 1) * 864e5).toISOString(), tokens: 10 * number })), render(), 0"
    )
    cells = "[...document.querySelectorAll('.rows')[1].tBodies[0].rows].map((row) => row.innerText)"
    assert browser.run(cells) == [
        "1970-01-03\t2\t2\t0\t0\t90",
        "1970-01-02\t2\t1\t1\t0\t50",
        "1970-01-01\t2\t1\t1\t0\t10",
    ]
    browser.run(
        "[...document.querySelectorAll('th button')].find((each) => each.innerText === 'Failed').click()"
    )
    assert [row[:10] for row in browser.run(cells)] == [
        "1970-01-01",
        "1970-01-02",
        "1970-01-03",
    ]
    assert browser.run(
        "[...document.querySelectorAll('[aria-sort=descending]')].map((each) => each.innerText)"
    ) == [
        "Failed",
        "Kept",
    ]
    browser.run(
        "[...document.querySelectorAll('td button')].find((each) => each.innerText === '1970-01-01').click()"
    )
    assert browser.run(
        "[$('hits').textContent, document.querySelectorAll('.rows td a').length]"
    ) == ["2 runs", 2]
    check_quiet(browser, file)


def test_hostile_words_in_an_experience_are_shown_and_never_run(
    browser: Browser, tmp_path: Path
) -> None:
    experience = Experience(InMemoryStore(), namespace=("tooltree",))
    for number, text in enumerate(HOSTILE):
        run = calling(
            [text[:5_000]], said=text, id=f"{number} {text[:500]}"
        ).coming_from(text[:500])
        about = {"recalled": {"runs": [text], "tips": [text]}}
        run = replace(run, metadata={**run.metadata, **about})
        experience.store.add(run.judged(True, text, source="verdict"))
    file = tmp_path / "experience.html"
    write_page(experience, file)
    there = (
        "new Promise((done) => addEventListener('hashchange', done, { once: true }))"
    )
    check_hostile(
        browser, file, "data.runs", f"location.hash = addressOf(each.id); await {there}"
    )


def test_a_comparison_shows_its_verdict_and_leads_to_searches(
    browser: Browser, tmp_path: Path
) -> None:
    figures = {
        "solved": 1,
        "share": 0.5,
        "errors": 1,
        "model_calls": 2.5,
        "tokens": 1_200,
        "seconds": 0.1,
    }
    more = {"mean": 1.5, "low": -0.5, "high": 3.25}
    paired = {
        "gained": 1,
        "lost": 0,
        "difference": 0.5,
        "low": -0.25,
        "high": 0.9,
        "p": 1.0,
    }
    row = {
        "task": "t",
        "solved_by": "planner",
        "plain_answer": "?",
        "answer": "!",
        "expected": {"a": 1},
        "page": "",
    }
    rows = [{**row, "input": text, "answer": text} for text in HOSTILE] + [
        {**row, "input": "Who?", "page": "a%20b.html"}
    ]
    data = {
        "title": HOSTILE[0],
        "tasks": 2,
        "agents": {
            "plain agent": figures,
            "planner": {**figures, "dollars_in_all": 0.0123},
        },
        "against_plain": {
            "planner": {**paired, "more_model_calls": more, "more_tokens": more}
        },
        "unsolved": rows,
        "errors": [HOSTILE[1]],
        "verdicts": ["Adopt the planner."],
    }
    file = tmp_path / "report.html"
    file.write_text(page("compare", HOSTILE[2], data), encoding="utf-8")
    for width in WIDTHS:
        for dark in (False, True):
            browser.open(file, width=width, dark=dark)
            assert browser.run(CONTRASTS) == []
        shown = browser.run("document.body.innerText")
        for part in (
            "Adopt the planner.",
            "+50 (-25 to +90) % of the tasks",
            "1 gained, 0 lost (p = 1.0)",
            "+1.5 (-0.5 to",
        ):
            assert part in shown
        browser.press("/", *"who?")
        assert browser.run(
            "[$('hits').textContent, document.querySelector('td a').getAttribute('href')]"
        ) == [
            "1 found",
            "a%20b.html",
        ]
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.run("[document.scripts.length, document.images.length]") == [
            2,
            0,
        ]
        check_quiet(browser, file)
