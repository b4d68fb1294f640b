"""Hidden states of some blocks only, as transformers asks for them: `output_hidden_states=[1]`."""

import pytest
import torch

from tests.families import every_family, every_head, every_variant, example_inputs


@every_variant
def test_hidden_states_of_some_blocks_are_those_of_all(row, changes):
    model = row.build(**changes)
    inputs = example_inputs("model")
    whole = model(**inputs, output_hidden_states=True).hidden_states
    count, last = model.config.num_hidden_layers, model.config.num_hidden_layers - 1
    for wanted in ([0], (last,), {0, last}):
        output = model(**inputs, output_hidden_states=wanted)
        assert len(output.hidden_states) == count
        for number, state in enumerate(output.hidden_states):
            assert (state is not None) == (number in wanted)
            if state is not None:
                torch.testing.assert_close(state, whole[number + 1])
    for wrong in ([count], [-1], ["0"]):
        with pytest.raises(
            ValueError, match=rf"numbers of blocks in 0\.\.{last}, got {wrong[0]!r}"
        ):
            model(**inputs, output_hidden_states=wrong)


@every_family
@every_head
def test_every_head_gives_the_hidden_states_of_chosen_blocks(row, head):
    model = row.build(head)
    output = model(**example_inputs(head), output_hidden_states=[0])
    for name in ("hidden_states", "hidden_states_2"):
        if name in output:
            first, *others = output[name]
            assert first.shape[-1] == model.config.hidden_size
            assert others == [None] * (model.config.num_hidden_layers - 1)
