"""From a target and questions to a drafter's folder: answer, distil, export, quantise, describe.

Each stage leaves its result in the work folder; when run again, it is resumed or skipped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from drafter.model import MemoryEncoder, load_draft_model, memory_digest, save_weights
from drafter.ngram import save_datastore
from drafter.step import StepGraph
from drafter.training.answers import ANSWERS, Messages, draft_vocabulary, generate_answers, question_alone, read_answers
from drafter.training.batches import AnsweredConversation
from drafter.training.distil import Distiller, train
from drafter.training.export import Parity, StepInputs, compare, export_graph, prompt
from drafter.training.loop import LOG, Unseen, read_unseen, trained_parameters
from drafter.training.processes import processes
from drafter.training.recipe import Recipe
from drafter.training.target import UnsupportedTarget, check_head, drafter_config, features, packed_parts
from drafter.training.text_side import read_text_side
from models.config import (
    DATASTORE,
    ENCODER,
    FLOAT,
    GRAPH,
    GRAPH_WEIGHTS,
    TEMPLATE,
    TOKENIZER,
    Bits,
    DrafterConfig,
    FirstMemory,
    Scheme,
    read_config,
    write_config,
)
from models.engines.quantise import quantise_graph
from models.files import PACKED
from models.graph_file import weights_inside
from models.memory import pack_memory, quantise_row
from models.packed import read_packed
from models.text.chat_text import ChatText

FLOAT_GRAPH = "float.onnx"
"""File in the work folder: the step graph before it is quantised."""
COMPARED = 64
"""Number of answers on which the quantised graph is compared with the float one."""


class TooFewPrompts(ValueError):
    """Too few prompts to learn from. The message says how many there are."""


@dataclass(frozen=True)
class Plan:
    """The choices for a drafter. The defaults suit a target of any size."""

    recipe: Recipe = Recipe()
    inference_layers: int | None = None
    """N, by default as many as `init` has, or 1 if the target's family allows it."""
    first_layers: int | None = None
    """F, by default as many as `init` has, or 1 if the target's family allows it."""
    layer_self_attention: bool | None = None
    """Whether to use it, by default as in `init`, or as `drafter_config` chooses."""
    memory_bits: Bits = 4
    """Bits of each number of memory on the wire. For the bundled pair, 4 bits lower tau by 0.3 % (6.76 to 6.74 on 60
    prompts)."""
    draft_vocabulary: int = 32_768
    """How many of the answers' most frequent tokens the head keeps. The others can only come as the target's bonus
    token."""
    answer_tokens: int = 200
    """Longest answer that is learnt from."""
    datastore: int = 400_000
    """Most tokens of answers that the drafter's folder keeps for the second stage."""
    batch: int = 1024
    """Conversations between points at which a killed run can resume."""
    init: Path | None = None
    """Folder of an older drafter to start from."""
    asked_as: Callable[[Sequence[str]], Messages] = question_alone
    """The messages before an answer, from the questions up to it: a target with a prompt recipe reads more than a
    question."""


@dataclass(frozen=True)
class Built:
    """A finished drafter and its figures."""

    config: DrafterConfig
    parity: Parity
    answers: int
    answer_tokens: int
    covered: float
    """Share of the answers' tokens that is in the draft vocabulary."""
    trained_parameters: int
    processes: int
    """Processes that trained together. Each step learnt from as many batches."""
    unseen: Unseen | None
    """Figures on held-out answers, or None if there were too few."""


