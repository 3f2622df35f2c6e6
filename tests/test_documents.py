"""The documents promise only what is there: links, commands, options, settings, keys, and figures as measured."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from app.cli.__main__ import cli
from app.cli.handover import COMMAND_FILE
from app.config import PREFIX, Settings
from app.tui.bindings import actions
from docs import figure, keys
from docs.manpage import settings
from tests.support.serving import REPOSITORY

README = REPOSITORY / "README.md"
OTHER_PAGES = (
    "README.md",
    "AGENTS.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "recipes/shell_guide/README.md",
)
PAGES = [*(REPOSITORY / name for name in OTHER_PAGES), *sorted((REPOSITORY / "docs").glob("*.md"))]
NAMES = [str(path.relative_to(REPOSITORY)) for path in PAGES]


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text(path), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code(page: str) -> Iterator[str]:
    """Lines of the shell, from blocks and from words in code."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^    (\S.*)$", page, re.MULTILINE)
    blocks = [block for language, block in fenced if language in ("", "sh")] + indented
    for block in blocks:
        yield from re.sub(r"\\\n\s*", " ", block).splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))


def said(page: str) -> Iterator[list[str]]:
    """The words after `outrider` of each command line that names a command or an option of it."""
    for line in code(page):
        for part in re.split(r"[|;&]", re.split(r"\s#|\s{3,}", line.strip())[0]):
            try:
                words = shlex.split(re.sub(r"[<>]\s*\S+", "", part))
            except ValueError:
                continue
            words = [word for word in words if not re.fullmatch(r"[A-Z_]+=.*|\$", word)]
            if words and words[0].rpartition("/")[2] == "outrider" and "…" not in words[1:2]:
                yield words[1:]


@cache
def program() -> Any:
    """The whole command line; making it takes a while."""
    return typer.main.get_command(cli)


def resolve(words: list[str]) -> tuple[Any, list[str]]:
    """The command that they run, and what is left for it."""
    command = program()
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("name", NAMES)
def test_what_is_linked_is_there(name: str) -> None:
    page = REPOSITORY / name
    links = re.findall(r"\]\(([^)\s]+)\)", text(page)) + re.findall(r'(?:src|srcset)="([^"]+)"', text(page))
    for link in links:
        if not link.startswith(("http://", "https://")):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{name} links {link}"
            assert not anchor or anchor in anchors(target), f"{name} links {link}; there are {sorted(anchors(target))}"


@pytest.mark.parametrize("name", NAMES)
def test_commands_and_options_exist(name: str) -> None:
    for words in said(text(REPOSITORY / name)):
        command, rest = resolve(words)
        line = f"{name}: outrider {' '.join(words)}"
        if getattr(command, "commands", {}):
            assert not rest or rest[0].startswith(("-", "[", "COMMAND")), f"{line} names no command"
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
        for word in rest:
            if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word) or word.startswith("--") and "|" in word:
                assert word.partition("=")[0] in known, line


def test_commands_are_found_in_the_documents() -> None:
    """That the test above looks at something."""
    found = [" ".join(words) for path in PAGES for words in said(text(path))]
    assert len(found) > 60 and {"doctor", "remote test office", "history search tarball"} <= set(found)
    documented = {name for words in found if (name := words.split(" ")[0])}
    commands = set(program().commands)
    assert commands <= documented, f"nothing is said of {commands - documented}"


@pytest.mark.parametrize("name", NAMES)
def test_benchmarks_and_their_options_exist(name: str) -> None:
    commands = re.findall(r"python -m ((?:benchmarks|recipes|tests)\.[\w.]+)([^`\n|]*)", text(REPOSITORY / name))
    for module, options in commands:
        source = REPOSITORY / f"{module.replace('.', '/')}.py"
        assert source.exists(), f"{name}: {module}"
        known = text(source)
        if "add_options(parser)" in known:
            known += text(REPOSITORY / "benchmarks/answers.py")
        for option in re.findall(r"\s(--[a-z][a-z-]*)", options.partition(" # ")[0]):
            assert f'"{option}"' in known or "--{name}" in known, f"{name}: {module} {option}"


def test_every_setting_is_explained_with_its_default() -> None:
    page = text(REPOSITORY / "docs" / "settings.md")
    rows = [(names, default) for names, default in re.findall(r"^\| (`\w+`.*?) \|(.*?)\| .+ \|$", page, re.MULTILINE)]
    explained = {
        name.strip(" `"): value.strip(" `")
        for names, default in rows
        for name, value in zip(names.split(","), default.split(",") if "," in names else [default])
    }
    assert set(explained) >= set(Settings.__struct_fields__)
    for name, default, _ in settings():
        if default:
            assert explained[name] == default, name


@pytest.mark.parametrize("name", NAMES)
def test_variables_exist(name: str) -> None:
    known = {PREFIX + field.upper() for field in Settings.__struct_fields__} | {
        "OUTRIDER_HOME",
        "OUTRIDER_REAL_MODELS",
        COMMAND_FILE,
    }
    assert set(re.findall(r"\bOUTRIDER_[A-Z_]+\b", text(REPOSITORY / name))) <= known


def test_keys_of_the_screen_are_what_the_documents_say() -> None:
    """In the table of messages, and each key that is written as `Ctrl+X`, `Alt+Up`, F1."""
    known = {key for action in actions({}) for key in action.keys}
    for path in PAGES:
        for name in re.findall(r"\b(?:Ctrl\+[A-Z]|Alt\+(?:Up|Down|Enter)|Shift\+Enter|F[1-9])\b", text(path)):
            assert name.lower() in known, f"{path.name}: {name}"
    page = text(REPOSITORY / "docs" / "chat.md")
    named = {"[": "left_square_bracket", "]": "right_square_bracket"}
    table = page.partition("| key | |\n")[2].partition("\n\n")[0]
    for cell in re.findall(r"^\| (.*?) \|", table, re.MULTILINE)[1:]:
        for key in re.findall(r"`(.)`", cell):
            assert named.get(key, key) in known, key


def test_the_list_of_keys_is_that_of_the_screen() -> None:
    assert text(keys.PAGE) == keys.page(), "run: python docs/keys.py"


def test_the_figure_is_that_of_the_table() -> None:
    assert text(figure.PICTURE) == figure.picture(text(figure.TABLE)), "run: python docs/figure.py"


def test_the_index_has_every_page() -> None:
    pages = {path.name for path in (REPOSITORY / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)\)", text(REPOSITORY / "docs" / "README.md")))


def test_the_readme_is_short() -> None:
    assert len(text(README).splitlines()) <= 90


def test_the_readme_promises_drafts_of_outriders_own_server_alone() -> None:
    """Other servers' words are neither drafted nor checked, and nobody goes on when such a server is away."""
    promise = text(README).partition("![")[0]
    for said in re.split(r"\n\n|(?m:^- )", promise):
        if re.search(r"\b(draft|dimmed|goes on|check)", said):
            assert "Outrider's own" in said, said


def test_the_comparison_says_something_of_each_client_in_each_row() -> None:
    rows = [line for line in text(REPOSITORY / "docs" / "comparison.md").splitlines() if line.startswith("|")]
    assert {len(re.findall(r"\|", line)) for line in rows} == {19}
    features = [line for line in rows if not line.startswith(("| feature", "|---"))]
    assert len(features) == 59
    assert all(line.split("|")[2].strip() not in ("", "?") for line in features), "of our own we know"
