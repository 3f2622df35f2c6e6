"""Programs that run another program, and which of their words are that program and its arguments.

`sudo -u root rm x` runs `rm x`; `sh -c 'rm x'` runs a script. Sources: the manual pages of sudo, doas, GNU coreutils,
findutils, util-linux, OpenSSH and Docker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
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
    """The command that a wrapper runs: words, or one word that a shell reads as a script."""

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
        not_with=name_set("-l --list -v --validate -K --remove-timestamp -V --version -e --edit"),
    ),
    "doas": Wrapper(name_set("-a -u -C"), not_with=name_set("-C -L")),
    "pkexec": Wrapper(name_set("--user")),
    "run0": Wrapper(name_set("-u --user -g --group -D --chdir --nice --unit --property --setenv")),
    "env": Wrapper(name_set("-u --unset -C --chdir -S --split-string"), assignments=True),
    **dict.fromkeys(
        name_set(
            "nohup builtin noglob nocorrect setsid unbuffer chronic torsocks busybox toybox dbus-run-session"
            " then else do if elif while until and or not begin"  # Words of shells that the grammar takes for programs.
        ),
        Wrapper(),
    ),
    "entr": Wrapper(script=True),
    "repeat": Wrapper(operands=1),
    **dict.fromkeys(("time", "gtime"), Wrapper(name_set("-f --format -o --output"))),
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
    "systemd-run": Wrapper(
        name_set(
            "-u --unit -p --property --slice -E --setenv --uid --gid --on-active --on-boot --on-startup"
            " --on-unit-active --on-unit-inactive --on-calendar --timer-property --description -M --machine -H"
            " --host --nice --service-type --working-directory"
        )
    ),
    "systemd-inhibit": Wrapper(name_set("--what --who --why --mode")),
    "unshare": Wrapper(name_set("-S --setuid -G --setgid -R --root -w --wd")),
    "nsenter": Wrapper(name_set("-t --target -S --setuid -G --setgid")),
    "chroot": Wrapper(name_set("--userspec --groups"), operands=1),
    "arch-chroot": Wrapper(name_set("-u"), operands=1),
    "setpriv": Wrapper(
        name_set(
            "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --ambient-caps --bounding-set --securebits"
            " --pdeathsig --selinux-label --apparmor-profile"
        )
    ),
    "runuser": Wrapper(name_set("-u --user -g --group -G --supp-group")),
    **dict.fromkeys(("gosu", "su-exec", "setuidgid", "s6-setuidgid"), Wrapper(operands=1)),
    "script": Wrapper(
        name_set(
            "-B --log-io -E --echo -I --log-in -m --logging-format -o --output-limit -O --log-out -T --log-timing"
        ),
        operands=1,
    ),
    "sshpass": Wrapper(name_set("-f -d -p -P")),
    "flock": Wrapper(name_set("-w --timeout -E --conflict-exit-code"), operands=1),
    "xargs": Wrapper(
        name_set(
            "-I -n --max-args -P --max-procs -L -d --delimiter -a --arg-file -E -s --max-chars"
            " --process-slot-var -J -R -S"
        )
    ),
    "watch": Wrapper(name_set("-n --interval -q --equexit"), script=True),
    "eval": Wrapper(script=True),
    "ssh": Wrapper(
        name_set("-b -B -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w"), operands=1, script=True, far=True
    ),
    "mosh": Wrapper(name_set("-p --port --ssh --server --predict"), operands=1, far=True),
}
_OF_PARALLEL = name_set(
    "-j --jobs -P --max-procs -a --arg-file -I -n --max-args -N -L -s --max-chars -S --sshlogin -C --colsep -d"
    " --delimiter --joblog --delay --results --retries --timeout --tagstring --wd --workdir --tmpdir --env --nice"
    " --load --memfree"
)
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "docker-compose", "lxc", "kubectl", "oc", "incus"})
_PREFIXES = frozenset({"compose", "container"})
_BEFORE_EXEC = name_set(
    "-n --namespace --context --kubeconfig --cluster --user -s --server -H --host --config -l --log-level"
    " -f --file -p --project-name --project-directory --profile --env-file --connection --url"
)
"""Options of these programs, before `exec`, that take the next word."""


def inner_commands(words: Sequence[Word]) -> Iterator[Inner]:
    """Yield what the command made of these words would run, one level down."""
    program = words[0].value.rpartition("/")[2]
    if program in SHELLS:
        yield from _scripts(words)
    elif program in ("su", "script", "runuser") and (script := _option_value(_COMMAND, words)) is not None:
        yield Inner(script=script)
    elif program == "runuser" and not any(word.value.startswith(("-u", "--user")) for word in _leading_options(words)):
        return
    elif program == "alias":
        yield from _aliases(words)
    elif program == "coproc":
        block = next((number for number, word in enumerate(words[:3]) if word.value == "{"), 0)
        if words[block + 1 :]:
            yield Inner(tuple(words[block + 1 :]))
    elif program == "git" and [word.value for word in words[1:3]] == ["submodule", "foreach"]:
        if rest := words[after_options(words, 3, ()) :]:
            yield Inner(script=_joined(rest))
    elif program in ("parallel", "sem"):
        yield from _in_parallel(words)
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
        if words[0].value.endswith("env") and (split := _option_value(_SPLIT, words[:at])) is not None:
            yield Inner(script=_joined([split, *words[at:]]))
            return
        while at < len(words) and (words[at].value == "-" or "=" in words[at].value[1:]):
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


def _option_value(option: re.Pattern[str], words: Sequence[Word]) -> Word | None:
    """The value of an option, which is the only group of the pattern or the next word."""
    for number, word in enumerate(words[1:], start=1):
        if (found := option.fullmatch(word.value)) is not None:
            text = found["value"]
            return Word(text, word.span, word.plain) if text else next(iter(words[number + 1 :]), None)
    return None


_SPLIT = re.compile(r"(?:-[iv0]*S|--split-string=?)(?P<value>.*)", re.DOTALL)
_COMMAND = re.compile(r"(?:-[aeflmpPq]*c|--command=?)(?P<value>.*)", re.DOTALL)


def _joined(words: Sequence[Word]) -> Word:
    """Words that a shell reads as one script."""
    if len(words) == 1:
        return words[0]
    span = (words[0].span[0], words[-1].span[1])
    return Word(" ".join(word.value for word in words), span, all(word.plain for word in words))


def _scripts(words: Sequence[Word]) -> Iterator[Inner]:
    """The script after `-c` of a shell, whose letter may be one of several: `bash -lc '…'`."""
    for number, word in enumerate(words[1:-1], start=1):
        option = word.value
        if option == "--":
            return
        if option.startswith("-") and not option.startswith("--") and "c" in option[1:]:
            script = next((one for one in words[number + 1 :] if not one.value.startswith("-")), None)
            if script is not None:
                yield Inner(script=script)
            return


def _aliases(words: Sequence[Word]) -> Iterator[Inner]:
    """`alias name='command'`, or `alias name 'command'` in fish."""
    given = [word for word in words[1:] if not word.value.startswith("-")]
    if len(given) > 1 and "=" not in given[0].value:
        yield Inner(script=_joined(given[1:]))
        return
    for word in given:
        name, _, value = word.value.partition("=")
        if value.strip():
            place = None if word.verbatim is None else word.verbatim + len(name) + 1
            yield Inner(script=Word(value, word.span, word.plain, verbatim=place))


def _in_parallel(words: Sequence[Word]) -> Iterator[Inner]:
    """`parallel rm {} ::: a b`. Without a command, its arguments are commands."""
    rest = words[after_options(words, 1, _OF_PARALLEL) :]
    cut = next((number for number, word in enumerate(rest) if word.value.startswith(":::")), len(rest))
    command = rest[:cut]
    listed = rest[cut : cut + 1] and rest[cut].value in (":::", ":::+")
    values = [word for word in rest[cut + 1 :] if not word.value.startswith(":::")] if listed else []
    if not command:
        yield from (Inner(script=value) for value in values)
    elif len(command) == 1 and " " in command[0].value:
        before, place, behind = command[0].value.partition("{}")
        if values and place:
            text = f"{before}{_joined(values).value}{behind}"
            command, values = [replace(command[0], value=text, verbatim=None)], []
        yield Inner(script=_joined([*command, *values]))
    else:
        at = next((number for number, word in enumerate(command) if "{" in word.value), len(command))
        after = at + 1 if values and at < len(command) and command[at].value == "{}" else at
        yield Inner((*command[:at], *values, *command[after:]))


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
    at = after_options(words, 1, _BEFORE_EXEC)
    while at < len(words) and words[at].value in _PREFIXES:
        at = after_options(words, at + 1, _BEFORE_EXEC)
    if at >= len(words) or words[at].value not in ("exec", "run"):
        return
    clustered = program in ("kubectl", "oc", "lxc", "incus")
    dashes = next((number for number, word in enumerate(words) if word.value == "--"), None) if clustered else None
    if dashes is not None:
        after = dashes + 1
    else:
        valued = _OF_POD if clustered else _DOCKER_VALUED
        after = after_options(words, at + 1, valued) + 1
        after = after_options(words, after, valued) if clustered else after
    entry = _option_value(_ENTRYPOINT, words[at:after]) if words[at].value == "run" else None
    inner = (entry, *words[after:]) if entry is not None and entry.value else tuple(words[after:])
    if inner:
        yield Inner(inner, far=True)


_OF_POD = name_set("-c --container -n --namespace --image --env --user --cwd --mode")
_ENTRYPOINT = re.compile(r"--entrypoint=?(?P<value>.*)", re.DOTALL)
