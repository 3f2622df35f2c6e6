"""Events that are printed say what a person knows from the screen."""

from __future__ import annotations

import pytest

from app.events import Mode, ModeChanged


@pytest.mark.parametrize(
    ("mode", "why", "says"),
    [
        ("warming", "connecting to the server", "connecting to the server"),
        ("warming", "the small model is being loaded", "connecting: the small model is being loaded"),
        ("offline", "offline by choice", "offline by choice"),
        ("offline", "nothing listens at a", "offline: nothing listens at a"),
        ("edge", "checked by shell-guide", "online: checked by shell-guide"),
        ("hosted", "checked by shell-guide", "online: checked by shell-guide"),
    ],
)
def test_a_mode_is_told_in_the_words_of_the_status_bar_and_once(mode: Mode, why: str, says: str) -> None:
    assert str(ModeChanged(mode, why)) == says
