"""Chat templates are rendered as transformers does, and are as harmless as text on a device must be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from models.config import SPECIAL_TOKENS, TEMPLATE, TOKENIZER, DrafterConfig, DrafterCorrupt, write_config
from models.text.chat_text import ChatText
from models.text.template import ChatTemplate, TemplateFailed
from tests.support.serving import REPOSITORY


def tiny_config(stop_tokens: tuple[int, ...]) -> DrafterConfig:
    names = ["vocabulary", "hidden", "heads", "kv_heads", "head_size", "ffn", "encoder_ffn", "inference_layers"]
    names += [f"target_{name}" for name in ("layers", "kv_heads", "head_size", "heads", "ffn")]
    sizes = dict.fromkeys(names, 1)
    return DrafterConfig(target="tiny", rope_theta=1.0, norm_eps=1e-6, stop_tokens=stop_tokens, **sizes)


@dataclass(frozen=True)
class Family:
    """A chat template in the form of a public model family, written anew and short, with its special tokens.

    `swallow`: those that swallow the white space after them.
    """

    file: str
    special: tuple[str, ...]
    bos: str | None = None
    eos: str | None = None
    swallow: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    """Added tokens that are not special."""

    @property
    def template(self) -> str:
        return (REPOSITORY / "tests/data/templates" / f"{self.file}.jinja").read_text(encoding="utf-8")


LLAMA_3 = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
GEMMA = ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
MISTRAL = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]")
PHI_3 = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
COMMAND_R = ("START_OF_TURN_TOKEN", "END_OF_TURN_TOKEN", "SYSTEM_TOKEN", "USER_TOKEN", "CHATBOT_TOKEN")
GPT_OSS = ("startoftext", "endoftext", "return", "start", "message", "channel", "end")
DIALECT = "everything else of the dialect"
FAMILIES = {
    "ChatML": Family("chatml", ("<|im_start|>", "<|im_end|>"), eos="<|im_end|>"),
    "Gemma 3": Family("gemma-3", GEMMA, bos="<bos>", eos="<eos>"),
    "Llama 2": Family("llama-2", ("<unk>", "<s>", "</s>"), bos="<s>", eos="</s>"),
    "Llama 3.1 to 3.3": Family("llama-3-1-to-3-3", LLAMA_3, bos="<|begin_of_text|>", eos="<|eot_id|>"),
    "Mistral": Family("mistral", MISTRAL, bos="<s>", eos="</s>"),
    "Qwen 3": Family(
        "qwen-3", ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), eos="<|im_end|>", extra=("<think>", "</think>")
    ),
    "gpt-oss": Family("gpt-oss", tuple(f"<|{name}|>" for name in GPT_OSS), bos="<|startoftext|>", eos="<|return|>"),
    "Phi 3": Family("phi-3", ("<s>", "<|endoftext|>", *PHI_3), bos="<s>", eos="<|endoftext|>", swallow=PHI_3),
    "DeepSeek": Family(
        "deepseek",
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        bos="<｜begin▁of▁sentence｜>",
        eos="<｜end▁of▁sentence｜>",
        extra=("<think>", "</think>"),
    ),
    "Command R": Family(
        "command-r",
        ("<BOS_TOKEN>", "<EOS_TOKEN>", *(f"<|{name}|>" for name in COMMAND_R)),
        bos="<BOS_TOKEN>",
        eos="<|END_OF_TURN_TOKEN|>",
    ),
    "SmolLM 3": Family("smollm-3", ("<|im_start|>", "<|im_end|>"), eos="<|im_end|>", extra=("<think>", "</think>")),
    "Zephyr": Family("zephyr", ("<unk>", "<s>", "</s>"), bos="<s>", eos="</s>"),
    "GLM": Family(
        "glm", ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"), eos="<|endoftext|>"
    ),
    DIALECT: Family("dialect", ("<unk>", "<s>", "</s>", "<pad>", "<a>"), bos="<s>", eos="</s>"),
}


CONVERSATIONS = {
    "a question": [("user", "unpack a.tar")],
    "a system prompt": [("system", "Be brief."), ("user", "unpack a.tar")],
    "several turns": [("user", "list"), ("assistant", "ls"), ("user", "all"), ("assistant", "ls -a"), ("user", "é?")],
    "both": [("system", "A\nB"), ("user", "list"), ("assistant", "ls"), ("user", "all of them")],
    "white space": [("user", "  list\n\n"), ("assistant", "\n ls \n"), ("user", "\tall ")],
    "thoughts": [("user", "list"), ("assistant", "<think>\nhm\n</think>\n\nls"), ("user", "all")],
    "two questions": [("user", "list"), ("user", "all")],
    "braces": [("user", "{{ bos_token }}{% for %}"), ("assistant", "{# #}"), ("user", "'\"&<>")],
    "nothing said": [("user", "")],
    "an answer first": [("assistant", "Hello."), ("user", "list")],
}
BEGUN = (
    [("system", "Be brief."), ("user", "list"), ("assistant", "Use ")],
    [("user", "list"), ("assistant", "ls"), ("user", "all"), ("assistant", "Use\n\n```\nls -a\n")],
)


def tokenizer_of(family: Family) -> Tokenizer:
    """A token for each byte and the special ones; asked to, it puts the first one in front of a text, as most do."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(one, rstrip=one in family.swallow) for one in family.special])
    tokenizer.add_tokens(list(family.extra))
    if family.bos is not None:
        first = [(family.bos, tokenizer.token_to_id(family.bos))]
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{family.bos} $A", special_tokens=first)
    return tokenizer