def build(
    target: PreTrainedModel,
    source: str,
    name: str,
    questions: Sequence[Sequence[str]],
    work: Path,
    out: Path,
    plan: Plan,
) -> Built | None:
    """Make a drafter for `target`, on the device where it is.

    `source`: folder of the target, or its name on the hub, for its tokenizer. `questions`: those of each conversation.
    If there are several processes, all answer and train; the main one writes the drafter, and the others get None.
    Raises `UnsupportedTarget`, `TooFewPrompts` or `DrafterError` before anything is computed.
    """
    together = processes(target.device.type)
    if len(questions) < 2:
        raise TooFewPrompts(f"{len(questions)} conversations are too few to learn from. Give thousands, if you can.")
    check_head(target)
    several_turns = any(len(asked) > 1 for asked in questions)
    side = read_text_side(source, name, several_turns=several_turns)
    tokenizer = side.tokenizer
    config = _config(target, name, plan)
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    if together.is_main_process:
        side.write(out)
    answers = work / ANSWERS
    # So that every process has something to answer.
    batch = min(plan.batch, -(-len(questions) // together.num_processes))
    generate_answers(
        target,
        tokenizer,
        questions,
        answers,
        batch=batch,
        new_tokens=plan.answer_tokens,
        half=True,
        asked_as=plan.asked_as,
    )
    data = read_answers(answers)
    device, checkpoints = str(target.device), work / "checkpoints"
    model = train(config, target, data, checkpoints, plan.recipe, device, plan.init).to("cpu")
    if not together.is_main_process:
        return None

    stops = stop_tokens(target, tokenizer)
    drafted, covered = draft_vocabulary(data, plan.draft_vocabulary, stops, config.vocabulary)

    config = msgspec.structs.replace(model.config, draft_vocabulary=drafted, stop_tokens=stops)
    config = write_folder(model, target, config, data, work, out, datastore=plan.datastore, source=Path(source))
    parity = compare(StepGraph(work / FLOAT_GRAPH, config), StepGraph(out / GRAPH, config), _inputs(out, config, data))
    lengths = [end - begin for sample in data for begin, end in sample.learn]
    return Built(
        config,
        parity,
        len(lengths),
        sum(lengths),
        covered,
        trained_parameters(model),
        together.num_processes,
        read_unseen(checkpoints / LOG),
    )


def write_folder(
    model: Distiller,
    target: PreTrainedModel,
    config: DrafterConfig,
    data: Sequence[AnsweredConversation],
    work: Path,
    out: Path,
    *,
    datastore: int,
    source: Path | None = None,
) -> DrafterConfig:
    """Write both halves of a drafter into `out`, where its text side is already, and return its complete config.

    `work` gets the float graph. `datastore`: most tokens of the answers `data` that the folder keeps. `source`: folder
    of the target. If its weights are packed and the scheme is `int8`, the drafter's are packed too, and there are no
    float weights.
    """
    config = msgspec.structs.replace(config, memory=memory_digest(target.state_dict(), model.encoder).hex())
    model.draft.config = model.encoder.config = config
    save_weights(model.encoder, out / ENCODER)
    packed = None
    if config.scheme == "int8" and source is not None and (source / PACKED).exists():
        packed = packed_parts(config, read_packed(source / PACKED))
    (out / FLOAT).unlink(missing_ok=True)
    if packed is None:
        save_weights(model.draft, out / FLOAT)
    export_graph(model.draft.eval(), work / FLOAT_GRAPH)
    quantise_graph(work / FLOAT_GRAPH, out / GRAPH, config.scheme, packed)
    (out / DATASTORE).unlink(missing_ok=True)
    config = write_config(out, config)
    text = ChatText.load(out)
    if datastore:
        save_datastore(out / DATASTORE, datastore_texts(data, text.answer_opening(), datastore))
    first = _first_memory(model, target, text)
    return write_config(out, msgspec.structs.replace(config, tokenizer=text.digest.hex(), first_memory=first))


@torch.no_grad()
def _first_memory(model: Distiller, target: PreTrainedModel, text: ChatText) -> FirstMemory:
    """The memory of the first token that a question begins with."""
    token = text.render([("user", "")])[0]
    ids, start = torch.tensor([[token]], device=target.device), torch.zeros(1, dtype=torch.long, device=target.device)
    itself = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=target.device)
    keys_values = features(target, ids, start[None], itself, model.config).keys_values
    rows = model.encoder(keys_values.flatten(0, 1).float(), start)
    bits = model.config.memory_bits
    packed = [quantise_row(keys.cpu().numpy(), values.cpu().numpy(), bits) for keys, values in rows]
    return FirstMemory(token, pack_memory(packed, bits))


INHERITED = (
    *("inference_layers", "first_layers", "blocks", "ffn", "encoder_ffn", "exit_norm", "from_target"),
    *("layer_self_attention", "scheme", "steps", "seconds"),
)
"""Fields of the config that a drafter takes from the one it begins with."""
GIVEN = ("vocabulary", "hidden", "target_layers", "target_heads", "target_kv_heads", "target_head_size", "target_ffn")
"""Fields of the config that both have from the target."""


def _config(target: PreTrainedModel, name: str, plan: Plan) -> DrafterConfig:
    """The config of the drafter to train. Raises `UnsupportedTarget`, and `DrafterError` for a bad `init`."""
    layers = {"inference_layers": plan.inference_layers, "first_layers": plan.first_layers}
    if plan.init is None:
        config = drafter_config(target, name, **layers, layer_self_attention=plan.layer_self_attention)
        return msgspec.structs.replace(config, memory_bits=plan.memory_bits)
    older = MemoryEncoder.load(plan.init).config
    load_draft_model(plan.init)  # Fail now, not after hours of answers.
    asked: dict[str, int | None] = {**layers, "layer_self_attention": plan.layer_self_attention}
    for part, value in asked.items():
        has = getattr(older, part)
        if value not in (None, has):
            raise UnsupportedTarget(
                f"{plan.init} has {has} for {part.replace('_', ' ')}: what begins with it cannot have {value}."
            )
    config = drafter_config(target, name, inference_layers=older.inference_layers, first_layers=older.first_layers)
    if any(getattr(config, field) != getattr(older, field) for field in GIVEN):
        raise UnsupportedTarget(f"{plan.init} was made for a target of other shapes than {name}: begin without it.")
    inherited = {field: getattr(older, field) for field in INHERITED}
    return msgspec.structs.replace(config, **inherited, memory_bits=plan.memory_bits)


def datastore_texts(data: Sequence[AnsweredConversation], opening: Sequence[int], most: int) -> list[list[int]]:
    """Every n-th answer, about `most` tokens in all, each after the `opening` that the template gives it."""
    texts = [[*opening, *sample.ids[begin:end]] for sample in data for begin, end in sample.learn]
    every = -(-sum(len(text) + 1 for text in texts) // most)
    return texts[:: max(1, every)]


def stop_tokens(target: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The tokens that end an answer of this target."""
    stops = target.generation_config.eos_token_id if target.generation_config is not None else None
    stops = tokenizer.eos_token_id if stops is None else stops
    return tuple(stops) if isinstance(stops, list) else () if stops is None else (int(stops),)


def requantise(folder: Path, scheme: Scheme | None = None) -> Parity:
    """Rebuild the quantised graph of a drafter's folder from its weights; returns how much it differs from a float one.

    They are compared on random tokens. The old graph stays until the new one is complete. A packed graph's weights are
    kept as float ones if the new scheme packs none. Raises `DrafterError`.
    """
    config = read_config(folder, verify=(TOKENIZER, TEMPLATE))
    config = msgspec.structs.replace(config, scheme=scheme or config.scheme)
    model = load_draft_model(folder)
    packed = None
    if FLOAT not in config.files and config.scheme == "int8":
        packed = weights_inside(folder / GRAPH)
        packed.setdefault("head.weight", packed["model.embedding.weight"])
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        float_graph, graph = Path(scratch) / "float.onnx", Path(scratch) / GRAPH
        export_graph(model, float_graph)
        quantise_graph(float_graph, graph, config.scheme, packed)
        exact, quantised = StepGraph(float_graph, config), StepGraph(graph, config)
        drafted = np.array(config.draft_vocabulary or range(config.vocabulary))
        samples = np.random.default_rng(0).choice(drafted, (COMPARED, 64)).tolist()
        parity = compare(exact, quantised, (prompt(exact, tokens) for tokens in samples))
        (folder / GRAPH_WEIGHTS).unlink(missing_ok=True)
        for made in (graph, graph.with_name(GRAPH_WEIGHTS)):
            if made.exists():
                made.replace(folder / made.name)
    if FLOAT not in config.files and packed is None:
        save_weights(model, folder / FLOAT)
    write_config(folder, config)
    return parity


def _inputs(folder: Path, config: DrafterConfig, data: Sequence[AnsweredConversation]) -> list[StepInputs]:
    step = StepGraph(folder / GRAPH, config)
    return [prompt(step, sample.ids) for sample in data[:: max(1, len(data) // COMPARED)]]
