"""Files that the pages speak of as the user's own."""

import shutil
from pathlib import Path

import numpy as np
from safetensors.torch import save_file

from tests.convert.test_convert import FIXTURES, load

ROOT = Path(__file__).parents[2]
SPECIES = {"Bos": ["Bos taurus", "Bos indicus", "Bos grunniens", "Bos mutus", "Bos gaurus"]}
SPECIES["Mus"] = ["Mus musculus", "Mus spretus", "Mus caroli", "Mus pahari", "Mus famulus"]


def make_files(folder: Path) -> None:
    """Labelled genes, genomes and an original checkpoint, under the names of the pages."""
    generator = np.random.default_rng(0)
    genes = [
        (f"{genus}{number}", genus, SPECIES[genus][number % 5], _draw(generator, 40, 300))
        for genus in SPECIES
        for number in range(60)
    ]
    lines = (f">{name} genus={genus} [{kind}]\n{text}\n" for name, genus, kind, text in genes)
    (folder / "genes.fa").write_text("".join(lines))
    parts = ["train"] * 3 + ["val", "test"]
    rows = (
        f"{name},{genus},{parts[number % 5]},{number % 7}.5,{'heart;liver'[: 6 * (number % 3)]};"
        f",{text}\n"
        for number, (name, genus, _, text) in enumerate(genes)
    )
    (folder / "genes.csv").write_text("id,genus,part,expression,tissues,sequence\n" + "".join(rows))
    for name in ("contigs", "reads"):
        shutil.copy(folder / "genes.csv", folder / f"{name}.csv")
    kinds = ("donor", "acceptor", "decoy")
    windows = (f"w{n},{kinds[n % 3]},{_draw(generator, 80, 81)}\n" for n in range(90))
    (folder / "windows.csv").write_text("id,class,sequence\n" + "".join(windows))
    for genus in SPECIES:
        (folder / "genomes" / genus).mkdir(parents=True)
        own = (f">{name}\n{text}\n" for name, kind, _, text in genes if kind == genus)
        (folder / "genomes" / genus / "all.fa").write_text("".join(own))
    chromosomes = (f">chr{number}\n{_draw(generator, 4000, 4001)}\n" for number in (1, 2, 3))
    (folder / "genomes.fa").write_text("".join(chromosomes))
    _write_variants(folder)
    state = load(next(path for path in FIXTURES if path.name.startswith("paramixer_chord")))[0]
    save_file(state, folder / "paramixer.safetensors")
    (folder / "model_cards").symlink_to(ROOT / "model_cards")
    (folder / "examples").mkdir()
    shutil.copy(ROOT / "examples/genes.fa", folder / "examples")


def _write_variants(folder: Path) -> None:
    """Variants of `genomes.fa`, without and with labels, and neutral regions."""
    lines = (folder / "genomes.fa").read_text().splitlines()
    rows = {"variants.vcf": [], "labelled.vcf": []}
    for number in range(12):
        place = 200 + 300 * number
        ref = lines[1][place - 1]
        alt = ("A" if ref != "A" else "C", f"{ref}GG")[number % 2]
        row = f"1\t{place}\t.\t{ref}\t{alt}\t.\tPASS\t"
        rows["variants.vcf"].append(f"{row}DP={number}")
        rows["labelled.vcf"].append(f"{row}label={('benign', 'pathogenic')[number % 4 // 2]}")
    head = ["##fileformat=VCFv4.2", "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO"]
    for name, found in rows.items():
        (folder / name).write_text("\n".join([*head, *found]) + "\n")
    (folder / "neutral.bed").write_text("chr1\t100\t180\nchr2\t100\t150\n")


def _draw(generator: np.random.Generator, low: int, high: int) -> str:
    return "".join(generator.choice(list("ACGT"), generator.integers(low, high)))
