from __future__ import annotations

from pathlib import Path

from benchmarks.archive import measure


def test_every_figure_is_there(tmp_path: Path) -> None:
    figures = measure(tmp_path, 40)
    assert figures["messages"] == 40
    for what in ("export md", "export html", "export json", "import", "import again"):
        assert figures[f"{what} seconds"] >= 0
    assert 'class="drafted"' in (tmp_path / "all.html").read_text(encoding="utf-8")
