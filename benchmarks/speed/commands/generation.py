"""What a generated token costs after 1k, 4k and 16k tokens of context, with caches.

Combiner's patterns that have a cache, and a Llama of transformers with the same width, heads,
blocks and vocabulary, with its own cache and sdpa; 2 blocks of 256 channels, 4 heads, batches of
one sequence. A step writes `tokens` tokens, one by one.
"""

import copy

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from hf_mixers import CombinerConfig, CombinerForCausalLM

from ..contenders import count_parameters, draw_ids
from ..interleaved import Group, compare_networks
from ..isolated import Built
from ..options import Options

CONTEXTS = (1024, 4096, 16_384)
PATTERNS = ("fixed", "axial_rowmajor", "logsparse")
TOKENS = 1000
SHARED = {
    "vocab_size": 20,
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "pad_token_id": 0,
}


def make_groups(options: Options) -> list[Group]:
    contexts, tokens = ((64,), 4) if options.smoke else (CONTEXTS, TOKENS)
    return [
        compare_networks((*PATTERNS, "llama"), build, options.seed, context=context, tokens=tokens)
        for context in contexts
    ]


def build_model(name: str, longest: int) -> PreTrainedModel:
    if name == "llama":
        config = LlamaConfig(
            **SHARED,
            # three matrices instead of two
            intermediate_size=512,
            max_position_embeddings=longest,
            attn_implementation="sdpa",
            bos_token_id=None,
            eos_token_id=None,
        )
        return LlamaForCausalLM(config)
    config = CombinerConfig(
        **SHARED,
        intermediate_size=768,
        max_position_embeddings=longest,
        pattern=name,
        causal=True,
        row_summary="none",
    )
    return CombinerForCausalLM(config)


def build(name: str, context: int, tokens: int, seed: int) -> Built:
    """A model that has read a context, and writes on."""
    torch.manual_seed(seed)
    model = build_model(name, context + tokens).eval()
    with torch.no_grad():
        read = model(draw_ids(1, context, seed=seed), use_cache=True, logits_to_keep=1)
    last = read.logits[:, -1].argmax(1, keepdim=True)

    @torch.no_grad()
    def step() -> None:
        # every repeat goes on from the same context; the copy is a small part of its time
        token, cache = last, copy.deepcopy(read.past_key_values)
        for _ in range(tokens):
            logits = model(token, past_key_values=cache, use_cache=True).logits
            token = logits[:, -1].argmax(1, keepdim=True)

    return Built(step, {"parameters": count_parameters(model)})
