"""Trainings whose results are recorded, by name: which example each calls, and how."""

import json
from dataclasses import replace

from .arena import ARENA
from .experiment import BOTH_WAYS, MEDIUM, SMALL, Experiment, finetune, pretrain
from .lm_catalogue import LANGUAGE_MODELS
from .zoo_catalogue import ZOO

EXPERIMENTS: dict[str, Experiment] = {}

# which order and norm to choose: everything else equal, judged on the validation part
for order in ("rotate_mix", "mix_rotate"):
    for norm in ("none", "layer", "batch", "group"):
        EXPERIMENTS[f"blocks_{order}_{norm}"] = finetune(
            SMALL | {"block_order": order, "pre_norm": norm},
            *("--report_on", "validation", "--baselines", "none"),
            *("--num_train_epochs", "1", "--train_token_budget", "8192"),
        )

# what helps where species are new, judged on the validation part
EXPERIMENTS["choice_token_dropout"] = finetune(
    MEDIUM | {"rotation": "alternating"},
    *("--report_on", "validation", "--baselines", "none"),
    *("--split_column", "split_species", "--token_dropout", "0.15"),
    *("--num_train_epochs", "4", "--learning_rate", "4e-3", "--warmup_steps", "0.1"),
    *("--weight_decay", "0.01", "--train_token_budget", "8192"),
)

# the embedded genes: parts drawn at random, and parts that share no species
for split, column in (("random", "split"), ("species", "split_species")):
    EXPERIMENTS[f"genes_{split}"] = finetune(
        MEDIUM,
        *("--split_column", column),
        *("--num_train_epochs", "4", "--learning_rate", "4e-3", "--warmup_steps", "0.1"),
        *("--weight_decay", "0.01", "--train_token_budget", "8192"),
    )

# genes of twelve genera
for split, column in (("random", "split"), ("species", "split_species")):
    EXPERIMENTS[f"genus12_{split}"] = finetune(
        MEDIUM,
        *("--data", "{data}/dna_genus12/data.parquet"),
        *("--label_column", "genus", "--split_column", column),
        *("--num_train_epochs", "5", "--learning_rate", "4e-3", "--warmup_steps", "0.1"),
        *("--weight_decay", "0.01", "--train_token_budget", "8192"),
    )

# contigs of five species, 100 to 518,565 bases; those that lie on a training contig do not count.
# They are few and of either strand: long ones are cut for training, and read whole in the end by a
# model that hears 4,096 bases at a time
CONTIGS = {**SMALL, "pre_norm": "layer", "block_order": "mix_rotate"}
CONTIGS |= {"rotation": "alternating", "max_position_embeddings": 4096}
for name, chosen in (
    ("contigs5", ("--num_train_epochs", "4", "--learning_rate", "4e-3")),
    # less training, but no epoch has the cuts of another and some bases are hidden: the first
    # one learns its pieces by heart
    (
        "contigs5_rounds",
        (
            *("--cut_rounds", "3", "--token_dropout", "0.1", "--baselines", "kmer"),
            *("--num_train_epochs", "1", "--learning_rate", "2e-3"),
            *("--eval_strategy", "steps", "--eval_steps", "0.25"),
            *("--save_strategy", "steps", "--save_steps", "0.25"),
        ),
    ),
):
    EXPERIMENTS[name] = finetune(
        CONTIGS,
        *("--data", "{data}/dna_contigs5/data.parquet", "--label_column", "species"),
        *("--split_column", "split", "--score_column", "overlaps_train", "--class_weights", "true"),
        *("--cut_training", "4096", "--reverse_complement", "true"),
        *(*chosen, "--warmup_steps", "0.1", "--weight_decay", "0.01"),
        *("--train_token_budget", "8192"),
    )

# which rotation to choose, judged on a genome that is not the one held out below
for rotation in ("forward", "alternating"):
    EXPERIMENTS[f"rotation_{rotation}"] = pretrain(
        {**SMALL, "pre_norm": "layer", "block_order": "mix_rotate", "rotation": rotation},
        *("--held_out", "H_pylori_G27_1"),
        *("--num_windows", "13000", "--num_train_epochs", "1", "--num_eval_windows", "300"),
    )

# a genome of two chromosomes is held out
EXPERIMENTS["mlm_genomes"] = pretrain(
    BOTH_WAYS,
    *("--held_out", "V_cholerae_N16961_1", "V_cholerae_N16961_2"),
    *("--num_windows", "26000", "--num_train_epochs", "4", "--num_eval_windows", "500"),
)

# all labels, from that model
for split, column in (("random", "split"), ("species", "split_species")):
    EXPERIMENTS[f"genes_pretrained_{split}"] = Experiment(
        "finetune_classification",
        (
            *("--checkpoint", "{runs}/mlm_genomes", "--split_column", column),
            *("--num_train_epochs", "4", "--learning_rate", "2e-3", "--warmup_steps", "0.1"),
            *("--weight_decay", "0.01", "--train_token_budget", "8192", "--baselines", "kmer"),
        ),
    )

