"""The figures that matter, as ratios of rows of one table, so of one run."""

from ...tables import Row
from . import chordmixer, combiner, devices, families, use
from .base import Measure

__all__ = ["Measure", "make_measures"]

# by measuring command
_MAKERS = (
    ("blocks", chordmixer.measure_blocks),
    ("peers", chordmixer.measure_peers),
    ("memory", chordmixer.measure_memory),
    ("parts", chordmixer.measure_parts),
    ("mixed", chordmixer.measure_mixed),
    ("scaling", chordmixer.measure_scaling),
    ("throughput", chordmixer.measure_throughput),
    ("links", families.measure_links),
    ("heads", families.measure_heads),
    ("patterns", combiner.measure_patterns),
    ("generation", combiner.measure_generation),
    ("tokenizers", use.measure_tokenizers),
    ("generators", use.measure_generators),
    ("inference", use.measure_inference),
    ("variants", use.measure_variants),
    ("records", use.measure_records),
    ("devices", devices.measure_devices),
)


def make_measures(tables: dict[str, list[Row]]) -> list[Measure]:
    """All figures that the tables allow."""
    return [one for command, make in _MAKERS if command in tables for one in make(tables[command])]
