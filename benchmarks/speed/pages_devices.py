"""The tables of the guide to GPUs and clusters, made from the CSV files."""

from pathlib import Path

from ..tables import Row, find_rows, make_table, read_rows
from .pages import describe_machines, show_memory, show_seconds

NAMES = {
    "chordmixer": "ChordMixer",
    "reversible": "ChordMixer, reversible",
    "paramixer": "Paramixer",
    "mrsformer": "MrsFormer",
    "combiner": "Combiner",
}
PARTS = {"num_hidden_layers": "block", "num_factors": "factor"}
MISSING = "Not measured yet.\n"


def _read(folder: Path, command: str) -> list[Row]:
    path = folder / f"{command}.csv"
    return find_rows(read_rows(path), status="ok") if path.exists() else []


def make_devices_section(folder: Path) -> str:
    """Operations and waits of a training step of each family."""
    rows = _read(folder, "devices")
    if not rows:
        return MISSING
    lines = [
        [
            NAMES[row["network"]],
            f"{row['operations_per_part']:g} per {PARTS[row['part']]}",
            f"{row['waits']}",
            f"{row['waits_without_checks']}",
        ]
        for row in rows
    ]
    header = ["", "operations", "waits of the host", "waits without checks"]
    tokens = rows[0]["tokens"]
    return f"{make_table(header, lines)}\nTen sequences, {tokens:,} tokens together.\n"


def make_parallel_section(folder: Path) -> str:
    """Bytes, waiting, errors and memory of processes that share a sequence."""
    rows = _read(folder, "parallel")
    if not rows:
        return MISSING
    steps = find_rows(rows, task="training step")
    lines = [
        [
            f"{NAMES[row['network']]}, {row['length']:,} tokens",
            f"{row['processes']}",
            show_seconds(row["median_s"]),
            *(_describe_exchange(row) if row["processes"] > 1 else [""] * 4),
        ]
        for row in steps
    ]
    header = ["training step", "processes", "time", "sent by each", "share of activations sent"]
    text = make_table([*header, "time in collectives", "largest error"], lines)
    long = find_rows(rows, task="long training step")
    if long:
        lines = [
            [
                f"{NAMES[row['network']]}, {row['length']:,} tokens",
                f"{row['processes']}",
                show_memory(row["process_peak_mib"]),
                f"{row['loss']:.6f}",
                f"{row['gradient_norm']:.6f}",
            ]
            for row in long
        ]
        header = ["training step", "processes", "peak memory of each", "loss", "norm of gradients"]
        text += f"\n{make_table(header, lines)}"
    return f"{text}\n{describe_machines(folder, ['parallel'])}"


def _describe_exchange(row: Row) -> list[str]:
    error = max(row["loss_error"], row["gradient_error"])
    shares = f"{row['sent_share']:.1%}, expected {row['expected_share']:.1%}"
    return [show_memory(row["sent_mib"]), shares, f"{row['waiting']:.0%}", f"{error:.1g}"]


def make_precision_section(folder: Path) -> str:
    """Accuracy and time of a trained model in each precision."""
    rows = _read(folder, "precision")
    if not rows:
        return MISSING
    inference, training = (find_rows(rows, task=task) for task in ("inference", "training"))
    lines = [
        [
            row["precision"],
            f"{row['masked_accuracy']:.2%}",
            f"{row['masked_agreement']:.2%}",
            f"{row['genus_accuracy']:.2%}",
            f"{row['genus_agreement']:.2%}",
            show_seconds(row["median_s"]),
        ]
        for row in inference
    ]
    header = ["inference", "masked bases", "as float32", "genus", "as float32", "time"]
    text = make_table(header, lines)
    header = ["training", "time of a step", "loss after eight steps"]
    lines = [
        [row["precision"], show_seconds(row["median_s"]), f"{row['loss']:.4f}"] for row in training
    ]
    counts = (
        f"{inference[0]['masked']:,} masked bases and {inference[0]['genes']} genes to classify"
    )
    machines = describe_machines(folder, ["precision"])
    return f"{text}\n{make_table(header, lines)}\n{counts}. {machines}"
