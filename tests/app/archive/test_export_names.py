"""The name of an exported file says what is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.archive.exporter import export_folder
from app.config import Folders
from storage import Store
from tests.support.commands import Outrider, runner

BEGINNINGS = {"md": "# ", "json": '{"', "html": "<!DOCTYPE html>"}


@pytest.fixture
def outrider(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_pair: Path
) -> Outrider:
    store = Store.open(tmp_path / "home" / "data" / "outrider.db")
    store.messages.add(
        store.conversations.create("tar").id, "user", "how do I unpack a tar archive", parent_id=None, status="done"
    )
    store.close()
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys, tmp_path / "home", tiny_pair / "drafter")


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("x.md", "md"), ("x.markdown", "md"), ("x.MD", "md"), ("x.json", "json"), ("x.html", "html"), ("x.htm", "html"),
        ("x", "md"), ("x.", "md"), (".notes", "md"), ("v1.2/x", "md"),
    ],
)  # fmt: skip
def test_the_ending_chooses_the_format(outrider: Outrider, tmp_path: Path, name: str, format: str) -> None:
    (tmp_path / "v1.2").mkdir()
    done = outrider("export", "-o", name)
    assert done.code == 0 and (tmp_path / name).read_text().startswith(BEGINNINGS[format])


@pytest.mark.parametrize("name", ["x.pdf", "x.txt", "x.docx", "x.json.gz"])
def test_an_ending_that_cannot_be_written_is_a_usage_error(outrider: Outrider, tmp_path: Path, name: str) -> None:
    done = outrider("export", "-o", name)
    assert done.code == 2 and not (tmp_path / name).exists()
    assert Path(name).suffix in done.err and ".md, .json or .html" in done.err and "--format" in done.err


@pytest.mark.parametrize(
    ("name", "format"), [("x.pdf", "md"), ("x.txt", "md"), ("x.backup", "json"), ("x.htm", "html")]
)
def test_a_format_that_is_said_goes_into_any_other_name(
    outrider: Outrider, tmp_path: Path, name: str, format: str
) -> None:
    done = outrider("export", "--format", format, "-o", name)
    assert done.code == 0 and (tmp_path / name).read_text().startswith(BEGINNINGS[format])


@pytest.mark.parametrize(("name", "format"), [("x.json", "md"), ("x.html", "json"), ("x.md", "html")])
def test_a_format_against_the_ending_is_a_usage_error(
    outrider: Outrider, tmp_path: Path, name: str, format: str
) -> None:
    done = outrider("export", "--format", format, "-o", name)
    assert done.code == 2 and not (tmp_path / name).exists()
    assert f"--format {format}" in done.err and name in done.err


def test_a_folder_and_a_pipe_have_no_ending(outrider: Outrider, tmp_path: Path) -> None:
    (tmp_path / "exports.d").mkdir()
    assert outrider("export", "-o", "exports.d").code == 0
    assert [path.suffix for path in (tmp_path / "exports.d").iterdir()] == [".md"]
    assert outrider("export", "-o", "-").out.startswith(BEGINNINGS["md"])
    assert outrider("export", "--format", "json", "-o", "-").out.startswith(BEGINNINGS["json"])


def test_an_empty_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTRIDER_HOME", raising=False)
    unset = export_folder(Folders.locate())
    monkeypatch.setenv("OUTRIDER_HOME", "")
    assert export_folder(Folders.locate()) == unset
