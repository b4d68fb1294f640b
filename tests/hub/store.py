"""Repositories of the Hub on disk: branches, tags, commits, and the contents of files.

A repository is one JSON file, `<root>/<kind>/<owner>/<name>/repo.json`, where kind is `models`,
`datasets` or `spaces`. Contents are shared by all repositories, in `<root>/blobs/<sha256>`.
"""

import datetime
import hashlib
import json
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypedDict

LFS_SUFFIXES = {
    ".arrow",
    ".bin",
    ".gz",
    ".h5",
    ".model",
    ".msgpack",
    ".npy",
    ".npz",
    ".onnx",
    ".parquet",
    ".pkl",
    ".pt",
    ".pth",
    ".safetensors",
    ".tflite",
    ".zip",
}
LFS_THRESHOLD = 10 * 1024 * 1024
GITATTRIBUTES = "".join(
    f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in sorted(LFS_SUFFIXES)
).encode()


class StoredFile(TypedDict):
    """A file of a commit: what git calls it, and where its content is."""

    sha256: str
    oid: str
    size: int
    lfs: bool


class Commit(TypedDict):
    """A state of all files, and the commit it follows."""

    files: dict[str, StoredFile]
    title: str
    description: str
    date: str
    parent: str | None


def now() -> str:
    """The time, as the Hub writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def git_oid(content: bytes) -> str:
    """Name that git gives to a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def uses_lfs(path: str, size: int) -> bool:
    """Whether a file goes to large file storage, by its suffix or its size."""
    return Path(path).suffix in LFS_SUFFIXES or size >= LFS_THRESHOLD


def etag(file: StoredFile) -> str:
    """What names the content of a file to the client: SHA-256 in large file storage, else git's."""
    return file["sha256"] if file["lfs"] else file["oid"]


def listing(
    files: dict[str, StoredFile], prefix: str, recursive: bool
) -> Iterator[tuple[str, StoredFile | None]]:
    """Paths below a prefix ("" or "folder/"), in order, with the file, or None for a folder."""
    seen = set()
    for path, file in sorted(files.items()):
        if not path.startswith(prefix):
            continue
        parts = path[len(prefix) :].split("/")
        for depth in range(1, len(parts) if recursive else min(len(parts), 2)):
            folder = prefix + "/".join(parts[:depth])
            if folder not in seen:
                seen.add(folder)
                yield folder, None
        if recursive or len(parts) == 1:
            yield path, file


@dataclass
class Repository:
    """Branches and tags, which name commits, and the commits by their hash."""

    private: bool = False
    created: str = field(default_factory=now)
    branches: dict[str, str | None] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)

    def resolve(self, revision: str) -> str | None:
        """Hash of the commit that a branch, a tag or (the start of) a hash names, if any."""
        revision = urllib.parse.unquote(revision)
        for names in (self.branches, self.tags):
            if revision in names:
                return names[revision]
        for sha in self.commits:
            if sha == revision or (len(revision) >= 7 and sha.startswith(revision)):
                return sha
        return None

    def commit(
        self, branch: str, files: dict[str, StoredFile], title: str, description: str = ""
    ) -> str:
        """Put a new state of the files on a branch, and return the hash of the commit."""
        parent = self.branches.get(branch) or self.branches.get("main")
        state = [parent, files, title, now(), len(self.commits)]
        sha = hashlib.sha1(json.dumps(state, sort_keys=True).encode()).hexdigest()
        self.commits[sha] = {
            "files": files,
            "title": title,
            "description": description,
            "date": now(),
            "parent": parent,
        }
        self.branches[branch] = sha
        return sha

    def history(self, sha: str | None) -> Iterator[tuple[str, Commit]]:
        """Hash and commit, from the given one back to the first."""
        while sha:
            commit = self.commits[sha]
            yield sha, commit
            sha = commit["parent"]


class Store:
    """All repositories and contents below one folder; hold `lock` from reading to saving."""

    def __init__(self, root: Path):
        self.root = root
        self.lock = threading.RLock()
        (root / "blobs").mkdir(parents=True, exist_ok=True)

    def path(self, kind: str, name: str) -> Path:
        """File of a repository, which may not exist."""
        return self.root / kind / name / "repo.json"

    def load(self, kind: str, name: str) -> Repository | None:
        """A repository, or None if there is none of that name."""
        path = self.path(kind, name)
        return Repository(**json.loads(path.read_text())) if path.exists() else None

    def save(self, kind: str, name: str, repository: Repository) -> None:
        """Write a repository, replacing what was there at once."""
        path = self.path(kind, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".tmp")
        partial.write_text(json.dumps(asdict(repository)))
        partial.replace(path)

    def create(self, kind: str, name: str, private: bool = False) -> Repository:
        """A new repository, with the one file that the Hub puts into each."""
        repository = Repository(private=private)
        repository.commit("main", {".gitattributes": self.add(GITATTRIBUTES)}, "initial commit")
        self.save(kind, name, repository)
        return repository

    def delete(self, kind: str, name: str) -> bool:
        """Remove a repository; False if there is none of that name. Contents stay."""
        path = self.path(kind, name)
        if not path.exists():
            return False
        path.unlink()
        return True

    def blob(self, sha256: str) -> Path:
        """File of a content, which may not exist."""
        return self.root / "blobs" / sha256

    def add(self, content: bytes) -> StoredFile:
        """Keep the content of a regular file."""
        sha256 = hashlib.sha256(content).hexdigest()
        if not self.blob(sha256).exists():
            self.blob(sha256).write_bytes(content)
        return {"sha256": sha256, "oid": git_oid(content), "size": len(content), "lfs": False}

    def link(self, sha256: str) -> StoredFile | None:
        """A file in large file storage, or None if its content has not been uploaded."""
        blob = self.blob(sha256)
        if not blob.exists():
            return None
        size = blob.stat().st_size
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
        return {"sha256": sha256, "oid": git_oid(pointer.encode()), "size": size, "lfs": True}
