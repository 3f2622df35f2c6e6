"""The bundled pair reads the pages that travel with it, if its artefact says that it wants to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from app.config import BUNDLED_DRAFTER
from models.config import read_config, write_config
from models.guide.recipe import recipe_for
from storage import Store
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal

QUESTION = "extract a tar archive"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("guided")
    drafter = Path(shutil.copytree(BUNDLED_DRAFTER, folder / "drafter"))
    recipe = recipe_for(drafter)
    write_config(drafter, msgspec.structs.replace(read_config(drafter), prompt_recipe=recipe))
    return {**os.environ, "OUTRIDER_HOME": str(folder / "home"), "OUTRIDER_DRAFTER": str(drafter)}


def ask(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.start", "ask", QUESTION, *options]
    return subprocess.run(
        command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )


def test_an_answer_names_the_page_that_it_came_from(environment: dict[str, str]) -> None:
    said = json.loads(ask(environment, "--json", "--mode", "edge").stdout)
    assert "```sh\ntar x" in said["text"], said["text"]
    assert [(one["page"], one["platform"]) for one in said["sources"]] == [("tar", "common")]
    [database] = Path(environment["OUTRIDER_HOME"]).rglob("outrider.db")
    with Store.open(database) as store:
        answer = store.branches.thread(said["conversation"])[-1]
    assert answer.stats["sources"] == said["sources"]


def test_a_person_is_told_the_page_below_the_answer(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "app.start", "ask", "list the contents of a tar archive", "--mode", "offline"]
    with Terminal(command, environment=environment, folder=REPOSITORY) as terminal:
        terminal.wait_for("the page tar (tldr pages)")
        assert terminal.end() == 0
