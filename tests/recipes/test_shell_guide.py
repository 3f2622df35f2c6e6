"""The recipe's data: what is cleaned, what is left out, what question and command share, what the loss counts."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaModel

from recipes.shell_guide import segment_attention
from recipes.shell_guide.conversations import EVALUATION, EVERYDAY, ConversationSource, evaluation_questions
from recipes.shell_guide.everyday import normalise
from recipes.shell_guide.pages import read_pages
from recipes.shell_guide.slots import SLOT
from recipes.shell_guide.tokenizer import train
from recipes.shell_guide.train import encode, pack
from tests.support.guide_pages import write_pages

pytestmark = pytest.mark.training

HELD_OUT = Path(__file__).parents[1] / "data/heldout_pages.jsonl"
DRAWS = 300
ROW = 256


def page(name: str, *examples: tuple[str, str], translations: int = 3, alias: bool = False) -> str:
    about = {"platform": "common", "name": name, "alias": alias, "translations": translations}
    listed = [{"task": task, "command": command} for task, command in examples]
    return json.dumps(about | {"description": f"The {name} of tests.", "examples": listed})


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """Four pages of our own, one of them an alias, and all held-out ones."""
    lines = [
        page("frobnicate", ("[F]robnicate a file", "frobnicate file"), ("Start/Stop a service", "frob start|stop it")),
        page("grep-ish", ("Search for a `pattern` (recursively)", "grep-ish --all pattern"), translations=20),
        page("lone", ("Run it:", "lone")),
        page("other-name", ("Show the page of frobnicate", "tldr frobnicate"), alias=True),
    ]
    path = tmp_path_factory.mktemp("pages") / "pages.jsonl"
    path.write_text("\n".join(lines) + "\n" + HELD_OUT.read_text(encoding="utf-8"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def source(pages) -> ConversationSource:
    return ConversationSource(pages, seed=5)


@pytest.fixture(scope="module")
def tokenizer(pages):
    return train(pages, conversations=DRAWS)


def test_the_held_out_file_is_what_the_hash_holds_out_and_never_drawn_nor_are_aliases(pages, source):
    held_out = {(p.platform, p.name) for p in read_pages(pages) if p.held_out}
    listed = [json.loads(line) for line in HELD_OUT.read_text(encoding="utf-8").splitlines()]
    assert held_out == {(p["platform"], p["name"]) for p in listed} and len(held_out) > 100
    assert {p.name for p in source.pages} == {"frobnicate", "grep-ish", "lone"}
    only_pages = ConversationSource(pages, seed=5, mix=(0, 1, 1, 1, 0))
    answers = [answer for index in range(DRAWS) for _, answer in only_pages.draw(index)]
    told = {block.split("\n```")[0] for answer in answers for block in answer.split("```sh\n")[1:]}
    assert told == {"frobnicate file", "frob start it", "frob stop it", "grep-ish --all pattern", "lone"}


def test_no_wording_makes_a_question_of_the_evaluation(tmp_path):
    path = tmp_path / "pages.jsonl"
    path.write_text(page("ps", ("Show all running processes", "ps aux")))
    assert normalise("show all running processes") in evaluation_questions()
    tempted = ConversationSource(path, seed=5, mix=(0, 1, 0, 0, 0))
    drawn = [normalise(tempted.draw(index)[0][0]) for index in range(DRAWS)]
    assert "how do i show all running processes" in drawn
    assert not set(drawn) & evaluation_questions()


class Messages:
    """Conversations with a system message before each question."""

    def __init__(self, source):
        self.source = source

    def read(self, index):
        turns = self.source.draw(index)
        return [
            message
            for number, (question, answer) in enumerate(turns)
            for message in (("system", f"Hint {number}."), ("user", question), ("assistant", answer))
        ]


def test_the_loss_counts_answers_and_nothing_else(source, tokenizer):
    for index in range(30):
        messages = Messages(source).read(index)
        ids, learn = encode(tokenizer, messages)
        assert tokenizer.decode(ids) == "".join(f"<|{role}|>{text}<|end|>" for role, text in messages)
        groups = itertools.groupby(zip(ids, learn), key=lambda pair: pair[1])
        spans = [tokenizer.decode([token for token, _ in group]) for counted, group in groups if counted]
        assert spans == [f"{text}<|end|>" for role, text in messages if role == "assistant"]


@pytest.mark.parametrize("long", [segment_attention.LONG, 20])
def test_a_packed_conversation_is_as_if_alone(source, tokenizer, monkeypatch, long):
    monkeypatch.setattr(segment_attention, "LONG", long)  # 20: all take the way of long ones.
    source = Messages(source)
    batch = pack(source, tokenizer, step=1, tokens=ROW, per_step=9)
    assert {name: tuple(tensor.shape) for name, tensor in batch.items()} == {
        **dict.fromkeys(("ids", "positions", "learn"), (1, ROW)),
        "lengths": (10,),
    }
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), num_attention_heads=4, num_key_value_heads=2, **shape)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        body = LlamaModel(config)
    plain = copy.deepcopy(body)
    body.set_attn_implementation(segment_attention.NAME)
    packed = body(
        input_ids=batch["ids"], position_ids=batch["positions"], lengths=batch["lengths"], use_cache=False
    ).last_hidden_state
    packed.square().sum().backward()
    begin, counts = 0, batch["lengths"].tolist()
    assert sum(counts) == ROW and 2 < sum(count > 0 for count in counts) < 9, "the row is full before the step's last"
    for number, count in enumerate(count for count in counts if count):
        span = slice(begin, begin + count)
        ids, learn = encode(tokenizer, source.read(9 + number))
        assert batch["ids"][0, span].tolist() == ids[:count]
        assert batch["learn"][0, span].tolist() == learn[:count]
        assert begin + count == ROW or count == len(ids)
        alone = plain(input_ids=torch.tensor([ids[:count]])).last_hidden_state
        alone.square().sum().backward()
        torch.testing.assert_close(packed[:, span], alone, atol=1e-4, rtol=1e-4)
        begin += count
    for one, other in zip(body.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-3, rtol=1e-3)


# ---- the index of pages ----------------------------------------------------------------------------------------------


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = write_pages(tmp_path / "one.db"), write_pages(tmp_path / "other.db")
    assert one.read_bytes() == other.read_bytes()
    assert write_pages(one).read_bytes() == other.read_bytes(), "a file that is there is replaced"


# ---- questions of the measures are in none of the recipe's files, however a slot is filled ---------------------------


NEVER = [path for path in EVALUATION if not path.stem.startswith(("everyday", "retrieval"))]
"""Files of which no question may stand in the recipe. Some of the everyday ones and of the search's do: they are left
out when it draws, and of the index."""


def last_questions(path) -> dict[str, str]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["id"]: row["turns"][-1] if "turns" in row else row["prompt"] for row in rows}


def words(text: str) -> str:
    """The words of a question in any script, in small letters."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def marks(text: str) -> str:
    """A question in small letters that keeps the marks of names, addresses and slots."""
    return " ".join(re.sub(r"[^\w\s{}.:/@~*-]", " ", text.casefold()).split()).rstrip(".")


