"""Rules about permissions: modes, owners, accounts, and protections that are switched off."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.commands.arguments import Arguments
from app.commands.risk import Kind, Severity
from app.commands.rules.table import Finding, Rule, named
from app.commands.script import SimpleCommand
from app.commands.targets import secret, system_folder, whole_system

NOTICE, WARNING, DANGER = Severity.NOTICE, Severity.WARNING, Severity.DANGER
_RIGHTS = Kind.RIGHTS
_MODE = re.compile(r"^(?:[0-7]{3,5}|[-+=]?[ugoa]*[-+=][rwxXstugo]*(?:,[ugoa]*[-+=][rwxXstugo]*)*)$")
_WORLD_WRITES = re.compile(r"(?:^|,)(?:[ug]*[oa][uga]*)[+=][rxXst]*w")
_SPECIAL = re.compile(r"(?:^|,)[ugoa]*[+=][rwxX]*s")
_GRANTS = re.compile(
    r"(?:^|/)(?:sudoers(?:\.d/.*)?|authorized_keys|passwd|shadow|group|crontab|cron\.\w+/.*|ld\.so\.preload|pam\.d/.*)$"
)
_GROUP_OPTIONS = ("-a", "-d", "-M", "-A")
_ACCOUNT_OPTIONS = ("-G", "--groups", "-g", "--gid", "-s", "--shell", "-d", "--home", "-c", "--comment", "-u", "--uid")
_ADMINS = {"sudo", "wheel", "admin", "root", "docker", "adm", "lxd", "libvirt", "disk"}


def modes(command: SimpleCommand) -> Iterator[Finding]:
    """Modes of chmod: write permission for everybody is worse than for the owner."""
    words = command.words[1:]
    recursive = any(re.fullmatch(r"-[cfv]*R[cfv]*|--recursive", word.value) for word in words)
    rest = [word for word in words if not re.fullmatch(r"-[cfvR]+|--\w[\w-]*(?:=.*)?|--", word.value)]
    if any(word.value.startswith("--reference") for word in words) or not rest or not _MODE.match(rest[0].value):
        return
    mode, files = rest[0].value, tuple(rest[1:])
    what = named(files, command)
    if recursive:
        what += " and everything in it"
    wide = [word for word in files if whole_system(word) or (recursive and system_folder(word))]
    octal = mode.zfill(4) if mode.isdigit() else ""
    if octal and int(octal[-1]) & 2 or _WORLD_WRITES.search(mode):
        severity, sentence = WARNING, f"lets everyone on this device change {what}"
    elif octal and octal[-4] in "24567" and octal[-4] != "0" or _SPECIAL.search(mode):
        severity, sentence = WARNING, f"lets {what} run with the rights of its owner or group, whoever starts it"
    elif octal in ("0000",) or mode in ("a-rwx", "a-r", "a="):
        severity, sentence = WARNING, f"lets nobody read {what}"
    elif any(secret(word) for word in files) and octal and octal[-2:] != "00":
        severity, sentence = WARNING, f"lets others read the secret in {what}"
    else:
        severity, sentence = WARNING if recursive else NOTICE, f"changes who may use {what} (`{mode}`)"
    if recursive and wide:
        severity = DANGER
    yield Finding(severity, sentence, files)


def owners(command: SimpleCommand) -> Iterator[Finding]:
    """Changes of owner or group by chown and chgrp."""
    arguments = Arguments(command.words[1:], ("--from", "--reference"))
    operands = arguments.operands
    by_reference = arguments.has("--reference")
    if len(operands) < (1 if by_reference else 2) and not command.runs_under("xargs", "parallel"):
        return
    files = operands if by_reference else operands[1:]
    recursive = arguments.has("-R", "--recursive")
    what = named(files, command)
    owner = "another owner" if by_reference else f"`{operands[0].value}`" if operands else "another owner"
    sentence = f"gives {what}{' and everything in it' if recursive else ''} to {owner}"
    wide = any(whole_system(word) or system_folder(word) for word in files)
    own_home = all(word.value.startswith(("~", "$HOME", "/home/", "/Users/")) for word in files)
    if recursive and wide and not own_home:
        yield Finding(DANGER, sentence, files)
    else:
        yield Finding(WARNING if recursive else NOTICE, sentence, files)


def grants(command: SimpleCommand) -> Iterator[Finding]:
    """Writing to files that grant permissions: sudoers, authorized_keys."""
    targets = [one.target for one in command.redirections if (one.replaces or one.appends) and one.target is not None]
    if command.program in ("tee", "vi", "vim", "nano", "sed", "cp", "mv", "install", "sponge") and (
        command.program != "sed" or any(word.value.startswith(("-i", "--in-place")) for word in command.words)
    ):
        operands = Arguments(command.words[1:]).operands
        targets += operands[-1:] if command.program in ("cp", "mv", "install", "sed") else operands
    for word in targets:
        if _GRANTS.search(word.value) and (word.value.startswith(("/etc", "/root", "~", "$HOME", "/home", ".ssh"))):
            yield Finding(WARNING, f"changes {named([word])}, which controls permissions on this device", (word,))


def accounts(command: SimpleCommand) -> Iterator[Finding]:
    """usermod, gpasswd and adduser: groups with root's permissions are worse than others."""
    arguments = Arguments(command.words[1:], _GROUP_OPTIONS if command.program == "gpasswd" else _ACCOUNT_OPTIONS)
    words = {part for word in command.words[1:] for part in re.split(r"[,=]", word.value)}
    admin = sorted(words & _ADMINS)
    who = arguments.operands[-1:] or ()
    if command.program in ("adduser", "useradd") and not admin:
        yield Finding(NOTICE, f"creates the account {named(who)}", who)
    elif admin:
        yield Finding(
            WARNING, f"puts an account into the group `{admin[0]}`, which can become root", arguments.operands
        )
    elif (
        command.program == "usermod"
        and arguments.has("-G", "--groups")
        and not arguments.has("-a", "--append", "-r", "--remove")
    ):
        yield Finding(WARNING, f"removes {named(who)} from every group not named", who)
    else:
        yield Finding(NOTICE, f"changes the account {named(who)}", who)


