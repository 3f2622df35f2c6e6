"""In `auto`, a device whose drafter guesses nothing never drafts a round, and remembers that."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.config import Settings
from app.events import RoundEnded
from app.remotes.last_seen import LastSeen
from app.remotes.mode_meter import DRAFTED, MODES, WATCHED
from app.remotes.speed import FILE
from app.reply.hosted import agreed
from drafter.runtime import Drafter
from models.tree import ROOT, DraftTree
from tests.support.conversing import Heard, ask, assistant, until_connected
from tests.support.serving import VerifierProcess

QUESTIONS = ("list files", "and hidden ones", "unpack a tar archive", "find large files", "who am I?")
AUTO = Settings(max_tokens=60)


def edge_rounds(heard: Heard) -> int:
    reports = [event.report for event in heard.of(RoundEnded) if event.report is not None]
    return sum(report.mode == "edge" for report in reports)


async def test_with_a_drafter_that_guesses_nothing_no_round_is_drafted_here(
    guessing_nothing: Path, tmp_path: Path
) -> None:
    drafter, seen = Drafter.load(guessing_nothing / "drafter"), LastSeen(tmp_path / "seen.json")
    with VerifierProcess(guessing_nothing) as verifier:
        for start in range(2):
            async with assistant(
                drafter, tmp_path / "a.db", verifier.url, settings=AUTO, modes=MODES, seen=seen
            ) as opened:
                for question in QUESTIONS:
                    heard = await ask(opened, question)
                    assert len(heard.done.token_ids) == 60
                    assert edge_rounds(heard) == 0 and heard.modes[-1] == "hosted"
                learnt = opened.backend.routing.shown.speed.modes.learnt
                assert learnt.drafts == 0, "the server shares the cores, and can draft itself"
                assert start == 0 or learnt.hosted.long_count > 80, "what was learnt before is still known"
    assert (tmp_path / FILE).exists()


async def test_drafts_beside_a_stream_tell_how_well_the_drafter_guesses(
    verifier: VerifierProcess, drafter: Drafter, tmp_path: Path
) -> None:
    settings = Settings(max_tokens=300)
    async with assistant(drafter, tmp_path / "a.db", verifier.url, settings=settings, modes=MODES) as opened:
        await until_connected(opened)
        opened.backend.routing.shown.speed.modes.drafts = (
            False  # One that drafts on the same cores does so as fast as this device.
        )
        assert (await ask(opened, QUESTIONS[0])).modes[-1] == "hosted"
        learnt, asked = opened.backend.routing.shown.speed.modes.learnt, 1
        while learnt.drafts < WATCHED:  # On a busy machine a draft may come after the last word.
            assert (await ask(opened, QUESTIONS[asked % len(QUESTIONS)])).done and asked < 40
            asked += 1
        assert learnt.draft_tokens > DRAFTED * learnt.drafts


def test_what_a_target_accepts_of_a_draft_is_known_when_it_has_said_enough() -> None:
    tree = DraftTree(np.array([5, 6, 7], np.int32), np.array([ROOT, ROOT, 1], np.int16))
    assert agreed(tree, []) is None and agreed(tree, [6]) is None
    assert [agreed(tree, said) for said in ([5], [6, 7], [6, 8], [9])] == [1, 2, 1, 0]
    assert agreed(DraftTree.empty(), []) == 0
