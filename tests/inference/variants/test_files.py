"""Files of variants: all other bytes survive, reasons are named and counted, runs resume."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import cyvcf2
import pandas as pd
import pysam
import pytest
from transformers import AutoModelForMaskedLM
from typer.testing import CliRunner

from hf_mixers.cli.main import app
from hf_mixers.inference import engine, outputs
from hf_mixers.inference.variants import REASONS, Reference, score_variants
from hf_mixers.inference.variants.alleles import find_targets
from hf_mixers.inference.variants.records import VariantRecord
from tests.inference.test_run import run
from tests.inference.variants.made import HEADER, WINDOW, bad_lines

KEYS = re.compile(rb";?HFM_[A-Z_]+=[^;\t\r\n]*")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch, quiet):
    # several parts of few records
    monkeypatch.setattr(engine, "LOOK_AHEAD", 2)


def strip_keys(content: bytes) -> bytes:
    """A VCF without what was added to it."""
    kept = []
    for line in re.findall(rb"[^\n]*\n|[^\n]+$", content):
        if line.startswith((b"##INFO=<ID=HFM_", b"##HFM_")):
            continue
        if not line.startswith(b"#") and b"HFM_" in line:
            fields = line.split(b"\t", 8)
            end = fields[7][len(fields[7].rstrip(b"\r\n")) :]
            fields[7] = (KEYS.sub(b"", fields[7].rstrip(b"\r\n")) or b".") + end
            line = b"\t".join(fields)
        kept.append(line)
    return b"".join(kept)


def score(model, source, genome, target, *words):
    budget = () if "--token-budget" in words else ("--token-budget", 4000)
    common = ("--window", WINDOW, "--passes", 2, *budget)
    return run("score-variants", model, source, "-r", genome, "-o", target, *common, *words)


@pytest.fixture(scope="module")
def awkward(tmp_path_factory, reference, variants):
    """Good and bad lines in one file: unsorted, with several alleles, without a line end."""
    folder = tmp_path_factory.mktemp("awkward")
    base, other = (
        reference["chr1"][99].upper(),
        "A" if reference["chr1"][99].upper() != "A" else "C",
    )
    lines = [f"{one.chrom}\t{one.pos}\t.\t{one.ref}\t{one.alt}\t.\t.\t." for one in variants[:8]]
    lines += [line for line, _ in bad_lines(reference)]
    lines += [
        f"chr1\t100\trs1\t{base}\t{other},<DEL>,{base}T,*\t5\tq10\tDP=3;\tGT:AD\t0/1:3,4",
        f"1\t100\t.\t{base}\t{other}\t.\t.\tX;;Y\tGT",
        "chr1\tten\t.\tA\tC\t.\t.\t.",
        "chr1\t10\t.\tA",
        "",
        "# a comment",
        f"chr1\t100\t.\t{base}\t{other.lower()}\t.\t.\tlast=yes",
    ]
    content = HEADER.encode() + "\n".join(lines).encode()
    content = content.replace(b"Depth", b"D\xe9pth")
    paths = {
        "plain": folder / "a.vcf",
        "windows": folder / "crlf.vcf",
        "gzip": folder / "a.vcf.gz",
    }
    paths["plain"].write_bytes(content)
    paths["windows"].write_bytes(content.replace(b"\n", b"\r\n"))
    with gzip.open(paths["gzip"], "wb") as file:
        file.write(content)
    return paths


@pytest.mark.parametrize("kind", ["plain", "windows", "gzip"])
def test_every_other_byte_survives(kind, awkward, masked_lm, genome, tmp_path):
    source = awkward[kind]
    score(masked_lm, source, genome, tmp_path / "out.vcf")
    written = (tmp_path / "out.vcf").read_bytes()
    given = source.read_bytes() if kind != "gzip" else gzip.decompress(source.read_bytes())
    assert written != given
    assert strip_keys(written) == given


def test_reasons_are_named_and_counted(awkward, masked_lm, genome, reference, tmp_path):
    score(masked_lm, awkward["plain"], genome, tmp_path / "out.vcf")
    lines = (tmp_path / "out.vcf").read_text(encoding="latin-1").splitlines()
    body = lines[[line.startswith("#CHROM") for line in lines].index(True) + 1 :]
    for line, (_, reason) in zip(body[8:], bad_lines(reference), strict=False):
        assert f"HFM_REASON={reason}" in line
        assert "HFM_LLR" not in line
    several = body[8 + len(bad_lines(reference))]
    info = dict(re.findall(r"(HFM_\w+)=([^;\t]*)", several))
    assert info["HFM_REASON"] == ".,symbolic_allele,.,spanning_deletion"
    assert [value == "." for value in info["HFM_LLR"].split(",")] == [False, True, True, True]
    assert [value == "." for value in info["HFM_PLLR"].split(",")] == [True, True, False, True]
    summary = json.loads((tmp_path / "out.vcf.summary.json").read_text())
    assert summary["records"] == len(body)
    reasons = [reason for _, reason in bad_lines(reference)]
    reasons += ["symbolic_allele", "spanning_deletion", *["malformed_line"] * 4]
    assert summary["reasons"] == {name: reasons.count(name) for name in sorted(set(reasons))}
    assert set(reasons) | {"reference_letter", "not_finite", "score_not_chosen"} == set(REASONS)
    assert sum(summary["alleles"].values()) == 8 + 2 + 2


def test_strict_makes_reasons_errors(masked_lm, genome, reference, tmp_path):
    for line, reason in bad_lines(reference):
        path = tmp_path / "a.vcf"
        path.write_text(f"{HEADER}{line}\n")
        with pytest.raises(ValueError, match=rf"a.vcf, line 9 \(.* cannot be scored: {reason}"):
            score(masked_lm, path, genome, tmp_path / "out.vcf", "--strict", "--overwrite")
        assert not (tmp_path / "out.vcf").exists()


def test_contigs_with_and_without_chr_are_matched_and_announced(
    masked_lm, genome, reference, caplog
):
    caplog.set_level("INFO", "hf_mixers")
    base = reference["chr1"][99].upper()
    other = "A" if base != "A" else "C"
    rows = [("1", 100, base, other), ("1", 100, base, other), ("chr1", 100, base, other)]
    found = list(score_variants(masked_lm, rows, genome, window=WINDOW))
    assert found[0].scores == found[2].scores
    message = "Contig 1 of the variants is chr1 in the reference, and so on."
    assert caplog.messages.count(message) == 1


def test_other_programs_read_the_output(vcf, masked_lm, genome, variants, tmp_path):
    target = tmp_path / "out.vcf.gz"
    # records sorted, as an index needs
    lines = Path(vcf).read_text().splitlines(keepends=True)
    start = [line.startswith("#CHROM") for line in lines].index(True) + 1
    order = sorted(
        lines[start:40], key=lambda line: (line.split("\t")[0], int(line.split("\t")[1]))
    )
    source = tmp_path / "sorted.vcf"
    source.write_text("".join(lines[:start] + order))
    score(masked_lm, source, genome, target)
    expected = list(score_variants(masked_lm, str(source), genome, window=WINDOW, passes=2))
    found = list(cyvcf2.VCF(str(target)))
    assert [(one.CHROM, one.POS) for one in found] == [(one.chrom, one.pos) for one in expected]
    for record, one in zip(found, expected, strict=True):
        for name, value in one.scores.items():
            assert record.INFO[f"HFM_{name.upper()}"] == pytest.approx(value, rel=1e-4, abs=1e-6)
    with pysam.VariantFile(str(target)) as file:
        header = file.header.info["HFM_LLR"]
        assert (header.number, header.type) == ("A", "Float")
        assert len(list(file.fetch("chr2"))) == sum(one.chrom == "chr2" for one in expected)
    with gzip.open(target) as file:
        assert strip_keys(file.read()) == source.read_bytes()
    if shutil.which("bcftools"):
        done = subprocess.run(
            ["bcftools", "query", "-f", "%POS %INFO/HFM_DISTANCE\n", str(target)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) == len(expected)
        assert "HFM" not in done.stderr


def test_a_packed_output_that_is_not_sorted_has_no_index(
    awkward, masked_lm, genome, tmp_path, caplog
):
    caplog.set_level("WARNING", "hf_mixers")
    score(masked_lm, awkward["gzip"], genome, tmp_path / "out.vcf.gz")
    assert not (tmp_path / "out.vcf.gz.tbi").exists()
    assert any("out.vcf.gz.tbi is not written: it is not sorted" in m for m in caplog.messages)
    with gzip.open(tmp_path / "out.vcf.gz") as file:
        assert strip_keys(file.read()) == awkward["plain"].read_bytes()


def test_a_killed_run_goes_on_and_gives_the_same_bytes(
    awkward, masked_lm, genome, tmp_path, monkeypatch
):
    score(masked_lm, awkward["plain"], genome, tmp_path / "whole.vcf", "--token-budget", 400)
    write, written = outputs.PartedOutput.write, []

    def fail_at_times(self, number, rows):
        written.append(number)
        if len(written) % 3 == 0:
            raise KeyboardInterrupt
        write(self, number, rows)

    monkeypatch.setattr(outputs.PartedOutput, "write", fail_at_times)
    target = tmp_path / "killed.vcf"
    for _ in range(40):
        try:
            done = score(masked_lm, awkward["plain"], genome, target, "--token-budget", 400)
            if done.exit_code == 0:
                break
        except KeyboardInterrupt:
            assert not target.exists()
    assert len(written) > 4
    assert target.read_bytes() == (tmp_path / "whole.vcf").read_bytes()
    counts = [
        {key: json.loads((tmp_path / f"{name}.vcf.summary.json").read_text())[key] for key in keys}
        for name in ("whole", "killed")
        for keys in [("records", "alleles", "reasons")]
    ]
    assert counts[0] == counts[1]


def test_shards_together_are_the_whole(awkward, masked_lm, genome, tmp_path):
    whole = score(masked_lm, awkward["plain"], genome, "-").stdout_bytes
    lines = []
    for index in range(3):
        done = score(masked_lm, awkward["plain"], genome, "-", "--shard", f"{index}/3")
        assert strip_keys(done.stdout_bytes).startswith(HEADER[:30].encode())
        lines.append([line for line in done.stdout_bytes.splitlines() if b"\tHFM_" in line])
    joined = sorted(line.split(b"\t")[:5] for part in lines for line in part)
    assert joined == sorted(
        line.split(b"\t")[:5] for line in whole.splitlines() if b"\tHFM_" in line
    )


@pytest.mark.parametrize(
    ("source", "target"), [("a.csv", "out.parquet"), ("a.tsv", "out.tsv"), ("a.parquet", "out.tsv")]
)
def test_tables_keep_their_columns(source, target, variants, masked_lm, genome, tmp_path):
    table = pd.DataFrame(variants[:6]).rename(columns={"chrom": "chr"})
    table["note"] = [f"n{number}" for number in range(6)]
    # two letters, and not a missing value
    table.loc[3, "alt"] = "NA"
    if source.endswith(".parquet"):
        table.to_parquet(tmp_path / source)
    else:
        table.to_csv(tmp_path / source, index=False, sep="\t" if "tsv" in source else ",")
    score(masked_lm, tmp_path / source, genome, tmp_path / target)
    if target.endswith(".parquet"):
        found = pd.read_parquet(tmp_path / target)
    else:
        found = pd.read_csv(tmp_path / target, sep="\t", keep_default_na=False)
    assert list(found.columns[:5]) == ["chr", "pos", "ref", "alt", "note"]
    assert list(found["note"]) == list(table["note"])
    assert list(found["reason"]) == ["", "", "", "ambiguous_allele", "", ""]
    (expected,) = score_variants(masked_lm, variants[:1], genome, window=WINDOW)
    assert float(found["llr"][0]) == pytest.approx(expected.scores["llr"], abs=1e-4)


def test_a_vcf_becomes_a_table_with_a_row_per_allele(awkward, masked_lm, genome, tmp_path):
    score(masked_lm, awkward["plain"], genome, tmp_path / "out.tsv")
    table = pd.read_csv(tmp_path / "out.tsv", sep="\t", keep_default_na=False)
    assert list(table["alt"]).count("<DEL>") == 2
    assert (table["reason"] != "").sum() == 12 + 2 + 4


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.vcf", b"", "a.vcf is empty"),
        ("a.vcf", b">chr1\nACGT\n", "starts with '>chr1': VCF starts with '##fileformat=VCF'"),
        ("a.vcf", b"##fileformat=VCFv4.2\nchr1\t1\n", "has no line '#CHROM' before line 2"),
        ("a.vcf.gz", b"\x1f\x8b\x08nothing", "is cut short or damaged"),
        ("a.vcf", b"BCF\x02\x02", "is BCF: bcftools view -Ov makes a VCF of it"),
        ("a.csv", b"chrom,pos,ref\n1,2,A\n", "has no column 'alt': it has chrom, pos, ref"),
        ("a.xlsx", b"x", "has an ending that is not known"),
    ],
)
def test_files_that_are_no_variants_are_named(name, content, message, masked_lm, genome, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        score(masked_lm, tmp_path / name, genome, tmp_path / "out.tsv")
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_a_packed_file_that_is_cut_at_a_block_is_named(vcf, masked_lm, genome, tmp_path):
    path = tmp_path / "a.vcf.gz"
    pysam.tabix_compress(vcf, str(path))
    path.write_bytes(path.read_bytes()[:-28])
    with pytest.raises(
        ValueError, match="cut short or damaged: the last block of bgzip is missing"
    ):
        score(masked_lm, path, genome, tmp_path / "out.vcf")


def test_outputs_are_refused_before_anything_is_scored(vcf, masked_lm, genome, tmp_path):
    for target, message in (
        ("out.xlsx", "must end in .vcf, .vcf.gz"),
        ("out.vcf", r"is a table: it becomes .tsv or .parquet"),
    ):
        source = tmp_path / "a.csv"
        source.write_text("chrom,pos,ref,alt\nchr1,1,A,C\n")
        with pytest.raises(ValueError, match=message):
            score(masked_lm, source, genome, tmp_path / target)
    first = tmp_path / "first.vcf"
    score(masked_lm, vcf, genome, first, "--scores", "llr", "--token-budget", 100_000)
    with pytest.raises(ValueError, match="is there already: --overwrite writes it again"):
        score(masked_lm, vcf, genome, first)
    with pytest.raises(ValueError, match="has HFM_LLR already: a prefix other than HFM"):
        score(masked_lm, first, genome, tmp_path / "second.vcf")
    score(masked_lm, first, genome, tmp_path / "second.vcf", "--prefix", "B", "--scores", "llr")
    assert b";B_LLR=" in (tmp_path / "second.vcf").read_bytes()
    # keys that the header does not declare
    lines = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join(line for line in lines if b"##INFO=<ID=HFM_" not in line))
    with pytest.raises(ValueError, match=r"has HFM_[A-Z_]+ in its INFO already: another prefix"):
        score(masked_lm, first, genome, tmp_path / "third.vcf")
    fasta = tmp_path / "a.fa"
    fasta.write_text(">a\nACGT\n")
    with pytest.raises(ValueError, match=r"a.fa has an ending that is not known: .vcf"):
        score(masked_lm, fasta, genome, tmp_path / "third.vcf")


def test_a_vcf_without_records_stays_one(masked_lm, genome, tmp_path):
    (tmp_path / "a.vcf").write_text(HEADER)
    score(masked_lm, tmp_path / "a.vcf", genome, tmp_path / "out.vcf")
    assert strip_keys((tmp_path / "out.vcf").read_bytes()) == HEADER.encode()


def test_alleles_that_the_chosen_scores_are_not_for_are_counted(
    masked_lm, genome, vcf, variants, tmp_path
):
    words = ("--scores", "llr", "--token-budget", 100_000)
    score(masked_lm, vcf, genome, tmp_path / "out.tsv", *words)
    summary = json.loads((tmp_path / "out.tsv.summary.json").read_text())
    table = pd.read_csv(tmp_path / "out.tsv", sep="\t", keep_default_na=False)
    assert summary["alleles"] == {"snv": int((table["llr"] != "").sum())}
    assert summary["reasons"] == {"score_not_chosen": len(variants) - summary["alleles"]["snv"]}
    with pytest.raises(ValueError, match="cannot be scored: score_not_chosen"):
        score(masked_lm, vcf, genome, tmp_path / "strict.tsv", *words, "--strict")


@pytest.mark.parametrize("name", ["out.tsv", "out.parquet", "out.vcf", "out.vcf.gz"])
def test_a_shard_without_records_is_an_output_without_records(
    name, vcf, masked_lm, genome, tmp_path
):
    done = score(masked_lm, vcf, genome, tmp_path / name, "--shard", "900/901")
    assert done.stdout.startswith("0 records are in")
    assert (tmp_path / name).exists()
    if name == "out.parquet":
        assert list(pd.read_parquet(tmp_path / name).columns)[:4] == ["chrom", "pos", "ref", "alt"]
    assert not (tmp_path / f"{name}.parts").exists()


def test_endings_in_capitals_are_those_in_small_letters(vcf, masked_lm, genome, tmp_path):
    source = tmp_path / "A.VCF"
    source.write_bytes(Path(vcf).read_bytes())
    score(masked_lm, source, genome, tmp_path / "OUT.VCF", "--scores", "llr")
    assert strip_keys((tmp_path / "OUT.VCF").read_bytes()) == source.read_bytes()


def test_columns_of_a_csv_stay_as_they_are_written(variants, masked_lm, genome, tmp_path):
    # more rows than are read at a time, of which only the last tell that a column is text
    rows = [f"{variants[0].chrom},{variants[0].pos},{variants[0].ref},{variants[0].alt}"] * 10_050
    notes = [f"{number:05d}" for number in range(10_049)] + ["rs7"]
    lines = [f"{row},{note}" for row, note in zip(rows, notes, strict=True)]
    (tmp_path / "a.csv").write_text("chrom,pos,ref,alt,note\n" + "\n".join(lines) + "\n")
    words = ("--scores", "llr", "--token-budget", 50_000)
    score(masked_lm, tmp_path / "a.csv", genome, tmp_path / "out.parquet", *words)
    assert list(pd.read_parquet(tmp_path / "out.parquet")["note"]) == notes


def test_parts_of_other_weights_or_another_calibration_are_refused(
    masked_lm, vcf, genome, tmp_path, monkeypatch
):
    model = tmp_path / "model"
    shutil.copytree(masked_lm, model)
    table = tmp_path / "table.json"
    words = ("--calibration", table)
    run("calibrate", model, genome, "--window", WINDOW, "--sites", 1, "-o", table)

    def stop(self, number, rows):
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs.PartedOutput, "write", stop)
    assert score(model, vcf, genome, tmp_path / "out.vcf", *words).exit_code != 0
    content = json.loads(table.read_text())
    table.write_text(json.dumps(content | {"quantiles": [0.0, 1.0]}))
    with pytest.raises(ValueError, match="holds parts of a run with other settings or input"):
        score(model, vcf, genome, tmp_path / "out.vcf", *words)
    table.write_text(json.dumps(content))
    assert score(model, vcf, genome, tmp_path / "out.vcf", *words).exit_code != 0
    assert score(model, vcf, genome, tmp_path / "b.vcf").exit_code != 0
    other = AutoModelForMaskedLM.from_pretrained(model)
    other.lm_head.bias.data += 1
    other.save_pretrained(model)
    with pytest.raises(ValueError, match="holds parts of a run with other settings or input"):
        score(model, vcf, genome, tmp_path / "b.vcf")


def test_nothing_is_written_to_standard_output_before_the_input_is_seen(vcf, masked_lm, tmp_path):
    words = ("score-variants", masked_lm, vcf, "-r", tmp_path / "no.fa", "--window", WINDOW)
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert (result.stdout, "is not a file" in str(result.exception)) == ("", True)


@pytest.mark.parametrize("is_packed", [False, True])
def test_standard_input_is_a_vcf_plain_or_packed(is_packed, vcf, masked_lm, genome, tmp_path):
    given = Path(vcf).read_bytes()
    content = gzip.compress(given) if is_packed else given
    words = ("score-variants", masked_lm, "-", "-r", genome, "--window", WINDOW, "--scores", "llr")
    result = CliRunner().invoke(app, [str(word) for word in words], input=content)
    assert result.exit_code == 0
    assert strip_keys(result.stdout_bytes) == given


def test_a_dot_among_alternate_alleles_is_none(masked_lm, genome, reference):
    base = reference["chr1"][99].upper()
    row = {"chrom": "chr1", "pos": 100, "ref": base, "alt": "."}
    (one,) = score_variants(masked_lm, [row], genome, window=WINDOW)
    assert one.reason == "no_alternate"
    record = VariantRecord(0, "", "chr1", 100, base, (".", "*"), "", b"")
    targets = find_targets(record, Reference(genome), WINDOW)
    assert [target.reason for target in targets] == ["no_alternate", "spanning_deletion"]
