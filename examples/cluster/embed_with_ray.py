"""Embed sequence files on a Ray cluster, when one machine is too small.

    python examples/cluster/embed_with_ray.py --model runs/pretrain --files genomes/*.fa \
        --output vectors --concurrency 8 --num_gpus 1

Every file is read in `--shards` parts, which are spread over the cluster. Each of `--concurrency`
workers holds the model once and packs the sequences that it gets by tokens, as `hf-mixers embed`
does, so a vector is the same as there. The output is a folder of parquet files with the columns id,
length and vector. `ray.init` uses the cluster of `RAY_ADDRESS`, or starts a local one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from transformers import HfArgumentParser

from hf_mixers.cli import run_as_script
from hf_mixers.data.records import find_files


@dataclass
class Options:
    """What to embed, and with what."""

    model: str = field(metadata={"help": "Folder or Hub name of a model, seen by all nodes."})
    files: list[str] = field(metadata={"help": "Files, folders or patterns, seen by all nodes."})
    output: str = field(default="vectors", metadata={"help": "Folder to write."})
    pooling: str = field(default="mean", metadata={"help": "mean, max, first or cls."})
    layer: int = field(default=-1, metadata={"help": "0 is the embedding, -1 the output."})
    shards: int = field(default=16, metadata={"help": "Tasks that read one file."})
    batch_size: int = field(default=4096, metadata={"help": "Sequences a call of a worker."})
    token_budget: int = field(default=65536, metadata={"help": "Most tokens in a batch."})
    concurrency: int = field(default=2, metadata={"help": "Workers with a model each."})
    num_gpus: float = field(default=0, metadata={"help": "GPUs of a worker."})


class Embedder:
    """A worker: the model is loaded once, batches of rows get a column `vector`."""

    def __init__(self, options: Options):
        from hf_mixers.inference.loading import load_encoder, make_engine

        self.options = options
        budget = options.token_budget
        self.engine = make_engine(options.model, None, load_encoder, {}, token_budget=budget)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        from hf_mixers.inference.embed import embed_part
        from hf_mixers.inference.records import Record

        pairs = zip(batch["id"], batch["sequence"], strict=True)
        records = (Record(number, *pair) for number, pair in enumerate(pairs))
        found = [
            one
            for part in self.engine.read_parts(records)
            for one in embed_part(self.engine, part, self.options.layer, self.options.pooling)
        ]
        width = next((len(one.vector) for one in found if one.vector is not None), 0)
        missing = np.full(width, np.nan, np.float32)
        return {
            "id": batch["id"],
            "length": np.array([one.length for one in found]),
            "vector": np.stack([missing if one.vector is None else one.vector for one in found]),
            "note": np.array([one.note for one in found], dtype=object),
        }


def read_shard(task: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The records of one part of a file."""
    from hf_mixers.inference import read_records

    for record in read_records(task["file"], shard=(task["index"], task["count"])):
        yield {"id": record.id, "sequence": record.sequence}


def main(arguments: list[str] | None = None) -> None:
    (options,) = HfArgumentParser(Options).parse_args_into_dataclasses(arguments)
    import ray

    ray.init(ignore_reinit_error=True, log_to_driver=False)
    files, _ = find_files(options.files)
    tasks = [
        {"file": file, "index": index, "count": options.shards}
        for file in files
        for index in range(options.shards)
    ]
    rows = ray.data.from_items(tasks, override_num_blocks=len(tasks)).flat_map(read_shard)
    vectors = rows.map_batches(
        Embedder,
        fn_constructor_args=(options,),
        batch_size=options.batch_size,
        concurrency=options.concurrency,
        num_gpus=options.num_gpus,
    )
    vectors.write_parquet(options.output)
    print(f"Everything is in {options.output}.")


if __name__ == "__main__":
    run_as_script(main)
