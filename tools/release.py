"""Check a release, build it, and try what was built. It needs no network and uploads nothing.

    python -m tools.release [--rehearse] [--gate] [--out dist]

It stops at the first thing that is wrong, with exit code 1. `--rehearse` leaves out what only a release needs: the
entry in the changelog, the tag and the clean tree. `--gate` runs `.ci/run` before the build, which takes long.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "drafter", "models", "remote", "storage")
WEIGHTS = (
    "drafter/pretrained/shell-guide/drafter.onnx",
    "drafter/pretrained/shell-guide/model.safetensors",
    "remote/verifier/pretrained/shell-guide/target.onnx",
)
LEFT_OUT = "remote/verifier/pretrained/shell-guide/model.safetensors"
"""Weights that only PyTorch needs. The sdist has them, the wheel does not."""
IN_THE_SDIST = ("LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "pyproject.toml", "docs/outrider.1")


class Problem(Exception):
    """Something is wrong with the release; the text says what, and what to do."""


def version_of(root: Path) -> str:
    """The version in pyproject.toml."""
    with (root / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def check_changelog(changelog: str, version: str) -> None:
    """The newest entry is that of this version, with a date and a text, and nothing waits above it.

    Raises `Problem`.
    """
    entries = re.findall(r"^## \[(.+?)\](.*)\n((?:(?!^## ).*\n?)*)", changelog, re.MULTILINE)
    if not entries or entries[0][0] != "Unreleased":
        raise Problem("CHANGELOG.md does not begin with an entry [Unreleased].")
    if entries[0][2].strip():
        raise Problem(f"CHANGELOG.md has changes under [Unreleased]. Move them under [{version}].")
    if len(entries) < 2 or entries[1][0] != version:
        raise Problem(f"The newest entry of CHANGELOG.md is not [{version}], the version in pyproject.toml.")
    if not re.fullmatch(r" - \d{4}-\d\d-\d\d", entries[1][1].rstrip()):
        raise Problem(f"The entry [{version}] of CHANGELOG.md has no date: write ## [{version}] - YYYY-MM-DD.")
    if not entries[1][2].strip():
        raise Problem(f"The entry [{version}] of CHANGELOG.md is empty.")


def check_tree(root: Path, version: str) -> None:
    """Everything is committed, and the tag of this version is free or stands at this commit. Raises `Problem`."""
    if changed := git(root, "status", "--porcelain"):
        raise Problem(f"The tree is not clean. Commit or remove these first:\n{changed}")
    tag = f"v{version}"
    if tag in git(root, "tag", "--list", tag).split() and git(root, "rev-list", "-n1", tag) != git(
        root, "rev-parse", "HEAD"
    ):
        raise Problem(f"The tag {tag} is at another commit. A version is released once: raise it in pyproject.toml.")


def check_wheel(names: Collection[str], tracked: Collection[str], version: str) -> None:
    """The wheel has each tracked file of the four packages but one, weights, man page and licences, and nothing else.

    `names`: the files of the wheel. `tracked`: the files of the repository. Raises `Problem`.
    """
    info, data = f"outrider-{version}.dist-info", f"outrider-{version}.data"
    code = {name for name in tracked if name.startswith(tuple(f"{package}/" for package in PACKAGES))} - {LEFT_OUT}
    wanted = code | {
        f"{data}/data/share/man/man1/outrider.1",
        *(f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")),
        *(f"{info}/licenses/{name}" for name in ("LICENSE", "NOTICE")),
    }
    if missing := sorted({*wanted, *WEIGHTS} - set(names)):
        raise Problem(f"The wheel lacks {', '.join(missing)}.")
    if extra := sorted(set(names) - wanted):
        raise Problem(f"The wheel has what does not belong into it: {', '.join(extra)}.")


def check_sdist(names: Collection[str], tracked: Collection[str], version: str) -> None:
    """The sdist has what a build needs, and nothing that is not tracked. Raises `Problem`."""
    top = f"outrider-{version}/"
    inside = {name.removeprefix(top) for name in names}
    code = {name for name in tracked if name.startswith(tuple(f"{package}/" for package in PACKAGES))}
    if missing := sorted({*code, *IN_THE_SDIST} - inside):
        raise Problem(f"The sdist lacks {', '.join(missing)}.")
    if extra := sorted(inside - set(tracked) - {"PKG-INFO"}):
        raise Problem(f"The sdist has what is not in the repository: {', '.join(extra)}.")


def build(root: Path, out: Path, version: str) -> tuple[Path, Path]:
    """Sdist and wheel in an empty folder, with the hatchling of this environment. Raises `Problem`."""
    shutil.rmtree(out, ignore_errors=True)
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(root)], "The build failed")
    sdist, wheel = out / f"outrider-{version}.tar.gz", out / f"outrider-{version}-py3-none-any.whl"
    for path in (sdist, wheel):
        if not path.exists():
            raise Problem(f"The build made no {path.name}, but {', '.join(each.name for each in out.iterdir())}.")
    return sdist, wheel


def check_installed(wheel: Path, version: str) -> None:
    """The wheel in a fresh environment, without its dependencies, says its version. Raises `Problem`."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        binaries = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        pip = [str(binaries / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
        run(pip, "The wheel cannot be installed")
        said = run([str(binaries / "outrider"), "--version"], "The installed program does not start").strip()
        if said != f"outrider {version}":
            raise Problem(f"The installed program says {said!r} and not 'outrider {version}'.")
        if not (Path(folder) / "share/man/man1/outrider.1").exists():
            raise Problem("The installed wheel brings no manual page.")


