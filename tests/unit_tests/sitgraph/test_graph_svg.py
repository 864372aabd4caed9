"""The picture of a tool graph."""

from itertools import combinations
from xml.etree import ElementTree as ET

from little_runs import routine

from langchain_tooltree import SITGraph

RUNS = [
    routine("1", "find", "pay"),
    routine("2", "find", "pay", "find"),
    routine("3", "find", "ask", "ask", "pay"),
]


def texts(svg):
    return [each.text for each in ET.fromstring(svg).iter() if each.tag.endswith("}text")]  # noqa: S314 - our own


def test_a_picture_shows_the_tools_the_shares_and_where_runs_begin():
    svg = SITGraph.from_trajectories(RUNS, alpha=0).to_svg()

    assert {"start", "find", "pay", "ask", "4 times", "2 times, 50% again at once"} <= set(texts(svg))
    assert sorted(text for text in texts(svg) if text.endswith("%")) == ["100%", "100%", "33%", "50%", "67%"]
    assert svg.count('class="way"') == 4 + 1  # 50% and more, and one in the legend
    assert "start to find 100%" in svg


def test_the_edges_followed_most_often_are_drawn_and_the_rest_is_counted():
    shown = texts(SITGraph.from_trajectories(RUNS, alpha=0).to_svg(max_edges=2))

    assert "ask" not in shown
    assert "3 tools, 3 runs, 6 edges, of which 4 that were followed less often are left out" in shown


def test_the_same_runs_give_the_same_bytes_in_any_order():
    one, other = SITGraph.from_trajectories(RUNS), SITGraph.from_trajectories(RUNS[::-1])

    assert one.to_svg() == other.to_svg() == one._repr_svg_()


def test_lines_between_tools_that_lead_to_each_other_do_not_cross_and_their_shares_stand_apart():
    runs = [
        routine("1", "open", "pay"),
        routine("2", "open", "pay", "open"),
        routine("3", "open", "pay", "open", "pay"),
    ]
    svg = ET.fromstring(SITGraph.from_trajectories(runs, alpha=0).to_svg())  # noqa: S314 - our own
    lines = [each.get("d") for each in svg.iter() if each.get("d", "").startswith("M") and "C" in each.get("d", "")]
    shares = [(float(each.get("x")), float(each.get("y"))) for each in svg.iter() if (each.text or "").endswith("%")]

    ends = [(float(line.split()[1]), float(line.split()[2]), float(line.split()[-1])) for line in lines]
    (_, there_from, there_to), (_, back_from, back_to) = sorted(ends)[-2:]
    assert (there_from - back_to) * (there_to - back_from) > 0, "one stays above the other"
    assert len(shares) == 3
    assert all(
        abs(x - other_x) >= 28 or abs(y - other_y) >= 10 for (x, y), (other_x, other_y) in combinations(shares, 2)
    )


def test_an_empty_graph_is_an_empty_picture():
    assert "0 tools, 0 runs, 0 edges" in texts(SITGraph().to_svg())
    assert "1 tool, 1 run, 1 edge" in texts(SITGraph.from_trajectories([routine("1", "find")]).to_svg())


def test_odd_names_stay_texts():
    names = ["<script>alert(1)</script>", "\x00\u202eevil", "x" * 9_999, "</style>"]
    svg = SITGraph.from_trajectories([routine("1", *names)]).to_svg()

    assert "<script" not in svg
    assert svg.count("</style>") == 1
    assert len(svg) < 25_000
    assert len([text for text in texts(svg) if text == "1 time"]) == 4
