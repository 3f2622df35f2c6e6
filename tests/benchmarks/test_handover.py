"""The hand-over to the drafter alone is timed where a connection ends and where a line falls silent."""

from __future__ import annotations

import json

from benchmarks.handover import main


def test_each_fault_has_rows_of_its_own_in_one_file(tiny_pair, tmp_path):
    out = tmp_path / "handover.json"
    pair = [f"--target={tiny_pair / 'target'}", f"--drafter={tiny_pair / 'drafter'}", "--repeats=1", f"--json={out}"]
    main(pair)
    main([*pair, "--fault=silence"])
    killed, silent = json.loads(out.read_text())["rows"]
    assert (killed["fault"], killed["line"], silent["fault"]) == ("kill", "loopback", "silence")
    # Seconds are of a word that was drafted alone. By the end it may be checked: the app starts its server again.
    assert killed["seconds"] > 0 and killed["verified"] > 0
    assert silent["seconds"] > 0.5, "only a deadline tells of silence, and that is half a second at least"
    assert killed["next_verified"] and silent["next_verified"]
    main([*pair, "--fault=silence"])
    assert len(json.loads(out.read_text())["rows"]) == 2, "measured again, and not added"
