"""Pre-train a model of DNA by masked language modelling on genomes in FASTA files.

    python examples/pretrain_mlm.py --genomes genomes.fa.gz --held_out NC_000962.3 \
        --output_dir runs/mlm

Windows of random length are cut from random places, 30% of their bases are chosen, and the model
guesses them. Held-out records are never trained on; the model is scored on windows of them, beside
the frequency of bases and a Markov model that looks at bases on both sides. Without --genomes, the
genes that come with the package are used, with the test species held out.
`finetune_classification.py --checkpoint` takes the result.
"""

import math
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from accelerate.utils import gather_object
from transformers import HfArgumentParser
from transformers.trainer_utils import PredictionOutput

from hf_mixers import DnaTokenizer
from hf_mixers.baselines import MarkovBaseline
from hf_mixers.data import (
    FlatCollator,
    GenomeWindows,
    MaskedLMCollator,
    load_embedded,
    record_names,
)
from hf_mixers.metrics import masked_report
from hf_mixers.models.losses import IGNORED
from hf_mixers.recipes.options import RunArguments, choose_settings, parse_resume
from hf_mixers.recipes.supervised import find_family
from hf_mixers.reporting.files import write_table
from hf_mixers.reporting.plots import plot_by_length
from hf_mixers.reporting.run_folder import print_overall, write_run
from hf_mixers.training import MixerTrainer
from hf_mixers.training.processes import begin_run, hand_over, run_as_script


@dataclass
class Options:
    """Genomes, windows and model."""

    genomes: list[str] | None = field(
        default=None, metadata={"help": "FASTA files, folders or globs, plain or gzip."}
    )
    held_out: list[str] | None = field(
        default=None,
        metadata={
            "help": "Records for evaluation only, or parts of them as name:first-last; default:"
            " records with up to a tenth of the bases, or the end of a single one."
        },
    )
    window: list[int] = field(
        default_factory=lambda: [200, 4000], metadata={"help": "Shortest and longest window."}
    )
    num_windows: int = field(default=10_000, metadata={"help": "Training windows of an epoch."})
    num_eval_windows: int = field(default=500, metadata={"help": "Windows for evaluation."})
    mask_probability: float = field(default=0.3, metadata={"help": "Share of bases to guess."})
    reverse_complement: bool = field(
        default=True, metadata={"help": "Cut half of the windows from the other strand."}
    )
    family: str = field(default="chordmixer", metadata={"help": "Family of the model."})
    settings: str | None = field(
        default=None,
        metadata={"help": 'JSON of config fields, such as {"decoder_type": "chordmixer"}.'},
    )
    markov_order: int = field(
        default=5, metadata={"help": "Bases on either side that the Markov baseline looks at."}
    )
    smoke: bool = field(default=False, metadata={"help": "A run of seconds, to see that it works."})

    def __post_init__(self):
        if self.held_out and self.genomes is None:
            raise SystemExit("--held_out names records of --genomes, which were not given.")
        if len(self.window) != 2:
            raise SystemExit(f"--window is the shortest and the longest, got {self.window}.")


@dataclass
class Arguments(RunArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/mlm")
    num_train_epochs: float = field(default=10)
    learning_rate: float = field(default=2e-3)


def main(arguments: list[str] | None = None) -> dict:
    options, training = HfArgumentParser((Options, Arguments)).parse_args_into_dataclasses(
        arguments
    )
    begin_run(training)
    if options.smoke:
        options.num_windows, options.num_eval_windows, options.window = 40, 10, [100, 400]
        training.num_train_epochs, options.markov_order = 1, 2
    with tempfile.TemporaryDirectory() as folder:
        files, held_out, name = find_genomes(options, Path(folder))
        return run(options, training, files, held_out, name)


def run(options: Options, training: Arguments, files, held_out: list[str], name: str) -> dict:
    """Train, score next to the baselines, write the results."""
    tokenizer = DnaTokenizer()
    orders = {"base frequency": 0}
    orders[f"Markov, {options.markov_order} bases each side"] = options.markov_order
    # before training, as they may be refused
    baselines = {name: MarkovBaseline(order) for name, order in orders.items()}
    settings = {"max_unknown": 0.1, "length": tuple(options.window)}
    train = GenomeWindows(
        files,
        tokenizer,
        num_windows=options.num_windows,
        exclude=held_out,
        seed=training.seed,
        reverse_complement=options.reverse_complement,
        **settings,
    )
    evaluation = GenomeWindows(
        files,
        tokenizer,
        num_windows=options.num_eval_windows,
        records=held_out,
        seed=training.seed + 1,
        **settings,
    )
    family = find_family(options.family)
    fields = {"max_position_embeddings": options.window[1]}
    fields |= choose_settings(options.family, options.settings)
    model = family.masked_lm(family.config(vocab_size=len(tokenizer), **fields))
    print(f"{type(model).__name__}: {model.num_parameters():,} parameters", flush=True)
    collator = MaskedLMCollator(
        FlatCollator(), tokenizer, options.mask_probability, seed=training.seed
    )
    trainer = MixerTrainer(
        model,
        training,
        train_dataset=train,
        eval_dataset=evaluation,
        data_collator=collator,
        compute_metrics=lambda p: {"accuracy": float((p.predictions == p.label_ids).mean())},
        preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1),
        processing_class=tokenizer,
    )
    trainer.train(resume_from_checkpoint=parse_resume(training))
    predicted = trainer.predict(evaluation)
    guessed = gather_guessed(trainer)
    if not hand_over(trainer):
        return {}
    own = score_windows(predicted, guessed, Path(training.output_dir))
    reports = {"model": own} | score_baselines(baselines, train, guessed)
    results = write_run(
        trainer,
        reports,
        options=[options],
        dataset_name=name,
        task="fill-mask",
        plots=["by_length.png"],
        processor=tokenizer,
    )
    print_overall(reports)
    print(f"Everything is in {training.output_dir}/", flush=True)
    return results


