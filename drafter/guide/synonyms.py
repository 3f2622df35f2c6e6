"""What people call things when they speak of a shell: words of one meaning, phrases, and words that say nothing."""

from __future__ import annotations

import re

SAME: tuple[tuple[str, ...], ...] = (
    ("directory", "directories", "folder", "dir", "dirs", "subdirectory", "subfolder", "subdir"),
    ("delete", "remove", "erase", "unlink", "wipe"),
    ("show", "list", "display", "print", "see", "view", "output", "lists"),
    ("find", "search", "locate", "lookup"),
    ("create", "make", "making", "new", "generate"),
    ("change", "modify", "edit", "alter", "adjust", "switch"),
    ("extract", "unpack", "uncompress", "decompress", "unarchive", "inflate"),
    ("compress", "pack", "shrink", "zipped", "compressed"),
    ("archive", "archives", "tarball"),
    ("run", "execute", "launch", "invoke"),
    ("start", "begin", "boot"),
    ("stop", "halt", "abort", "quit"),
    ("kill", "terminate"),
    ("large", "big", "huge", "largest", "biggest", "larger", "bigger", "heaviest"),
    ("small", "smallest", "tiny", "smaller", "tiniest"),
    ("new2", "newest", "latest", "recent", "recently", "newer"),
    ("old", "oldest", "older"),
    ("computer", "machine", "pc", "laptop", "box", "desktop"),
    ("memory", "ram"),
    ("cpu", "processor", "cores", "core"),
    ("picture", "image", "photo", "pic", "photograph"),
    ("video", "movie", "film", "clip"),
    ("audio", "song", "music", "sound"),
    ("permission", "rights", "right", "mode", "privileges"),
    ("own", "owner", "ownership", "owned"),
    ("user", "account", "username"),
    ("password", "passwd", "passphrase"),
    ("line", "row"),
    ("column", "field", "col"),
    ("count", "amount", "tally"),
    ("replace", "substitute", "swap", "exchange"),
    ("duplicate", "dup", "repeated", "dupes", "doubles"),
    ("download", "fetch", "grab"),
    ("copy", "duplicating", "clone2"),
    ("install", "installation"),
    ("update", "upgrade", "refresh"),
    ("connect", "login", "connection"),
    ("website", "site", "webpage", "page"),
    ("network", "internet", "net"),
    ("undo", "revert", "rollback", "unmake"),
    ("hidden", "dotfile", "invisible", "hide"),
    ("recursive", "recursively", "recurse", "nested"),
    ("first", "top", "head", "beginning"),
    ("last", "tail", "bottom", "final", "end"),
    ("current", "present", "this2"),
    ("size", "sizes", "space"),
    ("disk", "drive", "storage", "harddisk", "disc", "filesystem"),
    ("screen", "console", "monitor2"),
    ("shutdown", "poweroff"),
    ("reboot", "restart"),
    ("join", "merge", "combine", "concatenate", "concat"),
    ("split", "divide", "chunk"),
    ("convert", "transform", "turn", "conversion"),
    ("compare", "difference", "diff", "differ", "differences"),
    ("service", "daemon", "unit"),
    ("process", "processes", "task", "job", "app", "application"),
    ("content", "contents", "inside"),
    ("match", "contain", "containing", "matching", "mention"),
    ("word", "term", "string", "text", "pattern", "phrase"),
    ("uppercase", "capitals", "capital", "caps", "upper"),
    ("lowercase", "lower"),
    ("sort", "order", "alphabetically", "alphabetical"),
    ("unique", "distinct", "uniq2"),
    ("host", "server", "hostname"),
    ("repository", "repo"),
    ("commit", "commits", "committed"),
    ("message", "msg"),
    ("variable", "var", "env", "environment"),
    ("schedule", "scheduled", "regularly", "periodically"),
    ("repeat", "repeatedly", "again"),
    ("watch", "monitor", "follow", "live", "realtime"),
    ("wait", "sleep", "pause", "delay"),
    ("time", "clock", "hour"),
    ("date", "day", "today"),
    ("check", "verify", "test", "validate"),
    ("number", "numbers", "digit"),
    ("version", "release"),
    ("help", "documentation", "docs"),
    ("man", "manual", "manpage"),
    ("save", "store", "write"),
    ("link", "symlink", "shortcut"),
    ("rename", "renamed"),
    ("background", "detached"),
    ("partition", "partitions"),
    ("mount", "attach"),
    ("device", "hardware"),
    ("empty", "blank", "truncate2"),
    ("quick", "fast", "speed"),
    ("encrypt", "encryption"),
    ("decrypt", "decryption"),
)
"""Words of one meaning; the first of each stands for all. A word with a digit is a name of ours, not a person's."""

