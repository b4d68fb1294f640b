"""Pages say what is so: their code runs, their links lead somewhere, their words are plain."""

import re
import sys

import pytest
import yaml

from hf_mixers import _moved
from hf_mixers.cli.main import COMMANDS, GROUPS
from hf_mixers.recipes import FinetuneArguments, FinetuneOptions, models
from hf_mixers.recipes.configuration import Configuration
from tests.docs.blocks import read_blocks, run_python
from tests.docs.commands import run_shell
from tests.docs.files import ROOT, make_files

SITE = ROOT / "docs"
_OUTSIDE = (
    "README.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "hf_mixers/data/embedded/README.md",
)
PAGES = [
    *(ROOT / name for name in _OUTSIDE),
    *sorted(SITE.rglob("*.md")),
]
WITH_CODE = [page for page in PAGES if read_blocks(page)]
# words of an older style, for which there are standard ones
OLD_WORDS = (
    *(r"\bjudg(e|es|ed|ing)\b", r"\banew\b", r"\bbeside\b", r"\bhears?\b", r"\bheard\b"),
    *(r"\bby heart\b", r"\bso many\b", r"\blacks?\b", r"\bby chance\b"),
)


def name_page(page) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def workplace(tmp_path, monkeypatch, quiet):
    """A folder with the files that pages speak of, small models, and no upload."""
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    small = {"track_size": 2, "intermediate_size": 8, "pre_norm": "layer"}
    monkeypatch.setitem(models.DEFAULT_SETTINGS, "chordmixer", small)
    for name in _moved.MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    uploads = []
    monkeypatch.setattr(
        "hf_mixers.publish.publish_folder",
        lambda folder, repository, **options: uploads.append(repository) or "https://hub/commit",
    )
    return tmp_path


# six runs and more
_LONG_PAGES = {"docs/guides/arena.md"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.exhaustive] * (name_page(page) in _LONG_PAGES))
        for page in WITH_CODE
    ],
    ids=[name_page(page) for page in WITH_CODE],
)
def test_code_of_a_page_runs_in_order_and_its_values_hold(page, workplace):
    names = {"__name__": "__main__"}
    for block in read_blocks(page):
        if block.language == "python":
            run_python(block, names)
        elif block.language == "bash":
            run_shell(block.code)
        elif block.language == "yaml":
            read_settings(block.code, workplace)
        else:
            assert block.language in ("diff", "text"), f"{block.page}:{block.line}"


def read_settings(text: str, folder) -> None:
    """YAML of a page is a file for --config."""
    (folder / "settings.yaml").write_text(text)
    configuration = Configuration(FinetuneOptions, FinetuneArguments)
    configuration.read(folder / "settings.yaml")
    configuration.put("training.output_dir", str(folder / "runs"))
    configuration.build()


def test_values_in_comments_are_compared(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text\n```python\nx = [1]  # a list\nx + x  # [1, 1]\nx  # words\n```\n")
    (block,) = read_blocks(page)
    assert (block.language, block.line) == ("python", 2)
    assert run_python(block, {}) == 1
    page.write_text("```python\n1 + 1  # 3\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:2: 2"):
        run_python(*read_blocks(page), {})


def test_commands_that_do_not_exist_are_found(workplace):
    for line in ("rm -r x", "hf-mixers finetune --colour red", "make coffee", "pip install .[tea]"):
        with pytest.raises((ValueError, AssertionError)):
            run_shell(line)
    with pytest.raises((SystemExit, ValueError)):
        run_shell("python examples/tabular.py --no_such_option 1")


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_links_and_images_of_a_page_exist(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if target.startswith("http"):
            continue
        found = page.parent / path if path else page
        assert found.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", found.read_text(), re.M)
            assert anchor in [re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles]


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_words_of_a_page_are_the_usual_ones(page):
    text = page.read_text()
    assert not [found[0] for word in OLD_WORDS for found in re.finditer(word, text, re.I)]


def test_every_page_is_in_the_navigation():
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(list_pages(nav)) == sorted(str(p.relative_to(SITE)) for p in SITE.rglob("*.md"))


def list_pages(entry) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in list_pages(part)]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_every_command_and_every_moved_module_has_its_place():
    text = (SITE / "commands.md").read_text()
    assert all(f"\n## {name}\n" in text for name in (*COMMANDS, *GROUPS))
    moved = (SITE / "versioning.md").read_text()
    assert all(
        f"`{new}`" in moved or old.startswith("hf_mixers.data.")
        for old, new in _moved.MODULES.items()
    )
