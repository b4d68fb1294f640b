"""The names that users rely on: a fixed list, so that none comes or goes unseen."""

import importlib

import pytest

import hf_mixers

HEADS = (
    "Model",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForSequencePairClassification",
)
FAMILIES = {
    "chordmixer": "ChordMixer",
    "paramixer": "Paramixer",
    "mrsformer": "MrsFormer",
    "combiner": "Combiner",
}
NAMES = {
    *(f"{prefix}{name}" for prefix in FAMILIES.values() for name in ("Config", *HEADS)),
    "MrsFormerForImageClassification",
    "CombinerForCausalLM",
    "DnaTokenizer",
    "ByteTokenizer",
    "CharTokenizer",
    "GenomeTokenizer",
    "MixerTrainer",
    "MixerTrainingArguments",
    "AutoModelForSequencePairClassification",
    "FAMILIES",
    "Family",
    "register_family",
    "from_original",
    "reverse_complement",
    "push_with_code",
    "save_with_code",
}
# names of packages that guides and scripts use
OF_PACKAGES = {
    "hf_mixers.convert": {"from_original"},
    "hf_mixers.parallel": {"average_gradients", "context_parallel", "make_mesh"},
    "hf_mixers.tasks": {
        "adding_problem",
        "temporal_order",
        "listops",
        "pathfinder",
        "load_arena_task",
    },
    "hf_mixers.data": {
        "FlatCollator",
        "PaddedCollator",
        "MaskedLMCollator",
        "SplitOptions",
        "TokenBudgetBatchSampler",
        "load_embedded",
        "load_sequences",
        "make_parts",
        "split_by_column",
        "tokenize_sequences",
    },
    "hf_mixers.data.other": {"load_images", "load_table", "load_time_series"},
    "hf_mixers.training": {"MixerTrainer", "MixerTrainingArguments"},
    "hf_mixers.metrics": {"classification_report", "regression_report"},
    "hf_mixers.inference": {"embed", "predict"},
    "hf_mixers.recipes": {"finetune", "pretrain", "FinetuneOptions", "PretrainOptions"},
    "hf_mixers.publish": {"publish_folder", "push_with_code", "save_with_code"},
}


def test_the_package_has_these_names_and_no_others():
    assert set(hf_mixers.__all__) == NAMES
    assert len(hf_mixers.__all__) == len(NAMES), "no name twice"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_public_name_is_there(name):
    assert getattr(hf_mixers, name) is not None


@pytest.mark.parametrize("module", OF_PACKAGES)
def test_packages_have_the_names_that_guides_use(module):
    found = importlib.import_module(module)
    missing = {name for name in OF_PACKAGES[module] if not hasattr(found, name)}
    assert not missing
    if hasattr(found, "__all__"):
        assert set(found.__all__) >= OF_PACKAGES[module]
        assert all(hasattr(found, name) for name in found.__all__)


def test_model_types_are_the_families():
    assert list(hf_mixers.FAMILIES) == list(FAMILIES)
    for model_type, prefix in FAMILIES.items():
        config = getattr(hf_mixers, f"{prefix}Config")
        assert config.model_type == model_type
        for word in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"):
            assert hasattr(config(), word)


def test_a_name_that_is_not_there_is_missed_as_python_says_it():
    with pytest.raises(AttributeError, match="module 'hf_mixers' has no attribute 'Lstm'"):
        hf_mixers.Lstm  # noqa: B018 (looking it up is the test)
