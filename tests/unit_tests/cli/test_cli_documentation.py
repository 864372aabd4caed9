"""The page about the command line: its commands run, and keys are those that it tells."""

import json
import re
import shlex
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from langchain_tooltree import ChromaStore, Experience
from langchain_tooltree.cli import main
from tests.unit_tests.documentation import pages

PAGE = "cookbook/docs/how-to/command-line.md"
DATABASE = "postgresql://localhost/agents"


def commands_in(block):
    """The arguments of each command in a block, and the file that its output goes to."""
    for line in block.code.splitlines():
        name, *arguments = shlex.split(line, comments=True)
        assert name == "langchain-tooltree", f"{block}: {line}"
        at = arguments.index(">") if ">" in arguments else len(arguments)
        yield (
            ["agents/" if each == DATABASE else each for each in arguments[:at]],
            "".join(arguments[at + 1 :]),
        )


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """Somebody who has past runs, an experience and an agent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_agent", raising=False)
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    Path("my_agent.py").write_text("tools = ['search_flights']")
    run = pages.Trajectory.from_messages(pages.PAST_RUN, success=True)
    for folder in ("experience", "agents"):
        with ChromaStore(folder) as store:
            Experience(store, namespace=("tooltree",)).learn(run)


def output(*arguments):
    with redirect_stdout(StringIO()) as shown:
        assert main(arguments) == 0, arguments
    return shown.getvalue()


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
def test_the_page_can_be_followed_and_tells_the_keys():
    names, seen = pages.given(), set()
    keys = dict(
        re.findall(
            r"^\| (`.+?) \| (`.+) \|$",
            pages.PAGES[PAGE].partition("## JSON")[2],
            re.MULTILINE,
        )
    )
    with pages.offline():
        for block in pages.blocks_of(PAGE):
            if block.language == "python":
                pages.followed([block], **names)
            for arguments, target in (
                commands_in(block)
                if block.language == "bash" and not block.mark
                else ()
            ):
                shown = output(*arguments)
                assert shown
                if target:
                    Path(target).write_text(shown)
                force = (
                    {"--force"} - {*arguments}
                    if arguments[0] in {"demo", "view", "copy"}
                    else ()
                )
                told = json.loads(
                    output(*arguments, *force, *({"--json"} - {*arguments}))
                )
                command = f"`{arguments[0]}`"
                assert (
                    set(re.findall(r"`(\w+)`", keys[command])) - told.keys() == set()
                ), command
                seen.add(command)
    assert seen == keys.keys()
