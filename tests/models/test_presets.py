"""Published configurations by name."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification
from transformers.utils import logging

from hf_mixers import FAMILIES, ParamixerConfig, ParamixerForSequenceClassification
from tests.families import every_family

every_preset = pytest.mark.parametrize(
    ("config_class", "task"),
    [
        pytest.param(family.config, task, id=f"{family.model_type}-{task}")
        for family in FAMILIES.values()
        for task in family.config.presets
    ],
)


@every_preset
def test_presets_build_and_survive_a_round_trip(config_class, task, tmp_path):
    config = config_class.preset(task)
    with torch.device("meta"):
        FAMILIES[config.model_type].model_class(AutoModelForSequenceClassification)(config)
    config.save_pretrained(tmp_path)
    again = AutoConfig.from_pretrained(tmp_path)
    again.name_or_path = ""
    assert again.to_dict() == config.to_dict()
    assert "presets" not in config.to_dict()


@every_preset
def test_presets_can_be_changed(config_class, task, caplog):
    labels = {number: f"class {number}" for number in range(5)}
    logging.enable_propagation()
    try:
        changed = config_class.preset(task, max_position_embeddings=64, id2label=labels)
    finally:
        logging.disable_propagation()
    assert not caplog.records
    assert (changed.max_position_embeddings, changed.num_labels) == (64, 5)
    assert config_class.preset(task).num_labels != 5


@every_family
def test_unknown_presets_are_refused_with_the_known_ones(row):
    known = ", ".join(row.family.config.presets)
    with pytest.raises(ValueError, match=f"has the presets {known}, got 'txet'"):
        row.family.config.preset("txet")


# task: longest, protocol, links, vocabulary, width, hidden width, positions, pooling, as printed
TABLE_1 = {
    "adding": (32768, "CHORD", 15, None, 32, 32, True, "FLAT"),
    "temporal_order": (16384, "CHORD", 14, 6, 32, 32, True, "FLAT"),
    "listops": (2000, "CHORD", 12, 16, 32, 32, True, "FLAT"),
    "cifar10": (1024, "CDIL", 3, 256, 32, 32, True, "FLAT"),
    "text": (4096, "CDIL", 9, 97, 32, 128, False, "CLS"),
    "pathfinder": (1024, "CHORD", 11, 256, 32, 32, True, "FLAT"),
    "long_document_16k": (16384, "CHORD", 15, 4290, 100, 128, False, "CLS"),
    "long_document_32k": (32768, "CHORD", 16, 4290, 100, 128, False, "CLS"),
    "genome": (16384, "CHORD", 15, 5, 32, 128, True, "FLAT"),
}
# the two synthetic rows leave out the link of a token to itself, which the others count
WITHOUT_SELF = {"adding", "temporal_order"}


@pytest.mark.parametrize("task", TABLE_1)
def test_presets_of_paramixer_are_table_1_of_the_supplement(task):
    longest, protocol, links, vocabulary, width, hidden, positions, pooling = TABLE_1[task]
    config = ParamixerConfig.preset(task)
    assert config.max_position_embeddings == longest
    assert config.link_protocol == protocol.lower()
    assert config.num_links == links + (task in WITHOUT_SELF)
    assert (config.hidden_size, config.intermediate_size) == (width, hidden)
    assert (config.position_embedding_type == "absolute") == positions
    assert config.pooling == {"FLAT": "flat", "CLS": "cls"}[pooling]
    if vocabulary is None:
        assert config.input_features == 2
    else:
        assert config.vocab_size == vocabulary
    assert set(ParamixerConfig.presets) == {*TABLE_1, "genome_with_n"}


def test_the_second_genome_task_has_a_letter_and_a_block_more():
    first, second = (ParamixerConfig.presets[name] for name in ("genome", "genome_with_n"))
    more = {"vocab_size": 6, "pad_token_id": 5, "num_hidden_layers": 2}
    assert second == {**first, **more}


@pytest.mark.parametrize("task", ["cifar10", "text"])
def test_a_preset_runs(task):
    config = ParamixerConfig.preset(task)
    model = ParamixerForSequenceClassification(config).eval()
    ids = torch.randint(0, 95, (2, config.max_position_embeddings))
    with torch.no_grad():
        logits = model(ids).logits
    assert logits.shape == (2, config.num_labels)
    assert logits.isfinite().all()