_PHRASES: tuple[tuple[str, str], ...] = (
    (r"\b(?:get rid of|throw(?:ing)? (?:away|out)|clear out|toss|discard|bin|trash|nuke)\b", "delete"),
    (r"\b(?:glue|stick|stitch|put|tie)(?:ing)? (\w+ )?(?:\w+ )?together\b", r"join \1"),
    (r"\bpeek (?:at|into|inside)\b", "show"),
    (r"\b(?:squeeze|bundle|wrap up)\b", "compress"),
    (r"\bchop(?: up)?\b", "split"),
    (r"\b(?:add|put)(?: an?| the)?(?: new| another)? (?=user|account)", "create "),
    (r"\b(?:add|put|join)\b(?=.*\bto (?:\w+ )?(?:\w+ )?group\b)", "add user"),
    (r"\b(?:which|what) (?:directory|folder|dir) (?:am i|are we|is this)\b(?: in)?", "current directory"),
    (r"\bman(?:ual)? pages?\b", "manual"),
    (r"\bline endings?\b", "lineending"),
    (r"\b(?:did i|i|was|were|files?) (?:touch|touched)\b", "modified"),
    (r"\b(?:heavy|weighs?)\b", "size"),
    (r"\b(?:disk|drive|partition) (?:is )?(?:almost |nearly )?full\b|\bfull (?:disk|drive|partition)\b", "disk size"),
    (r"\b(?:nobody|no one|no longer) (?:needs?|needed)(?: any ?more)?\b|\bunneeded\b|\borphan(?:ed)?\b", "unused"),
    (r"\bwhy (?:did|does|do|is)\b(?=.*\bservice\b)", "status log"),
    (r"\bi (?:typed?|ran|entered)\b(?: before)?", "history"),
    (r"\bmirror\b", "synchronize copy mirror"),
    (r"\b(?:sub|in |its )?(?:everything|all) (?:inside|in|under|below|beneath) (?:it|them)\b", "recursive"),
    (r"\b(?:including|and|with) (?:all )?(?:its |the )?(?:sub-?(?:folders|directories|dirs)|contents)\b", "recursive"),
    (r"\bsub-(?=\w)", "sub"),
    (r"\blook(?:ing)? for\b", "find"),
    (r"\blook(?:ing)? (?:at|into|inside)\b", "show"),
    (r"\bhow (?:many|much)\b", "count"),
    (r"\bnumber of\b", "count"),
    (r"\bhow (?:big|large)\b", "size"),
    (r"\btak(?:es?|ing)(?: up)?(?= (?:the )?(?:most|space|much|all|so))", "use size"),
    (r"\b(?:hogging|eating|filling|wasting)(?: up)?\b", "use size"),
    (r"\b(?:disk|hard|free|available) (?:disk )?(?:space|usage|drive)\b(?: left| free| used)?", "disk size"),
    (r"\bspace (?:left|free|available)\b", "disk size"),
    (r"\b(?:running|run|ran) out of space\b", "disk size"),
    (r"\bworking dir(?:ectory)?\b", "current directory"),
    (r"\bwhere am i\b", "current directory"),
    (r"\bthis (?=folder|directory|dir\b)", "current "),
    (r"\blog(?:ging)? ?in(?:to)?\b", "login"),
    (r"\bsign in(?:to)?\b", "login"),
    (r"\bset up\b", "setup"),
    (
        r"\bshut(?:ting)? ?down\b|\b(?:turn|power|switch)(?:ing)? (?:it |off )?(?:the |my )?(?:computer |machine |pc )?off\b",
        "shutdown",
    ),
    (r"\bline by line\b|\bside by side\b", "sidebyside"),
    (r"\bupper ?case\b|\bupper-case\b", "uppercase"),
    (r"\blower ?case\b|\blower-case\b", "lowercase"),
    (r"\bwi-?fi\b", "wifi"),
    (r"\bpublic ip\b|\bexternal ip\b", "public ip address"),
    (r"\bkey ?pair\b", "key"),
    (r"\bcron ?tab\b|\bcron ?job\b", "crontab schedule"),
    (r"\bstart(?:s)? with\b|\bbegin(?:s|ning)? with\b|\bstarting with\b", "startwith"),
    (r"\bend(?:s|ing)? (?:in|with)\b", "ending"),
    (
        r"\bmod(?:ified|ification) (?:in|within|during|since)?\b|\b(?:touched|changed|edited) (?:in|within|during|since)\b",
        "modified ",
    ),
    (r"\bmore than once\b|\btwice\b", "duplicate"),
    (r"\bgive back\b|\bput back\b|\bbring back\b", "restore"),
    (r"\bcut off\b", "cut"),
    (r"\bcommand[- ]line\b", "shell"),
    (r"\buntar(?:red|ring)?\b", "extract tar"),
    (r"\bunzip(?:ped|ping)?\b", "unzip extract zip"),
    (r"\bgunzip\b", "gunzip extract gz"),
    (r"\btarball\b", "tar archive"),
    (
        r"\bzip(?:ped|ping)?(?: up)?\b(?= (?:the|a|my|all|this|these|everything|up|some|folder|directory|files?|slot))",
        "zip compress",
    ),
    (r"\bping(?:ing)?\b", "ping"),
)
PHRASES = tuple((re.compile(pattern), replacement) for pattern, replacement in _PHRASES)
"""Several words that mean one thing, and what takes their place."""

_STOP_WORDS = """
a an the of to in on for with and or from by at into onto its it is are was were be been being as this that
these those there here i me my mine we our you your he she they them their do does did doing done can could
would should will shall may might must how what which who whom whose when where why s t d ll re ve m don doesn
isn aren wont cant im ive id dont doesnt isnt want wants wanted need needs needed like please pls plz me know
tell give let lets get gets got getting way ways best easy easily simple simply just only some any every each
all command commands terminal linux unix one ones thing things stuff something somehow using use used
uses via if then so but not no yes also too very really quickly given specific specified certain particular
possible able without within up out off over about have has had having go going try trying am hey hi hello
thanks thank ok okay actually exactly correct proper properly now currently while because since than same other
another both such example examples per etc eg ie whats hows wheres whos work works working
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that say nothing about what is wanted."""

_NUMBERS = "two three four five six seven eight nine ten twelve fifteen twenty thirty fifty hundred"
NUMBERS = frozenset(_NUMBERS.split())
"""Numbers that people write in letters."""

PLATFORM_WORDS: dict[str, str] = {
    "macos": "osx",
    "osx": "osx",
    "mac": "osx",
    "macbook": "osx",
    "windows": "windows",
    "powershell": "windows",
    "freebsd": "freebsd",
    "openbsd": "openbsd",
    "netbsd": "netbsd",
    "android": "android",
}
"""Words of a question that name another platform than the device's own."""
