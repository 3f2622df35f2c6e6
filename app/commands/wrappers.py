"""Programs that run another program, and which of their words are that program and its arguments.

`sudo -u root rm x` runs `rm x`; `sh -c 'rm x'` runs a script. Sources: the manual pages of sudo, doas, GNU coreutils,
findutils, util-linux, OpenSSH and Docker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.commands.script import Word, name_set

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish"})


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The structure of a wrapper's arguments: options with a value, then operands, then the command that it runs."""

    valued: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False
    script: bool = False
    """Whether the words are joined and read by a shell."""
    far: bool = False
    not_with: frozenset[str] = frozenset()
    """Options with which it runs nothing."""


@dataclass(frozen=True, slots=True)
class Inner:
    """What a wrapper runs: words, or one word that a shell reads as a script."""

    words: tuple[Word, ...] = ()
    script: Word | None = None
    far: bool = False


class HasValue(Protocol):
    """A word of a command line."""

    @property
    def value(self) -> str: ...


_DOCKER_VALUED = name_set(
    "-e --env --env-file -u --user -w --workdir -v --volume -p --publish --name --network --net -h --hostname"
    " --entrypoint -m --memory --mount -l --label --restart --platform --cpus --gpus --add-host --device --ulimit"
    " --shm-size --ip --dns --cap-add --cap-drop --pid --ipc --tmpfs --security-opt --runtime --log-driver --index"
)
WRAPPERS: dict[str, Wrapper] = {
    "sudo": Wrapper(
        name_set(
            "-u --user -g --group -p --prompt -h --host -C --close-from -D --chdir -R --chroot -r --role -t --type"
            " -T --command-timeout -U --other-user"
        ),
        assignments=True,
        not_with=name_set("-l --list -v --validate -k -K --remove-timestamp -V --version -e --edit"),
    ),
    "doas": Wrapper(name_set("-u -C"), not_with=name_set("-C -L")),
    "pkexec": Wrapper(name_set("--user")),
    "run0": Wrapper(name_set("-u --user -g --group -D --chdir --nice --unit --property --setenv")),
    "env": Wrapper(name_set("-u --unset -C --chdir -S --split-string"), assignments=True),
    **dict.fromkeys(
        name_set(
            "nohup builtin noglob nocorrect setsid unbuffer chronic torsocks busybox toybox entr"
            " then else do if elif while until"  # Words of the shell, where the grammar takes them for programs.
        ),
        Wrapper(),
    ),
    "time": Wrapper(name_set("-f --format -o --output")),
    "command": Wrapper(not_with=name_set("-v -V")),
    "exec": Wrapper(name_set("-a")),
    "nice": Wrapper(name_set("-n --adjustment")),
    "ionice": Wrapper(name_set("-c --class -n --classdata -p --pid -P --pgid")),
    "chrt": Wrapper(name_set("-p --pid -T -P -D"), operands=1),
    "taskset": Wrapper(operands=1, not_with=name_set("-p --pid")),
    **dict.fromkeys(("timeout", "gtimeout"), Wrapper(name_set("-k --kill-after -s --signal"), operands=1)),
    "stdbuf": Wrapper(name_set("-i --input -o --output -e --error")),
    "caffeinate": Wrapper(name_set("-t -w")),
    "fakeroot": Wrapper(name_set("-l -s -i -b")),
    **dict.fromkeys(("proxychains", "proxychains4"), Wrapper(name_set("-f"))),
    "strace": Wrapper(name_set("-e -o -p -s -u -E -I -a -b -O -S -P -X")),
    "ltrace": Wrapper(name_set("-e -o -p -s -u -a -n -l -x")),
    "systemd-run": Wrapper(name_set("--unit -p --property --slice -E --setenv --uid --gid --on-active --on-calendar")),
    "systemd-inhibit": Wrapper(name_set("--what --who --why --mode")),
    "unshare": Wrapper(name_set("-S --setuid -G --setgid -R --root -w --wd")),
    "nsenter": Wrapper(name_set("-t --target -S --setuid -G --setgid")),
    "chroot": Wrapper(name_set("--userspec --groups"), operands=1),
    "arch-chroot": Wrapper(name_set("-u"), operands=1),
    "flock": Wrapper(name_set("-w --timeout -E --conflict-exit-code"), operands=1),
    "xargs": Wrapper(
        name_set(
            "-I -i -n --max-args -P --max-procs -L --max-lines -d --delimiter -a --arg-file -E -s --max-chars"
            " --process-slot-var -J -R -S"
        )
    ),
    "parallel": Wrapper(
        name_set(
            "-j --jobs -a --arg-file -I -n --max-args -N -S --sshlogin -C --colsep -d --delimiter --joblog --delay"
        ),
        script=True,
    ),
    "watch": Wrapper(name_set("-n --interval -q --equexit"), script=True),
    "eval": Wrapper(script=True),
    "ssh": Wrapper(
        name_set("-b -B -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w"), operands=1, script=True, far=True
    ),
    "mosh": Wrapper(name_set("-p --port --ssh --server --predict"), operands=1, far=True),
}
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "docker-compose", "lxc", "kubectl", "oc", "incus"})
_PREFIXES = frozenset({"compose", "container"})


