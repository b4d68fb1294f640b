"""Trainings whose results are recorded, by name: which example each calls, and how."""

import json
from dataclasses import dataclass, replace

from .arena import ARENA


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


# of the models: chosen on validation parts
SMALL = {"track_size": 8, "intermediate_size": 64}
MEDIUM = {"track_size": 12, "intermediate_size": 96, "pre_norm": "layer"}
MEDIUM |= {"block_order": "mix_rotate"}

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


def pretrain(settings: dict, *arguments: str) -> Experiment:
    """Masked language modelling on bacterial genomes, one of which is held out."""
    common = (
        *("--genomes", "{data}/dna_mlm_genomes/genomes.fa.gz", "--window", "100", "1500"),
        *("--learning_rate", "4e-3", "--muon_learning_rate", "0", "--train_token_budget", "8192"),
    )
    return Experiment("pretrain_mlm", ("--settings", json.dumps(settings), *common, *arguments))


# which rotation to choose, judged on a genome that is not the one held out below
for rotation in ("forward", "alternating"):
    EXPERIMENTS[f"rotation_{rotation}"] = pretrain(
        {**SMALL, "pre_norm": "layer", "block_order": "mix_rotate", "rotation": rotation},
        *("--held_out", "H_pylori_G27_1"),
        *("--num_windows", "13000", "--num_train_epochs", "1", "--num_eval_windows", "300"),
    )

# a genome of two chromosomes is held out
BOTH_WAYS = MEDIUM | {"rotation": "alternating", "max_position_embeddings": 16384}
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

# the pre-trained models of model_cards/: genes of 634 genera; first the k-mer part of the pooled
# vector learns their taxonomy alone, then all learns masked bases and taxonomy together
MICROBES = MEDIUM | {"rotation": "alternating", "max_position_embeddings": 16384, "ngram_size": 4}
MICROBES |= {"kmer_size": 5, "kmer_hidden_size": 256, "pooled_norm": "running"}
GENES = ("--data", "{data}/dna_marker_genes/data.parquet", "--ranks", "genus", "species")
EXPERIMENTS["microbes_joint"] = Experiment(
    "pretrain_taxonomy",
    (
        *("--data", "{data}/dna_marker_genes/data.parquet", "--settings", json.dumps(MICROBES)),
        *("--ranks", "genus", "species", "--rank_weights", "0.25", "0.1", "--max_length", "2048"),
        *("--label_smoothing", "0.05", "--profile_epochs", "5", "--rank_learning_rate", "3e-4"),
        *("--max_steps", "4000", "--train_token_budget", "8192", "--bf16", "true"),
        *("--learning_rate", "4e-3", "--muon_learning_rate", "2e-2", "--weight_decay", "0.01"),
    ),
)
# the k-mer part once more, which is better alone, on words of four letters by codon position; and
# three of these side by side, which learn independently
CODONS = {"kmer_size": 4, "kmer_phases": 3}
for name, settings in (("microbes", CODONS), ("microbes_encoders", CODONS | {"kmer_encoders": 3})):
    EXPERIMENTS[name] = Experiment(
        "pretrain_taxonomy",
        (
            *(*GENES, "--checkpoint", "{runs}/microbes_joint", "--profiles_only", "true"),
            *("--settings", json.dumps(settings)),
            *("--rank_weights", "1", "0.3", "--label_smoothing", "0.05", "--profile_epochs", "4"),
        ),
    )

# masked bases of genomes, on from there: the same genome is held out as in `mlm_genomes`
EXPERIMENTS["mlm_microbes"] = Experiment(
    "pretrain_mlm",
    (
        *("--checkpoint", "model_cards/chordmixer-microbes"),
        *("--genomes", "{data}/dna_mlm_genomes/genomes.fa.gz", "--window", "100", "1500"),
        *("--held_out", "V_cholerae_N16961_1", "V_cholerae_N16961_2"),
        *("--num_windows", "26000", "--num_train_epochs", "2", "--num_eval_windows", "500"),
        *("--learning_rate", "2e-3", "--muon_learning_rate", "1e-2", "--warmup_steps", "0.05"),
        *("--train_token_budget", "8192", "--weight_decay", "0.01", "--bf16", "true"),
    ),
)

