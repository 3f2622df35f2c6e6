"""Rules about what is deleted: files, disks, packages, containers, databases, clouds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.commands.arguments import Arguments
from app.commands.risk import Kind, Severity
from app.commands.rules.table import Finding, Row, Rule, fed, named, rules
from app.commands.script import SimpleCommand
from app.commands.targets import disk, empty_variable, system_folder, whole_system

NOTICE, WARNING, DANGER = Severity.NOTICE, Severity.WARNING, Severity.DANGER
_FIND_TESTS = re.compile(
    r"-(?:i?name|i?path|i?wholename|i?regex|size|empty|[acm]time|[acm]min|newer\w*|user|group|perm|uid|gid|inum|samefile|links"
    r"|nouser|nogroup)"
)
_INLINE = re.compile(
    r"\b(?:rmtree|os\.(?:remove|unlink|rmdir)|unlink|rm_rf|FileUtils\.rm\w*|rmSync|rmdirSync|unlinkSync)\b"
)
_SQL = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|index|view|user|role|collection|column)|truncate\s+(?:table\s+)?\w"
    r"|delete\s+from\s+[\w.\"`]+\s*(?:;|$)|dropDatabase|flushall|flushdb|alter\s+table\s+\S+\s+drop)",
    re.IGNORECASE,
)


def removal(command: SimpleCommand) -> Iterator[Finding]:
    """rm: more words the more it takes along."""
    arguments = Arguments(command.words[1:])
    operands = arguments.operands
    if arguments.has("--help", "--version") or not (operands or fed(command)):
        return
    recursive = arguments.has("-r", "-R", "--recursive")
    what = named(operands, command)
    sentence = f"deletes {what}"
    if recursive:
        sentence += (
            " and everything in it"
            if len(operands) == 1 and not operands[0].pattern
            else ", folders with everything in them"
        )
    wide = [word for word in operands if whole_system(word) or system_folder(word)]
    if recursive and any(word.value in ("*", ".", "./", "./*", "..", "../") for word in operands):
        sentence += ": the whole folder"
    empty = next((name for word in operands if recursive and (name := empty_variable(word))), None)
    severity = WARNING
    if arguments.has("-i", "-I", "--interactive") and not arguments.has("-f", "--force"):
        sentence, severity = f"{sentence}, after a question", NOTICE
    elif arguments.has("-f", "--force"):
        sentence += ", without a question"
    if empty:
        sentence += f"; if `{empty}` is empty, it deletes everything on this device"
    all_of_it = (recursive and wide) or any(word.pattern and whole_system(word) for word in operands)
    if all_of_it or any(disk(word) for word in operands) or arguments.has("--no-preserve-root"):
        severity = DANGER
    yield Finding(severity, sentence, operands)


def search(command: SimpleCommand) -> Iterator[Finding]:
    """`find -delete`."""
    words = command.words[1:]
    if not any(word.value == "-delete" for word in words):
        return
    starts = []
    for word in words:
        if word.value[:1] in ("-", "(", "!"):
            if word.value not in ("-H", "-L", "-P"):
                break
            continue
        starts.append(word)
    limited = any(_FIND_TESTS.fullmatch(word.value) for word in words)
    wide = not starts or any(whole_system(word) or system_folder(word) for word in starts)
    where = named(starts) if starts else "this folder"
    first = next((number for number, word in enumerate(words) if word.value == "-delete"), 0)
    tested = any(_FIND_TESTS.fullmatch(word.value) for word in words[:first])
    if not tested:
        advice = "; the tests after `-delete` come too late" if limited else ""
        yield Finding(DANGER if wide and starts else WARNING, f"deletes everything in {where}{advice}", tuple(starts))
    else:
        yield Finding(WARNING, f"deletes every file that it finds in {where}", tuple(starts))


def inline_code(command: SimpleCommand) -> Iterator[Finding]:
    """Code of another language in the command itself, which deletes files."""
    for word in command.words[1:]:
        if _INLINE.search(word.value):
            yield Finding(WARNING, f"deletes files, in the code that `{command.program}` gets")
            return


def statements(command: SimpleCommand) -> Iterator[Finding]:
    """SQL in the words of a database's client, or in the text that it reads."""
    texts = [*command.words[1:], *command.documents]
    for feeder in command.feeders[-1:]:
        if feeder.program in ("echo", "printf"):
            texts += feeder.words[1:]
    for word in texts:
        if (match := _SQL.search(word.value)) is not None:
            yield Finding(WARNING, f"deletes from a database: `{' '.join(match.group().split())}`", (word,))
            return


