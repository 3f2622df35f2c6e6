"""The chat template of a model's folder; `--chat-template FILE`; and models that have none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from drafter.training.text_side import read_text_side as read_for_training
from models.config import TEMPLATE
from models.engines.target import load_target
from models.errors import BadTemplate, UnknownModel
from models.text.text_side import read_template
from recipes.shell_guide.graph import write_graph
from remote.verifier.loader import opened
from remote.verifier.making.maker import kept_drafter
from remote.verifier.options import ServeOptions
from remote.verifier.replicas.replicas import serve_replicas
from remote.verifier.serve import build_app, serve
from tests.remote.verifier.test_starting import built
from tests.support.gguf_writer import write_gguf


@pytest.fixture
def target(tiny_pair: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_pair / "target", tmp_path / "target"))


def test_code_that_comes_with_a_model_is_not_run(target: Path) -> None:
    """It is not fetched from the hub either, and nobody at the terminal is asked about it."""
    settings = json.loads((target / "config.json").read_text())
    foreign = {"AutoConfig": "someone/else--code.Config", "AutoModelForCausalLM": "someone/else--code.Model"}
    (target / "config.json").write_text(json.dumps({**settings, "model_type": "unheard-of", "auto_map": foreign}))
    with pytest.raises(UnknownModel):
        load_target(str(target), device="cpu")


# ---- a template given by a person ------------------------------------------------------------------------------------


OWN = "{% for message in messages %}<|user|>{{ message.content }}, please<|end|>{% endfor %}<|assistant|>"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.jinja"
    path.write_text(OWN)
    return path


@pytest.mark.parametrize("engine", ["torch", "onnx", "llama", "torch with a GGUF file"])
def test_every_engine_takes_it(target: Path, engine: str) -> None:
    model, kind = target, engine.split()[0]
    if engine == "llama":
        pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    if engine == "onnx":
        write_graph(target, target / "target.onnx", int8=False)
    elif engine != "torch":
        model = target.parent / "files" / "tiny.gguf"
        model.parent.mkdir()
        write_gguf(target, model)
    side = opened(ServeOptions(str(model), engine=kind, threads=1, template=OWN)).side  # type: ignore[arg-type]
    assert side.chat_template == OWN and side.text is not None
    assert side.text.decode(side.text.render([("user", "list")])) == "list, please"


async def test_the_card_brings_it_to_devices(tiny_pair: Path, own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drafter = tiny_pair / "drafter"
    shown, said = await built(capsys, tiny_pair / "target", drafter, chat_template=own)
    assert shown.chat_template == OWN
    assert f"the drafter {drafter} has another chat template. Devices that use it render questions with that" in said


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for message in messages %}", "is not valid Jinja: Unexpected end of template.*Correct .*own.jinja"),
        ("{{ raise_exception('never') }}", "cannot render this conversation: never. Correct .*own.jinja"),
        ("{{ messages | length }}", "leaves out what is asked"),
        ("{{ messages[-1].content }}", "leaves out what is asked"),
        (None, "cannot be read: .*Give a text file"),
    ],
)
def test_one_that_cannot_be_used_is_told_before_anything_is_loaded(own: Path, template: str | None, said: str) -> None:
    own.unlink()
    if template is not None:
        own.write_text(template)
    with pytest.raises(BadTemplate, match=said):
        read_template(own)
    with pytest.raises(BadTemplate, match=said):
        serve(ServeOptions("no model at all", port=0, chat_template=own))
    with pytest.raises(BadTemplate, match=said):
        serve_replicas(ServeOptions("no model at all", port=0, replicas=1, chat_template=own))


def test_a_drafter_is_made_with_it(target: Path, tmp_path: Path) -> None:
    side = read_for_training(str(target), "tiny", several_turns=False, template=OWN)
    assert side.template == OWN
    first, second = (kept_drafter(str(target), 300, tmp_path, template) for template in (None, OWN))
    assert first != second == kept_drafter(str(target), 300, tmp_path, OWN)


def test_a_model_without_one_is_said_to_be_a_base_model(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (target / TEMPLATE).unlink()
    build_app(ServeOptions(str(target), engine="torch", threads=1))
    assert "target is a base model: without a chat template" in (said := capsys.readouterr().err), said
    assert "--chat-template FILE" in said
    build_app(ServeOptions(str(target), engine="torch", threads=1, template=OWN))
    assert "base model" not in capsys.readouterr().err
