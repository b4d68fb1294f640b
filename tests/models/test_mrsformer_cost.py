"""What heads at several scales cost: scores counted, memory linear in the length."""

import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from hf_mixers import MrsFormerConfig, MrsFormerModel
from hf_mixers.models import attention_multiresolution
from tests.families import find_row, flatten, random_ids

ROW = find_row("mrsformer")


@pytest.fixture
def count_scores(monkeypatch):
    """Scores that the attention function is asked for, all heads and sequences together."""
    counts = []

    def counting(module, query, key, value, mask, **kwargs):
        counts.append(query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2])
        sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]
        return sdpa(module, query, key, value, mask, **kwargs)

    interface = type(ALL_ATTENTION_FUNCTIONS)
    monkeypatch.setattr(interface, "get_interface", lambda *_: counting)

    def count(**settings):
        counts.clear()
        MrsFormerModel(MrsFormerConfig(num_hidden_layers=1, **settings))(random_ids(1, 512))
        return sum(counts)

    return count


@pytest.mark.parametrize(
    "scales", [[1, 2], [1, 2, 2, 4], [1, 1, 2, 2, 4, 4, 8, 8]], ids=lambda s: str(len(s))
)
def test_scores_that_are_computed_have_the_ratio_of_the_formula(scales, count_scores):
    ratio = count_scores(head_scales=scales) / count_scores(head_scales=[1] * len(scales))
    assert ratio == sum(1 / scale**2 for scale in scales) / len(scales)
    queries_only = count_scores(head_scales=scales, key_scales=[1] * len(scales))
    assert queries_only == 512**2 * sum(1 / scale for scale in scales)
    exact = count_scores(head_scales=scales, head_mode="exact")
    assert exact == 512**2 * len(scales)


def test_short_sequences_do_not_pay_for_long_neighbours(count_scores, monkeypatch):
    model = MrsFormerModel(MrsFormerConfig(num_hidden_layers=1, head_scales=[1, 2]))
    lengths = [1000, 12, 300, 11, 1, 290]
    rows = []
    original = attention_multiresolution.SoftmaxHeads.attend

    def watched(self, query, key, value, mask=None):
        rows.append(query.shape[0] * query.shape[2] * key.shape[2])
        return original(self, query, key, value, mask)

    monkeypatch.setattr(attention_multiresolution.SoftmaxHeads, "attend", watched)
    model(**flatten([random_ids(n) for n in lengths]))
    needed = sum(n**2 + (-(-n // 2)) ** 2 for n in lengths)
    assert sum(rows) < 1.05 * needed


@pytest.mark.parametrize("kind", ["linear", "performer", "fmm", "linformer", "luna"])
def test_other_kinds_of_attention_are_linear_in_the_length(kind):
    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        numel = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if torch.is_tensor(result):
                Largest.numel = max(Largest.numel, result.numel())
            return result

    model = ROW.build(attention_type=kind, max_position_embeddings=4096)
    sizes = []
    for length in (1024, 4096):
        Largest.numel = 0
        with Largest(), torch.no_grad():
            model(random_ids(1, length))
        sizes.append(Largest.numel)
    assert sizes[1] < 5 * sizes[0]
    assert sizes[1] < 4096**2 / 2
