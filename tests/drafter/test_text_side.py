"""A drafter is made only for a target that a device asks with the same tokens, which is known before any answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from drafter.training.answers import ANSWERS, generate_answers
from drafter.training.pipeline import Plan, build
from drafter.training.target import UnsupportedTarget
from drafter.training.text_side import read_text_side
from models.config import SPECIAL_TOKENS, TEMPLATE, write_config
from models.engines.target import load_target
from models.text.chat_text import ChatText
from tests.models.text.test_template import tiny_config

MODERN = (
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>{% generation %}{{ message.content }}"
    "{% endgeneration %}{{ eos_token }}{% endfor %}{{ strftime_now('%Y') }}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""What transformers renders and earlier versions of Outrider could not."""


@pytest.fixture
def target(tiny_pair: Path, tmp_path: Path) -> Path:
    """The tiny one with another template, and with a token that opens a text."""
    folder = Path(shutil.copytree(tiny_pair / "target", tmp_path / "target"))
    (folder / TEMPLATE).write_text(MODERN)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "bos_token": "<|system|>"}))
    return folder


def test_a_drafter_asks_as_its_target_is_asked(target: Path, tmp_path: Path) -> None:
    """What the target answered in training follows the tokens that a device will send it."""
    side = read_text_side(str(target), "tiny", several_turns=True)
    out, answers = tmp_path / "mine", tmp_path / ANSWERS
    out.mkdir()
    side.write(out)
    write_config(out, tiny_config(stop_tokens=(1,)))
    assert json.loads((out / SPECIAL_TOKENS).read_text())["bos_token"] == "<|system|>"
    ours = ChatText.load(out)
    chat = [{"role": "user", "content": "list files"}]
    expected = side.tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
    assert ours.render([("user", "list files")]) == expected and expected[0] == side.tokenizer.bos_token_id
    model = load_target(str(target), device="cpu").model
    generate_answers(model, side.tokenizer, [["list files"]], answers, batch=1, new_tokens=4, half=False)
    assert json.loads(answers.read_text())["ids"][: len(expected)] == expected


REFUSED = {
    "a broken template": ("{% for %}", "cannot have a drafter: chat_template.jinja cannot be read"),
    "no further turn": ("{% if messages[1:] %}{{ raise_exception('One question') }}{% endif %}", "One question"),
    "a token of nobody": ("<|new|>{{ messages[0].content }}", "give other tokens on a device than in transformers"),
}


@pytest.mark.parametrize(("template", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_a_target_that_cannot_be_asked_is_told_first(target: Path, tmp_path: Path, template: str, said: str) -> None:
    (target / TEMPLATE).write_text(template)
    settings = json.loads((target / "tokenizer_config.json").read_text())
    new = {"content": "<|new|>", "special": True}
    new |= dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False)
    added = {"added_tokens_decoder": {"319": new}, "pad_token": "<|new|>"}
    (target / "tokenizer_config.json").write_text(json.dumps({**settings, **added}))
    model, questions = load_target(str(target), device="cpu").model, [["list"], ["find", "all?"]]
    with pytest.raises(UnsupportedTarget, match=said):
        build(model, str(target), "tiny", questions, tmp_path / "work", tmp_path / "mine", Plan())
    assert not (tmp_path / "work").exists(), "nothing was computed"


def test_several_templates_have_a_default(target: Path) -> None:
    more = target / "additional_chat_templates"
    more.mkdir()
    (more / "tool_use.jinja").write_text("{{ 'tools' }}")
    assert read_text_side(str(target), "tiny", several_turns=True).template == MODERN
    (target / TEMPLATE).unlink()
    with pytest.raises(UnsupportedTarget, match="has no chat template"):
        read_text_side(str(target), "tiny", several_turns=True)
