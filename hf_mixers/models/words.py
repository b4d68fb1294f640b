"""Words of neighbouring letters: which stand where, how often, and a head on their frequencies.

A profile knows nothing of order beyond k letters, and so it complements the pooled vector of a
mixer: both are classified together. Words are counted within each sequence of the pack; those with
other letters than the config names (unknown bases, masked tokens) are left out.
"""

import torch
from torch import Tensor, nn

from .configuration_mixer import MixerConfig
from .mlp import input_dtype
from .packing import Pack, upload


def find_letters(ids: Tensor, config: MixerConfig, other: int) -> Tensor:
    """Token ids `(T,)` -> letters from 0 on; `other` for tokens that are no letter."""
    table = [other] * config.vocab_size
    for number, token in enumerate(config.letter_token_ids):
        table[token] = number
    return upload(table, ids.device)[ids]


def words_around(ids: Tensor, pack: Pack, config: MixerConfig) -> Tensor:
    """Number `(T,)` of the word of `config.ngram_size` letters around every row.

    What is not there, before the first token and after the last, is the further letter.
    """
    other = len(config.letter_token_ids)
    letters = find_letters(ids, config, other)
    number = torch.zeros_like(letters)
    first = -((config.ngram_size - 1) // 2)
    for shift in range(first, first + config.ngram_size):
        place = pack.position + shift
        is_inside = (place >= 0) & (place < pack.row_lengths)
        letter = torch.where(is_inside, torch.roll(letters, -shift), other)
        number = (other + 1) * number + letter
    return number


def count_words(letters: Tensor, pack: Pack, num_letters: int, k: int, phases: int = 1) -> Tensor:
    """Counts of words `(B, phases num_letters^k)` in pack order, the first letter counting most.

    Args:
        letters: `(T,)` letter of every row, from 0 on; -1 for none.
        phases: Words are counted apart by position modulo this number, phase after phase.
    """
    number = torch.zeros_like(letters)
    known = pack.position + k <= pack.row_lengths
    for shift in range(k):
        # rows that wrap around the end are of words that do not fit, which are not known
        later = torch.roll(letters, -shift)
        number = num_letters * number + later.clamp(min=0)
        known = known & (later >= 0)
    words = phases * num_letters**k
    index = pack.sequence * words + pack.position % phases * num_letters**k + number
    counts = torch.zeros(pack.num_sequences * words, device=letters.device)
    return counts.scatter_add(0, index, known.to(counts.dtype)).view(-1, words)


def other_strand(counts: Tensor, num_letters: int, k: int) -> Tensor:
    """Counts of words `(B, num_letters^k)` on the other strand, where letter i faces the ith last.

    >>> other_strand(torch.tensor([[1, 2, 3, 4]]), 2, 2)  # words 00, 01, 10, 11
    tensor([[4, 2, 3, 1]])
    """
    places = list(range(1, k + 1))
    apart = counts.view(-1, *[num_letters] * k)
    return apart.permute(0, *reversed(places)).flip(places).reshape(counts.shape)


def kmer_profile(ids: Tensor, pack: Pack, config: MixerConfig) -> Tensor:
    """Square roots of word frequencies `(B, words)` in pack order; 0 where there is no word.

    Takes token ids `(T,)` in pack order; words have `config.kmer_size` letters, and are counted
    apart by `config.kmer_phases` or on both strands, as `config.kmer_strands` says.
    """
    letters = find_letters(ids, config, other=-1)
    num_letters = len(config.letter_token_ids)
    counts = count_words(letters, pack, num_letters, config.kmer_size, config.kmer_phases)
    if config.kmer_strands == "both":
        counts = counts + other_strand(counts, num_letters, config.kmer_size)
    return (counts / counts.sum(1, keepdim=True).clamp(min=1)).sqrt()


class KmerEncoder(nn.Module):
    """A profile of k-mers through two layers of GELU units: part of the pooled vector.

    The first layer has twice the units of the second. With `config.kmer_encoders` there are several
    such networks side by side, which share nothing but the profile: what one of them has learned by
    chance the others correct.
    """

    def __init__(self, config: MixerConfig):
        super().__init__()
        self.count, width = config.kmer_encoders, config.kmer_hidden_size
        self.fc1 = nn.Linear(config.num_kmers, self.count * 2 * width)
        # of every network the units that read its own first layer
        self.fc2 = nn.Linear(2 * width, self.count * width)
        self.activation = nn.GELU()
        self.dropout = nn.Dropout(config.kmer_dropout)

    def forward(self, profile: Tensor) -> Tensor:
        """`(B, words)` -> `(B, config.kmer_encoders * config.kmer_hidden_size)`."""
        # all words equally frequent: every entry is 1
        scaled = profile.to(input_dtype(self.fc1)) * profile.shape[1] ** 0.5
        hidden = self.dropout(self.activation(self.fc1(scaled)))
        return self.dropout(self.activation(self._second(hidden)))

    def _second(self, hidden: Tensor) -> Tensor:
        """The second layer of every network, side by side."""
        if self.count == 1:
            return self.fc2(hidden)
        own = zip(
            hidden.chunk(self.count, 1),
            self.fc2.weight.chunk(self.count),
            self.fc2.bias.chunk(self.count),
            strict=True,
        )
        return torch.cat([nn.functional.linear(*parts) for parts in own], dim=1)
