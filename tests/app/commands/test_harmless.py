"""Commands that do no harm: the rules are silent about every one. A warning that comes too often is not read."""

from __future__ import annotations

import pytest

from app.commands.risks import risks
from tests.app.commands.cases import table


@pytest.mark.parametrize("command", table("harmless"))
def test_nothing_is_said_of_a_harmless_command(command: str) -> None:
    assert risks(command) == ()
