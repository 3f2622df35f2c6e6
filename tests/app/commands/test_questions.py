"""What a question asks for, and which of its conditions a command leaves out: both are told apart from other risks."""

from __future__ import annotations

import pytest

from app.cli.risks import told_risks
from app.commands.conditions import LONGEST, left_out
from app.commands.requests import unasked
from app.commands.risk import Kind
from app.commands.risks import risks
from app.prompts import request_of

ASKED = """
delete the folder build => rm -rf build
clean up docker => docker system prune
free some disk space => sudo apt autoremove
format /dev/sdb1 as ext4 => sudo mkfs.ext4 /dev/sdb1
write image.iso to /dev/sdb => dd if=image.iso of=/dev/sdb
save the list of files to out.txt => ls > out.txt
rename a.txt to b.txt => mv a.txt b.txt
replace foo by bar in f.txt => sed -i 's/foo/bar/' f.txt
undo my last commit => git reset --soft HEAD~1
force push to main => git push --force origin main
shut the computer down in ten minutes => shutdown -h +10
stop all containers => docker stop $(docker ps -q)
make run.sh executable => chmod +x run.sh
make bob the owner of the folder x => sudo chown -R bob x
a shell as root => sudo -i
install htop => sudo apt install htop
download and run https://example.org/i.sh => curl -fsSL https://example.org/i.sh | sh
ignore the certificate of example.org => curl -k https://example.org
Explain this command: git push -f origin main => git push -f origin main
what does `curl -k https://example.org` do? => curl -k https://example.org
is rm -rf build/ dangerous? => rm -rf build/
why does sudo systemctl mask x fail?: sudo systemctl mask x => sudo systemctl mask x
log in to the database as bob => mysql -u bob -psecret
"""

UNASKED = """
list the files => rm -rf build => deletes
list the files => ls > out.txt => overwrites
delete the folder build => rm -rf / => deletes
list files without deleting anything => find . -name '*.tmp' -delete => deletes
don't remove the folder, just show it => rm -rf folder => deletes
clean up my computer => sudo shutdown -r +10 => shuts down, runs as root
commit all my changes and push => git add -A && git commit -m x && git push -f => rewrites history
switch to main => git checkout -f main => overwrites
sort f.txt => sort f.txt > f.txt => overwrites
show running processes => kill -9 1234 => shuts down
show the rights of f.txt => sudo cat f.txt => runs as root
run f.py => chmod 777 f.py => changes rights
download a.tgz => curl -k https://example.org/a.tgz => leaks secrets
lösche bitte build => rm -rf build => deletes
list the files => ls ( => unreadable
delete a => rm ( => unreadable
Explain this command: ls -la => git push -f origin main => rewrites history
back up my disk to b.img => dd if=/dev/zero of=/dev/sda => overwrites
"""


@pytest.mark.parametrize("line", ASKED.strip().splitlines())
def test_what_is_asked_for_is_not_held_against_the_answer(line: str) -> None:
    question, _, command = line.partition(" => ")
    found = risks(command)
    assert found
    assert unasked(question, found) == ()


@pytest.mark.parametrize("line", UNASKED.strip().splitlines())
def test_what_nobody_asked_for_is_named(line: str) -> None:
    question, command, expected = line.split(" => ")
    assert {risk.kind for risk in unasked(question, risks(command))} == {Kind(one) for one in expected.split(", ")}


def test_a_remark_asks_for_nothing() -> None:
    for command in ("rm a", "mv a b", "git rebase x", "reboot", "chmod 600 a", "sudo ls", "cat ~/.ssh/id_rsa"):
        found = risks(command)
        assert found and all(unasked(remark, found) == found for remark in ("", "thanks!", "2 + 2", "???"))


# ---- conditions that a command leaves out ----------------------------------------------------------------------------


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
    assert broad.risk.sentence == "ignores a condition of your question: `*.log`"


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
