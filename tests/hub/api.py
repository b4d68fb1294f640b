"""What the Hub answers: the requests of the client of `huggingface_hub` 2.x that push and pull."""

import base64
import hashlib
import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .store import Repository, Store, StoredFile, etag, listing, uses_lfs


@dataclass
class Response:
    """An answer: content (what is not bytes is sent as JSON), HTTP status, and headers."""

    content: bytes | dict | list
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """Ends a request with an error: HTTP status, the Hub's code of the error if any, and text."""

    def __init__(
        self,
        status: int,
        code: str | None = None,
        message: str = "",
        headers: dict[str, str] | None = None,
    ):
        super().__init__(message or code)
        headers = {"X-Error-Message": message or code or ""} | (headers or {})
        if code:
            headers["X-Error-Code"] = code
        self.response = Response({"error": message or code}, status, headers=headers)


def described(path: str, file: StoredFile | None) -> dict:
    """A file, or a folder if `file` is None, as an entry of a listing."""
    if file is None:
        oid = hashlib.sha1(path.encode()).hexdigest()
        return {"type": "directory", "oid": oid, "size": 0, "path": path}
    entry = {"type": "file", "oid": file["oid"], "size": file["size"], "path": path}
    if file["lfs"]:
        entry["lfs"] = {"oid": file["sha256"], "size": file["size"], "pointerSize": 130}
    return entry


def references(folder: str, targets: dict) -> list[dict]:
    """Branches (folder "heads") or tags (folder "tags") as entries of a listing."""
    return [
        {"name": name, "ref": f"refs/{folder}/{name}", "targetCommit": sha}
        for name, sha in targets.items()
    ]


