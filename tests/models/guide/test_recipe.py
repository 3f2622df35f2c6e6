"""The recipe of an artefact: its pages, where an answer comes from, and what flags mean."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from drafter.runtime import Drafter
from models.config import CONFIG, DrafterCorrupt, DrafterError, DrafterMissing
from models.guide.flags import flags_of
from models.guide.pages import FILE, OWN, Example, Page, Pages
from models.guide.search import Hit
from models.guide.sources import sources
from tests.support.guide_pages import guided_drafter, write_pages


@pytest.fixture
def folder(tiny_pair: Path, tmp_path: Path) -> Path:
    return guided_drafter(tiny_pair / "drafter", tmp_path / "drafter")


def change(folder: Path, **values: object) -> None:
    """Change the recipe in the config."""
    config = json.loads((folder / CONFIG).read_text())
    config["prompt_recipe"] |= values
    (folder / CONFIG).write_text(json.dumps(config))


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
    with pytest.raises(DrafterCorrupt, match="not a file of that folder"):
        Drafter.load(folder)


def test_a_page_has_its_description_and_examples_and_its_programs_are_known(pages: Pages) -> None:
    found = pages.page("tar", "common")
    assert found is not None and found.description.startswith("Archiving utility. More information")
    assert found.examples[0] == Example("extract a compressed archive file", "tar xf path/to/archive.tar.gz")
    assert len(found.examples) == 3, "Outrider's own example of tar does not stand on the page"
    assert pages.page("tar", "osx") is None and pages.page("nothing", "common") is None
    elsewhere = pages.find("ipconfig", ("linux", "windows", "osx"))
    assert elsewhere is not None and elsewhere.platform == "windows", "the first of these that has it"
    choices, own = pages.page("systemctl", "linux"), pages.page("tmux", OWN)
    assert choices is not None and own is not None, "what tldr has no page of is Outrider's own"
    assert [one.command for one in choices.examples] == ["systemctl start unit", "systemctl stop unit"]
    assert [one.command for one in own.examples] == ["tmux new -s name"]
    assert "tldr-pages team" in pages.licence and "creativecommons.org/licenses/by/4.0" in pages.licence
    assert all(pages.knows(name) for name in ("tar", "git", "untar", "open", "sort", "tmux"))
    assert not pages.knows("frobnicate") and not pages.knows("") and not pages.knows("commit")
    assert pages.programs() >= {"tar", "tmux", "du"}


@pytest.mark.parametrize("content", [b"", b"no database at all" * 99])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pages.db").write_bytes(content)
    with pytest.raises(DrafterCorrupt, match="Reinstall"):
        Pages.open(tmp_path / "pages.db")


def test_a_newer_format_and_damage_that_shows_later_are_told_and_nothing_is_written_beside(tmp_path: Path) -> None:
    path = write_pages(tmp_path / "pages.db")
    before = path.read_bytes()
    with closing(Pages.open(path)) as opened:
        assert opened.vocabulary and opened.wordings("untar x.tar.gz")
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE programs")
    with closing(Pages.open(path)) as opened, pytest.raises(DrafterCorrupt, match="Reinstall"):
        opened.knows("tar")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE facts SET value = '99' WHERE name = 'format'")
    with pytest.raises(DrafterCorrupt, match="Update outrider"):
        Pages.open(path)


def hit(name: str, *, platform: str = "common", own: bool = False) -> Hit:
    example = Example("do it", f"{name} -x")
    return Hit(Page(name, platform, "", (example,)), example, 1.0, own)


HITS = [hit("tar"), hit("git commit"), hit("sort")]


@pytest.mark.parametrize(
    "answer, found",
    [
        ("Use `zip`:\n\n```sh\ntar xf a.tar\n```", ["tar"]),
        ("```sh\nsudo tar xf a\n```", ["tar"]),
        ("```sh\nls | LC_ALL=C sort -u && git  commit -m 'tar'\n```", ["git commit", "sort"]),
        ("```sh\nfind . -print0 | xargs -0 sort\n```", ["sort"]),
        ("Type `tar xf a.tar`.", ["tar"]),
        ("```sh\ngit push\n```", []),
        ("```sh\ntarget\nsorted x\ntar-split y\n```", []),
        ("I would use tar here.", []),
    ],
)
def test_a_page_is_a_source_if_the_command_runs_its_program(answer: str, found: list[str]) -> None:
    assert [one.page.name for one in sources(HITS, answer)] == found


def test_each_page_and_each_flag_is_named_once() -> None:
    [found] = sources([hit("tar", own=True), hit("tar")], "```sh\ntar xf a\n```")
    assert not found.own
    [found] = sources([hit("tar", own=True)], "```sh\ntar xf a\n```")
    assert found.own
    # A page that nobody can look up is no source.
    assert sources([hit("tmux", platform=OWN)], "```sh\ntmux\n```") == []
    assert [(one.program, one.flag) for one in flags_of("grep -i a x | grep -i b")] == [("grep", "-i")]


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("tar xzvf photos.tar.gz", ["-x", "-z", "-v", "-f"]),
        ("find . -type f -name '*.log' -mtime +7 -delete", ["-type f", "-name", "-mtime", "-delete"]),
        ("sudo du -h --max-depth=1 /var | sort -hr | head -n5", ["-h", "--max-depth", "-h", "-r", "-n"]),
        ("LC_ALL=C sort -t, -k2 data.csv", ["-t", "-k"]),
        ("ps aux --sort=-%mem", ["aux", "--sort"]),
        ("dd if=/dev/zero of=x.img bs=1M count=10", ["if=", "of=", "bs=", "count="]),
        ('grep -rn "don\'t" src', ["-r", "-n"]),
        ("ls report-l", []),
        ("echo 'torn", []),
    ],
)
def test_the_flags_of_a_command(command: str, flags: list[str]) -> None:
    assert [one.flag for one in flags_of(command)] == flags
