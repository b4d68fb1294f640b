"""Arguments of a training keep the token in memory, and leave it out of files."""

from copy import deepcopy
from dataclasses import replace

import torch

from hf_mixers import MixerTrainingArguments
from hf_mixers.recipes.options import RunArguments

TOKEN = "hf_SecretSecretSecretSecret"


def test_saved_arguments_have_no_token(tmp_path):
    for kind in (MixerTrainingArguments, RunArguments):
        arguments = kind(str(tmp_path), hub_token=TOKEN, learning_rate=0.5)
        torch.save(arguments, tmp_path / "training_args.bin")
        assert TOKEN.encode() not in (tmp_path / "training_args.bin").read_bytes()
        loaded = torch.load(tmp_path / "training_args.bin", weights_only=False)
        assert (loaded.hub_token, loaded.learning_rate) == (None, 0.5)
        assert arguments.hub_token == TOKEN


def test_copies_in_memory_keep_the_token(tmp_path):
    arguments = MixerTrainingArguments(str(tmp_path), hub_token=TOKEN, train_token_budget=7)
    for copy in (deepcopy(arguments), replace(arguments)):
        assert (copy.hub_token, copy.train_token_budget) == (TOKEN, 7)
        copy.label_names = ["labels"]
        assert arguments.label_names is None
