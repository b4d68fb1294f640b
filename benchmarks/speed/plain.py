"""ChordMixer as one would first write it: the opponent of the package's own.

One roll per track and sequence, one concatenation, two linear layers with a GELU between, a
residual sum, the mean over tokens. Same parameters, same numbers; every intermediate result is a
matrix of its own, which autograd keeps. A batch is a rectangle of equally long sequences, or flat
with boundaries; flat sequences that need the same number of blocks go through them together.
"""

from itertools import groupby, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import SequenceClassifierOutput

from hf_mixers import ChordMixerConfig


class PlainBlock(nn.Module):
    """Rotate and mix around a residual connection."""

    def __init__(self, config: ChordMixerConfig):
        super().__init__()
        self.track_size = config.track_size
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden: Tensor, lengths: list[int]) -> Tensor:
        return hidden + self.fc2(functional.gelu(self.fc1(self.rotate(hidden, lengths))))

    def rotate(self, hidden: Tensor, lengths: list[int]) -> Tensor:
        """`(B, L, D)`, each row of which holds sequences of the given lengths, end to end."""
        rotated = []
        for number, track in enumerate(hidden.split(self.track_size, dim=2)):
            offset = 2 ** (number - 1) if number else 0
            parts = [part.roll(-offset, dims=1) for part in track.split(lengths, dim=1)]
            rotated.append(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))
        return torch.cat(rotated, dim=2)


class PlainChordMixer(nn.Module):
    """A sequence classifier with the parameters of the package's, in the same order.

    Args:
        config: Of the published form, without norms, dropout, learned positions or another pooling
            than the mean, in the paper's order of rotating and mixing.
    """

    def __init__(self, config: ChordMixerConfig):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList(PlainBlock(config) for _ in range(config.num_hidden_layers))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(
        self, input_ids: Tensor, labels: Tensor | None = None, cu_seq_lens_q: Tensor | None = None
    ) -> SequenceClassifierOutput:
        if cu_seq_lens_q is None:
            pooled = self.encode(input_ids, [input_ids.shape[1]])[0].mean(1)
        else:
            pooled = self.pool_flat(input_ids, cu_seq_lens_q)
        logits = self.classifier(pooled)
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def pool_flat(self, input_ids: Tensor, boundaries: Tensor) -> Tensor:
        """Flat `(1, T)` -> `(B, D)`."""
        places = sorted(pairwise(boundaries.tolist()), key=lambda place: place[0] - place[1])
        pooled = {}
        for _, members in groupby(places, key=lambda place: self.depth(place[1] - place[0])):
            members = list(members)
            ids = torch.cat([input_ids[:, start:end] for start, end in members], dim=1)
            sequences = self.encode(ids, [end - start for start, end in members])
            pooled |= zip(members, (part.mean(1) for part in sequences), strict=True)
        return torch.cat([pooled[place] for place in pairwise(boundaries.tolist())])

    def encode(self, input_ids: Tensor, lengths: list[int]) -> tuple[Tensor, ...]:
        """Sequences of one depth, end to end in `(B, T)` -> the output of each, `(B, N, D)`."""
        hidden = self.embed_tokens(input_ids)
        for block in self.blocks[: self.depth(lengths[0])]:
            hidden = block(hidden, lengths)
        return hidden.split(lengths, dim=1)

    def depth(self, length: int) -> int:
        return min(len(self.blocks), (length - 1).bit_length())