def git(root: Path, *words: str) -> str:
    return run(["git", "-C", str(root), *words], "git failed").strip()


def run(command: Sequence[str], trouble: str) -> str:
    """Stdout of a command. Raises `Problem` where it fails."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise Problem(f"{trouble}: {error}") from None
    if ran.returncode:
        raise Problem(f"{trouble}: {' '.join(command)}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def release(root: Path, out: Path, *, rehearse: bool, gate: bool) -> None:
    """All checks in their order. Raises `Problem`."""
    version = version_of(root)
    if not rehearse:
        check_changelog((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        say(f"version {version} is the newest entry of CHANGELOG.md")
        check_tree(root, version)
        say(f"the tree is clean, and the tag v{version} is free or here")
    if gate:
        say("running .ci/run, which takes long ...")
        if subprocess.run([str(root / ".ci/run")], cwd=root).returncode:
            raise Problem("The gate is red: .ci/run")
    tracked = git(root, "ls-files", "--cached", *(("--others", "--exclude-standard") if rehearse else ())).splitlines()
    sdist, wheel = build(root, out, version)
    with zipfile.ZipFile(wheel) as archive:
        check_wheel([name for name in archive.namelist() if not name.endswith("/")], tracked, version)
    with tarfile.open(sdist) as packed:
        check_sdist([member.name for member in packed if not member.isdir()], tracked, version)
    say("wheel and sdist hold what they should")
    check_installed(wheel, version)
    say(f"the wheel installs without dependencies and says: outrider {version}")
    for path in (sdist, wheel):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        say(f"{path}  {path.stat().st_size / 1e6:.1f} MB  sha256 {digest}")
    if rehearse:
        say("this was a rehearsal: changelog, tag and tree were not looked at")
        return
    if not gate:
        say("not run here: .ci/run (or --gate). Run it before you upload")
    print(f"git tag --annotate v{version} --message 'Outrider {version}' && git push origin v{version}")
    print(f"python -m twine upload {sdist} {wheel}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    try:
        release(ROOT, arguments.out, rehearse=arguments.rehearse, gate=arguments.gate)
    except Problem as problem:
        say(str(problem))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