def inner_commands(words: Sequence[Word]) -> Iterator[Inner]:
    """Yield what the command made of these words would run, one level down."""
    program = words[0].value.rpartition("/")[2]
    if program in SHELLS:
        yield from _scripts(words, short="c")
    elif program in ("su", "script", "runuser"):
        yield from _scripts(words, short="c", long="--command")
    elif program in ("find", "gfind"):
        yield from _each_found(words, ("-exec", "-execdir", "-ok", "-okdir"))
    elif program in ("fd", "fdfind"):
        yield from _each_found(words, ("-x", "--exec", "-X", "--exec-batch"))
    elif program == "trap":
        if len(words) > 2 and not words[1].value.startswith("-"):
            yield Inner(script=words[1])
    elif program in _CONTAINERS:
        yield from _in_container(program, words)
    elif (wrapper := WRAPPERS.get(program)) is not None:
        yield from _wrapped(wrapper, words)


def _wrapped(wrapper: Wrapper, words: Sequence[Word]) -> Iterator[Inner]:
    if any(word.value in wrapper.not_with for word in _leading_options(words)):
        return
    at = after_options(words, 1, wrapper.valued)
    if wrapper.assignments:
        if words[0].value.endswith("env") and (split := _value(words, "-S", "--split-string")) is not None:
            yield Inner(script=split)
        while at < len(words) and "=" in words[at].value and not words[at].value.startswith("="):
            at += 1
    if wrapper.operands:  # Options may also come after the host or the file.
        at = after_options(words, at + wrapper.operands, wrapper.valued)
    rest = tuple(words[at:])
    if not rest:
        return
    if (wrapper.script or words[at - 1].value in ("-c", "--command")) and len(rest) == 1:
        yield Inner(script=rest[0], far=wrapper.far)
    else:
        yield Inner(rest, far=wrapper.far)


def _leading_options(words: Sequence[Word]) -> Iterator[Word]:
    for word in words[1:]:
        if not word.value.startswith("-"):
            return
        yield word


def after_options(words: Sequence[HasValue], at: int, valued: Collection[str]) -> int:
    """The index of the first word from `at` that is neither an option nor an option's value."""
    while at < len(words):
        word = words[at].value
        if word == "--":
            return at + 1
        if not word.startswith("-") or word == "-":
            return at
        bundle = not word.startswith("--") and len(word) > 2
        takes_next = (
            f"-{word[-1]}" in valued and not any(f"-{c}" in valued for c in word[1:-1]) if bundle else word in valued
        )
        at += 2 if takes_next else 1
    return at


def _value(words: Sequence[Word], *names: str) -> Word | None:
    for number, word in enumerate(words[:-1]):
        if word.value in names:
            return words[number + 1]
    return None


def _scripts(words: Sequence[Word], short: str, long: str = "") -> Iterator[Inner]:
    """The script after `-c`, whose letter may be one of several: `bash -lc '…'`."""
    for number, word in enumerate(words[1:-1], start=1):
        option = word.value
        if option == "--":
            return
        if option == long or (option.startswith("-") and not option.startswith("--") and short in option[1:]):
            script = next((one for one in words[number + 1 :] if not one.value.startswith("-")), None)
            if script is not None:
                yield Inner(script=script)
            return
        if option.startswith(f"{long}=") and long:
            yield Inner(script=Word(option.partition("=")[2], word.span, word.plain))


def _each_found(words: Sequence[Word], options: Collection[str]) -> Iterator[Inner]:
    at = 1
    while at < len(words):
        if words[at].value not in options:
            at += 1
            continue
        end = at + 1
        while end < len(words) and words[end].value != ";":
            # `+` ends it only after `{}`; elsewhere it is a word of the command.
            if words[end].value == "+" and words[end - 1].value == "{}":
                break
            end += 1
        if end > at + 1:
            yield Inner(tuple(words[at + 1 : end]))
        at = end + 1


def _in_container(program: str, words: Sequence[Word]) -> Iterator[Inner]:
    """`docker exec NAME command`, `docker run IMAGE command`, `kubectl exec POD -- command`."""
    at = 1
    while at < len(words) and (words[at].value in _PREFIXES or words[at].value.startswith("-")):
        at += 1
    if at >= len(words) or words[at].value not in ("exec", "run"):
        return
    if program in ("kubectl", "oc", "lxc", "incus"):
        after = next((number + 1 for number, word in enumerate(words) if word.value == "--"), None)
    else:
        after = after_options(words, at + 1, _DOCKER_VALUED) + 1
    if after is not None and words[after:]:
        yield Inner(tuple(words[after:]), far=True)
