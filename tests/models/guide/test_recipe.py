"""An artefact names its prompt recipe; one that cannot be used says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from drafter.runtime import Drafter
from models.config import CONFIG, DrafterCorrupt, DrafterError, DrafterMissing
from models.guide.pages import FILE
from tests.support.guide_pages import guided_drafter


@pytest.fixture
def folder(tiny_pair: Path, tmp_path: Path) -> Path:
    return guided_drafter(tiny_pair / "drafter", tmp_path / "drafter")


def change(folder: Path, **values: object) -> None:
    """Change the recipe in the config."""
    config = json.loads((folder / CONFIG).read_text())
    config["prompt_recipe"] |= values
    (folder / CONFIG).write_text(json.dumps(config))


def test_an_artefact_with_a_recipe_has_its_prompt_and_one_without_has_none(folder: Path, tiny_pair: Path) -> None:
    prompt = Drafter.load(folder).prompt
    assert prompt is not None and prompt.hits(["untar a.tar.gz"])[0].page.name == "tar"
    plain = tiny_pair / "drafter"
    assert Drafter.load(plain).prompt is None
    assert "prompt_recipe" not in json.loads((plain / CONFIG).read_text())


@pytest.mark.parametrize("values", [{"version": 2, "more": [1]}, {"name": "oracle"}])
def test_an_unknown_recipe_says_to_update(folder: Path, values: dict[str, object]) -> None:
    change(folder, **values)
    with pytest.raises(DrafterError, match=r"wants the prompt recipe (pages 2|oracle 3).*Update outrider"):
        Drafter.load(folder)


def test_a_damaged_or_missing_file_of_pages_is_named(folder: Path) -> None:
    data = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DrafterCorrupt, match=r"pages\.db does not match its checksum"):
        Drafter.load(folder)
    (folder / FILE).unlink()
    with pytest.raises(DrafterMissing, match=r"pages\.db is missing"):
        Drafter.load(folder)


@pytest.mark.parametrize("file", ["../pages.db", "/etc/passwd", "deep/pages.db"])
def test_a_file_elsewhere_is_not_read(folder: Path, file: str) -> None:
    change(folder, file=file)
    with pytest.raises(DrafterCorrupt, match="no file of that folder"):
        Drafter.load(folder)


def test_a_recipe_without_its_fields_is_refused(folder: Path) -> None:
    config = msgspec.json.decode((folder / CONFIG).read_bytes())
    del config["prompt_recipe"]["sha256"]
    (folder / CONFIG).write_bytes(msgspec.json.encode(config))
    with pytest.raises(DrafterCorrupt, match="sha256"):
        Drafter.load(folder)
