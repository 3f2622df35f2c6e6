"""The documents promise only what is there: links, paths, commands, options, settings, keys and answers."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
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
from app.tui.widgets.welcome import EXAMPLES
from docs import figure, keys, manpage
from tests.support.examples import read_examples
from tests.support.serving import REPOSITORY
from tools.release import PACKAGES

NAMES = ("README", "AGENTS", "CONTRIBUTING", "SECURITY", "CHANGELOG", "recipes/shell_guide/README")
PAGES = {
    str(path.relative_to(REPOSITORY)): path.read_text(encoding="utf-8")
    for path in (*(REPOSITORY / f"{name}.md" for name in NAMES), *sorted((REPOSITORY / "docs").glob("*.md")))
}
"""The text of each page by its path."""
TOPS = ("app", "benchmarks", "docs", "drafter", "models", "recipes", "remote", "storage", "tests")
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(TOPS)})/[\w./*-]*")
DOTTED = re.compile(rf"`((?:{'|'.join(TOPS)})(?:\.\w+)+)`|-m ((?:{'|'.join(TOPS)})(?:\.\w+)*)")
ENDINGS = {"onnx", "safetensors", "py", "md", "toml", "json"}
"""A dotted name that ends so is the name of a file, as `drafter.onnx`."""


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    page = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)
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
    command = program()
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def is_there(path: str) -> bool:
    """`NAME`, `DIR` and `NNN` stand for anything; a `*` for any part of a name. Git ignores what programs make."""
    path = path.rstrip("./-")
    ignored = re.findall(r"^/(.*)/$", (REPOSITORY / ".gitignore").read_text(), re.MULTILINE)
    if any(path == folder or path.startswith(f"{folder}/") for folder in ignored):
        return True
    if re.search(r"NAME|DIR|NNN", path):
        return (REPOSITORY / path).parent.exists()
    return any(REPOSITORY.glob(path)) if "*" in path else (REPOSITORY / path).exists()


def resolves(dotted: str) -> bool:
    path = REPOSITORY / dotted.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    module, name = path.parent, path.name
    source = next((one for one in (module.with_suffix(".py"), module / "__init__.py") if one.exists()), None)
    return source is not None and re.search(rf"\b{name}\b", source.read_text(encoding="utf-8")) is not None


def test_what_is_linked_is_there() -> None:
    for name, page in PAGES.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", page) + re.findall(r'(?:src|srcset)="([^"]+)"', page):
            if not link.startswith(("http://", "https://")):
                path, _, anchor = link.partition("#")
                target = ((REPOSITORY / name).parent / path).resolve() if path else REPOSITORY / name
                assert target.exists() and (not anchor or anchor in anchors(target)), f"{name} links {link}"


def test_paths_and_modules_are_there() -> None:
    ids = {action.id for action in actions({})}
    for name, page in PAGES.items():
        prose = re.sub(r"\]\([^)]*\)|https?://\S+|remote/verifier/pretrained/\S+", "", page)
        assert [path for path in PATH.findall(prose) if not is_there(path)] == [], name
        dotted = {quoted or run for quoted, run in DOTTED.findall(page)} - ids
        modules = [one for one in dotted if not ENDINGS & set(one.split("."))]
        assert [one for one in modules if not resolves(one)] == [], name


def test_the_map_has_every_room_and_names_what_is_in_its_files() -> None:
    rooms = {path.parent for top in PACKAGES for path in (REPOSITORY / top).rglob("*.py")}
    page = PAGES["AGENTS.md"].partition("### Rooms")[2].partition("\n##")[0]
    assert {room.relative_to(REPOSITORY).as_posix() for room in rooms} <= set(re.findall(r"`([\w/]+)/`", page))
    for page in (PAGES["AGENTS.md"], PAGES["CONTRIBUTING.md"]):
        # A reader finds `Settings` in "`app/config.py` (`Settings`)".
        found = re.findall(r"`([\w/]+\.py)` \(`(\w+)`", page)
        assert found and [one for one in found if one[1] not in (REPOSITORY / one[0]).read_text(encoding="utf-8")] == []


def test_commands_and_options_exist() -> None:
    found = [(name, words) for name, page in PAGES.items() for words in said(page)]
    for name, words in found:
        command, rest = resolve(words)
        line = f"{name}: outrider {' '.join(words)}"
        if getattr(command, "commands", {}):
            assert not rest or rest[0].startswith(("-", "[", "COMMAND")), f"{line} names no command"
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
        for word in rest[: rest.index("--")] if "--" in rest else rest:  # After it, another program's.
            if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word) or word.startswith("--") and "|" in word:
                assert word.partition("=")[0] in known, line
    assert len(found) > 60, "it looks at something"
    unsaid = set(program().commands) - {words[0] for _, words in found if words}
    assert not unsaid, f"nothing is said of {unsaid}"


def test_benchmarks_and_their_options_exist() -> None:
    for name, page in PAGES.items():
        for module, options in re.findall(r"python -m ((?:benchmarks|recipes|tests)\.[\w.]+)([^`\n|]*)", page):
            known = (REPOSITORY / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
            if "add_options(parser)" in known:
                known += (REPOSITORY / "benchmarks/answers.py").read_text(encoding="utf-8")
            for option in re.findall(r"\s(--[a-z][a-z-]*)", options.partition(" # ")[0]):
                assert f'"{option}"' in known or "--{name}" in known, f"{name}: {module} {option}"


def test_every_setting_is_explained_with_its_default_and_variables_exist() -> None:
    rows = re.findall(r"^\| (`\w+`.*?) \|(.*?)\| .+ \|$", PAGES["docs/settings.md"], re.MULTILINE)
    explained = {
        name.strip(" `"): value.strip(" `")
        for names, default in rows
        for name, value in zip(names.split(","), default.split(",") if "," in names else [default])
    }
    assert set(explained) >= set(Settings.__struct_fields__)
    for name, default, _ in manpage.settings():
        if default:
            assert explained[name] == default, name
    known = {PREFIX + field.upper() for field in Settings.__struct_fields__}
    known |= {"OUTRIDER_HOME", "OUTRIDER_REAL_MODELS", COMMAND_FILE}
    for name, page in PAGES.items():
        assert set(re.findall(r"\bOUTRIDER_[A-Z_]+\b", page)) <= known, name


def test_keys_of_the_screen_are_what_the_documents_say() -> None:
    """In the table of messages, and each key that is written as `Ctrl+X`, `Alt+Up`, F1."""
    known = {key for action in actions({}) for key in action.keys}
    for path, page in PAGES.items():
        for name in re.findall(r"\b(?:Ctrl\+[A-Z]|Alt\+(?:Up|Down|Enter)|Shift\+Enter|F[1-9])\b", page):
            assert name.lower() in known, f"{path}: {name}"
    named = {"[": "left_square_bracket", "]": "right_square_bracket"}
    table = PAGES["docs/chat.md"].partition("| key | |\n")[2].partition("\n\n")[0]
    for cell in re.findall(r"^\| (.*?) \|", table, re.MULTILINE)[1:]:
        for key in re.findall(r"`(.)`", cell):
            assert named.get(key, key) in known, key


def test_what_is_generated_is_up_to_date_and_the_index_has_every_page() -> None:
    assert keys.PAGE.read_text(encoding="utf-8") == keys.page(), "run: python docs/keys.py"
    table = figure.TABLE.read_text(encoding="utf-8")
    assert figure.PICTURE.read_text(encoding="utf-8") == figure.picture(table), "run: python docs/figure.py"
    pages = {path.name for path in (REPOSITORY / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)\)", PAGES["docs/README.md"]))


# ---- questions that the bundled pair can answer; tests/bundled/test_pair.py has it answer them -----------------------


ASKING = ("README.md", "CONTRIBUTING.md", "app/cli/question.py", "docs/*.md", "docs/manpage.py", "docs/outrider.1")
PICTURES = ("docs/recording.py", "docs/screenshot.py")
ELSEWHERE = {"--remote", "--prompts", "--queue"}
"""With these another model answers, or nobody yet."""


def asked(page: str) -> list[tuple[list[str], bool]]:
    """The words after `outrider ask` of each command line that holds a question, and whether text is piped into it."""
    page = page.replace(r"\(dq", '"').replace(r"\-", "-")
    found = []
    for before, words in re.findall(
        r"^(.*?)outrider ask((?: (?:-[\w-]+|edge|offline|hosted|\w+))* \"[^\"\n]*\")", page, re.M
    ):
        found.append((shlex.split(words), "|" in before.split('"')[-1] and not before.lstrip().startswith("|")))
    for words in re.findall(r"outrider ask ((?![-\\[])[^\"'`|<>$…\n-][^\"'`|<>$\n]*?)(?=  |\"|$)", page, re.M):
        found.append(([words], False))
    return found


def problem(words: list[str], piped: bool) -> str | None:
    question = words[-1]
    if question == "…" or ELSEWHERE & set(words):
        return None
    examples = [one for one in read_examples() if one.question == question]
    if piped:
        return "no text that is piped in has been tried"
    if not examples:
        return "nobody has tried it"
    if ("-c" in words) != any(len(one.turns) > 1 for one in examples):
        return "it follows another question in the one, and none in the other"
    if "offline" in words and not any(one.offline for one in examples):
        return "the drafter alone does not answer it"
    return None


def test_questions_of_the_documents_the_welcome_screen_and_the_pictures() -> None:
    pages = [path for pattern in (*ASKING, *PICTURES) for path in REPOSITORY.glob(pattern)]
    found = {str(path.relative_to(REPOSITORY)): asked(path.read_text(encoding="utf-8")) for path in pages}
    for name, questions in found.items():
        wrong = {" ".join(words): why for words, piped in questions if (why := problem(words, piped))}
        assert wrong == {}, name
    looked_at = ("README.md", "docs/command-line.md", "docs/outrider.1", "app/cli/question.py")
    assert all(found[name] for name in looked_at)
    pages = [(REPOSITORY / name).read_text(encoding="utf-8") for name in PICTURES]
    pictures = [question for page in pages for question in re.findall(r'^QUESTION = "(.*)"$', page, re.MULTILINE)]
    assert len(pictures) == len(PICTURES)
    assert {*EXAMPLES, *pictures} <= {one.question for one in read_examples() if len(one.turns) == 1}


def test_the_manual_page_is_current() -> None:
    assert manpage.PAGE.read_text(encoding="utf-8") == manpage.page(), "write it again: python docs/manpage.py"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_page_is_typeset_without_a_warning() -> None:
    command = ["groff", "-man", "-ww", "-Tutf8", str(manpage.PAGE)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", ran.stdout)
    assert ran.stderr == "" and "EXIT STATUS" in shown and "outrider doctor" in shown
    assert 'outrider ask "list files by size"' in shown
