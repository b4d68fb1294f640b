"""The measuring sub-commands: each has a docstring and `make_groups(options)`."""

from . import (
    blocks,
    devices,
    generation,
    heads,
    inference,
    links,
    memory,
    mixed,
    parallel,
    parts,
    patterns,
    peers,
    precision,
    scaling,
    throughput,
    tokenizers,
)

COMMANDS = {
    "blocks": blocks,
    "scaling": scaling,
    "mixed": mixed,
    "memory": memory,
    "parts": parts,
    "links": links,
    "heads": heads,
    "patterns": patterns,
    "generation": generation,
    "tokenizers": tokenizers,
    "peers": peers,
    "throughput": throughput,
    "inference": inference,
    "devices": devices,
    "parallel": parallel,
    "precision": precision,
}