def disks(command: SimpleCommand) -> Iterator[Finding]:
    """Programs that make a file system, or change what is where on a disk."""
    arguments = Arguments(
        command.words[1:],
        frozenset(["-t", "-L", "-n", "-U", "-b", "-s", "-F", "-c"]) if "mkfs" in command.program else (),
    )
    if arguments.has("-l", "--list", "--help", "--version", "-N", "--dry-run") or "print" in (
        word.value for word in arguments.operands
    ):
        return
    devices = tuple(word for word in arguments.operands if word.value.startswith(("/", "<", "{{", "$", "disk")))
    if devices:
        yield Finding(DANGER, f"erases what is on {named(devices)}", devices)


def emptied(command: SimpleCommand) -> Iterator[Finding]:
    """truncate: makes files shorter."""
    arguments = Arguments(command.words[1:], ("-s", "--size", "-r", "--reference"))
    size = arguments.value("-s", "--size")
    if arguments.operands and (size is None or not size.value.startswith(("+", ">"))):
        what = named(arguments.operands, command)
        sentence = f"empties {what}" if size is not None and size.value == "0" else f"cuts off what is in {what}"
        yield Finding(WARNING, sentence, arguments.operands)


def into_nothing(command: SimpleCommand) -> Iterator[Finding]:
    """`mv x /dev/null`, and the options of archivers and of rsync that delete."""
    arguments = Arguments(command.words[1:])
    operands = arguments.operands
    if command.program == "mv" and len(operands) > 1 and operands[-1].value == "/dev/null":
        yield Finding(
            WARNING, f"deletes {named(operands[:-1], command)}: nothing comes back from /dev/null", operands[:-1]
        )
    elif command.program in ("tar", "bsdtar") and arguments.has("--remove-files"):
        yield Finding(WARNING, "deletes the files when they are in the archive")
    elif command.program == "rsync" and not arguments.has("-n", "--dry-run", "--list-only"):
        if any(name.startswith("--del") for name in arguments.names):
            yield Finding(
                WARNING, f"deletes in {named(operands[-1:]) or 'the target'} what is not in the source", operands[-1:]
            )
        if arguments.has("--remove-source-files"):
            yield Finding(WARNING, f"deletes {named(operands[:-1])} after the copy", operands[:-1])


