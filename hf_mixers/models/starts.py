"""How layers of new models start: marks that `MixerPreTrainedModel._init_linear` reads."""

from torch import nn

from .configuration_mixer import MixerConfig


def start_as_output(layer: nn.Linear, config: MixerConfig) -> nn.Linear:
    """`layer` as the last one of a head, which starts near a uniform guess."""
    if config.weight_init == "scaled":
        # smaller where more is summed, as in flat pooling
        layer.start_deviation = min(0.02, 0.15 * layer.in_features**-0.5)
    return layer


def start_as_branch_end(layer: nn.Linear, config: MixerConfig) -> nn.Linear:
    """`layer` as the last one of a residual branch: all branches together start about as one."""
    if config.weight_init == "scaled":
        layer.start_gain = (2 * config.num_hidden_layers) ** -0.5
    return layer