def shape(question: str) -> str:
    """A pattern of what a question becomes with its slots filled, each by one word with the slot's ending."""
    parts = re.split(SLOT, marks(question))
    slots = [r"\S+" + re.escape("." + slot.partition(".")[2] if "." in slot else "") for slot in parts[1::2]]
    return "".join(re.escape(part) + slot for part, slot in zip(parts[::2], [*slots, ""]))


def learnt() -> Iterator[str]:
    for path in sorted(EVERYDAY.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            need = json.loads(line)
            for part in (need, *need.get("followups", [])):
                yield from part["questions"]


@pytest.fixture(scope="module")
def questions() -> set[str]:
    found = set(learnt())
    assert len(found) > 15_000
    return found


@pytest.fixture(scope="module")
def shapes(questions: set[str]) -> re.Pattern[str]:
    templates = [shape(question) for question in questions if SLOT.search(question)]
    assert len(templates) > 1_000
    return re.compile("|".join(f"(?:{template})" for template in templates))


@pytest.mark.parametrize("path", NEVER, ids=lambda path: path.stem)
def test_the_recipe_has_none_of_the_questions_and_no_value_makes_one(path, questions, shapes) -> None:
    known, asked = {words(question) for question in questions}, last_questions(path)
    assert [name for name, one in asked.items() if words(one) in known or shapes.fullmatch(marks(one))] == []


def test_a_question_with_its_slot_filled_is_seen(shapes: re.Pattern[str], questions: set[str]) -> None:
    asked = [question for question in sorted(questions) if SLOT.findall(question) == ["file"]]
    assert len(asked) > 100
    assert all(shapes.fullmatch(marks(one.replace("{file}", "notes.txt"))) for one in asked[:100])
