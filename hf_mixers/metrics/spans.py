"""How far tokens look: the span of attention, and the receptive field by gradient."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel


def attention_span(model: PreTrainedModel, batches: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The required attention span of the Long Range Arena.

    For each query the mean distance to the keys, weighed by attention; the mean over queries, heads
    and layers. Padding counts neither as query nor as key.

    Args:
        model: Returns `attentions` of shape `(B, H, L, L)`, one per layer.
        batches: Padded inputs.
    """
    totals, counts, queries = None, 0, 0
    model.eval()
    for batch in batches:
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        with torch.no_grad():
            attentions = model(**inputs, output_attentions=True).attentions
        if not attentions:
            raise ValueError(
                f"{type(model).__name__} returns no attention: its receptive field can be measured"
                " by gradient."
            )
        mask = inputs.get("attention_mask")
        sums, number = zip(*(_layer_span(layer, mask) for layer in attentions), strict=True)
        found = np.array(sums)
        totals = found if totals is None else totals + found
        counts += number[0]
        queries += len(attentions[0])
    if totals is None:
        raise ValueError("A span needs at least one batch, got none.")
    layers = totals / counts
    return {"span": float(layers.mean()), "by_layer": layers.tolist(), "sequences": queries}


def _layer_span(weights: Tensor, mask: Tensor | None) -> tuple[float, int]:
    """Sum over real queries of their mean distance, averaged over heads; and their number."""
    if weights.dim() != 4 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError(
            f"Attention of shape {tuple(weights.shape)} was returned: (B, H, L, L) is needed for a"
            " span."
        )
    length = weights.shape[-1]
    if mask is not None and mask.shape[-1] != length:
        raise ValueError(
            f"Attention over {length} tokens was returned for sequences of {mask.shape[-1]}."
        )
    places = torch.arange(length, device=weights.device)
    distances = (places[:, None] - places).abs().to(weights.dtype)
    weights = weights.float()
    if mask is not None:
        weights = weights * mask[:, None, None].to(weights.dtype)
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
    spans = (weights * distances).sum(-1).mean(1)
    if mask is None:
        return float(spans.sum()), spans.numel()
    return float((spans * mask).sum()), int(mask.sum())


def receptive_field(
    model: PreTrainedModel,
    sequences: Sequence[Mapping[str, Tensor]],
    *,
    num_queries: int = 8,
    seed: int = 0,
) -> dict[str, Any]:
    """How far the output of a token depends on the input, by gradient.

    For random tokens of each sequence, the gradient of a random projection of their output with
    respect to every input vector; its norms, divided by their sum, take the place of attention.

    Args:
        model: A trunk that takes `inputs_embeds` (of token ids) or `input_values`, and returns
            `last_hidden_state`.
        sequences: One sequence each, `input_ids` or `input_values` with a batch of 1.
        num_queries: Tokens looked at in each.

    Returns:
        The mean distance (`span`), the distance within which 95% of the influence lies (`reach`),
        the share of inputs with an influence at all (`coverage`), and the influence by distance
        (`curve`).
    """
    generator = torch.Generator().manual_seed(seed)
    model.eval()
    spans, reaches, covered, curve = [], [], [], np.zeros(0)
    for sequence in sequences:
        inputs, hidden = _forward_from_vectors(model, sequence)
        length = hidden.shape[1]
        places = torch.randperm(length, generator=generator)[:num_queries].tolist()
        for number, place in enumerate(places):
            direction = torch.randn(hidden.shape[-1], generator=generator).to(hidden)
            (gradient,) = torch.autograd.grad(
                hidden[0, place] @ direction, inputs, retain_graph=number < len(places) - 1
            )
            influence = gradient[0].norm(dim=-1).double().cpu().numpy()
            covered.append(float((influence > 0).mean()))
            influence = influence / max(influence.sum(), 1e-300)
            distances = np.abs(np.arange(length) - place)
            spans.append(float((influence * distances).sum()))
            by_distance = np.bincount(distances, weights=influence)
            reaches.append(int(np.searchsorted(np.cumsum(by_distance), 0.95)))
            curve = _add(curve, by_distance)
    if not spans:
        raise ValueError("A receptive field needs at least one sequence, got none.")
    return {
        "span": float(np.mean(spans)),
        "reach": float(np.mean(reaches)),
        "coverage": float(np.mean(covered)),
        "curve": (curve / len(spans)).tolist(),
        "queries": len(spans),
    }


def _forward_from_vectors(
    model: PreTrainedModel, sequence: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Input vectors that have a gradient, and the outputs of all tokens."""
    if "input_values" in sequence:
        inputs = sequence["input_values"].clone().requires_grad_()
        return inputs, model(input_values=inputs).last_hidden_state
    vectors = model.get_input_embeddings()(sequence["input_ids"]).detach()
    inputs = vectors.requires_grad_()
    return inputs, model(inputs_embeds=inputs).last_hidden_state


def _add(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    size = max(len(one), len(other))
    return np.pad(one, (0, size - len(one))) + np.pad(other, (0, size - len(other)))