_D = Kind.DELETES
_DISK_TOOLS = (
    "mkfs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.exfat mkfs.ntfs mke2fs mkswap"
    " wipefs fdisk gdisk sgdisk sfdisk cfdisk parted blkdiscard newfs newfs_apfs"
)
_DATABASES = "mysql mariadb psql sqlite3 sqlcmd mongo mongosh redis-cli clickhouse-client"
DELETIONS: tuple[Rule, ...] = (
    Rule(_D, ("rm", "grm", "srm"), removal),
    Rule(_D, ("find", "gfind"), search),
    Rule(_D, ("python", "python3", "perl", "ruby", "node", "php"), inline_code),
    Rule(_D, tuple(_DATABASES.split()), statements),
    Rule(_D, tuple(_DISK_TOOLS.split()), disks),
    Rule(_D, ("truncate",), emptied),
    Rule(_D, ("mv", "tar", "bsdtar", "rsync"), into_nothing),
    *rules(
        # Files.
        Row(_D, NOTICE, "rmdir", "deletes the empty folder {what}", operands=True),
        Row(
            _D, WARNING, "shred|wipe", "overwrites {what} so that nobody can restore it", operands=True, valued="-n -s"
        ),
        Row(_D, WARNING, "unlink", "deletes {what}", operands=True),
        Row(_D, NOTICE, "trash|trash-put|rmtrash", "moves {what} to the trash", operands=True),
        Row(_D, WARNING, "trash-empty", "deletes what is in the trash"),
        Row(_D, NOTICE, "gio trash", "moves {what} to the trash", without="--list --restore"),
        Row(_D, WARNING, "gio remove", "deletes {what}", operands=True),
        Row(_D, WARNING, "zip", "deletes the files when they are in the archive", options="-m --move"),
        Row(_D, WARNING, "7z|7za d", "deletes from the archive {what}"),
        Row(_D, WARNING, "crontab", "deletes all your timed jobs", options="-r"),
        Row(_D, WARNING, "journalctl", "deletes old logs", options="--vacuum-time --vacuum-size --vacuum-files"),
        Row(
            _D,
            WARNING,
            "fdupes|jdupes|rdfind",
            "deletes files that have the same content",
            options="-d --delete -deleteduplicates",
        ),
        # Git's files. Its history has rules of its own.
        Row(
            _D,
            WARNING,
            "git clean",
            "deletes the files that git does not track",
            options="-f --force",
            without="-n --dry-run",
        ),
        Row(
            _D,
            WARNING,
            "git rm",
            "deletes {what} here and from the next commit",
            without="--cached -n --dry-run",
            operands=True,
        ),
        Row(_D, NOTICE, "git worktree remove", "deletes the worktree {what}"),
        Row(_D, WARNING, "gh repo delete", "deletes the repository {what} on GitHub"),
        Row(_D, WARNING, "gh release|gist|issue|secret|run delete", "deletes {what} on GitHub"),
        # Containers.
        Row(
            _D,
            NOTICE,
            "docker|podman|nerdctl rm",
            "deletes the container {what}",
            without="-v --volumes",
            operands=True,
        ),
        Row(
            _D,
            WARNING,
            "docker|podman|nerdctl rm",
            "deletes the container {what} and its volumes",
            options="-v --volumes",
        ),
        Row(_D, NOTICE, "docker|podman|nerdctl rmi", "deletes the image {what}", operands=True),
        Row(
            _D,
            NOTICE,
            "docker|podman|nerdctl container|image|network|builder|buildx rm|prune",
            "deletes containers, images or caches: {what}",
            unnamed="all that nothing uses",
        ),
        Row(
            _D,
            WARNING,
            "docker|podman|nerdctl volume rm|prune",
            "deletes the data in volumes: {what}",
            unnamed="all that nothing uses",
        ),
        Row(
            _D,
            WARNING,
            "docker|podman|nerdctl system prune",
            "deletes every container that is stopped, and images that nothing uses",
            without="--volumes",
        ),
        Row(
            _D,
            WARNING,
            "docker|podman|nerdctl system prune",
            "deletes containers, images and the data in volumes that nothing uses",
            options="--volumes",
        ),
        Row(
            _D,
            WARNING,
            "docker|podman|nerdctl compose down",
            "deletes the containers and the data in their volumes",
            options="-v --volumes",
        ),
        Row(
            _D,
            WARNING,
            "docker-compose down",
            "deletes the containers and the data in their volumes",
            options="-v --volumes",
        ),
        Row(
            _D,
            WARNING,
            "kubectl|oc delete",
            "deletes {what} in the cluster",
            without="--dry-run",
            unnamed="what the file names",
        ),
        Row(_D, WARNING, "helm uninstall|delete", "deletes the release {what}"),
        # Clouds and virtual machines.
        Row(_D, DANGER, "terraform|tofu destroy", "deletes everything that this configuration has made"),
        Row(
            _D,
            DANGER,
            "terraform|tofu apply",
            "deletes everything that this configuration has made",
            options="-destroy",
        ),
        Row(_D, WARNING, "aws s3 rm|rb", "deletes {what} in the cloud", without="--dryrun"),
        Row(
            _D,
            WARNING,
            "aws s3 sync",
            "deletes in the target what is not in the source",
            options="--delete",
            without="--dryrun",
        ),
        Row(_D, WARNING, "gsutil rm|rb", "deletes {what} in the cloud"),
        Row(_D, WARNING, "rclone delete|purge|sync|cleanup", "deletes files in {what}", without="-n --dry-run"),
        Row(_D, WARNING, "vagrant destroy", "deletes the virtual machine"),
        Row(_D, WARNING, "virsh undefine|vol-delete", "deletes the virtual machine {what}"),
        Row(_D, DANGER, "zfs|zpool destroy", "deletes {what} and all that is stored in it"),
        Row(_D, DANGER, "lvremove|vgremove|pvremove", "deletes the volume {what} and all that is stored in it"),
        Row(_D, WARNING, "btrfs subvolume delete", "deletes {what} and all that is stored in it"),
        Row(_D, DANGER, "diskutil eraseDisk|eraseVolume|partitionDisk|zeroDisk|secureErase|reformat", "erases {what}"),
        Row(_D, DANGER, "diskutil apfs deleteContainer|deleteVolume", "erases {what}"),
        Row(_D, DANGER, "cryptsetup luksFormat|erase|luksErase", "erases what is on {what}"),
        Row(_D, WARNING, "tmutil delete", "deletes the backup {what}"),
        # Programs and accounts.
        Row(
            _D,
            WARNING,
            "apt|apt-get|aptitude|dnf|yum|zypper remove|purge|erase|rm|full-remove",
            "removes {what} from this device",
            without="-s --simulate --dry-run",
        ),
        Row(
            _D,
            NOTICE,
            "apt|apt-get|dnf|yum autoremove",
            "removes packages that nothing needs",
            without="-s --simulate --dry-run",
        ),
        Row(_D, NOTICE, "apt|apt-get|dnf|yum clean|autoclean", "deletes downloaded packages"),
        Row(_D, WARNING, "dpkg", "removes {what} from this device", options="-r --remove -P --purge"),
        Row(_D, WARNING, "rpm", "removes {what} from this device", options="-e --erase"),
        Row(_D, WARNING, "pacman", "removes {what} from this device", options="-R --remove"),
        Row(_D, WARNING, "apk del", "removes {what} from this device"),
        Row(_D, WARNING, "brew uninstall|remove|rm", "removes {what} from this device"),
        Row(_D, NOTICE, "brew cleanup", "deletes old versions and downloads"),
        Row(_D, WARNING, "snap remove", "removes {what} and its data from this device"),
        Row(_D, WARNING, "flatpak uninstall|remove", "removes {what} from this device", unnamed="programs"),
        Row(_D, NOTICE, "pip|pip3|pipx|npm|cargo|gem uninstall|remove|rm", "removes the package {what}", operands=True),
        Row(_D, WARNING, "conda|mamba env remove", "deletes the environment {what}", valued="-n --name -p --prefix"),
        Row(
            _D,
            WARNING,
            "userdel|deluser",
            "deletes the account {what}",
            without="-r --remove --remove-home --remove-all-files",
            operands=True,
        ),
        Row(
            _D,
            WARNING,
            "userdel|deluser",
            "deletes the account {what} and its files",
            options="-r --remove --remove-home --remove-all-files",
            operands=True,
        ),
        Row(_D, WARNING, "groupdel|delgroup", "deletes the group {what}", operands=True),
        Row(
            _D,
            WARNING,
            "dropdb|dropuser",
            "deletes {what} from the database server",
            valued="-h -p -U --host --port --username",
            operands=True,
        ),
        Row(_D, WARNING, "mysqladmin drop", "deletes the database {what}", valued="-u -h -P --user --host --port"),
        Row(
            _D,
            WARNING,
            "iptables|ip6tables",
            "deletes firewall rules",
            options="-F --flush -X -D --delete",
            valued="-t -A -I -p -s -d -j",
        ),
        Row(_D, WARNING, "nft flush", "deletes firewall rules"),
    ),
)
