"""Texts that are made to hide something or to cost time: every answer of a model may be one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.commands.blocks import shell_blocks
from app.commands.known import unknown_programs
from app.commands.requests import unasked
from app.commands.risk import Kind, Severity
from app.commands.risks import answer_risks, risks
from app.commands.syntax import LONGEST, masked, parse

PIECES = st.sampled_from(
    r"""
    rm -rf / ~ * a sudo xargs sh -c ' " ` $( ) ( { } [ ] [[ ]] ; | || & && > >> < << <<< <( >( \ $ ${ # ! = : x=1 $x é
    for in do done if then fi case esac while function f() find -exec {} + -delete curl sh dd of=/dev/sda 2>&1 <a> {{b}}
    -- --force git push eval echo $'\x72 <<END END
    """.strip().split()
)
TEXTS = st.lists(st.one_of(PIECES, st.sampled_from([" ", "\n", "\t", ""]))).map(
    lambda pieces: "".join(piece if piece.isspace() else f"{piece} " for piece in pieces)
)

STATEMENTS = [
    "true && { COMMAND; }",
    "if true; then COMMAND; fi",
    "( COMMAND )",
    'echo "$(COMMAND)"',
    "x=$(COMMAND)",
    "f() { COMMAND; }",
    "for i in 1 2; do COMMAND; done",
    "ls | while read -r line; do COMMAND; done",
    "case $x in\na) COMMAND ;;\nesac",
    "cat <<END | bash\nCOMMAND\nEND\n",
]
"""Texts that hold a command in the place of `COMMAND`."""


@given(st.one_of(TEXTS, st.text()))
@settings(max_examples=300, deadline=None)
def test_any_text_has_an_answer_whose_places_are_in_it(text: str) -> None:
    for risk in risks(text):
        assert 0 <= risk.span[0] <= risk.span[1] <= len(text)
        assert risk.sentence and "\n" not in risk.sentence
    assert len(masked(text)) == len(text)
    assert set(unasked(text, risks(text))) <= set(risks(text))
    unknown_programs(text, parse(text), lambda name: False, path="")


@given(TEXTS, st.sampled_from(["", "sh", "console", "python"]), st.sampled_from(["", "> ", "- ", "1. ", "\t"]))
@settings(max_examples=200, deadline=None)
def test_any_answer_has_blocks_whose_places_are_in_it(text: str, language: str, mark: str) -> None:
    lines = [f"```{language}", *text.splitlines(), "```"]
    answer = "Text.\n\n" + "\n".join(mark + line for line in lines)
    for block in shell_blocks(answer):
        for number, (inside, outside) in enumerate(block.lines):
            line = block.command.split("\n")[number]
            assert block.command[inside : inside + len(line)] == line
            assert answer[outside : outside + len(line)] == line or "\t" in answer
    for risk in answer_risks(answer):
        assert 0 <= risk.span[0] <= risk.span[1] <= len(answer)


@given(st.sampled_from(["rm -rf /", "dd if=a of=/dev/sda", "mkfs.ext4 /dev/sda", "chmod -R 777 /"]), st.data())
@settings(max_examples=100, deadline=None)
def test_wrapping_hides_no_danger(command: str, data: st.DataObject) -> None:
    for wrapper in data.draw(
        st.lists(st.sampled_from(["sudo {}", "nohup {}", "env A=1 {}", "nice -n 5 {}"]), max_size=2)
    ):
        command = wrapper.format(command)
    for wrapper in data.draw(st.lists(st.sampled_from(STATEMENTS), max_size=4)):
        command = wrapper.replace("COMMAND", command)
    assert Severity.DANGER in {risk.severity for risk in risks(command)} or parse(command).unreadable


HEAVY = {
    "brackets": "$(" * 3000, "closed brackets": "$(" * 300 + "rm x" + ")" * 300, "quotes": '"$(' * 2000,
    "redirections": "> a " * 4900, "heredocs": "<<E " * 4900, "groups": "{ " * 3900 + "rm x" + "; }" * 3900,
    "pipes": "a | " * 4000 + "b", "lists": "a && " * 3500 + "rm x", "lines": "rm x\n" * 3900,
    "wrappers": "sudo " * 3900 + "rm x", "scripts": "eval " * 3900 + "rm x", "placeholders": "{{" * 9900,
    "backslashes": "\\" * 19_000, "one word": "rm " + "a" * 19_000, "expansions": "${a:-" * 3900,
    "errors": ") ( ' " * 3000,
    "readers": "echo " + "a " * 8000 + "| sh -c '" + "bash;" * 480 + "'",
}  # fmt: skip


@pytest.mark.parametrize("text", HEAVY.values(), ids=HEAVY)
def test_heavy_texts_are_read_or_refused(text: str) -> None:
    """They end, within the stack that Python has."""
    assert len(text) <= LONGEST
    assert all(0 <= risk.span[0] <= risk.span[1] <= len(text) for risk in risks(text))


def test_a_long_list_is_read_to_its_end() -> None:
    """A list is a deep tree, but no deep nesting."""
    assert [risk.kind for risk in risks("true && " * 300 + "rm x")] == [Kind.DELETES]


def test_scripts_in_scripts_end_with_a_remark() -> None:
    text = "rm x"
    for _ in range(8):
        text = "sh -c " + "'" + text.replace("'", "'\\''") + "'"
    assert Kind.UNREADABLE in {risk.kind for risk in risks(text)}
