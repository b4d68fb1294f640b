"""Small files of every kind that the tests of data read."""

import gzip

TWO = ">a genus=Mus one\nACGT\nacgn\n>b genus=Bos\nGGGCC\n"
READS = "@a genus=Mus\nACGT\n+\nIIII\n@b genus=Bos\nGG\n+\nII\n"
ROWS = {"sequence": ["ACGT", "GGG", "TTTTT"], "genus": ["Mus", "Bos", "Mus"]}


def gzipped(data):
    """The same bytes whenever they are made: workers of one run must name their tests alike."""
    return gzip.compress(data, mtime=0)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzipped(data) if path.suffix == ".gz" else data)
    return path


def genbank(name, organism, lineage, sequence, length=None):
    lines = [
        f"LOCUS       {name} {len(sequence) if length is None else length} bp DNA linear VRT",
        f"DEFINITION  {organism} gene.",
        f"ACCESSION   {name}",
        f"VERSION     {name}.1",
        f"SOURCE      {organism}",
        f"  ORGANISM  {organism}",
        f"            {lineage}.",
        "FEATURES             Location/Qualifiers",
        "ORIGIN",
        f"        1 {sequence.lower()}",
        "//",
    ]
    return "\n".join(lines) + "\n"


GENBANK = (
    genbank("X1", "Mus musculus", "Eukaryota; Muridae; Murinae; Mus; Mus", "ACGTAC")
    + genbank("X2", "Rattus norvegicus", "Eukaryota; Muridae; Murinae; Rattus", "GGGTTT")
    + genbank("X3", "Mus spretus", "Eukaryota; Muridae; Murinae; Mus; Mus", "GGGTTA")
)
