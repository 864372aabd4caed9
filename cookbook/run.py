"""Runs the notebooks of this folder, offline and in fresh kernels, and compares what they show with what is committed.

    python cookbook/run.py                                        # all of them; exits with 1 if one fails or differs
    python cookbook/run.py sql_agent rag_agent --write            # keep what these show now
    python cookbook/run.py sql_agent --record openai:gpt-4.1-mini # ask a real model, and keep its answers

It needs the extras [all] and [cookbook]. Warnings are errors, connections to other machines are refused, and each
`RecordedChatModel` must have been asked all that its file holds and nothing else. A notebook runs in this folder, so
its paths are relative to it. One whose metadata has `"needs": ["java", "pgserver"]` is left out where a program or
package is missing. `--record` replaces the files of `RecordedChatModel("answers/...")` in the notebooks that it names.
"""

import argparse
import asyncio
import datetime as dt
import difflib
import importlib.util
import os
import re
import shutil
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).parent
AT_ONCE = 2  # notebooks; machines of CI have two to four cores
CELL_SECONDS = 120  # a whole notebook should take less than 15, but a cold start on a busy machine is slow

BEFORE = """
import sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "create_react_agent has been moved")  # langgraph-supervisor still uses it
warnings.filterwarnings("ignore", module="ipykernel")  # the kernel's own affairs
"""
OFFLINE = """
def _stay_here(event, args):
    if event == "socket.connect" and isinstance(args[1], tuple) and args[1][0] not in {"127.0.0.1", "::1", "localhost"}:
        raise OSError(f"Notebooks run offline, and this one connects to {args[1]}.")
sys.addaudithook(_stay_here)
"""
AFTER = """
import gc
from recorded_model import RecordedChatModel
for _model in [each for each in gc.get_objects() if type(each) is RecordedChatModel]:
    assert not _model.unmatched, _model.unmatched[0]
    assert not _model.left, f"{_model.path} has answers that nobody asked for: {_model.left}"
"""
RECORDED = re.compile(r"RecordedChatModel\(\s*(\"answers/[^\"]+\")\s*\)")
RECORDING = (
    "__import__('langchain.chat_models').chat_models.init_chat_model({model!r}, timeout=900, "
    "callbacks=[__import__('recorded_model').AnswerRecorder({path}, {settings})])"
)


async def run(path: Path, *, write: bool, model: str | None) -> bool:
    """Run a notebook, say in one line how it went, and tell whether all is well."""
    started = time.monotonic()
    committed = nbformat.read(path, as_version=4)
    missing = [
        need for need in committed.metadata.get("needs", ()) if not is_there(need)
    ]
    if missing:
        print(f"{path.stem}: left out, since there is no {' and no '.join(missing)}")
        return True
    notebook = nbformat.from_dict(committed)
    cells = [
        nbformat.v4.new_code_cell(BEFORE + ("" if model else OFFLINE)),
        *notebook.cells,
    ]
    notebook.cells = [*cells, nbformat.v4.new_code_cell("" if model else AFTER)]
    if model:
        ask(model, notebook)
    client = NotebookClient(
        notebook,
        timeout=None if model else CELL_SECONDS,
        kernel_name="python3",
        extra_arguments=[
            "--log-level=ERROR"
        ],  # it warns of its transport, which is loopback
        record_timing=False,
        allow_errors=bool(
            model
        ),  # an answer that came out otherwise keeps no later one from being asked for
        resources={"metadata": {"path": str(HERE)}},
    )
    problem = ""
    try:
        await client.async_execute()
    except (CellExecutionError, TimeoutError, RuntimeError) as error:
        problem = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    del notebook.cells[0], notebook.cells[-1]
    tidy(notebook)
    if not problem and not model:
        before, after = shown(committed), shown(notebook)
        problem = "\n".join(
            difflib.unified_diff(before, after, "committed", "now", lineterm="", n=1)
        )
        if problem and write:
            nbformat.write(notebook, path)
            problem = ""
            print(f"{path.stem}: written anew")
    took = f"{time.monotonic() - started:.1f} s"
    print(
        f"{path.stem}: {'PROBLEM' if problem else 'good'}, {took}"
        + (f"\n{problem}" if problem else ""),
        flush=True,
    )
    return not problem


def ask(model: str, notebook: nbformat.NotebookNode) -> None:
    """Put a real model in the place of the recorded one."""
    settings = {"model": model, "date": dt.datetime.now(dt.UTC).date().isoformat()}
    for cell in notebook.cells:
        for path in RECORDED.findall(cell.source):
            (HERE / path.strip('"')).unlink(missing_ok=True)
        cell.source = RECORDED.sub(
            lambda found: RECORDING.format(
                model=model, path=found[1], settings=settings
            ),
            cell.source,
        )


def is_there(need: str) -> bool:
    """Whether a program or a package is installed."""
    return shutil.which(need) is not None or importlib.util.find_spec(need) is not None


def tidy(notebook: nbformat.NotebookNode) -> None:
    """Leave out what differs from machine to machine, and number the cells anew."""
    needs = {"needs": notebook.metadata.needs} if "needs" in notebook.metadata else {}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": kernel, "language_info": {"name": "python"}, **needs}
    )
    for number, cell in enumerate(
        (cell for cell in notebook.cells if cell.cell_type == "code"), start=1
    ):
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
            if "image/svg+xml" in output.get("data", {}):
                output.data.pop(
                    "text/html", None
                )  # which GitHub would prefer, and take all frames out of


def shown(notebook: nbformat.NotebookNode) -> list[str]:
    """All that a notebook shows as text, line by line; pictures in SVG are text, too."""
    lines: list[str] = []
    for number, cell in enumerate(
        (cell for cell in notebook.cells if cell.cell_type == "code"), start=1
    ):
        streams: dict[str, str] = {}
        data: dict[str, str] = {}
        for output in cell.outputs:
            if output.output_type == "stream":
                streams[output.name] = streams.get(output.name, "") + output.text
            for kind, text in output.get("data", {}).items():
                if kind.startswith(("text/", "image/svg", "application/json")):
                    data[kind] = f"{data.get(kind, '')}{text}\n"
        for kind, text in sorted({**streams, **data}.items()):
            lines += [f"--- cell {number}, {kind}", *text.splitlines()]
    return lines


async def main() -> int:
    """Run the notebooks that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help="notebooks, without .ipynb; all of them by default"
    )
    parser.add_argument("--write", action="store_true", help="keep what they show now")
    parser.add_argument(
        "--record",
        metavar="MODEL",
        help="ask this model, and keep its answers in answers/",
    )
    options = parser.parse_args()
    paths = [HERE / f"{Path(name).stem}.ipynb" for name in options.names] or sorted(
        HERE.glob("*.ipynb")
    )
    if missing := [path.name for path in paths if not path.exists()]:
        parser.error(f"there is no {', '.join(missing)} in {HERE}")
    if options.record and not options.names:
        parser.error("name the notebooks whose answers are to be recorded anew")
    os.environ["LANGSMITH_TRACING"] = "false"
    room = asyncio.Semaphore(AT_ONCE)

    async def in_turn(path: Path) -> bool:
        async with room:
            return await run(path, write=options.write, model=options.record)

    return 0 if all(await asyncio.gather(*map(in_turn, paths))) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
