"""The example for variants trains from planted motifs, from a VCF, and from a checkpoint."""

import json

import numpy as np
import pytest
from transformers import AutoModelForMaskedLM

from hf_mixers import AutoModelForSequencePairClassification
from tests.examples.example_runs import check_run, load
from tests.inference.conftest import save

pytestmark = pytest.mark.slow

TINY = {"track_size": 4, "intermediate_size": 8}


def run(folder, *words, **options):
    words = [*words, *(word for name, value in options.items() for word in (f"--{name}", value))]
    return load("finetune_variants").main(["--output_dir", str(folder), *map(str, words)])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    from hf_mixers import ChordMixerConfig, ChordMixerForMaskedLM

    model = ChordMixerForMaskedLM(ChordMixerConfig(**TINY, max_position_embeddings=256))
    return save(model, tmp_path_factory.mktemp("mlm"))


def test_planted_motifs_from_a_checkpoint(checkpoint, tmp_path, quiet):
    results = run(tmp_path, "--smoke", checkpoint=checkpoint, window=128, passes=2)
    check_run(tmp_path, results)
    assert set(results["test"]) == {"model", "k-mer difference", "likelihood ratio", "ceiling"}
    ceiling = results["test"]["ceiling"]["overall"]["accuracy"]["value"]
    assert 0.8 <= ceiling <= 1
    model = AutoModelForSequencePairClassification.from_pretrained(tmp_path)
    assert model.config.num_tasks == 2
    assert "wrong on purpose" in (tmp_path / "README.md").read_text()
    # the trunk came from the checkpoint, and has moved by little
    before = AutoModelForMaskedLM.from_pretrained(checkpoint).base_model.embed_tokens.weight
    after = model.base_model.embed_tokens.weight
    assert float((after - before).abs().max().detach()) < 0.1


def test_own_variants_from_a_new_model(tmp_path, quiet):
    chance = np.random.default_rng(0)
    text = "".join(chance.choice(list("ACGT"), 3000))
    (tmp_path / "genome.fa").write_text(f">chr1\n{text}\n")
    lines = ["##fileformat=VCFv4.2", "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO"]
    for number in range(60):
        pos = 100 + 40 * number
        alt = "A" if text[pos - 1] != "A" else "C"
        info = f"label={('benign', 'pathogenic')[number % 2]}"
        lines.append(f"1\t{pos}\t.\t{text[pos - 1]}\t{alt}\t.\t.\t{info}")
    (tmp_path / "a.vcf").write_text("\n".join(lines) + "\n")
    settings = json.dumps(TINY)
    files = {"data": tmp_path / "a.vcf", "fasta": tmp_path / "genome.fa", "window": 32}
    results = run(tmp_path / "run", num_train_epochs=1, settings=settings, **files)
    check_run(tmp_path / "run", results)
    assert set(results["test"]) == {"model", "k-mer difference"}
    assert results["config"]["num_tasks"] is None
    for words, message in (
        (["--data", "a.vcf"], "--data requires --fasta"),
        (["--data", "a", "--fasta", "b", "--genomes", "c"], "--genomes is for planted variants"),
    ):
        with pytest.raises(ValueError, match=message):
            load("finetune_variants").main(words)
