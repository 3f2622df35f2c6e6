"""A few pages for tests of Shell Guide's index, and the tiny drafter with a prompt recipe that reads them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from models.config import read_config, write_config
from models.guide.pages import FILE
from models.guide.recipe import recipe_for
from recipes.shell_guide.everyday import Need
from recipes.shell_guide.index import write


def page(platform: str, name: str, about: str, *examples: tuple[str, str], languages: int = 20) -> dict[str, Any]:
    """A page in the form of the tldr file."""
    parts = [{"task": task, "command": command} for task, command in examples]
    known = {"platform": platform, "name": name, "alias": about.startswith("This command is an alias")}
    return known | {"translations": languages, "description": about, "examples": parts}


PAGES = [
    page(
        "common",
        "tar",
        "Archiving utility. More information: <https://example.org/tar>.",
        ("E[x]tract a (compressed) archive file", "tar xf path/to/archive.tar.gz"),
        ("List the contents of a tar archive", "tar tf path/to/archive.tar"),
        ("Create a compressed archive from files", "tar czf path/to/archive.tar.gz path/to/file"),
    ),
    page("common", "du", "Disk usage.", ("Show the size of a directory", "du -sh path/to/directory")),
    page("common", "git commit", "Commit files.", ("Commit staged files", "git commit --message 'message'")),
    page("common", "head", "Output the first part of files.", ("Output the first lines of a file", "head -n 5 file")),
    page("common", "sort", "Sort lines.", ("Sort a file", "sort file"), ("Sort by a column", "sort -k 2 file")),
    page("linux", "systemctl", "Control systemd.", ("Start/Stop a service", "systemctl start|stop unit")),
    page("linux", "ip", "Show network devices.", ("Show the addresses of this device", "ip address")),
    page("osx", "ipconfig", "Show network devices.", ("Show the address of this device", "ipconfig getifaddr en0")),
    page("osx", "pbcopy", "Copy to the clipboard.", ("Copy a file to the clipboard", "pbcopy < file")),
    page("windows", "ipconfig", "Show network devices.", ("Show the addresses of this device", "ipconfig /all")),
    page("common", "untar", "This command is an alias of `tar`.", ("View documentation", "tldr tar")),
    page("common", "open", "`open` can refer to multiple commands.", ("View documentation", "tldr open -p osx")),
]
NEEDS = [
    Need("tar", "unpack an archive", "tar xzf {archive.tar.gz}", ("untar {archive.tar.gz}", "open this tarball"), ()),
    Need("du", "find what fills the disk", "du -h | sort -h", ("what is eating my disk",), ()),
    Need(
        "sort",
        "sort lines by number",
        "sort -n {file}",
        ("order {file} numerically",),
        (Need("sort", "sort from high to low", "sort -rn {file}", ("and the other way round?",)),),
    ),
    Need("tmux", "keep a session", "tmux new -s {name}", ("keep my terminal alive after logout",), ()),
]


def write_pages(path: Path) -> Path:
    """Write an index of these pages and needs, and return its path."""
    write(path, PAGES, NEEDS)
    return path


def guided_drafter(plain: Path, folder: Path) -> Path:
    """Copy the drafter's folder `plain` to `folder`, and give it a prompt recipe with the pages above."""
    shutil.copytree(plain, folder)
    write_pages(folder / FILE)
    recipe = recipe_for(folder)
    write_config(folder, msgspec.structs.replace(read_config(folder), prompt_recipe=recipe))
    return folder
