"""What the command line says to somebody who does not know it: help, versions, wrong input, other terminals."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from langchain_tooltree import Trajectory, dump_trajectories
from langchain_tooltree.cli import CLOSED, EXIT_INTERRUPTED, REFUSED, main

COMMANDS = ("demo", "view", "copy")


def said(capsys, *arguments, code=REFUSED):
    """The one line on stderr."""
    assert main([*map(str, arguments)]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    return told.err


def process(*arguments, **environment):
    command = [sys.executable, "-m", "langchain_tooltree", *map(str, arguments)]
    return subprocess.run(  # noqa: S603
        command,
        capture_output=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_can_answer_as_json(
    command, monkeypatch, capsys
):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    told = capsys.readouterr().out
    assert "--json" in told
    monkeypatch.setattr("langchain_tooltree.cli._run_command", lambda *_: 0)
    assert main(told.rpartition("example: langchain-tooltree ")[2].split()) == 0


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert (
        capsys.readouterr().out
        == f"langchain-tooltree {version('langchain-tooltree')}\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["demo", "--help"], []]
)
def test_help_and_version_import_nothing_that_takes_time(arguments):
    code = (
        "import sys\nfrom langchain_tooltree.cli import main\n"
        f"try: main({arguments})\nexcept SystemExit: pass\n"
        "sys.exit(bool({'langchain', 'langchain_core', 'pydantic_core', 'numpy', 'rich'} & sys.modules.keys()))"
    )
    assert (
        subprocess.run(  # noqa: S603
            [sys.executable, "-c", code], capture_output=True, check=False
        ).returncode
        == 0
    )


def test_a_target_is_looked_at_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("langchain_tooltree.demo.search", None)
    (tmp_path / "taken.html").write_text("mine")
    assert "mkdir -p" in said(capsys, "demo", "-o", tmp_path / "none" / "x.html")
    assert "--force" in said(capsys, "demo", "-o", tmp_path / "taken.html")
    assert (tmp_path / "taken.html").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            "view none.jsonl -o page.html",
            "none.jsonl: No such file or directory. Check the path",
        ),
        ("demo -o runs.jsonl/demo.html", "There is no folder runs.jsonl"),
        ("copy folder new", "There is no store at 'folder'"),
        ("copy ftp://host/x new", "There is no store at 'ftp://host/x'"),
    ],
)
def test_wrong_input_is_told_in_one_line_and_nothing_is_made(
    arguments, told, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    dump_trajectories([Trajectory("a run", task="Go on.", success=True)], "runs.jsonl")
    assert told in said(capsys, *arguments.split())
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["folder", "runs.jsonl"]


def test_ctrl_c_stops_without_a_traceback_and_says_what_is_kept(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("langchain_tooltree.demo.search", interrupted)
    monkeypatch.setattr("langchain_tooltree.cli.stores.opened", interrupted)
    assert main(["demo"]) == EXIT_INTERRUPTED
    assert main(["copy", "old", "new"]) == EXIT_INTERRUPTED
    first, second = capsys.readouterr().err.splitlines()
    assert first == "Stopped."
    assert "goes on from there" in second


@pytest.mark.slow
def test_a_closed_pipe_ends_a_command_quietly(tmp_path):
    command = [
        sys.executable,
        "-m",
        "langchain_tooltree",
        "demo",
        "-o",
        str(tmp_path / "x.html"),
    ]
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        started.stdout.close()
        assert started.stderr.read() == b""
        assert started.wait(60) == CLOSED


@pytest.mark.slow
def test_a_terminal_without_utf_8_or_colours_and_a_narrow_one_are_written_to(tmp_path):
    told = process(
        "demo",
        "-o",
        tmp_path / "x.html",
        PYTHONUTF8="0",
        LC_ALL="C",
        PYTHONCOERCECLOCALE="0",
        NO_COLOR="1",
        COLUMNS="20",
    )
    assert (told.returncode, told.stderr) == (0, b"")
    assert b"213" in told.stdout
    assert b"\x1b" not in told.stdout