# how large a model should be: masked bases of genes, the same tokens for all. Track size, width of
# the MLPs, and longest sequence, on which the numbers of tracks and blocks depend
SIZES = {
    "narrow": (6, 48, 16_384),
    "small": (8, 64, 16_384),
    "medium": (12, 96, 16_384),
    "wide": (16, 128, 16_384),
    "thick": (8, 192, 16_384),
    "shallow": (16, 128, 1_024),
}
for name, (track, inner, longest) in SIZES.items():
    sizes = {"track_size": track, "intermediate_size": inner, "max_position_embeddings": longest}
    EXPERIMENTS[f"size_{name}"] = Experiment(
        "pretrain_taxonomy",
        (
            *("--data", "{data}/dna_marker_genes/data.parquet", "--rank_weights", "0", "0"),
            *("--settings", json.dumps(MEDIUM | {"rotation": "alternating"} | sizes)),
            *("--mask_probability", "0.3", "0.3", "--max_length", "2048", "--max_steps", "300"),
            *("--train_token_budget", "8192", "--bf16", "true", "--learning_rate", "4e-3"),
            *("--muon_learning_rate", "2e-2", "--weight_decay", "0.01"),
        ),
    )

# a model of another family for comparison: the same data and k-mer part around a Combiner, which
# learns masked bases and taxonomy for a shorter time
COMBINER = {"hidden_size": 96, "intermediate_size": 384, "num_hidden_layers": 4}
COMBINER |= {"num_attention_heads": 4, "max_position_embeddings": 4096, "ngram_size": 4}
COMBINER |= CODONS | {"kmer_hidden_size": 256, "pooled_norm": "running"}
EXPERIMENTS["microbes_combiner"] = Experiment(
    "pretrain_taxonomy",
    (
        *(*GENES, "--family", "combiner", "--settings", json.dumps(COMBINER)),
        *("--rank_weights", "0.25", "0.1", "--max_length", "2048", "--label_smoothing", "0.05"),
        *("--profile_epochs", "4", "--rank_learning_rate", "3e-4", "--max_steps", "600"),
        *("--train_token_budget", "8192", "--bf16", "true", "--learning_rate", "3e-3"),
        *("--muon_learning_rate", "2e-2", "--weight_decay", "0.01"),
    ),
)

# classifiers from these models, by the defaults of fine-tuning: species that training has not seen
SPECIES_TASKS = {
    "genes": (),
    "genus12": ("--data", "{data}/dna_genus12/data.parquet", "--label_column", "genus"),
    "genus45": ("--data", "{data}/dna_genus45/data.parquet", "--label_column", "genus"),
    # 20 genes of a genus
    "genus45_few": (
        *("--data", "{data}/dna_genus45/data.parquet", "--label_column", "genus"),
        *("--train_fraction", "0.0455"),
    ),
}
# (of the other tasks k-mer regression is known from those who made the data, and takes long)
WITH_KMERS = ("genes", "genus45_few")
# what was recorded from each of the models; the one for comparison learns two of the tasks
for start, further, tasks in (
    ("microbes", (), SPECIES_TASKS),
    ("microbes_encoders", ("average",), SPECIES_TASKS),
    ("microbes_combiner", (), ("genes", "genus12")),
):
    for task, source in ((task, SPECIES_TASKS[task]) for task in tasks):
        EXPERIMENTS[f"{task}_{start}"] = Experiment(
            "finetune_classification",
            (
                *("--checkpoint", f"{{runs}}/{start}", *source, "--split_column", "split_species"),
                *("--bf16", "true", "--baselines", *(("kmer",) if task in WITH_KMERS else ())),
                *("codon", *further),
            ),
            # a regression on fixed vectors: nothing is drawn but the labelled genes
            seeds=(0, 1, 2) if task == "genus45_few" else (),
        )

# contigs have no reading frame, and lie on either strand: fine-tuning gives them another k-mer
# part, which learns from pieces of them. Pre-training has seen neither these genomes nor others
EXPERIMENTS["contigs5_microbes"] = Experiment(
    "finetune_classification",
    (
        *("--checkpoint", "{runs}/microbes"),
        *("--data", "{data}/dna_contigs5/data.parquet", "--label_column", "species"),
        *("--split_column", "split", "--score_column", "overlaps_train", "--class_weights", "true"),
        *("--cut_training", "2048", "--bf16", "true", "--baselines", "kmer", "average"),
    ),
)