def containers(command: SimpleCommand) -> Iterator[Finding]:
    """`docker run` with the rights of the device's root."""
    words = [word.value for word in command.words[1:]]
    if "run" not in words[:3] and "create" not in words[:3]:
        return
    for number, word in enumerate(words):
        if word in ("--privileged", "--pid=host") or word.endswith("docker.sock:/var/run/docker.sock"):
            yield Finding(WARNING, f"gives the container root privileges on this device (`{word}`)")
            return
        mounts = word in ("-v", "--volume") and words[number + 1 : number + 2]
        if mounts and mounts[0].startswith("/:"):
            yield Finding(WARNING, f"gives the container access to every file on this device (`{mounts[0]}`)")
            return


def quarantine(command: SimpleCommand) -> Iterator[Finding]:
    """`xattr -d com.apple.quarantine`, or without every attribute: macOS no longer asks before the first start."""
    arguments = Arguments(command.words[1:])
    named_ones = any(word.value == "com.apple.quarantine" for word in arguments.operands)
    if arguments.has("-c") or (arguments.has("-d") and named_ones):
        yield Finding(WARNING, "lets an unverified download run", arguments.operands[-1:])


RIGHTS: tuple[Rule, ...] = (
    Rule(_RIGHTS, ("chmod",), modes),
    Rule(_RIGHTS, ("chown", "chgrp"), owners),
    Rule(_RIGHTS, (), grants),
    Rule(_RIGHTS, ("usermod", "useradd", "adduser", "gpasswd"), accounts),
    Rule(_RIGHTS, ("docker", "podman"), containers),
    Rule(_RIGHTS, ("xattr",), quarantine),
)
