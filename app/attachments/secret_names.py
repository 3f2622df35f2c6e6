"""Names of files that usually hold keys or passwords."""

from __future__ import annotations

import fnmatch
from pathlib import PurePath

EXACT = frozenset({
    ".env", ".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "id_rsa", "id_dsa",
    "id_ecdsa", "id_ed25519", "credentials", "credentials.json", "credentials.toml", "secrets.json", "secrets.toml",
    "secrets.yaml", "secrets.yml", ".dockercfg", "shadow", "gshadow", "token", "token.txt", "tokens.json", ".envrc",
    ".my.cnf", ".vault-token", ".s3cfg", "rclone.conf", "wallet.dat", "application_default_credentials.json",
    "id_ecdsa_sk", "id_ed25519_sk",
})  # fmt: skip
PATTERNS = (".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*_rsa")
HARMLESS = ("*.example", "*.sample", "*.template", "*.pub")
FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".kube"})
WITHIN = (".docker/config.json", "gh/hosts.yml")
"""Names that say so only in their folder."""


def looks_secret(path: PurePath) -> bool:
    """Whether a file is likely to hold a key or a password, judging by its name alone."""
    name = path.name.lower()
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in HARMLESS):
        return False
    if "/".join(path.parts[-2:]).lower() in WITHIN:
        return True
    if name in EXACT or any(fnmatch.fnmatchcase(name, pattern) for pattern in PATTERNS):
        return True
    folders = FOLDERS.intersection(path.parts[:-1])
    return bool(folders) and (name not in ("config", "known_hosts") or folders == {".kube"})
