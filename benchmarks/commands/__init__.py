"""The measuring sub-commands: each has a docstring and `make_groups(options)`."""

from . import blocks, memory, mixed, peers, scaling, throughput, tokenizers

COMMANDS = {
    "blocks": blocks,
    "scaling": scaling,
    "mixed": mixed,
    "memory": memory,
    "tokenizers": tokenizers,
    "peers": peers,
    "throughput": throughput,
}
