from __future__ import annotations

import subprocess
import sys


def test_the_screen_needs_neither_the_model_nor_the_network() -> None:
    code = (
        "import sys, app.tui.app; print([name for name in ('torch', 'transformers', 'httpx') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
