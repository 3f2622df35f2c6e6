"""Chat templates in the forms of public model families, each written anew and short.

They use the same variables, functions, filters, blocks and white space. None is a copy of a published template. They
lie in tests/data/templates; their special tokens are here.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.serving import REPOSITORY

TEMPLATES = REPOSITORY / "tests" / "data" / "templates"


@dataclass(frozen=True)
class Family:
    """`special`: texts of the special tokens. `swallow`: those that swallow the white space after them."""

    template: str
    special: tuple[str, ...]
    bos: str | None = None
    eos: str | None = None
    swallow: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    """Added tokens that are not special."""


def family(
    file: str,
    special: tuple[str, ...],
    bos: str | None = None,
    eos: str | None = None,
    swallow: tuple[str, ...] = (),
    extra: tuple[str, ...] = (),
) -> Family:
    template = (TEMPLATES / f"{file}.jinja").read_text(encoding="utf-8")
    return Family(template, special, bos, eos, swallow, extra)


DIALECT = "everything else of the dialect"
FAMILIES = {
    "ChatML": family("chatml", ("<|im_start|>", "<|im_end|>"), eos="<|im_end|>"),
    "Gemma": family("gemma", ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), bos="<bos>", eos="<eos>"),
    "Gemma 3": family("gemma-3", ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), bos="<bos>", eos="<eos>"),
    "Llama 2": family("llama-2", ("<unk>", "<s>", "</s>"), bos="<s>", eos="</s>"),
    "Llama 3": family(
        "llama-3",
        ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        bos="<|begin_of_text|>",
        eos="<|eot_id|>",
    ),
    "Llama 3.1 to 3.3": family(
        "llama-3-1-to-3-3",
        ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        bos="<|begin_of_text|>",
        eos="<|eot_id|>",
    ),
    "Mistral": family(
        "mistral", ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]"), bos="<s>", eos="</s>"
    ),
    "Mistral Small 3": family(
        "mistral-small-3",
        ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
        bos="<s>",
        eos="</s>",
    ),
    "Qwen 2.5": family("qwen-2-5", ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), eos="<|im_end|>"),
    "Qwen 3": family(
        "qwen-3", ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), eos="<|im_end|>", extra=("<think>", "</think>")
    ),
    "gpt-oss": family(
        "gpt-oss",
        ("<|startoftext|>", "<|endoftext|>", "<|return|>", "<|start|>", "<|message|>", "<|channel|>", "<|end|>"),
        bos="<|startoftext|>",
        eos="<|return|>",
    ),
    "Phi 3": family(
        "phi-3",
        ("<s>", "<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
        bos="<s>",
        eos="<|endoftext|>",
        swallow=("<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
    ),
    "Phi 4": family(
        "phi-4", ("<|endoftext|>", "<|im_start|>", "<|im_sep|>", "<|im_end|>"), bos="<|endoftext|>", eos="<|im_end|>"
    ),
    "DeepSeek": family(
        "deepseek",
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        bos="<｜begin▁of▁sentence｜>",
        eos="<｜end▁of▁sentence｜>",
        extra=("<think>", "</think>"),
    ),
    "Command R": family(
        "command-r",
        (
            "<BOS_TOKEN>",
            "<EOS_TOKEN>",
            "<|START_OF_TURN_TOKEN|>",
            "<|END_OF_TURN_TOKEN|>",
            "<|SYSTEM_TOKEN|>",
            "<|USER_TOKEN|>",
            "<|CHATBOT_TOKEN|>",
        ),
        bos="<BOS_TOKEN>",
        eos="<|END_OF_TURN_TOKEN|>",
    ),
    "SmolLM 3": family("smollm-3", ("<|im_start|>", "<|im_end|>"), eos="<|im_end|>", extra=("<think>", "</think>")),
    "Granite": family(
        "granite",
        ("<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>"),
        bos="<|end_of_text|>",
        eos="<|end_of_text|>",
    ),
    "Zephyr": family("zephyr", ("<unk>", "<s>", "</s>"), bos="<s>", eos="</s>"),
    "OLMo": family("olmo", ("<|endoftext|>",), bos="<|endoftext|>", eos="<|endoftext|>"),
    "GLM": family(
        "glm", ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"), eos="<|endoftext|>"
    ),
    "everything else of the dialect": family(
        "dialect", ("<unk>", "<s>", "</s>", "<pad>", "<a>"), bos="<s>", eos="</s>"
    ),
}
