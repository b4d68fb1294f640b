"""Train on sequences that are too long for one process: several share each of them.

    torchrun --nproc_per_node 4 examples/context_parallel.py --context 2 --output_dir runs/long

The processes form a mesh: `--context` neighbours share a batch, each with a part of its tokens, and
the others have batches of their own. DDP averages the gradients of all of them. The training goes
on from its checkpoint if there is one: when a process dies, torchrun ends the others and says which
one it was; start the same command again.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import HfArgumentParser

from hf_mixers import ChordMixerConfig, ChordMixerForMaskedLM
from hf_mixers.parallel import context_parallel, make_mesh

MASK = 4


def make_batch(step: int, data_rank: int, length: int) -> dict[str, torch.Tensor]:
    """A random sequence of bases with three in ten hidden; the same wherever it is made."""
    generator = torch.Generator().manual_seed(1000 * step + data_rank)
    ids = torch.randint(5, 9, (1, length), generator=generator)
    # every second base repeats the one before it: there is something to learn
    ids[:, 1::2] = ids[:, : length - length % 2 : 2]
    hidden = torch.rand(ids.shape, generator=generator) < 0.3
    return {
        "input_ids": torch.where(hidden, MASK, ids),
        "labels": torch.where(hidden, ids, -100),
        "cu_seq_lens_q": torch.tensor([0, length]),
    }


@dataclass
class Options:
    """Data, model and training."""

    context: int = field(default=2, metadata={"help": "Processes that share a sequence."})
    length: int = field(default=100_000, metadata={"help": "Tokens of a sequence."})
    steps: int = field(default=100, metadata={"help": "Steps of the optimizer."})
    save_steps: int = field(default=20, metadata={"help": "Steps between checkpoints."})
    track_size: int = field(default=8, metadata={"help": "Channels of a track."})
    reversible: bool = field(default=False, metadata={"help": "Less memory, more time."})
    learning_rate: float = field(default=3e-3, metadata={"help": "Of AdamW."})
    output_dir: str = field(
        default="runs/context_parallel", metadata={"help": "Where model and checkpoint go."}
    )


def main(arguments: list[str] | None = None) -> None:
    (options,) = HfArgumentParser(Options).parse_args_into_dataclasses(arguments)
    folder = Path(options.output_dir)
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    if device != "cpu":
        torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group()
    mesh = make_mesh(options.context)
    torch.manual_seed(0)
    config = ChordMixerConfig(
        max_position_embeddings=options.length,
        track_size=options.track_size,
        reversible=options.reversible,
    )
    model = ChordMixerForMaskedLM(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    checkpoint, start = folder / "checkpoint.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
    wrapped = DistributedDataParallel(model)
    for step in range(start, options.steps):
        batch = make_batch(step, mesh["data"].get_local_rank(), options.length)
        batch = {
            name: value if "seq" in name else value.to(device) for name, value in batch.items()
        }
        optimizer.zero_grad()
        with context_parallel(mesh):
            loss = wrapped(**batch).loss
        loss.backward()
        optimizer.step()
        is_last = step + 1 == options.steps
        if dist.get_rank() == 0 and (is_last or (step + 1) % options.save_steps == 0):
            print(f"step {step + 1}: loss {loss.item():.6f}", flush=True)
            save(checkpoint, model, optimizer, step + 1)
    if dist.get_rank() == 0:
        model.save_pretrained(folder)
        print(f"Everything is in {folder}")
    dist.barrier()
    dist.destroy_process_group()


def save(checkpoint: Path, model, optimizer, step: int) -> None:
    """Write a checkpoint at once: an old one stays until the new one is complete."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, checkpoint.with_suffix(".part"))
    checkpoint.with_suffix(".part").replace(checkpoint)


if __name__ == "__main__":
    main()
