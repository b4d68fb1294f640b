"""Linformer heads: learned mixtures of keys, which end at the length that a model is built for."""

import pytest
import torch

from .families import find_row, random_ids

ROW = find_row("mrsformer")


def test_linformer_has_no_more_rows_than_groups_and_refuses_longer_sequences():
    model = ROW.build(
        attention_type="linformer", head_scales=[1, 2, 8, 8], max_position_embeddings=24
    )
    heads = model.layers[0].attention.heads
    shapes = [tuple(p.shape) for p in heads.parameters()]
    assert shapes == [(1, 8, 24), (1, 8, 12), (2, 3, 3)]
    assert model(random_ids(1, 24)).last_hidden_state.isfinite().all()
    with pytest.raises(ValueError, match="25 tokens, but attention_type='linformer' has weights"):
        model(random_ids(1, 25))
    compiled = torch.compile(model, backend="eager")
    with pytest.raises(RuntimeError, match="but attention_type='linformer' has weights for 24"):
        compiled(random_ids(1, 25))
