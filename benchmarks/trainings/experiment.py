"""What a recorded training is, and the models that several of them share."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Experiment:
    """One call of an example, or one for each of several seeds.

    In its arguments `{data}` stands for the folder of data sets and `{runs}` for that of models.
    """

    script: str
    arguments: tuple[str, ...]
    seeds: tuple[int, ...] = ()

    @property
    def needs_data(self) -> bool:
        return any("{data}" in argument for argument in self.arguments)

    @property
    def needs(self) -> str | None:
        """The experiment whose model this one starts from."""
        starts = [a for a in self.arguments if a.startswith("{runs}/")]
        return starts[0].removeprefix("{runs}/") if starts else None


def finetune(settings: dict, *arguments: str) -> Experiment:
    return Experiment("finetune_classification", ("--settings", json.dumps(settings), *arguments))


def pretrain(settings: dict, *arguments: str) -> Experiment:
    """Masked language modelling on bacterial genomes, one of which is held out."""
    common = (
        *("--genomes", "{data}/dna_mlm_genomes/genomes.fa.gz", "--window", "100", "1500"),
        *("--learning_rate", "4e-3", "--muon_learning_rate", "0", "--train_token_budget", "8192"),
    )
    return Experiment("pretrain_mlm", ("--settings", json.dumps(settings), *common, *arguments))


# of the models: chosen on validation parts
SMALL = {"track_size": 8, "intermediate_size": 64}
MEDIUM = {"track_size": 12, "intermediate_size": 96, "pre_norm": "layer"}
MEDIUM |= {"block_order": "mix_rotate"}
BOTH_WAYS = MEDIUM | {"rotation": "alternating", "max_position_embeddings": 16384}
