"""Train a language model of a text or FASTA file: characters, bytes or bases; causal or masked.

    python examples/train_language_model.py --data book.txt --output_dir runs/book
    python examples/train_language_model.py --data genomes.fa.gz --tokenizer dna --window 4096
    python examples/train_language_model.py --data book.txt --model gpt2 \
        --settings '{"n_embd": 128, "n_layer": 2, "n_head": 4}'

`--model` is a family of this package or any model type of transformers. A table (parquet) names the
parts of its texts in a column; of other files the last tenth of every text is for testing and the
tenth before it for validation. The report has loss, perplexity and bits per character of the test
part next to n-gram models on the same windows.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from transformers import HfArgumentParser

from hf_mixers.baselines.ngrams import NgramBaseline, describe_loss
from hf_mixers.cli import run_as_script
from hf_mixers.data import TokenWindows
from hf_mixers.recipes.language_model import (
    build_language_model,
    count_characters,
    encode_parts,
    load_texts,
    make_collator,
    make_tokenizer,
)
from hf_mixers.recipes.options import (
    RunArguments,
    change_arguments,
    find_checkpoint,
    parse_settings,
)
from hf_mixers.recipes.path import begin_run, save_model
from hf_mixers.reporting.environment import run_environment
from hf_mixers.reporting.files import write_json
from hf_mixers.training import MixerTrainer


@dataclass
class Options:
    """Data, tokens and model."""

    data: str = field(metadata={"help": "Text, FASTA, FASTQ, GenBank (also gzip) or parquet."})
    text_column: str = field(default="text", metadata={"help": "Column of a table."})
    split_column: str = field(default="split", metadata={"help": "Column with the parts."})
    tokenizer: str = field(default="char", metadata={"help": "'char', 'byte' or 'dna'."})
    objective: str = field(default="causal", metadata={"help": "'causal' or 'masked'."})
    mask_probability: float = field(default=0.15, metadata={"help": "Of masked models."})
    model: str = field(default="combiner", metadata={"help": "Family or model type."})
    settings: str = field(default="{}", metadata={"help": "JSON of config fields."})
    window: int = field(default=1024, metadata={"help": "Tokens of a window."})
    num_windows: int = field(default=2000, metadata={"help": "Training windows of an epoch."})
    max_eval_windows: int = field(default=500, metadata={"help": "Windows of an evaluation."})
    ngram_orders: list[int] = field(default_factory=lambda: [0, 3, 5])
    report_on: str = field(default="test", metadata={"help": "'test' or 'validation'."})
    smoke: bool = field(default=False, metadata={"help": "A run of seconds."})

    def __post_init__(self) -> None:
        if self.report_on not in ("test", "validation"):
            raise ValueError(f"report_on must be test or validation, got {self.report_on!r}.")
        for name in ("num_windows", "max_eval_windows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")


@dataclass
class Arguments(RunArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/language_model")
    num_train_epochs: float = field(default=3)
    learning_rate: float = field(default=1e-3)
    train_token_budget: int | None = field(default=None)
    # the loss is then the mean over all tokens, not over batches
    eval_token_budget: int | None = field(default=32_768)
    per_device_train_batch_size: int = field(default=8)


def main(arguments: list[str] | None = None) -> dict:
    options, training = HfArgumentParser((Options, Arguments)).parse_args_into_dataclasses(
        arguments
    )
    begin_run(training, smoke=options.smoke)
    training = change_arguments(training, prediction_loss_only=True)
    if options.smoke:
        options.num_windows, options.max_eval_windows, options.window = 16, 4, 64
        training = change_arguments(training, num_train_epochs=1)
    texts = load_texts(options.data, options.text_column, options.split_column)
    tokenizer = make_tokenizer(options.tokenizer, texts.get("train") or texts["all"])
    parts = encode_parts(texts, tokenizer)
    train = TokenWindows(parts["train"], options.window, options.num_windows, training.seed)
    held_out = {}
    for part in ("validation", options.report_on):
        # spread over all texts, the same for every seed
        windows = TokenWindows(parts[part], options.window)
        step = -(-len(windows) // options.max_eval_windows)
        held_out[part] = [windows[place] for place in range(0, len(windows), step)]
    model = build_language_model(
        options.model,
        options.objective,
        tokenizer,
        options.window,
        parse_settings(options.settings),
    )
    orders = options.ngram_orders if options.objective == "causal" else []
    baselines = {order: NgramBaseline(order, len(tokenizer)) for order in orders}
    print(f"{type(model).__name__}: {model.num_parameters():,} parameters", flush=True)
    trainer = MixerTrainer(
        model,
        training,
        train_dataset=train,
        eval_dataset=held_out["validation"],
        data_collator=make_collator(
            options.model,
            options.objective,
            tokenizer,
            options.mask_probability,
            training.seed,
        ),
    )
    trainer.train(resume_from_checkpoint=find_checkpoint(training))
    rows = [row["input_ids"] for row in held_out[options.report_on]]
    count = sum(len(ids) - 1 for ids in rows)
    loss = trainer.evaluate(held_out[options.report_on])["eval_loss"]
    if not save_model(trainer):
        return {}
    reports = {"model": describe_loss(loss, count)}
    for order, baseline in baselines.items():
        reports[f"{order + 1}-grams"] = baseline.fit(parts["train"]).score(rows)
    tokens_per_character = count / max(1, count_characters(rows, tokenizer))
    for name, report in reports.items():
        report["bits_per_character"] = report["bits_per_token"] * tokens_per_character
        print(f"{name}: perplexity {report['perplexity']:.4f}", end=", ")
        print(f"{report['bits_per_character']:.4f} bits per character", flush=True)
    folder = Path(training.output_dir)
    tokenizer.save_pretrained(folder)
    results = {
        "smoke": options.smoke,
        options.report_on: reports,
        "history": trainer.state.log_history,
        "options": asdict(options),
        "config": model.config.to_diff_dict(),
        "parameters": model.num_parameters(),
        "environment": run_environment(training.seed),
    }
    write_json(folder / "metrics.json", results)
    return results


if __name__ == "__main__":
    run_as_script(main)
