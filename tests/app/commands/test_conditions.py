"""Conditions of a question that a command leaves out, if the command can do harm."""

from __future__ import annotations

import pytest

from app.cli.risks import told_risks
from app.commands.conditions import LONGEST, left_out
from app.commands.risk import Kind
from app.commands.risks import risks
from app.prompts import request_of

LEFT_OUT = """
delete all *.log files older than 30 days => find . -mtime +30 -delete => *.log
delete everything in /tmp not touched in the last 3 days => rm -rf /tmp/* => in the last 3 days
wipe old files in book, over 9 weeks => find book -type f -delete => 9 weeks
remove files larger than 100 MB in ~/Downloads => find . -size +100M -delete => in ~/Downloads
empty the log files in /var/log => sudo truncate -s 0 *.log => in /var/log
please delete empty folders => find . -type d -delete => empty folders
delete files without content: zero bytes => find . -type f -delete => zero bytes
kill all processes owned by bob => pkill -9 python => owned by bob
remove all docker images except nginx => docker rmi $(docker images -q) => except nginx
remove node_modules everywhere => find . -type d -prune -exec rm -rf {} + => node_modules
delete all files ending in ~ => rm -rf * => ending in ~
change the owner of all .php files in /var/www to bob => sudo chown -R bob . => .php, in /var/www
"""
MET = """
delete all *.log files older than 30 days => find . -name '*.log' -mtime +30 -delete
delete *.log files older than a month => find . -name '*.log' -mtime +30 -delete
delete .jpg and .png files => rm *.{jpg,png}
delete files that are not older than a week => find . -newermt '7 days ago' -delete
remove files larger than 1.5 GB => find . -size +1536M -delete
empty the trash of files older than four weeks => trash-empty 28
remove the files in /var/log => cd /var/log && rm *
delete everything except the newest file => ls -t | tail -n +2 | xargs rm
delete not only *.log but all files => rm *
rename all .jpeg files to .jpg => for f in *.jpeg; do mv "$f" "${f%.jpeg}.jpg"; done
delete the file in this folder => rm a
"""


def lines(table: str) -> list[list[str]]:
    return [line.split(" => ") for line in table.strip().splitlines()]


@pytest.mark.parametrize(("question", "command", "condition"), lines(LEFT_OUT))
def test_a_condition_that_is_left_out_is_named(question: str, command: str, condition: str) -> None:
    (told,) = left_out(question, command, risks(command))
    assert told.kind is Kind.BROAD and ", ".join(told.words) == condition


@pytest.mark.parametrize(("question", "command"), lines(MET))
def test_one_that_is_met_in_any_way_is_not(question: str, command: str) -> None:
    found = risks(command)
    assert found and left_out(question, command, found) == ()


def test_of_a_question_its_first_paragraph_counts() -> None:
    found = risks("rm -rf build")
    for after in ("\n\ndelete *.log", "\n```\nrm *.log\n```", " " * 1000 + "*.log"):
        assert left_out("delete the folder build" + after, "rm -rf build", found) == ()
    assert left_out(request_of("and only *.log", "delete the files in build"), "rm build/*", risks("rm build/*"))
    assert left_out("list *.log files", "ls -l", risks("ls -l")) == (), "it does no harm"


def test_it_is_a_warning_about_the_answer_that_nobody_can_have_asked_for() -> None:
    answer = "Like this:\n\n```sh\ncd x\nfind . -mtime +7 -delete\n```"
    deletes, broad = told_risks("delete *.log files older than a week", answer)
    assert deletes.risk.kind is Kind.DELETES and broad.asked
    assert broad.command == deletes.command == "find . -mtime +7 -delete"
    assert broad.risk.sentence == "leaves out what your question says: `*.log`"


def test_of_a_question_without_end_only_the_beginning_is_read() -> None:
    found = risks("rm *")
    for part in ("a.", "a_", "in /a", "not only ", ".", "older than ", "except the file "):
        told = left_out(part * 10_000, "rm *", found)
        assert all(len(word) <= LONGEST for one in told for word in one.words)
    assert left_out("a." * 10_000, "rm *", found), "a name of which the beginning is read"


def test_several_blocks_may_meet_it_together() -> None:
    question = "delete the files in build and keep a list of the .o files in out.txt"
    answer = "```sh\nls *.o > out.txt\n```\nThen:\n```sh\nrm -r build\n```"
    assert Kind.BROAD not in {told.risk.kind for told in told_risks(question, answer)}
    for other in (answer.replace("out.txt", "x"), answer.replace("*.o", "")):
        assert Kind.BROAD in {told.risk.kind for told in told_risks(question, other)}
