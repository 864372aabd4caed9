"""`langchain-tooltree view` in a browser, and where it is terminated."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from browser import PROGRAM, SHELL, Browser
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tooltree import ChromaStore, Experience, Trajectory, demo
from langchain_tooltree.cli import main
from langchain_tooltree.pages.search import record


@pytest.mark.skipif(not (PROGRAM and SHELL), reason="no chromium is installed")
def test_the_list_of_a_folder_leads_to_the_page_of_each_search(
    browser: Browser, tmp_path: Path
) -> None:
    for key in ("1", "2"):
        record(tmp_path / "searches", demo.solved().to_dict(), key=key)
    assert (
        main(["view", str(tmp_path / "searches"), "-o", str(tmp_path / "pages")]) == 0
    )
    browser.open((tmp_path / "pages" / "index.html").as_uri())
    assert browser.run("[...document.querySelectorAll('tbody tr')].length") == 2
    link = browser.run("document.querySelector('tbody a').href")
    browser.open(link)
    assert "Granite Pass" in browser.run("document.body.textContent")
    assert browser.complaints() == []


def test_a_view_that_is_terminated_leaves_no_copy_of_a_store(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "experience", tmp_path / "scratch"
    scratch.mkdir()
    with ChromaStore(folder) as store:
        experience = Experience(store, namespace=("all",), verdict=lambda _: True)
        messages = [HumanMessage("Find it. " + "x" * 300_000), AIMessage("Here.")]
        experience.learn(Trajectory.from_messages(messages, id="1", success=True))
    command = [
        sys.executable,
        "-m",
        "langchain_tooltree",
        "view",
        str(folder),
        "--json",
        "--no-browser",
    ]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:  # noqa: S603 - our own
        while not any(scratch.iterdir()):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert list(scratch.iterdir()) == []
