"""Recorded trainings of the models in `model_cards/`, and of what is made from them."""

import json

from .experiment import BOTH_WAYS, MEDIUM, Experiment, finetune

ZOO: dict[str, Experiment] = {}

# the pre-trained models of model_cards/: genes of 634 genera; first the k-mer part of the pooled
# vector learns their taxonomy alone, then all learns masked bases and taxonomy together
MICROBES = MEDIUM | {"rotation": "alternating", "max_position_embeddings": 16384, "ngram_size": 4}
MICROBES |= {"kmer_size": 5, "kmer_hidden_size": 256, "pooled_norm": "running"}
GENES = ("--data", "{data}/dna_marker_genes/data.parquet", "--ranks", "genus", "species")
ZOO["microbes_joint"] = Experiment(
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
    ZOO[name] = Experiment(
        "pretrain_taxonomy",
        (
            *(*GENES, "--checkpoint", "{runs}/microbes_joint", "--profiles_only", "true"),
            *("--settings", json.dumps(settings)),
            *("--rank_weights", "1", "0.3", "--label_smoothing", "0.05", "--profile_epochs", "4"),
        ),
    )

# for reads, contigs and genes of unknown strand: words of both strands, learned from pieces of the
# genes, as many bases as reads have to as many as most genes have
WITHOUT_FRAME = {"kmer_size": 5, "kmer_phases": 1, "kmer_strands": "both", "kmer_encoders": 2}
ZOO["microbes_reads"] = Experiment(
    "pretrain_taxonomy",
    (
        *(*GENES, "--checkpoint", "model_cards/chordmixer-microbes", "--profiles_only", "true"),
        *("--settings", json.dumps(WITHOUT_FRAME), "--profile_lengths", "80", "2000"),
        *("--rank_weights", "1", "0.3", "--label_smoothing", "0.05", "--profile_epochs", "8"),
    ),
)

# masked bases of genomes, on from there: the same genome is held out as in `mlm_genomes`
ZOO["mlm_microbes"] = Experiment(
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

# the same after more masked bases of genes, of both strands and without taxonomy; no gene is of the
# genus of the genome that is held out
ZOO["microbes_bases"] = Experiment(
    "pretrain_taxonomy",
    (
        *("--checkpoint", "model_cards/chordmixer-microbes"),
        *("--data", "{data}/dna_marker_genes/data.parquet", "--rank_weights", "0", "0"),
        *("--mask_probability", "0.2", "0.4", "--max_length", "2048", "--max_steps", "12000"),
        *("--strand_probability", "0.5", "--train_token_budget", "8192", "--bf16", "true"),
        *("--learning_rate", "2e-3", "--muon_learning_rate", "1e-2", "--weight_decay", "0.01"),
    ),
)
ZOO["mlm_microbes_bases"] = Experiment(
    "pretrain_mlm",
    (
        *("--checkpoint", "{runs}/microbes_bases"),
        *("--genomes", "{data}/dna_mlm_genomes/genomes.fa.gz", "--window", "100", "1500"),
        *("--held_out", "V_cholerae_N16961_1", "V_cholerae_N16961_2"),
        # four times as many windows, each seen once
        *("--num_windows", "100000", "--num_train_epochs", "1", "--num_eval_windows", "500"),
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
    ZOO[f"size_{name}"] = Experiment(
        "pretrain_taxonomy",
        (
            *("--data", "{data}/dna_marker_genes/data.parquet", "--rank_weights", "0", "0"),
            *("--settings", json.dumps(MEDIUM | {"rotation": "alternating"} | sizes)),
            *("--mask_probability", "0.3", "0.3", "--max_length", "2048", "--max_steps", "300"),
            *("--train_token_budget", "8192", "--bf16", "true", "--learning_rate", "4e-3"),
            *("--muon_learning_rate", "2e-2", "--weight_decay", "0.01"),
        ),
    )

# moving averages of the weights, where the learning rate ends at zero and where it stays
MEDIUM_SIZE = ZOO["size_medium"].arguments
CONSTANT = ("--lr_scheduler_type", "constant_with_warmup", "--warmup_steps", "30")
AVERAGED = ("--weight_average_decay", "0.98")
for name, further in (
    ("averaged", AVERAGED),
    ("small_batches", ("--train_token_budget", "4096", "--max_steps", "600")),
    ("large_batches", ("--train_token_budget", "16384", "--max_steps", "150")),
    ("constant", CONSTANT),
    ("constant_averaged", CONSTANT + AVERAGED),
):
    ZOO[f"schedule_{name}"] = Experiment("pretrain_taxonomy", MEDIUM_SIZE + further)

# bases hidden in runs instead of one by one, which evaluations always do; the last one in codons
for name, further in (
    ("runs", ("--mask_span", "1", "6")),
    ("triplets", ("--mask_span", "3", "3")),
    ("codons", ("--mask_span", "3", "3", "--mask_frame", "3")),
):
    ZOO[f"masks_{name}"] = Experiment("pretrain_taxonomy", MEDIUM_SIZE + further)

# a model of another family for comparison: the same data and k-mer part around a Combiner, which
# learns masked bases and taxonomy for a shorter time
COMBINER = {"hidden_size": 96, "intermediate_size": 384, "num_hidden_layers": 4}
COMBINER |= {"num_attention_heads": 4, "max_position_embeddings": 4096, "ngram_size": 4}
COMBINER |= CODONS | {"kmer_hidden_size": 256, "pooled_norm": "running"}
ZOO["microbes_combiner"] = Experiment(
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
        ZOO[f"{task}_{start}"] = Experiment(
            "finetune_classification",
            (
                *("--checkpoint", f"{{runs}}/{start}", *source, "--split_column", "split_species"),
                *("--bf16", "true", "--baselines", *(("kmer",) if task in WITH_KMERS else ())),
                *("codon", *further),
            ),
            # a regression on fixed vectors: nothing is drawn but the labelled genes
            seeds=(0, 1, 2) if task == "genus45_few" else (),
        )
# reads of 150 bases of the twelve genera, of either strand
for start in ("microbes", "microbes_reads"):
    ZOO[f"reads12_{start}"] = Experiment(
        "finetune_classification",
        (
            *("--checkpoint", f"{{runs}}/{start}", *SPECIES_TASKS["genus12"], "--bf16", "true"),
            *("--split_column", "split_species", "--read_length", "150"),
            *("--baselines", "kmer", "kmer_best"),
        ),
    )
# whether to train more than the head, and how: on validation rows
for name, further in (
    ("head", ()),
    ("epoch", ("--num_train_epochs", "1")),
    ("layers", ("--num_train_epochs", "1", "--layer_learning_rate_decay", "0.7")),
):
    ZOO[f"choice_genus12_{name}"] = Experiment(
        "finetune_classification",
        (
            *("--checkpoint", "{runs}/microbes", *SPECIES_TASKS["genus12"], "--bf16", "true"),
            *("--split_column", "split_species", "--report_on", "validation", *further),
        ),
    )

# contigs have no reading frame, and lie on either strand: fine-tuning gives them another k-mer
# part, which learns from a few pieces of each. Pre-training has seen neither these genomes nor
# others. How many pieces was chosen on the validation part
CONTIGS = (
    *("--checkpoint", "{runs}/microbes", "--label_column", "species"),
    *("--data", "{data}/dna_contigs5/data.parquet", "--split_column", "split"),
    *("--score_column", "overlaps_train", "--class_weights", "true", "--bf16", "true"),
    *("--baselines", "kmer", "average"),
)
ZOO["contigs5_microbes"] = Experiment("finetune_classification", CONTIGS)
for name, pieces in (("5", "5"), ("20", "20"), ("all", None)):
    ZOO[f"choice_contigs_{name}"] = Experiment(
        "finetune_classification",
        (
            *(*CONTIGS, "--report_on", "validation", "--cut_training", "2048"),
            *(("--cut_pieces", pieces) if pieces else ()),
        ),
    )

ZOO["choice_contigs_reads"] = Experiment(
    "finetune_classification",
    (
        *("--checkpoint", "{runs}/microbes_reads", *CONTIGS[2:], "--report_on", "validation"),
        *("--cut_training", "2048", "--cut_pieces", "5"),
    ),
)

# windows around splice sites of human genes, the site always at one place
SPLICE = MEDIUM | {"rotation": "alternating", "max_position_embeddings": 512, "ngram_size": 4}
SPLICE |= {"position_embedding_type": "absolute", "pooling": "attention"}
SPLICE |= {"classifier_dropout": 0.2, "hidden_dropout_prob": 0.1, "token_dropout": 0.1}
ZOO["splice_chordmixer"] = finetune(
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
    ZOO[f"variants_{name}"] = Experiment(
        "finetune_variants",
        (
            *(*start, "--genomes", "{data}/dna_mlm_genomes/genomes.fa.gz", "--window", "256"),
            *("--num_variants", "6000", "--num_train_epochs", "6", "--bf16", "true"),
            *("--learning_rate", "1e-3", "--muon_learning_rate", "6e-3", "--warmup_steps", "0.1"),
            *("--weight_decay", "0.05", "--train_token_budget", "8192"),
        ),
    )

# vectors of the model as they are, next to those of k-mers
for start in ("microbes", "microbes_encoders"):
    ZOO[f"genus45_frozen_{start}"] = Experiment(
        "evaluate_embeddings",
        (
            *("--checkpoint", f"{{runs}}/{start}", *SPECIES_TASKS["genus45"]),
            *("--split_column", "split_species", "--bf16", "true"),
        ),
    )
