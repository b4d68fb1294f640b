"""The Hub over HTTP, on the loopback interface: connections, routes, and the command line.

Start it with `python -m tests.hub.server --root FOLDER` and, for the client, set HF_ENDPOINT to the
address that it prints, HF_TOKEN to any token, and HF_HUB_DISABLE_XET to 1.
"""

import argparse
import contextlib
import json
import os
import re
import traceback
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .api import Refusal, Request, Response
from .store import Store

NAME = r"(?P<name>[^/]+/[^/]+)"
API = r"/api/(?P<kind>models|datasets|spaces)/" + NAME
REVISION = r"/(?P<revision>.+)"
TREE = r"/tree/(?P<revision>[^/]+)(?:/(?P<folder>.*))?"
LFS_BATCH = r"/(?:(?:datasets|spaces)/)?[^/]+/[^/]+\.git/info/lfs/objects/batch"
FILE = r"/(?:(?P<kind>datasets|spaces)/)?" + NAME + r"/resolve/(?P<revision>[^/]+)/(?P<path>.+)"
ROUTES = [
    ("GET", r"/api/whoami-v2", Request.who_am_i),
    ("POST", r"/api/repos/create", Request.create_repository),
    ("DELETE", r"/api/repos/delete", Request.delete_repository),
    ("POST", r"/api/validate-yaml", Request.validate_yaml),
    ("GET", API, Request.info),
    ("GET", API + r"/revision" + REVISION, Request.info),
    ("GET", API + TREE, Request.tree),
    ("POST", API + r"/paths-info" + REVISION, Request.paths_info),
    ("GET", API + r"/refs", Request.list_references),
    ("GET", API + r"/commits" + REVISION, Request.list_commits),
    ("POST", API + r"/branch" + REVISION, Request.create_branch),
    ("DELETE", API + r"/branch" + REVISION, Request.delete_branch),
    ("POST", API + r"/tag" + REVISION, Request.create_tag),
    ("POST", API + r"/preupload" + REVISION, Request.preupload),
    ("POST", API + r"/commit" + REVISION, Request.commit),
    ("POST", LFS_BATCH, Request.lfs_batch),
    ("PUT", r"/_lfs/(?P<oid>[0-9a-f]{64})", Request.lfs_upload),
    ("POST", r"/_lfs_verify", Request.lfs_verify),
    ("GET", FILE, Request.download),
    ("HEAD", FILE, Request.download),
]


class Handler(BaseHTTPRequestHandler):
    """Reads the requests of one connection and sends what the Hub answers."""

    protocol_version = "HTTP/1.1"
    server: "HubServer"

    def answer(self) -> None:
        """Answer one request of any method."""
        try:
            payload = self.body() if self.command in ("POST", "PUT", "DELETE") else b""
            try:
                with self.server.store.lock:
                    response = self.dispatch(payload)
            except Refusal as refusal:
                response = refusal.response
            self.send(response)
        except BrokenPipeError:
            pass  # the client has gone
        except Exception as error:
            traceback.print_exc()
            self.send(Refusal(500, None, f"{type(error).__name__}: {error}").response)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

    def body(self) -> bytes:
        """Content of the request, sent at once or in chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return content

    def dispatch(self, payload: bytes) -> Response:
        """Answer of the first route that matches; a quoted slash does not separate parts."""
        url = urllib.parse.urlsplit(self.path)
        unquoted = urllib.parse.unquote(url.path)
        path = url.path if "%2f" in url.path.lower() else unquoted
        for method, pattern, function in ROUTES:
            match = re.fullmatch(pattern, path) if method == self.command else None
            if match:
                query = urllib.parse.parse_qs(url.query)
                request = Request(self.server.store, self.headers, query, payload)
                parts = match.groupdict().items()
                return function(
                    request, **{name: part and urllib.parse.unquote(part) for name, part in parts}
                )
        raise Refusal(404, None, f"no route {self.command} {unquoted}")

    def send(self, response: Response) -> None:
        """Send a response, without its content if only the head is asked for, and log it."""
        content = response.content
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(content)))
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        if self.server.log:
            with self.server.store.lock, open(self.server.log, "a") as log:
                log.write(f"{self.command} {self.path} -> {response.status}\n")

    def log_message(self, *arguments) -> None:
        """Say nothing on standard error."""


class HubServer(ThreadingHTTPServer):
    """A Hub on the loopback interface, with a store and a log of its own."""

    def __init__(self, store: Store, port: int, log: str | os.PathLike | None):
        super().__init__(("127.0.0.1", port), Handler)
        self.store = store
        self.log = log


def serve(
    root: str | os.PathLike, port: int = 0, log: str | os.PathLike | None = None
) -> HubServer:
    """A Hub that keeps its repositories in the folder `root`, to be run with `serve_forever()`.

    Port 0 takes any that is free, see `server_port`. Each request adds a line to the file `log`.
    """
    return HubServer(Store(Path(root)), port, log)


def main() -> None:
    """Serve a folder until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hub.server",
        description="Serve a small Hugging Face Hub on the loopback interface.",
        epilog="For the client, set HF_ENDPOINT to the address printed, HF_TOKEN to any token, "
        "and HF_HUB_DISABLE_XET to 1.",
    )
    parser.add_argument("--root", required=True, help="folder of the repositories")
    parser.add_argument("--port", type=int, default=8765, help="port; 0 for any (default: 8765)")
    parser.add_argument("--log", help="file to append a line to for each request")
    arguments = parser.parse_args()
    server = serve(arguments.root, arguments.port, arguments.log)
    print(f"HF_ENDPOINT=http://127.0.0.1:{server.server_port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