# the genomes are of two of the twelve genera, among others; their genes have no labels there
for split, column in (("random", "split"), ("species", "split_species")):
    EXPERIMENTS[f"genus12_pretrained_{split}"] = Experiment(
        "finetune_classification",
        (
            *("--checkpoint", "{runs}/mlm_genomes"),
            *("--data", "{data}/dna_genus12/data.parquet"),
            *("--label_column", "genus", "--split_column", column),
            *("--num_train_epochs", "4", "--learning_rate", "2e-3", "--warmup_steps", "0.1"),
            *("--weight_decay", "0.01", "--train_token_budget", "8192", "--baselines", "kmer"),
        ),
    )

# few labels: from that model, and from scratch with the same settings
for name, start in (
    ("few_scratch", ("--settings", json.dumps(BOTH_WAYS))),
    ("few_pretrained", ("--checkpoint", "{runs}/mlm_genomes")),
):
    few = (
        *("--train_fraction", "0.05", "--baselines", "kmer"),
        *("--num_train_epochs", "15", "--train_token_budget", "8192", "--patience", "15"),
        *("--eval_strategy", "steps", "--eval_steps", "0.2"),
        *("--save_strategy", "steps", "--save_steps", "0.2"),
    )
    EXPERIMENTS[name] = Experiment("finetune_classification", (*start, *few), seeds=(1, 2, 3))

# the adding problem; the longer one goes on from the shorter one, so both are built for its length
ADDING = {**SMALL, "max_position_embeddings": 31_800, "block_order": "rotate_mix"}
for name, budget in (("adding_200_large_steps", "16384"), ("adding_200", "4096")):
    EXPERIMENTS[name] = Experiment(
        "adding_problem",
        (
            *("--base_length", "200", "--settings", json.dumps(ADDING)),
            *("--num_train_epochs", "4", "--train_token_budget", budget),
        ),
    )
# on from there, with sequences and a test part that no model has seen
EXPERIMENTS["adding_200_longer"] = Experiment(
    "adding_problem",
    (
        *("--base_length", "200", "--checkpoint", "{runs}/adding_200", "--seed", "7"),
        *("--num_train_epochs", "2", "--learning_rate", "5e-4", "--train_token_budget", "4096"),
    ),
)
EXPERIMENTS["adding_1000"] = Experiment(
    "adding_problem",
    (
        *("--base_length", "1000", "--checkpoint", "{runs}/adding_200"),
        *("--num_train_epochs", "1", "--train_token_budget", "8192"),
    ),
)

# the Paramixer paper's tasks at one length; fewer examples than the paper's, in smaller steps where
# they are long, so that none takes an hour. The supplement gives adding learned positions, the
# authors' code none: both, because long sequences are hardly learned with them
NO_POSITIONS = ("--settings", json.dumps({"position_embedding_type": "none"}))
for name, examples, epochs, others in (
    ("adding_128", 100_000, "6", ()),
    ("adding_512", 100_000, "2", ("--batch_size", "20")),
    ("adding_2048", 60_000, "1", ("--batch_size", "16")),
    ("adding_512_no_positions", 100_000, "1", ("--batch_size", "10", *NO_POSITIONS)),
    ("adding_2048_no_positions", 60_000, "1", ("--batch_size", "8", *NO_POSITIONS)),
    ("adding_4096_no_positions", 28_000, "1", ("--batch_size", "6", *NO_POSITIONS)),
    ("temporal_order_512", 100_000, "2", ("--batch_size", "20")),
):
    task, length = name.removesuffix("_no_positions").rsplit("_", 1)
    EXPERIMENTS[f"paramixer_{name}"] = Experiment(
        "fixed_length_tasks",
        (
            *("--task", task, "--length", length, "--num_train", str(examples)),
            *("--num_train_epochs", epochs, "--lr_scheduler_type", "linear", *others),
        ),
    )

# Paramixers on the embedded genes: one of the size of the ChordMixer above, which learns nothing at
# about its learning rate, and one of the published width at a smaller rate
for name, width, settings, epochs, rate in (
    ("genes_paramixer", 128, {"num_hidden_layers": 2}, "4", "2e-3"),
    ("genes_paramixer_narrow_slow", 32, {}, "3", "3e-4"),
):
    EXPERIMENTS[name] = finetune(
        {"hidden_size": width, "intermediate_size": 128, **settings},
        *("--family", "paramixer", "--baselines", "none"),
        *("--num_train_epochs", epochs, "--learning_rate", rate, "--warmup_steps", "0.1"),
        *("--weight_decay", "0.01", "--train_token_budget", "8192"),
    )

