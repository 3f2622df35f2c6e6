"""The sources of an answer: pages that stood in its prompt and whose program its command runs."""

from __future__ import annotations

import pytest

from models.guide.pages import OWN, Example, Page
from models.guide.search import Hit
from models.guide.sources import sources


def hit(name: str, *, platform: str = "common", own: bool = False) -> Hit:
    example = Example("do it", f"{name} -x")
    return Hit(Page(name, platform, "", (example,)), example, 1.0, own)


def names(hits: list[Hit], answer: str) -> list[str]:
    return [one.page.name for one in sources(hits, answer)]


HITS = [hit("tar"), hit("git commit"), hit("sort"), hit("g++")]


@pytest.mark.parametrize(
    "answer, found",
    [
        ("Use `zip`:\n\n```sh\ntar xf a.tar\n```", ["tar"]),
        ("```sh\nsudo tar xf a\n```", ["tar"]),
        ("```sh\nls | sort -u && git  commit -m 'tar'\n```", ["git commit", "sort"]),
        ("```sh\nfind . -print0 | xargs -0 sort\n```", ["sort"]),
        ("```sh\nLC_ALL=C sort x\n```", ["sort"]),
        ("```sh\ng++ a.cc\n```", ["g++"]),
        ("Type `tar xf a.tar`.", ["tar"]),
        ("```sh\necho tar\n```", []),
        ("```sh\ngit push\n```", []),
        ("```sh\ntarget\nsorted x\ntar-split y\n```", []),
        ("I would use tar here.", []),
        ("", []),
    ],
)
def test_a_page_is_a_source_if_the_command_runs_its_program(answer: str, found: list[str]) -> None:
    assert names(HITS, answer) == found


def test_each_page_is_named_once_and_by_its_own_example_if_one_was_there() -> None:
    [found] = sources([hit("tar", own=True), hit("tar")], "```sh\ntar xf a\n```")
    assert not found.own
    [found] = sources([hit("tar", own=True)], "```sh\ntar xf a\n```")
    assert found.own
    # A page that nobody can look up is no source.
    assert sources([hit("tmux", platform=OWN)], "```sh\ntmux\n```") == []
