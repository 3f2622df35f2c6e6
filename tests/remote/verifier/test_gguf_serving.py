"""GGUF files whose layers have windows or states: they are served, and drafters that do not fit are told so."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from benchmarks.gguf_file import write_gguf
from remote.verifier.engine import UnfitDrafter
from remote.verifier.loader import opened
from tests.remote.verifier.tiny import save_speaking
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

WINDOWS, STATES = "gemma3-mixed", "mamba"
NO_DRAFTS = "its state cannot be taken back"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file for each kind of model."""
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    found, folder = {}, tmp_path_factory.mktemp("files")
    for kind in (WINDOWS, STATES):
        found[kind] = folder / f"tiny-{kind}.gguf"
        write_gguf(save_speaking(kind, folder / kind), found[kind])
    return found


@pytest.mark.parametrize(
    ("kind", "told"),
    [(WINDOWS, "no drafter: one is made of the model's own layers, and devices cannot run those of gemma3"),
     (STATES, f"without drafts, because {NO_DRAFTS}")],
)  # fmt: skip
def test_it_starts_answers_says_what_it_lacks_and_stops(
    files: dict[str, Path], tiny_pair: Path, tmp_path: Path, kind: str, told: str
) -> None:
    said = tmp_path / "said"
    with VerifierProcess(tiny_pair, model=files[kind], home=tmp_path / "home", said=said) as serving:
        question = {"messages": [{"role": "user", "content": "list all files"}], "max_tokens": 12, "temperature": 0}
        url = f"{serving.url}/v1/chat/completions"
        answers = [httpx.post(url, json=question, timeout=PATIENCE_SECONDS, trust_env=False).json() for _ in range(2)]
        ends = time.monotonic() + PATIENCE_SECONDS
        while told not in said.read_text() and time.monotonic() < ends:
            time.sleep(0.05)
        assert serving.interrupt() == 0
    texts = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert texts[0] == texts[1] and answers[0]["usage"]["completion_tokens"] == 12
    assert told in said.read_text()


def test_a_drafter_of_another_model_is_refused(files: dict[str, Path], tiny_pair: Path) -> None:
    with pytest.raises(UnfitDrafter, match="was made for tiny, 3 layers of 2 x 8 keys; this file has 3 of 2 x 16"):
        opened(str(files[WINDOWS]), tiny_pair / "drafter", None, "auto", None, 1)


def test_a_drafter_of_a_model_that_takes_none_is_left_out(
    files: dict[str, Path], tiny_pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opened(str(files[STATES]), tiny_pair / "drafter", None, "auto", None, 1).drafter is None
    said = capsys.readouterr().err
    assert f"without the drafter {tiny_pair / 'drafter'}, because the model takes none: {NO_DRAFTS}" in said
