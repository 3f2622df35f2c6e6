"""`outrider serve` asks its model as transformers does, with the chat template in its published form."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from transformers import AutoTokenizer

from models.config import TEMPLATE
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from models.errors import UnknownModel
from remote.verifier.http import create_app
from remote.verifier.serve import card
from tests.remote.verifier.test_http import connected

FORM = (
    "{{ bos_token }}{{ strftime_now('%Y') }}{% for message in messages %}{% if message.role == 'assistant' %}"
    "<|assistant|>says: {% generation %}{{ message.content }}{{ eos_token }}{% endgeneration %}{% else %}"
    "<|user|>{{ message.content | trim }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""An answer begins with other words than those that ask for one, as in gpt-oss."""
ASKED = [{"role": "user", "content": " list <|end|> files "}]


@pytest.fixture(scope="module")
def folder(tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(tiny_pair / "target", tmp_path_factory.mktemp("models") / "target"))
    (folder / TEMPLATE).write_text(FORM)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "bos_token": "<|system|>"}))
    return folder


@pytest.fixture(scope="module")
def app(folder: Path) -> Starlette:
    target = load_target(str(folder), device="cpu")
    engine = TorchEngine(target.model)
    return create_app(engine, card(target, engine), text=target.text)


async def used(client: httpx.AsyncClient, **fields: Any) -> int:
    """Number of tokens of a prompt."""
    response = await client.post("/v1/chat/completions", json={"max_tokens": 1, "temperature": 0, **fields})
    assert response.status_code == 200, response.text
    return int(response.json()["usage"]["prompt_tokens"])


async def test_a_question_is_asked_as_in_transformers(app: Starlette, folder: Path) -> None:
    theirs = AutoTokenizer.from_pretrained(folder)
    expected = theirs.apply_chat_template(ASKED, add_generation_prompt=True, sanitize_control_tokens=True)["input_ids"]
    text = load_target(str(folder), device="cpu").text
    assert text is not None
    assert text.render([("user", ASKED[0]["content"])]) == expected and expected[0] == theirs.bos_token_id
    async with connected(app) as client:
        assert await used(client, messages=ASKED) == len(expected)


async def test_an_answer_goes_on_behind_what_opens_answers(app: Starlette, folder: Path) -> None:
    theirs = AutoTokenizer.from_pretrained(folder)
    begun = [{"role": "user", "content": "list"}, {"role": "assistant", "content": "ls -"}]
    expected = theirs.apply_chat_template(begun, continue_final_message=True)["input_ids"]
    fields = {"continue_final_message": True, "add_generation_prompt": False}
    async with connected(app) as client:
        assert await used(client, messages=begun, **fields) == len(expected)
        empty = [begun[0], {"role": "assistant", "content": ""}]
        assert await used(client, messages=empty, **fields) == await used(client, messages=begun[:1]), "a new answer"


def test_code_that_comes_with_a_model_is_not_run(folder: Path, tmp_path: Path) -> None:
    """It is not fetched from the hub either, and nobody at the terminal is asked about it."""
    copy = Path(shutil.copytree(folder, tmp_path / "own"))
    settings = json.loads((copy / "config.json").read_text())
    foreign = {"AutoConfig": "someone/else--code.Config", "AutoModelForCausalLM": "someone/else--code.Model"}
    (copy / "config.json").write_text(json.dumps({**settings, "model_type": "unheard-of", "auto_map": foreign}))
    with pytest.raises(UnknownModel):
        load_target(str(copy), device="cpu")
