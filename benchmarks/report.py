"""Tables of README and site and their plots, made from the results; nothing is measured.

python -m benchmarks.report
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from .headline import make_demo_section, make_headline_section
from .speed.pages import make_scale_section, make_speed_section, make_variants_section
from .speed.pages_devices import (
    make_devices_section,
    make_parallel_section,
    make_precision_section,
)
from .speed.plots import draw_all
from .tables import RESULTS
from .trainings.arena_tables import draw_arena, make_arena_section
from .trainings.choice_tables import make_choices_section, make_sizes_section
from .trainings.curves import draw_trainings
from .trainings.examples import make_examples_section
from .trainings.lm_tables import make_combiner_section
from .trainings.tables import make_trainings_section
from .trainings.variant_tables import make_planted_section
from .trainings.zoo_tables import (
    make_microbes_section,
    make_reads_section,
    make_zoo_section,
)

ROOT = Path(__file__).parents[1]
# where plots are drawn, and where the pages of the site look for them
IMAGES = "docs/images"
# pages with the sections that are written between marks, each a function of the results
PAGES: dict[str, dict[str, Callable[[Path], str]]] = {
    "README.md": {"demo": make_demo_section, "headline": make_headline_section},
    "docs/results.md": {"trainings": make_trainings_section},
    "docs/speed.md": {"speed": make_speed_section},
    "docs/families/combiner.md": {"combiner": make_combiner_section},
    "docs/guides/arena.md": {"arena": make_arena_section},
    "docs/guides/at_scale.md": {"scale": make_scale_section},
    "docs/guides/variants.md": {
        "variants": make_variants_section,
        "planted": make_planted_section,
    },
    "docs/guides/models.md": {
        "zoo": make_zoo_section,
        "sizes": make_sizes_section,
        "choices": make_choices_section,
    },
    "docs/guides/gpus_and_clusters.md": {
        "devices": make_devices_section,
        "parallel": make_parallel_section,
        "precision": make_precision_section,
    },
    "model_cards/chordmixer-microbes/README.md": {"microbes": make_microbes_section},
    "model_cards/chordmixer-microbes-large/README.md": {"microbes": make_microbes_section},
    "model_cards/chordmixer-microbes-reads/README.md": {"reads": make_reads_section},
    "examples/README.md": {"examples": make_examples_section},
}


def update_page(page: Path, sections: dict[str, Callable[[Path], str]], results: Path) -> None:
    """Write the sections made from a folder of results between their marks in a page."""
    text = page.read_text(encoding="utf-8")
    for name, make_section in sections.items():
        start, end = marks(name)
        before, found, rest = text.partition(start)
        _, ended, after = rest.partition(end)
        if not found or not ended:
            raise ValueError(f"{page.name} needs the lines {start} and {end}.")
        text = f"{before}{start}\n\n{make_section(results)}\n{end}{after}"
    page.write_text(text, encoding="utf-8")


def marks(name: str) -> tuple[str, str]:
    """The lines of a page that enclose a section."""
    return f"<!-- {name}: made by python -m benchmarks.report -->", f"<!-- {name}: end -->"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of README.md and docs/")
    given = parser.parse_args(arguments)
    for page, sections in PAGES.items():
        update_page(given.root / page, sections, given.results)
    images = given.root / IMAGES
    for draw in (draw_all, draw_trainings, draw_arena):
        for plot in draw(given.results, images):
            print(plot)


if __name__ == "__main__":
    main()
