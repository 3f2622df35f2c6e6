"""The manual page agrees with the help of the commands."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import typer

from app.cli.__main__ import cli
from app.config import Settings
from docs.manpage import PAGE, commands, page, settings, text


def test_it_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python docs/manpage.py"


def test_every_command_is_there_with_its_options_and_arguments() -> None:
    whole, every = page(), list(commands(typer.main.get_command(cli), "outrider"))
    assert re.findall(r"^\.SS (outrider [a-z ]*[a-z])", whole, re.MULTILINE) == [path for path, _ in every]
    for path, command in every:
        section = re.split(r"^\.S[SH] ", whole.partition(f"\n.SS {path}")[2], maxsplit=1, flags=re.MULTILINE)[0]
        for one in command.params:
            name = text(one.opts[-1] if one.param_type_name == "option" else one.metavar or one.name)
            (meaning,) = re.findall(rf"^\.[BI] .*{re.escape(name)}.*\n(.*)$", section, re.MULTILINE)[:1]
            assert meaning.strip(), f"{path} {name} has no help"
    assert not re.search(r"<(str|int|float|path|.* range|list.*)>", whole)
    assert "\\-\\-version" in whole


def test_every_setting_is_there_with_its_default() -> None:
    assert [name for name, _, _ in settings()] == list(Settings.__struct_fields__)
    assert not [default for _, default, _ in settings() if "/" in default], "no folder of this machine"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_it_is_typeset_without_a_warning() -> None:
    command = ["groff", "-man", "-ww", "-Tutf8", str(PAGE)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", ran.stdout)
    assert ran.stderr == "" and "EXIT STATUS" in shown and "outrider doctor" in shown
    assert 'outrider ask "list files by size"' in shown