# windows around splice sites of human genes, the site always at one place
SPLICE = MEDIUM | {"rotation": "alternating", "max_position_embeddings": 512, "ngram_size": 4}
SPLICE |= {"position_embedding_type": "absolute", "pooling": "attention"}
SPLICE |= {"classifier_dropout": 0.2, "hidden_dropout_prob": 0.1, "token_dropout": 0.1}
EXPERIMENTS["splice_chordmixer"] = finetune(
    SPLICE,
    *("--data", "{data}/dna_human_splice/data.parquet", "--label_column", "class"),
    *("--split_column", "split", "--score_column", "overlaps_train", "--baselines", "kmer", "cnn"),
    *("--num_train_epochs", "4", "--learning_rate", "2e-3", "--muon_learning_rate", "1e-2"),
    *("--warmup_steps", "0.1", "--weight_decay", "0.05", "--train_token_budget", "8192"),
    *("--bf16", "true"),
)

# variants that disrupt motifs planted in genomes: from scratch, and from the masked language model
# of genes in model_cards, which has seen neither these genomes nor the motifs. Windows that differ
# in one base have the same k-mers nearly, so that part of the model is left out
WITHOUT_KMERS = {"kmer_size": None, "pooled_norm": "none"}
for name, start in (
    ("scratch", ("--settings", json.dumps(BOTH_WAYS | {"ngram_size": 4}))),
    (
        "pretrained",
        (
            *("--checkpoint", "model_cards/chordmixer-microbes"),
            *("--settings", json.dumps(WITHOUT_KMERS)),
        ),
    ),
):
    EXPERIMENTS[f"variants_{name}"] = Experiment(
        "finetune_variants",
        (
            *(*start, "--genomes", "{data}/dna_mlm_genomes/genomes.fa.gz", "--window", "256"),
            *("--num_variants", "6000", "--num_train_epochs", "6", "--bf16", "true"),
            *("--learning_rate", "1e-3", "--muon_learning_rate", "6e-3", "--warmup_steps", "0.1"),
            *("--weight_decay", "0.05", "--train_token_budget", "8192"),
        ),
    )


def language_model(settings: dict, *arguments: str) -> Experiment:
    """A causal model with the same width, blocks and budget, whatever its attention."""
    common = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 4}
    common |= {"num_attention_heads": 4, "row_summary": "none"}
    return Experiment(
        "train_language_model",
        (
            *("--settings", json.dumps(common | settings), *arguments),
            *("--window", "1024", "--num_windows", "3200", "--num_train_epochs", "1"),
            *("--learning_rate", "3e-3", "--muon_learning_rate", "2e-2", "--warmup_steps", "0.05"),
            *("--per_device_train_batch_size", "2", "--max_eval_windows", "300"),
        ),
        seeds=(0, 1, 2),
    )


# Combiner next to full attention (a segment as long as the window) and to its sparse patterns
# without summaries; the rows' keys are those of tokens, so that all have as many parameters
_ATTENTIONS = {
    "full": {"pattern": "fixed", "segment_length": 1024},
    "fixed": {"pattern": "fixed"},
    "fixed_sparse": {"pattern": "fixed", "use_summaries": False},
    "axial_rowmajor": {"pattern": "axial_rowmajor"},
    "axial_sparse": {"pattern": "axial_mixture", "use_summaries": False},
}
_CORPORA = {
    "linux": ("--data", "{data}/longdoc_linux4/data.parquet", "--tokenizer", "char"),
    "genomes": ("--data", "{data}/dna_mlm_genomes/genomes.fa.gz", "--tokenizer", "dna"),
}
for corpus, given in _CORPORA.items():
    for attention, settings in _ATTENTIONS.items():
        EXPERIMENTS[f"lm_{corpus}_{attention}"] = language_model(settings, *given)
# vectors of the model as they are, next to those of k-mers
for start in ("microbes", "microbes_encoders"):
    EXPERIMENTS[f"genus45_frozen_{start}"] = Experiment(
        "evaluate_embeddings",
        (
            *("--checkpoint", f"{{runs}}/{start}", *SPECIES_TASKS["genus45"]),
            *("--split_column", "split_species", "--bf16", "true"),
        ),
    )

# tasks of the Long Range Arena, shortened
EXPERIMENTS |= {name: Experiment("run_arena", arguments) for name, arguments in ARENA.items()}
