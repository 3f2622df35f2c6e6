"""Which slow tests .ci/run may leave out: those that use nothing which changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.serving import REPOSITORY
from tools.affected import FOLDERS, PASSED, Repository, base, changed

EMPTY = (
    "app/__init__.py", "app/cli/__init__.py", "app/cli/style.tcss", "storage/__init__.py", "storage/store.py",
    "storage/unused.py", "benchmarks/__init__.py", "docs/benchmarks/speed.json", "docs/chat.md", "pyproject.toml",
    "tests/support/fixtures.py", "tests/support/other.py",
)  # fmt: skip
FILES = dict.fromkeys(EMPTY, "") | {
    "app/start.py": "def main():\n    from app.cli import ask\n",
    "app/cli/__main__.py": "import app.start",
    "app/cli/ask.py": "from storage import (\n    store,\n)",
    "benchmarks/speed.py": 'DATA = ROOT / "docs" / "benchmarks" / "speed.json"',
    "tests/conftest.py": (
        "from tests.support.fixtures import make\nimport tests.support.other\n\n"
        "@fixture\ndef shared(made):\n    return 1\n\n@fixture\ndef made():\n    return make()\n"
    ),
    "tests/benchmarks/test_speed.py": "from benchmarks.speed import DATA\ndef test_one(shared): ...",
    "tests/pty/test_keys.py": 'RUN = ["-m", "app.cli"]',
    "tests/app/test_unit.py": "import app.cli.ask",
    "tests/app/test_screen.py": "import pytest\npytestmark = pytest.mark.pty",
}
SPEED, KEYS, SCREEN = "tests/benchmarks/test_speed.py", "tests/pty/test_keys.py", "tests/app/test_screen.py"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("changed", "run"),
    [
        ([], set()),
        (["docs/chat.md", "storage/unused.py", "tests/app/test_unit.py"], set()),
        (["benchmarks/speed.py"], {SPEED}),
        (["docs/benchmarks/speed.json"], {SPEED}),
        ([SPEED], {SPEED}),
        (["storage/store.py"], {KEYS}),  # By way of a program, and of imports in functions and in brackets.
        (["app/cli/style.tcss"], {KEYS}),
        (["app/cli/gone.py"], {KEYS}),
        (["tests/support/other.py"], set()),
        (["tests/support/fixtures.py"], {SPEED}),  # By way of two fixtures.
        (["tests/conftest.py"], {SPEED, KEYS, SCREEN}),
        (["docs/chat.md", "pyproject.toml"], {SPEED, KEYS, SCREEN}),
        (["constraints.txt"], {SPEED, KEYS, SCREEN}),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "",
)
def test_a_slow_test_runs_if_what_it_uses_changed(repository: Path, changed: list[str], run: set[str]) -> None:
    files = Repository(repository)
    assert set(files.slow_tests()) == {SPEED, KEYS, SCREEN}
    assert set(files.unaffected(set(changed))) == {SPEED, KEYS, SCREEN} - run


def test_the_slow_tests_of_this_repository_use_what_they_test() -> None:
    files = Repository(REPOSITORY)
    assert {folder for folder in FOLDERS if any(test.startswith(folder) for test in files.slow_tests())} == {*FOLDERS}
    session = files.used_by("tests/pty/test_session.py")
    assert {"app/tui/app.py", "app/cli/chat.py", "remote/verifier/serve.py", "storage/store.py"} <= session


def test_the_commit_to_compare_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GATE_BASE", raising=False)

    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        run = subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return run.stdout.strip()

    def commit(name: str) -> str:
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "--message", name)
        return git("rev-parse", "HEAD")

    def passed(commit: str) -> None:
        (tmp_path / PASSED).write_text(f"{commit}\n")

    (tmp_path / PASSED).parent.mkdir()
    passed("main")
    assert base(tmp_path) is None, "there is no repository"
    git("init", "--initial-branch", "main")
    first, second, third = commit("first"), commit("second"), commit("third")
    (tmp_path / PASSED).unlink()
    assert base(tmp_path) is None, "nothing is known"
    passed(first)
    assert base(tmp_path) == first
    git("switch", "--quiet", "--create", "branch", second)
    passed(third)
    assert base(tmp_path) is None, "it is not in this one's history"
    git("switch", "--quiet", "main")
    commit("fourth")
    (tmp_path / "second").unlink()
    (tmp_path / "new").touch()
    assert changed(tmp_path, third) == {"second", "fourth", "new"} and changed(tmp_path, "unknown") is None
    for named, found in (("main~1", third), ("unknown", None)):
        monkeypatch.setenv("GATE_BASE", named)
        assert base(tmp_path) == found