def find_genomes(options: Options, folder: Path) -> tuple[list[str], list[str], str]:
    """FASTA files, names of the held-out records, and what to call the data."""
    if options.genomes is None:
        path = folder / "genes.fa"
        genes = load_embedded()
        with open(path, "w") as file:
            file.writelines(
                f">{i}\n{s}\n" for i, s in zip(genes["id"], genes["sequence"], strict=True)
            )
        test = [
            i for i, part in zip(genes["id"], genes["split_species"], strict=True) if part == "test"
        ]
        return [str(path)], test, "clostridium_mycoplasma"
    records = record_names(options.genomes)
    held_out = options.held_out or choose_held_out(records, options.window[0])
    total = sum(length for _, length in records)
    print(f"{len(records)} records, {total:,} bases; held out: {', '.join(held_out)}", flush=True)
    if set(held_out) >= {record for record, _ in records}:
        raise SystemExit("Hold out some records, not all: nothing is left to train on.")
    return options.genomes, held_out, ", ".join(Path(file).name for file in options.genomes)


def choose_held_out(records: list[tuple[str, int]], shortest: int) -> list[str]:
    """Records for evaluation: up to a tenth of all bases, in records as long as there are.

    Where all are longer than that, the shortest; of a single one, or one that is most of a genome,
    the last tenth.
    """
    usable = sorted((record for record in records if record[1] >= shortest), key=lambda r: -r[1])
    if not usable:
        raise SystemExit(f"No record has the {shortest} bases of the shortest window.")
    total = sum(length for _, length in usable)
    chosen, room = [], total // 10
    for name, length in usable:
        if length <= room:
            chosen.append(name)
            room -= length
    if chosen:
        return chosen
    name, length = usable[-1]
    if length <= total / 2 and len(usable) > 1:
        return [name]
    return [f"{name}:{length - length // 10 + 1}-{length}"]


def gather_guessed(trainer: MixerTrainer) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ids and labels of the windows that the model was evaluated on, in all processes."""
    windows = {}
    loader = trainer.get_eval_dataloader()
    for indices, batch in zip(list(loader.batch_sampler), loader, strict=True):
        boundaries = batch["cu_seq_lens_q"][1:-1].tolist()
        rows = (batch[name][0].cpu().numpy() for name in ("input_ids", "labels"))
        parts = zip(*(np.split(row, boundaries) for row in rows), strict=True)
        windows |= dict(zip(indices, parts, strict=True))
    for others in gather_object([windows]):
        windows |= others
    return [windows[index] for index in sorted(windows)]


def score_windows(
    predicted: PredictionOutput, guessed: list[tuple[np.ndarray, np.ndarray]], folder: Path
) -> dict:
    """What the model guessed right, overall and by length of the window, also as table and plot."""
    masked = np.array([(labels != IGNORED).sum() for _, labels in guessed])
    hits = np.split(predicted.predictions == predicted.label_ids, np.cumsum(masked)[:-1])
    correct, lengths = [part.sum() for part in hits], [len(ids) for ids, _ in guessed]
    columns = {"length": lengths, "masked": masked, "correct": correct}
    write_table(folder / "predictions.csv", columns)
    report = masked_report(correct, masked, lengths)
    plot_by_length({"model": report}, folder / "by_length.png", metric="accuracy")
    report["overall"]["perplexity"] = {"value": math.exp(predicted.metrics["test_loss"])}
    return report


def score_baselines(
    baselines: dict[str, MarkovBaseline],
    train: GenomeWindows,
    guessed: list[tuple[np.ndarray, np.ndarray]],
) -> dict:
    """Base frequency and two-sided Markov model at the positions that the model guessed."""
    windows = [train[i]["input_ids"] for i in range(len(train))]
    ids, labels = zip(*guessed, strict=True)
    return {name: baseline.fit(windows).score(ids, labels) for name, baseline in baselines.items()}


if __name__ == "__main__":
    run_as_script(main)
