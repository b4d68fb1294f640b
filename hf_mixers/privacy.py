"""What a file for others must not hold: access tokens, and paths and names of this machine.

Paths become base names: `/home/alice/genes/a.fa` is `a.fa` for everybody else.
"""

import getpass
import glob
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import get_token

# an access token of the Hub
TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{20,}\b")
# an absolute path of two names or more within a text; what follows "https:/" is none
_PATH = re.compile(r"(?<![\w/:.])/(?:[^\s/\"'`|()\[\]]+/)+[^\s/\"'`|()\[\],;]*")


def strip_private(content: Any) -> Any:
    """The same mappings and lists, without entries for tokens and with base names for paths.

    >>> strip_private({"data": ["/data/genes/a.fa"], "hub_token": "hf_x", "length": 7})
    {'data': ['a.fa'], 'length': 7}
    """
    if isinstance(content, Mapping):
        return {
            name: strip_private(value) for name, value in content.items() if not _is_secret(name)
        }
    if isinstance(content, (list, tuple)):
        return [strip_private(value) for value in content]
    if isinstance(content, Path):
        return name_path(content)
    return strip_text(content) if isinstance(content, str) else content


def strip_text(text: str) -> str:
    """A text without tokens, and with base names for paths of this machine.

    >>> strip_text("trained on /data/genes/a.fa, see https://host/data/b")
    'trained on a.fa, see https://host/data/b'
    >>> strip_text("owner/name"), strip_text("(.+)/x")
    ('owner/name', '(.+)/x')
    """
    if _is_path(text):
        return name_path(text)
    text = TOKEN.sub("[token]", text)
    for secret in _tokens():
        text = text.replace(secret, "[token]")
    for place in _places():
        pattern = re.escape(place) + r"(?![\w-])[^\s\"'`|()\[\],;]*"
        text = re.sub(pattern, lambda found: name_path(found.group()), text)
    return _PATH.sub(lambda found: name_path(found.group()), text)


def name_path(path: str | Path) -> str:
    """The base name of a path; a home folder, whose name is that of its user, is `~`.

    >>> name_path("/data/genes/"), name_path("heart/beats.npz")
    ('genes', 'beats.npz')
    """
    given = Path(path)
    if _is_home(given):
        return "~"
    folder, name = given.parent, given.name
    # of a pattern such as genes/*.fa the folder says more
    if glob.has_magic(name) and folder.name and not _is_home(folder):
        return f"{folder.name}/{name}"
    return name


def shorten_path(path: str) -> str:
    """An absolute path relative to the working folder, or to the home folder as `~/...`.

    Whoever runs the same command from the same folder finds the same file.
    """
    if not os.path.isabs(path):
        return path
    for start, prefix in ((os.getcwd(), ""), (str(Path.home()), "~")):
        relative = os.path.relpath(path, start)
        if not relative.startswith(os.pardir):
            return os.path.join(prefix, relative)
    return os.path.relpath(path)


def find_private(data: bytes) -> str | None:
    """What of the things that must not be published the bytes of a file hold, or None."""
    if any(secret.encode() in data for secret in _tokens()):
        return "the access token"
    if re.search(TOKEN.pattern.encode(), data):
        return "an access token"
    home = str(Path.home())
    # "/" is the home of some users of containers
    if len(home) > 1 and re.search(re.escape(home).encode() + rb"(?![\w-])", data):
        return "the path of a home folder"
    return None


def _is_secret(name: Any) -> bool:
    """Whether an entry of this name holds a token for access, not one of a vocabulary."""
    return str(name) in ("token", "hub_token", "push_to_hub_token", "use_auth_token", "hf_token")


def _is_path(text: str) -> bool:
    """Whether a whole text is a path, of which only those with a folder say anything."""
    if not text or "\n" in text or len(text) > 4096 or "/" not in text.replace(os.sep, "/"):
        return False
    if "://" in text:
        return False
    if os.path.isabs(text) or text.startswith(("./", "../", "~/")):
        return True
    try:
        return os.path.exists(text) or (glob.has_magic(text) and next(glob.iglob(text), "") != "")
    except (OSError, ValueError, re.error):
        return False


def _is_home(path: Path) -> bool:
    return path.expanduser() == Path.home() or path.name == _user()


def _places() -> list[str]:
    """Folders whose paths are those of this machine, the longest first."""
    found = {str(Path.home()), os.getcwd(), tempfile.gettempdir()} - {"/", ""}
    return sorted(found, key=len, reverse=True)


def _tokens() -> list[str]:
    token = get_token()
    # shorter texts stand elsewhere by chance
    return [token] if token and len(token) >= 8 else []


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""
