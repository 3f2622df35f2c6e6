"""What a question asks for: a risk that it does not ask for is told apart."""

from __future__ import annotations

import pytest

from app.commands.requests import unasked
from app.commands.risk import Kind
from app.commands.risks import risks

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
