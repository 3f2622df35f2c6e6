"""The manual page agrees with the help of the commands."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from docs.manpage import PAGE, page


def test_it_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python docs/manpage.py"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_it_is_typeset_without_a_warning() -> None:
    command = ["groff", "-man", "-ww", "-Tutf8", str(PAGE)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", ran.stdout)
    assert ran.stderr == "" and "EXIT STATUS" in shown and "outrider doctor" in shown
    assert 'outrider ask "list files by size"' in shown
