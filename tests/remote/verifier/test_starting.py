"""What `outrider serve` says while it starts, and the limits that it takes."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from drafter.delivery import delivered_bytes
from models.config import GRAPH, read_config, write_config
from remote.protocol import Card, decode
from remote.verifier.making.birth import BUDGET
from remote.verifier.making.maker import (
    GROWN,
    LIVE,
    Maker,
    MakingOutcome,
    MakingProgress,
    MakingTask,
    beside,
    kept_drafter,
    look_up,
)
from remote.verifier.making.maker_worker import make
from remote.verifier.options import ServeOptions
from remote.verifier.serve import build_app, serve
from remote.verifier.start_errors import NoMemory
from tests.remote.verifier.test_http import connected
from tests.support.patience import IDLE_PATIENCE_SECONDS, PATIENCE_SECONDS
from tests.support.serving import VerifierProcess
from tests.support.tiny import GOOD


@pytest.fixture
def brief(tiny_pair: Path, tmp_path: Path) -> Path:
    """The tiny pair, but every fourth token ends an answer, so that what asks the target is done in seconds."""
    pair = tmp_path / "pair"
    shutil.copytree(tiny_pair, pair)
    size = json.loads((pair / "target/config.json").read_text())["vocab_size"]
    about = json.loads((file := pair / "target/generation_config.json").read_text())
    file.write_text(json.dumps(about | {"eos_token_id": list(range(1, size, 4))}))
    return pair


def started(pair: Path, folder: Path, *options: str, drafter: bool = True) -> tuple[Card, str, str]:
    """The card of `outrider serve` with these options and its home in `folder`, its metrics, and what it said.

    `drafter` False: the pair's own is not named, so it is asked something and makes one. The card is the one after it.
    """
    said = folder / "said"
    model, headers = None if drafter else pair / "target", {"Authorization": "Bearer 0123456789abcdef"}
    with VerifierProcess(pair, model=model, home=folder / "home", said=said, options=options) as server:
        with httpx.Client(base_url=server.url, headers=headers, timeout=PATIENCE_SECONDS, trust_env=False) as client:
            shown = decode(client.get("/v1/card").content, Card)
            metrics = client.get("/metrics").text
            if not drafter:
                assert shown.memory is None and shown.drafter is None and not shown.drafts
                messages = [{"role": "user", "content": "hi"}]
                question = {"model": "target", "max_tokens": 4, "temperature": 0, "messages": messages}
                first = client.post("/v1/chat/completions", json=question).raise_for_status().json()
                ends = time.monotonic() + IDLE_PATIENCE_SECONDS
                while "the drafter is used" not in said.read_text():
                    assert time.monotonic() < ends, said.read_text()
                    time.sleep(0.05)
                shown = decode(client.get("/v1/card").content, Card)
                again = client.post("/v1/chat/completions", json=question).raise_for_status().json()
                assert again["choices"] == first["choices"]
        assert server.left() == (0, ""), "stdout has one line"
    return shown, metrics, said.read_text()


async def built(
    capsys: pytest.CaptureFixture[str], model: Path, drafter: Path | None = None, **options: Any
) -> tuple[Card, str]:
    """The card of a server with these options that is made in this process, and what it said."""
    async with connected(build_app(ServeOptions(str(model), drafter, **options).read())) as client:
        shown = decode((await client.get("/v1/card")).content, Card)
    return shown, capsys.readouterr().err


def test_it_tells_what_it_loads_and_takes_its_limits(tiny_pair: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    shown, metrics, said = started(
        tiny_pair, tmp_path, "--engine", "torch", "--max-sessions", "7", "--cache-mb", "40", "--max-tokens", "300",
        "--host", "0.0.0.0", "--token-file", str(token),
    )  # fmt: skip
    assert shown.limits.max_tokens == 300
    assert shown.memory is not None and shown.memory.digest.hex() == read_config(tiny_pair / "drafter").memory
    assert {"outrider_max_sessions 7.0", "outrider_max_cached_bytes 4.194304e+07"} <= set(metrics.splitlines())
    for what in ("loading PyTorch", f"loading {tiny_pair / 'target'}", "million parameters", "loading the drafter"):
        assert what in said
    assert "done in" in said and "sessions hold 300 tokens each, and 40 MB together" in said
    assert "warning: on 0.0.0.0 the token and all text cross the network unencrypted" in said


def test_memory_for_less_than_one_session_is_told(tiny_pair: Path) -> None:
    with pytest.raises(NoMemory, match="--cache-mb"):
        serve(ServeOptions(str(tiny_pair / "target"), tiny_pair / "drafter", port=0, cache_share=1e-9))


@pytest.mark.training
@pytest.mark.usefixtures("forward")
async def test_without_a_drafter_it_answers_first_then_makes_one_and_uses_it(
    brief: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _, said = started(brief, tmp_path, drafter=False)
    assert first.drafts and first.memory is not None and first.drafter is not None
    assert said.index("POST /v1/chat/completions 200") < said.index("making a drafter while the server is idle ...")
    assert "the drafter: 3 of 3 layers, " in said and "the drafter is used from now on" in said
    kept, live = sorted(path for path in (tmp_path / "home/data/drafters/made").iterdir() if path.is_dir())
    assert live == beside(kept, LIVE)
    again, said = await built(capsys, brief / "target", made=kept.parent)
    assert (again.memory, again.drafter) == (first.memory, first.drafter) and not live.exists()
    assert again.drafter is not None and again.drafter.size == delivered_bytes(kept)
    assert "making" not in said and "devices may fetch the drafter" in said
    (kept / GRAPH).write_bytes(b"damaged")
    third, said = await built(capsys, brief / "target", made=kept.parent)
    assert "the drafter is made again:" in said and third.drafter is None


def test_what_becomes_useful_while_it_learns_is_used_once_and_stays_as_it_was(
    tiny_pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used, out = list[Path](), tmp_path / "made"
    shutil.copytree(tiny_pair / "drafter", beside(out, GROWN))
    maker = Maker(MakingTask(str(tiny_pair / "target"), str(out), "", 1000, ()), used.append)
    for tau in (1.4, 1.6, 1.7):
        maker._hear(msgspec.json.encode(MakingProgress("learning", tau=tau)))
    assert used == [beside(out, LIVE)]
    shutil.rmtree(beside(out, GROWN))
    assert read_config(used[0], verify=(GRAPH,)) == read_config(tiny_pair / "drafter")
    maker._hear(msgspec.json.encode(MakingOutcome("the drafter: better.", made=True)))
    assert len(used) == 1 and "from the next start on" in capsys.readouterr().err


async def test_of_two_servers_of_one_model_only_the_first_makes_and_replaces_its_drafter(
    brief: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = brief / "target"
    kept = kept_drafter(str(model), BUDGET, tmp_path / "home/data/drafters/made")
    grown = beside(kept, GROWN)
    grown.mkdir(parents=True)
    with VerifierProcess(brief, model=model, home=tmp_path / "home"):
        assert kept.is_dir() and not grown.exists()
        grown.mkdir()
        _, said = await built(capsys, model, made=kept.parent)
        assert grown.is_dir(), "the first one may be using the older one"
    assert "no drafter is made here: another server on this machine makes the drafter of this model" in said
    look_up(ServeOptions(str(model), made=kept.parent))
    assert not grown.exists()


async def test_a_drafter_of_no_use_is_neither_used_nor_made_again(
    brief: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = kept_drafter(str(brief / "target"), BUDGET, tmp_path / "made")
    kept.mkdir(parents=True)
    useless = msgspec.structs.replace(read_config(brief / "drafter"), measured=msgspec.structs.replace(GOOD, tau=1.04))
    write_config(kept, useless)
    write_config(brief / "drafter", useless)
    made, said = await built(capsys, brief / "target", made=tmp_path / "made", budget=BUDGET)
    assert "no drafts: one was made of the model's own layers, and it gains 1.0 tokens a round" in said
    named, said = await built(capsys, brief / "target", brief / "drafter")
    why = "it gains 1.0 tokens a round, and fewer than 1.5 do not pay off"
    assert f"without the drafter {brief / 'drafter'}: {why}" in said
    for shown in (made, named):
        assert shown.drafter is None and not shown.drafts and shown.memory is None


async def test_a_drafter_without_figures_drafts_here_and_is_not_offered_and_sessions_fit_into_memory(
    brief: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = read_config(brief / "drafter")
    write_config(brief / "drafter", msgspec.structs.replace(config, measured=msgspec.UNSET))
    shown, said = await built(capsys, brief / "target", brief / "drafter", cache_mb=2)
    assert shown.drafts and shown.drafter is None and "warning" not in said
    assert 0 < shown.limits.max_tokens < 1024
    assert f"sessions hold {shown.limits.max_tokens} tokens, not 1024" in said
    assert "it was never measured: outrider drafter eval --record does so" in said


async def test_it_serves_without_a_drafter_where_none_is_wanted_or_none_fits(
    brief: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, said = await built(capsys, brief / "target", no_drafter=True, made=tmp_path / "made")
    assert shown.memory is None and shown.drafter is None and not shown.drafts and "drafter" not in said
    task = MakingTask(str(brief / "target"), str(tmp_path / "made"), str(tmp_path / "work"), 1000, ("hi",))
    outcome = make(task)
    assert not outcome.made and outcome.said.startswith("no drafter: A drafter for target takes at least 1 MB")
    assert outcome.said.endswith("Devices get plain text.")