@dataclass
class Request:
    """A request to the Hub of a store: headers, the query of the address, and content.

    The methods that answer take the parts of the path: the kind of repository ("models", "datasets"
    or "spaces"), its name ("owner/name"), a revision, and so on.
    """

    store: Store
    headers: Mapping[str, str]
    query: dict[str, list[str]]
    payload: bytes

    def json(self) -> dict:
        """Content of the request, as JSON."""
        return json.loads(self.payload or b"{}")

    @property
    def address(self) -> str:
        """Address of the server, as the client knows it."""
        return f"http://{self.headers['Host']}"

    def named(self) -> tuple[str, str]:
        """Kind and name of the repository that the content of the request is about."""
        asked = self.json()
        kind = (asked.get("type") or "model") + "s"
        return kind, f"{asked.get('organization') or 'local'}/{asked['name']}"

    def repository(self, kind: str, name: str) -> Repository:
        """The repository of that name."""
        repository = self.store.load(kind, name)
        if repository is None:
            raise Refusal(404, "RepoNotFound", "Repository not found")
        return repository

    def at(self, kind: str, name: str, revision: str) -> tuple[Repository, str]:
        """The repository of that name, and the hash of the commit of a revision."""
        repository = self.repository(kind, name)
        sha = repository.resolve(revision)
        if sha is None:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repository, sha

    # Users and repositories

    def who_am_i(self) -> Response:
        """The one user, who may write."""
        token = {"role": "write", "displayName": "local"}
        user = {"type": "user", "name": "local", "fullname": "local", "isPro": False, "orgs": []}
        return Response(user | {"auth": {"type": "access_token", "accessToken": token}})

    def validate_yaml(self) -> Response:
        """Metadata of any card is right."""
        return Response({"errors": [], "warnings": []})

    def create_repository(self) -> Response:
        """A new repository, unless there is one of that name."""
        kind, name = self.named()
        url = f"{self.address}/{'' if kind == 'models' else kind + '/'}{name}"
        if self.store.load(kind, name) is not None:
            return Response({"error": "You already created this repo", "url": url}, 409)
        self.store.create(kind, name, self.json().get("private") or False)
        return Response({"url": url, "name": name, "id": name})

    def delete_repository(self) -> Response:
        """Remove a repository."""
        if not self.store.delete(*self.named()):
            raise Refusal(404, "RepoNotFound")
        return Response({})

    def info(self, kind: str, name: str, revision: str | None = None) -> Response:
        """Metadata of a repository at a revision, and the names of its files."""
        repository, sha = self.at(kind, name, revision or "main")
        commit = repository.commits[sha]
        siblings = [
            {"rfilename": path, "size": file["size"], "blobId": file["oid"]}
            for path, file in sorted(commit["files"].items())
        ]
        identity = {
            "_id": hashlib.md5(name.encode()).hexdigest()[:24],
            "id": name,
            "modelId": name,
            "author": name.split("/")[0],
            "sha": sha,
        }
        dates = {"lastModified": commit["date"], "createdAt": repository.created}
        access = {"private": repository.private, "gated": False, "disabled": False}
        rest = {"downloads": 0, "likes": 0, "tags": [], "siblings": siblings}
        return Response(identity | dates | access | rest)

    # Branches, tags, commits

    def list_references(self, kind: str, name: str) -> Response:
        """Branches and tags of a repository."""
        repository = self.repository(kind, name)
        listed = {
            "branches": references("heads", repository.branches),
            "tags": references("tags", repository.tags),
        }
        return Response(listed | {"converts": [], "pullRequests": []})

    def list_commits(self, kind: str, name: str, revision: str) -> Response:
        """Commits up to a revision, newest first."""
        repository, newest = self.at(kind, name, revision)
        commits = [
            {
                "id": sha,
                "title": commit["title"],
                "message": commit["description"],
                "date": commit["date"],
                "authors": [{"user": "local"}],
            }
            for sha, commit in repository.history(newest)
        ]
        return Response(commits)

    def create_branch(self, kind: str, name: str, revision: str) -> Response:
        """A new branch, from the starting point asked for."""
        repository = self.repository(kind, name)
        if revision in repository.branches:
            raise Refusal(409, None, "Reference already exists")
        start = self.json().get("startingPoint") or "main"
        repository.branches[revision] = repository.resolve(start)
        self.store.save(kind, name, repository)
        return Response({})

    def delete_branch(self, kind: str, name: str, revision: str) -> Response:
        """Remove a branch, if there is one of that name."""
        repository = self.repository(kind, name)
        repository.branches.pop(revision, None)
        self.store.save(kind, name, repository)
        return Response({})

    def create_tag(self, kind: str, name: str, revision: str) -> Response:
        """A new tag, or a new place of an old one."""
        repository, sha = self.at(kind, name, revision)
        repository.tags[self.json()["tag"]] = sha
        self.store.save(kind, name, repository)
        return Response({})

    def commit(self, kind: str, name: str, revision: str) -> Response:
        """Files added, changed and removed, one operation per line of the request."""
        repository, sha = self.at(kind, name, revision)
        files = dict(repository.commits[sha]["files"])
        title = description = ""
        for line in filter(str.strip, self.payload.decode().splitlines()):
            operation = json.loads(line)
            key, value = operation["key"], operation["value"]
            if key == "header":
                title, description = value["summary"], value.get("description", "")
                if value.get("parentCommit") and value["parentCommit"] != sha:
                    message = "A commit has happened since. Please refresh and try again."
                    raise Refusal(412, None, message)
            elif key == "file":
                content = base64.b64decode(value["content"])
                files[value["path"]] = self.store.add(content)
            elif key == "lfsFile":
                file = self.store.link(value["oid"])
                if file is None:
                    raise Refusal(400, None, f"LFS object {value['oid']} was not uploaded")
                files[value["path"]] = file
            elif key == "deletedFile":
                files.pop(value["path"], None)
            elif key == "deletedFolder":
                folder = value["path"].rstrip("/") + "/"
                files = {path: files[path] for path in files if not path.startswith(folder)}
            else:
                raise Refusal(400, None, f"unknown operation {key}")
        branch = revision if revision in repository.branches else "main"
        new = repository.commit(branch, files, title, description)
        self.store.save(kind, name, repository)
        url = f"{self.address}/{name}/commit/{new}"
        return Response({"success": True, "commitOid": new, "commitUrl": url, "hookOutput": ""})

    # Files

    def tree(self, kind: str, name: str, revision: str, folder: str | None = None) -> Response:
        """Files and folders in a folder, or in the whole repository."""
        repository, sha = self.at(kind, name, revision)
        recursive = self.query.get("recursive", ["false"])[0].lower() in ("1", "true")
        prefix = folder.strip("/") + "/" if folder else ""
        listed = listing(repository.commits[sha]["files"], prefix, recursive)
        entries = [described(path, file) for path, file in listed]
        if prefix and not entries:
            raise Refusal(404, "EntryNotFound")
        return Response(entries)

    def paths_info(self, kind: str, name: str, revision: str) -> Response:
        """Those of the files asked about that exist."""
        repository, sha = self.at(kind, name, revision)
        if "json" in self.headers.get("Content-Type", ""):
            paths = self.json().get("paths", [])
        else:
            paths = urllib.parse.parse_qs(self.payload.decode()).get("paths", [])
        files = repository.commits[sha]["files"]
        return Response([described(path, files[path]) for path in paths if path in files])

    def preupload(self, kind: str, name: str, revision: str) -> Response:
        """How each of the files announced is to be uploaded."""
        repository, sha = self.at(kind, name, revision)
        files = repository.commits[sha]["files"]
        modes = []
        for file in self.json()["files"]:
            path = file["path"]
            mode = "lfs" if uses_lfs(path, file["size"]) else "regular"
            oid = etag(files[path]) if path in files else None
            modes.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return Response({"files": modes})

    def lfs_batch(self) -> Response:
        """Where to upload the objects of large file storage that are missing."""
        objects = []
        for asked in self.json()["objects"]:
            oid = asked["oid"]
            answer = {"oid": oid, "size": asked["size"], "authenticated": True}
            if not self.store.blob(oid).exists():
                answer["actions"] = {
                    "upload": {"href": f"{self.address}/_lfs/{oid}", "header": {}},
                    "verify": {"href": f"{self.address}/_lfs_verify", "header": {}},
                }
            objects.append(answer)
        content = {"transfer": "basic", "objects": objects}
        return Response(content, content_type="application/vnd.git-lfs+json")

    def lfs_upload(self, oid: str) -> Response:
        """Keep an object of large file storage."""
        if hashlib.sha256(self.payload).hexdigest() != oid:
            raise Refusal(422, None, "sha256 mismatch")
        self.store.blob(oid).write_bytes(self.payload)
        return Response(b"")

    def lfs_verify(self) -> Response:
        """Whether an object of large file storage has been uploaded."""
        return Response({}, 200 if self.store.blob(self.json()["oid"]).exists() else 404)

    def download(self, name: str, revision: str, path: str, kind: str | None = None) -> Response:
        """Content of a file, or the part of it asked for."""
        repository, sha = self.at(kind or "models", name, revision)
        commit = {"X-Repo-Commit": sha}
        file = repository.commits[sha]["files"].get(path)
        if file is None:
            raise Refusal(404, "EntryNotFound", "Entry not found", commit)
        quoted = f'"{etag(file)}"'
        headers = commit | {
            "ETag": quoted,
            "Accept-Ranges": "bytes",
            "Content-Disposition": f'inline; filename="{Path(path).name}"',
        }
        if file["lfs"]:
            headers |= {"X-Linked-Size": str(file["size"]), "X-Linked-Etag": quoted}
        status, content = 200, self.store.blob(file["sha256"]).read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            size = len(content)
            first, last = int(asked[1]), int(asked[2] or size - 1)
            headers["Content-Range"] = f"bytes {first}-{min(last, size - 1)}/{size}"
            status, content = 206, content[first : last + 1]
        return Response(content, status, "application/octet-stream", headers)