# heads of a MrsFormer on the embedded vowels, each trained on all of the training part: settings
# were chosen on a fifth of it
SEEDS = (1, 2, 3, 4, 5)
ATTENTIONS = ("softmax", "linear", "linformer", "performer", "fmm", "luna")
SINGLE_SCALE = {"head_scales": [1] * 8}
VOWELS = {"plain_softmax": {"attention_type": "softmax", **SINGLE_SCALE}}
VOWELS |= {f"mrs_{kind}": {"attention_type": kind} for kind in ATTENTIONS}
# of dropouts of 0.1 (published), 0.2 and 0.3, the best on a fifth of the training part
VOWELS["mrs_linformer_dropout"] = {"attention_type": "linformer"} | dict.fromkeys(
    ("embedding_dropout", "hidden_dropout_prob", "classifier_dropout"), 0.2
)
for name, settings in VOWELS.items():
    EXPERIMENTS[f"vowels_{name}"] = Experiment(
        "time_series",
        (
            *("--preset", "japanese_vowels", "--settings", json.dumps(settings)),
            *("--validation_fraction", "0", "--num_train_epochs", "50"),
            *("--save_strategy", "no", "--load_best_model_at_end", "false"),
            *("--baseline", str(name == "mrs_softmax").lower()),
        ),
        seeds=SEEDS,
    )

# tables and digits: heads of several scales beside the same model with heads of one
TABLES = {
    "california": ("MedHouseVal", "12"),
    "adult": ("income", "3"),
}
for table, (target, epochs) in TABLES.items():
    for kind, settings in (("mrs", {}), ("plain", SINGLE_SCALE)):
        EXPERIMENTS[f"{table}_{kind}"] = Experiment(
            "tabular",
            (
                *("--data", f"{{data}}/tabular_{table}/data.parquet", "--target", target),
                *("--split_column", "split", "--settings", json.dumps(settings)),
                *("--learning_rate", "5e-4", "--lr_scheduler_type", "linear"),
                *("--num_train_epochs", epochs, "--baseline", str(kind == "mrs").lower()),
            ),
            seeds=SEEDS,
        )
# (with CLS pooling, smaller weights and larger steps, validation was still rising after six epochs)
DIGITS = {"hidden_size": 64, "num_hidden_layers": 3, "pooling": "mean"}
DIGITS |= {"position_embedding_type": "absolute", "initializer_range": 0.1}
for kind, scales in (("mrs", [1, 2, 2, 4]), ("plain", [1, 1, 1, 1])):
    EXPERIMENTS[f"mnist_{kind}"] = Experiment(
        "image_sequence",
        (
            *("--data", "{data}/image_mnist/data.npz"),
            *("--settings", json.dumps(DIGITS | {"head_scales": scales})),
            *("--learning_rate", "2e-3", "--per_device_train_batch_size", "32"),
            *("--num_train_epochs", "8", "--baseline", str(kind == "mrs").lower()),
        ),
        seeds=SEEDS,
    )

# some of these again, with the norm before the head and the start near a uniform guess of new ones;
# the results above are of models that started as published
SCALED = {"final_norm": "layer", "weight_init": "scaled"}
for earlier, settings in (
    ("california_mrs", {}),
    ("mnist_mrs", DIGITS | {"head_scales": [1, 2, 2, 4]}),
    ("vowels_mrs_softmax", {"attention_type": "softmax"}),
):
    words = list(EXPERIMENTS[earlier].arguments)
    words[words.index("--settings") + 1] = json.dumps(settings | SCALED)
    words[words.index("--baseline") + 1] = "false"
    EXPERIMENTS[f"{earlier}_start"] = Experiment(
        EXPERIMENTS[earlier].script, tuple(words), seeds=EXPERIMENTS[earlier].seeds[:3]
    )

# the same question for a ChordMixer: digits as sequences of pixels, and masked bases of a genome
# that is not the one held out above; both are short trainings
for name, settings in (
    ("published", {"final_norm": "none", "weight_init": "published"}),
    ("new", {}),
):
    EXPERIMENTS[f"start_chordmixer_{name}"] = Experiment(
        "run_arena",
        (
            *("--task", "image", "--path", "{data}/image_mnist/data.npz"),
            *("--family", "chordmixer", "--parameters", "100000"),
            *("--settings", json.dumps(settings), "--max_steps", "500"),
            *("--train_token_budget", "8192", "--learning_rate", "3e-3", "--warmup_steps", "0.1"),
            *("--muon_learning_rate", "2e-2", "--weight_decay", "0.01"),
        ),
        seeds=(0, 1, 2),
    )
    masked = pretrain(
        {**SMALL, "pre_norm": "layer", "block_order": "mix_rotate", **settings},
        *("--held_out", "H_pylori_G27_1"),
        *("--num_windows", "5000", "--num_train_epochs", "1", "--num_eval_windows", "300"),
    )
    EXPERIMENTS[f"start_bases_{name}"] = replace(masked, seeds=(0, 1, 2))

# further ones, by subject
EXPERIMENTS |= ZOO | LANGUAGE_MODELS
EXPERIMENTS |= {name: Experiment("run_arena", arguments) for name, arguments in ARENA.items()}