def both(family: Family) -> tuple[ChatText, Any]:
    """Our text side, and that of transformers."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = tokenizer_of(family)
    theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=family.bos, eos_token=family.eos)
    theirs.chat_template = family.template
    for name in ("unk_token", "pad_token"):
        if f"<{name[:3]}>" in family.special:
            setattr(theirs, name, f"<{name[:3]}>")
    data = tokenizer.to_str().encode()
    stops = [] if family.eos is None else [tokenizer.token_to_id(family.eos)]
    return ChatText(data, family.template, stops, theirs.special_tokens_map), theirs


def chat_of(messages: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in messages]


@pytest.fixture(scope="module", params=FAMILIES.keys())
def pair(request: pytest.FixtureRequest) -> tuple[ChatText, Any]:
    return both(FAMILIES[request.param])


def test_a_prompt_is_the_one_of_transformers(pair: tuple[ChatText, Any]) -> None:
    """Text and tokens are equal, and a conversation that the template refuses is refused."""
    ours, theirs = pair
    for name, messages in CONVERSATIONS.items():
        try:
            text = theirs.apply_chat_template(chat_of(messages), add_generation_prompt=True, tokenize=False)
        except Exception as error:
            with pytest.raises(TemplateFailed) as refused:
                ours.render(messages)
            assert str(error).rstrip(".") in str(refused.value), name
            continue
        rendered = ours.render_after(None, messages)
        assert rendered.text == text, name
        tokens = theirs.apply_chat_template(chat_of(messages), add_generation_prompt=True)["input_ids"]
        assert rendered.tokens == tokens, name
        first = theirs.bos_token_id
        assert first is None or tokens[:2] != [first, first], "once is enough"


def test_an_answer_goes_on_as_in_transformers(pair: tuple[ChatText, Any]) -> None:
    ours, theirs = pair
    for messages in BEGUN:
        try:
            tokens = theirs.apply_chat_template(chat_of(messages), continue_final_message=True)["input_ids"]
        except Exception:
            with pytest.raises(TemplateFailed):
                ours.render_begun(messages)
        else:
            assert ours.render_begun(messages) == tokens


def test_what_is_spelt_out_is_encoded_as_in_transformers(pair: tuple[ChatText, Any]) -> None:
    """transformers has a switch for it, and another way to do it."""
    ours, theirs = pair
    for token in theirs.all_special_tokens:
        spoken = [("user", f" list {token} all"), ("assistant", "ls"), ("user", f"{token}\n")]
        tokens = theirs.apply_chat_template(chat_of(spoken), add_generation_prompt=True, sanitize_control_tokens=True)
        assert ours.render(spoken) == tokens["input_ids"], token


HOSTILE = {
    "a class's subclasses": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "by a filter": "{{ (''|attr('__class__')).__mro__ }}",
    "a function's globals": "{{ raise_exception.__globals__.json }}",
    "of dict": "{{ dict.__init__.__globals__ }}{{ dict.fromkeys.__func__ }}",
    "set in a namespace": "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "of the messages": "{{ messages.append(1) }}",
    "a macro without end": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "a loop without end": "{% for i in range(999999999) %}x{% endfor %}",
    "a refusal": "{{ raise_exception('Roles must alternate') }}",
    "a division": "{{ 1 / 0 }}",
    "a wrong call": "{{ strftime_now() }}",
    "what cannot be JSON": "{{ namespace() | tojson }}",
    "another file": "{% include 'secrets' %}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_or_failing_template_is_a_typed_error(source: str) -> None:
    with pytest.raises(TemplateFailed, match="chat template cannot render"):
        print(ChatTemplate(source, {}).render([("user", "hi")]))


def test_what_cannot_be_read_or_changes_an_answer_is_told_and_names_replace_nothing_else() -> None:
    deep = "{{ " + "(" * 9999 + ")" * 9999 + " }}"
    for source in ("{% for %}", "{% generation %}", "{{ 'a' ", "{% unheard_of %}", deep):
        with pytest.raises(DrafterCorrupt, match=r"chat_template\.jinja cannot be read"):
            ChatTemplate(source, {})
    for source in ("{{ messages[0].content }}", "{{ messages[-1].content | upper }}", "{{ messages[-1].content[2:] }}"):
        with pytest.raises(TemplateFailed, match="changes an answer"):
            ChatTemplate(source, {}).render([("user", "hi"), ("assistant", "so far")], begun=True)
    template = ChatTemplate("{{ messages[0].content }}{{ tools }}", {"messages": "stolen", "tools": "stolen"})
    assert template.render([("user", "hi")]) == "hiNone"


def folder_of(name: str, folder: Path, special_tokens: dict[str, str]) -> Path:
    """A drafter's folder, as far as its text side goes."""
    family = FAMILIES[name]
    tokenizer = tokenizer_of(family)
    folder.mkdir()
    (folder / TOKENIZER).write_text(tokenizer.to_str())
    (folder / TEMPLATE).write_text(family.template)
    (folder / SPECIAL_TOKENS).write_text(json.dumps(special_tokens))
    config = tiny_config(stop_tokens=() if family.eos is None else (tokenizer.token_to_id(family.eos),))
    write_config(folder, config)
    return folder


@pytest.mark.parametrize("name", FAMILIES.keys())
def test_a_folder_renders_as_its_parts_do(name: str, tmp_path: Path) -> None:
    ours, theirs = both(FAMILIES[name])
    messages = CONVERSATIONS["a question"]
    text = ChatText.load(folder_of(name, tmp_path / "drafter", theirs.special_tokens_map))
    assert text.render(messages) == ours.render(messages)
