"""Fine-tuning of pre-trained models adapts to the size of the data, and to nothing that was set."""

from hf_mixers.recipes import FinetuneArguments
from hf_mixers.recipes.adapt import TRAINING, adapt_arguments, adapt_fields, choose_epochs
from hf_mixers.recipes.options import CheckpointOptions


def arguments(tmp_path, **changes):
    return FinetuneArguments(output_dir=str(tmp_path), use_cpu=True, **changes)


def test_smaller_data_are_read_more_often():
    epochs = [choose_epochs(tokens) for tokens in (10**5, 10**6, 10**7, 10**8)]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[0] == 12
    assert epochs[-1] == 1


def test_checkpoints_get_their_own_defaults_and_new_models_keep_theirs(tmp_path):
    given = arguments(tmp_path)
    adapted = adapt_arguments(given, CheckpointOptions(checkpoint="some"), 5_000_000)
    assert {name: getattr(adapted, name) for name in TRAINING} == TRAINING
    assert adapted.num_train_epochs == 2.8
    for model in (CheckpointOptions(), CheckpointOptions(checkpoint="some", frozen=True)):
        assert adapt_arguments(given, model, 5_000_000) is given


def test_models_that_have_learned_classes_get_a_head_and_no_epochs(tmp_path):
    stored = {"pooled_norm": "running"}
    options = CheckpointOptions(checkpoint="some")
    assert adapt_arguments(arguments(tmp_path), options, 100, stored).num_train_epochs == 0
    asked = arguments(tmp_path, num_train_epochs=2)
    assert adapt_arguments(asked, options, 100, stored).num_train_epochs == 2
    without = CheckpointOptions(checkpoint="some", head_start=False)
    assert adapt_arguments(arguments(tmp_path), without, 100, stored).num_train_epochs == 12
    plain = {"pooled_norm": "none"}
    assert adapt_arguments(arguments(tmp_path), options, 100, plain).num_train_epochs == 12


def test_what_is_set_stays(tmp_path):
    given = arguments(tmp_path, learning_rate=5e-4, num_train_epochs=2)
    adapted = adapt_arguments(given, CheckpointOptions(checkpoint="some"), 100)
    assert (adapted.learning_rate, adapted.num_train_epochs) == (5e-4, 2)
    assert adapted.muon_learning_rate == TRAINING["muon_learning_rate"]
    options = CheckpointOptions(checkpoint="some", settings='{"token_dropout": 0.3}')
    assert adapt_fields(options, {"mask_token_id": 4}) == {"classifier_dropout": 0.2}


def test_smoothing_gives_way_to_class_weights_and_hiding_to_models_without_a_mask(tmp_path):
    options = CheckpointOptions(checkpoint="some", class_weights=True)
    assert adapt_arguments(arguments(tmp_path), options, 100).label_smoothing_factor == 0
    assert "token_dropout" not in adapt_fields(options, {"mask_token_id": None})
    frozen = CheckpointOptions(checkpoint="some", frozen=True)
    assert adapt_fields(frozen, {"mask_token_id": 4}) == {}
