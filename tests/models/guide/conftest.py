"""A small index for the tests of the guide."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models.guide.pages import Pages
from tests.support.guide_pages import write_pages


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    opened = Pages.open(write_pages(tmp_path_factory.mktemp("pages") / "pages.db"))
    yield opened
    opened.close()
