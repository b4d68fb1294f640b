"""Small files that the commands are given."""

import json

import numpy as np

# config fields of models that train in a second
SMALL = (
    "--set",
    "track_size=4",
    "--set",
    "intermediate_size=8",
    "--set",
    "max_position_embeddings=64",
)


def write_genes(path, count=48):
    """Genes of eight species of two genera, which the headers name."""
    chance = np.random.default_rng(0)
    records = []
    for number in range(count):
        genus = ("Bos", "Sus")[number % 2]
        weights = [0.4, 0.1, 0.1, 0.4] if genus == "Bos" else [0.1, 0.4, 0.4, 0.1]
        sequence = "".join(chance.choice(list("ACGT"), 20 + number % 7, p=weights))
        species = f"{genus} species{number % 8}"
        records.append(f">gene{number} some protein [{species}]\n{sequence}\n")
    path.write_text("".join(records))
    return path


def write_genome(path):
    chance = np.random.default_rng(1)
    lengths = {"chromosome": 3000, "plasmid": 300}
    path.write_text(
        "".join(
            f">{name}\n{''.join(chance.choice(list('ACGT'), length))}\n"
            for name, length in lengths.items()
        )
    )
    return path


def read_metrics(folder):
    return json.loads((folder / "metrics.json").read_text())


def numbers_of(results):
    """What must be equal when a run is repeated: losses and scores, and no times."""
    timed = ("runtime", "per_second")
    history = [
        {k: v for k, v in entry.items() if not k.endswith(timed)} for entry in results["history"]
    ]
    return {"history": history, "test": results.get("test"), "rows": results["rows"]}
