"""The measuring sub-commands: each has a docstring and `make_groups(options)`."""

from . import blocks, heads, links, memory, mixed, parts, peers, scaling, throughput, tokenizers

COMMANDS = {
    "blocks": blocks,
    "scaling": scaling,
    "mixed": mixed,
    "memory": memory,
    "parts": parts,
    "links": links,
    "heads": heads,
    "tokenizers": tokenizers,
    "peers": peers,
    "throughput": throughput,
}
