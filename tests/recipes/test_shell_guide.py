"""The recipe's data: what is cleaned, what is left out, what question and command share, what the loss counts."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaModel

from recipes.shell_guide import segment_attention
from recipes.shell_guide.conversations import EVERYDAY, ConversationSource, evaluation_questions
from recipes.shell_guide.everyday import fill, normalise
from recipes.shell_guide.pages import read_pages
from recipes.shell_guide.phrasing import surface, synonyms
from recipes.shell_guide.slots import PLACEHOLDERS, POOLS, SLOT
from recipes.shell_guide.tokenizer import train
from recipes.shell_guide.train import encode, pack

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


def test_the_held_out_file_is_what_the_hash_holds_out(pages):
    held_out = {(p.platform, p.name) for p in read_pages(pages) if p.held_out}
    listed = [json.loads(line) for line in HELD_OUT.read_text(encoding="utf-8").splitlines()]
    assert held_out == {(p["platform"], p["name"]) for p in listed} and len(held_out) > 100


def test_held_out_pages_and_aliases_are_never_drawn(source, pages):
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


slots = st.lists(st.sampled_from(sorted(POOLS)), min_size=1, max_size=4, unique=True)


@given(slots, st.integers(0, 2**31), st.data())
def test_question_and_command_share_what_the_question_names(names, seed, data):
    named = data.draw(st.sets(st.sampled_from(names)))
    question = " and ".join(f"<{{{name}}}>" for name in named)
    command = "tool " + " ".join(f"<{{{name}}}>" for name in names) + " '{{print $1}}'"
    values: dict[str, str] = {}
    asked, answered = fill(question, command, np.random.default_rng(seed), values)
    assert set(values) == named and all(values.values())
    shown = [values.get(name, PLACEHOLDERS[name]) for name in names]
    assert answered == "tool " + " ".join(f"<{value}>" for value in shown) + " '{print $1}'"
    assert all(f"<{values[name]}>" in asked for name in named)
    # The next turn speaks of the same things.
    assert fill("", command, np.random.default_rng(seed + 1), values)[1] == answered


@given(st.lists(st.sampled_from(["file", "Show", "directory", "e", "xyzzy", "?"])), st.integers(0, 2**31))
def test_a_question_keeps_its_slots_however_it_is_worded(words, seed):
    rng = np.random.default_rng(seed)
    question = " ".join([*words, "{file}", *words, "{directory}", "{archive.tar.gz}"])
    assert SLOT.findall(surface(synonyms(question, rng, 1.0), rng)) == ["file", "directory", "archive.tar.gz"]


def test_hand_written_needs_are_valid():
    for path in sorted(EVERYDAY.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            raw = json.loads(line)
            assert set(raw) <= {"page", "intent", "command", "questions", "followups"}
            for part in (raw, *raw.get("followups", [])):
                where = f"{path.name}:{number} {part['command']!r}"
                assert part["intent"] and part["command"] and part["questions"], where
                used = set(SLOT.findall(part["command"]))
                assert used <= set(PLACEHOLDERS), where
                for question in part["questions"]:
                    assert question.strip() and set(SLOT.findall(question)) <= used, f"{where}: {question!r}"


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
