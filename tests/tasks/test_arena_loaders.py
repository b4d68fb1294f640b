"""The official files of the arena become tasks with the splits and ids of the spec."""

import json
import pickle

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from PIL import Image

from hf_mixers.tasks import TASKS, load_arena_task, task_options
from hf_mixers.tasks.codes import listops_tokenizer
from hf_mixers.tasks.listops_trees import SYMBOLS

from . import release

PARTS = ("train", "validation", "test")


def sizes(task):
    return tuple(len(task.parts[part]) for part in PARTS)


def check_task(task):
    """What holds for every task: parts, ids within the vocabulary, lengths, batches."""
    assert tuple(task.parts) == PARTS
    suffixes = ("", "_2") if task.is_pair else ("",)
    name = {"ids": "input_ids", "values": "input_values"}[task.inputs]
    for rows in task.parts.values():
        assert len(rows) == len(rows.lengths) == len(rows.labels) > 0
        examples = [rows[index] for index in range(len(rows))]
        for example, length, label in zip(examples, rows.lengths, rows.labels, strict=True):
            contents = [example[f"{name}{suffix}"] for suffix in suffixes]
            assert sum(map(len, contents)) == length
            assert max(map(len, contents)) <= task.max_length
            assert example["labels"] == label
            assert 0 <= label < task.num_labels
            for content in contents:
                if task.inputs == "ids":
                    assert content.min() >= 0
                    assert content.max() < task.vocab_size
                else:
                    assert content.shape[1] == task.input_features
                    assert content.dtype == np.float32
        for padding in ("none", "batch", "max"):
            if task.zero_is_padding and padding == "none":
                continue
            batch = task.collator(padding)(examples[:3])
            assert batch["labels"].tolist() == rows.labels[:3].tolist()
            if padding == "max":
                assert batch[name].shape[1] == task.max_length
    if task.inputs == "ids":
        special = {task.pad_token_id, task.mask_token_id}
        assert task.mask_token_id < task.vocab_size
        assert task.mask_token_id not in task.maskable_ids
        assert task.zero_is_padding or not special & set(task.maskable_ids)
        assert max(task.maskable_ids) < task.vocab_size
    assert 0 < task.mask_ratio < 1


# --- ListOps ---


def test_listops_tsv(tmp_path):
    kept = release.write_listops(tmp_path / "lra_release" / "listops-1000")
    task = load_arena_task("listops", tmp_path)
    check_task(task)
    assert sizes(task) == (6, 3, 3)
    assert (task.num_labels, task.vocab_size, task.mask_ratio) == (10, 20, 0.1)
    for part, name in zip(PARTS, ("train", "val", "test"), strict=True):
        for index, (symbols, label) in enumerate(kept[name]):
            example = task.parts[part][index]
            assert [SYMBOLS[i - 5] for i in example["input_ids"]] == symbols
            assert example["labels"] == label
    assert task.tokenizer.convert_ids_to_tokens([5, 14, 15, 19]) == ["0", "9", "[MIN", "]"]


def test_listops_tokenizer_reads_the_files_and_is_saved(tmp_path):
    from transformers import AutoTokenizer

    tokenizer = listops_tokenizer()
    assert len(tokenizer) == 20
    assert tokenizer("( ( ( [MAX 2 ) 9 ) ] ) ?").input_ids == [16, 7, 14, 19, 1]
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("[MAX 2 9 ] [MASK]").input_ids == [16, 7, 14, 19, 4]
    assert again.pad_token_id == 0


@pytest.mark.parametrize(
    ("vocabulary", "size", "pad", "ids"),
    [
        ("lra", 18, 0, {"0": 1, "9": 10, "[MAX": 11, "[SM": 14, "]": 15}),
        ("paramixer", 17, 15, {"0": 0, "[MAX": 10, "[MED": 11, "[MIN": 12, "[SM": 13, "]": 14}),
    ],
)
def test_listops_vocabularies_of_published_loaders(tmp_path, vocabulary, size, pad, ids):
    kept = release.write_listops(tmp_path / "listops-1000")
    task = load_arena_task("listops", tmp_path, vocabulary=vocabulary, max_length=30, padding="max")
    check_task(task)
    assert (task.vocab_size, task.pad_token_id, task.max_length) == (size, pad, 30)
    symbols = kept["train"][0][0][:30]
    found = dict(zip(symbols, task.parts["train"][0]["input_ids"].tolist(), strict=True))
    assert all(found[symbol] == ids[symbol] for symbol in ids.keys() & found.keys())


def test_listops_of_s4_orders_symbols_by_frequency_and_appends_an_end(tmp_path):
    kept = release.write_listops(tmp_path / "listops-1000")
    task = load_arena_task("listops", tmp_path / "listops-1000", vocabulary="s4", max_length=40)
    check_task(task)
    assert task.vocab_size == 19
    symbols = [symbol for row, _ in kept["train"] for symbol in row]
    assert max(set(symbols), key=symbols.count) == "]"
    example = task.parts["train"][0]["input_ids"]
    assert example[-1] == 2
    assert len(example) == min(40, len(kept["train"][0][0]) + 1)
    whole = load_arena_task("listops", tmp_path, vocabulary="s4").parts["train"][0]["input_ids"]
    assert whole[kept["train"][0][0].index("]")] == 3


def test_listops_from_tables(tmp_path):
    from datasets import Dataset

    for part in PARTS:
        rows = {"Source": ["( ( ( [MAX 2 ) 9 ) ] )"] * 3, "Target": [9] * 3}
        Dataset.from_dict(rows).to_parquet(str(tmp_path / f"{part}.parquet"))
    task = load_arena_task("listops", tmp_path)
    check_task(task)
    assert task.parts["test"][0]["input_ids"].tolist() == [16, 7, 14, 19]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("Source,Target\n1,2\n", "the head"),
        ("Source\tTarget\n( ( ( [MAX 2 ) 9 ) ] )\t12\n", "line 2 has the target"),
    ],
)
def test_broken_listops_files_are_refused(tmp_path, content, words):
    release.write_listops(tmp_path / "listops-1000")
    (tmp_path / "listops-1000" / "basic_val.tsv").write_text(content)
    with pytest.raises(ValueError, match=words):
        load_arena_task("listops", tmp_path)


def test_unknown_symbols_are_refused(tmp_path):
    release.write_listops(tmp_path / "listops-1000")
    (tmp_path / "listops-1000" / "basic_val.tsv").write_text("Source\tTarget\n[AVG 1 ]\t1\n")
    task = load_arena_task("listops", tmp_path)
    with pytest.raises(ValueError, match=r"'\[AVG' is not a symbol"):
        task.parts["validation"][0]


# --- text ---


def test_imdb_by_bytes(tmp_path):
    release.write_imdb(tmp_path / "aclImdb")
    task = load_arena_task("text", tmp_path, max_length=100)
    check_task(task)
    assert sizes(task) == (18, 2, 20)
    assert task.class_names == ("neg", "pos")
    assert task.vocab_size == 261
    assert task.notes == ["The validation part is 10% of train, drawn at random."]
    test = task.parts["test"]
    assert test.labels.tolist() == [0] * 10 + [1] * 10
    expected = "test bad film é number 0 ".encode()
    assert test[0]["input_ids"].tolist() == [byte + 5 for byte in expected]
    assert len(test[9]["input_ids"]) == 100
    texts = {
        task.tokenizer.decode(task.parts[p][i]["input_ids"]) for p in PARTS[:2] for i in (0, 1)
    }
    assert len(texts) == 4


def test_imdb_by_the_bytes_of_the_arena(tmp_path):
    release.write_imdb(tmp_path)
    task = load_arena_task(
        "text", tmp_path, tokenization="lra_bytes", reference_validation=True, padding="max"
    )
    check_task(task)
    assert sizes(task) == (20, 20, 20)
    assert (task.vocab_size, task.pad_token_id, task.max_length) == (258, 0, 4096)
    assert task.parts["test"][0]["input_ids"][:4].tolist() == [ord(c) + 1 for c in "test"]
    assert "test part" in task.notes[0]
    batch = task.collator()([task.parts["test"][0]])
    assert batch["attention_mask"].sum() == len("test bad film é number 0 ".encode())


def test_imdb_by_characters(tmp_path):
    release.write_imdb(tmp_path)
    options = {"tokenization": "chars", "append_eos": True, "max_length": 60}
    task = load_arena_task("text", tmp_path, **options)
    check_task(task)
    example = task.parts["test"][9]["input_ids"]
    assert example[-1] == task.tokenizer.sep_token_id
    assert task.tokenizer.decode(example[4:12]) == " bad fil"
    assert len(example) == 60
    frequent = load_arena_task("text", tmp_path, min_count=200, **options)
    assert frequent.vocab_size < task.vocab_size
    quirk = load_arena_task(
        "text", tmp_path, reference_repr=True, vocabulary_of_all_parts=True, **options
    )
    assert quirk.tokenizer.decode(quirk.parts["test"][0]["input_ids"][:6]) == "b'test"
    assert task.vocab_size != quirk.vocab_size


def test_text_from_one_table_with_a_column_of_parts(tmp_path):
    from datasets import Dataset

    rows = {
        "text": [f"review {number}" for number in range(30)],
        "label": [0, 1] * 15,
        "split": ["train"] * 20 + ["val"] * 4 + ["test"] * 6,
    }
    Dataset.from_dict(rows).to_parquet(str(tmp_path / "data.parquet"))
    task = load_arena_task("text", tmp_path)
    check_task(task)
    assert sizes(task) == (20, 4, 6)
    assert not task.notes


def test_identical_texts_stay_in_one_part_where_parts_are_drawn(tmp_path):
    from datasets import Dataset

    texts = [f"review {number // 5}" for number in range(100)]
    for part in ("train", "test"):
        rows = {"text": texts, "label": [number % 2 for number in range(100)]}
        Dataset.from_dict(rows).to_parquet(str(tmp_path / f"{part}.parquet"))
    task = load_arena_task("text", tmp_path, validation_fraction=0.3)
    assert sum(sizes(task)[:2]) == 100
    found = [
        {task.parts[part][index]["input_ids"].tobytes() for index in range(len(task.parts[part]))}
        for part in PARTS[:2]
    ]
    assert not found[0] & found[1]
    assert len(found[1]) > 3


# --- retrieval ---


def test_retrieval_pairs(tmp_path):
    kept = release.write_aan(tmp_path / "lra_release" / "tsv_data")
    task = load_arena_task("retrieval", tmp_path, max_length=40)
    check_task(task)
    assert sizes(task) == (6, 3, 3)
    assert task.is_pair
    for part, name in zip(PARTS, ("train", "eval", "test"), strict=True):
        for index, (label, first, second) in enumerate(kept[name]):
            example = task.parts[part][index]
            assert example["labels"] == int(label)
            assert task.tokenizer.decode_bytes(example["input_ids"]) == first.encode()[:40]
            assert task.tokenizer.decode_bytes(example["input_ids_2"]) == second.encode()[:40]
    whole = load_arena_task("retrieval", tmp_path, max_length=None)
    assert whole.max_length == max(len(b.encode()) for rows in kept.values() for _, _, b in rows)
    check_task(whole)


def test_retrieval_by_characters_with_an_end(tmp_path):
    release.write_aan(tmp_path / "tsv_data")
    task = load_arena_task("retrieval", tmp_path, tokenization="chars", append_eos=True)
    check_task(task)
    example = task.parts["train"][0]
    assert example["input_ids"][-1] == example["input_ids_2"][-1] == task.tokenizer.sep_token_id
    assert task.tokenizer.decode(example["input_ids"][:-1]) == '"First" of train 0 ä'


@pytest.mark.parametrize("stored", ["parquet", "disk"])
def test_retrieval_from_tables(tmp_path, stored):
    kept = release.write_aan(tmp_path / "tsv_data", (6, 3, 4))
    names = {"train": "train", "eval": "validation", "test": "test"}
    tables = DatasetDict()
    for name, part in names.items():
        labels, first, second = zip(*kept[name], strict=True)
        columns = {"label": map(int, labels), "text1": first, "text2": second}
        tables[part] = Dataset.from_dict({key: list(value) for key, value in columns.items()})
    if stored == "disk":
        tables.save_to_disk(tmp_path / "copies")
    for part, rows in tables.items() if stored == "parquet" else ():
        rows.to_parquet(tmp_path / "copies" / f"{part}-00000-of-00001.parquet")
    for options in ({"max_length": 30}, {"tokenization": "chars", "append_eos": True}):
        task = load_arena_task("retrieval", tmp_path / "copies", **options)
        official = load_arena_task("retrieval", tmp_path, **options)
        check_task(task)
        assert task.config_fields() == official.config_fields()
        for part in PARTS:
            pairs = zip(task.parts[part], official.parts[part], strict=True)
            for one, other in pairs:
                assert one.keys() == other.keys()
                assert all(np.array_equal(one[name], other[name]) for name in one)


def test_tables_of_pairs_that_lack_something_are_refused(tmp_path):
    table = Dataset.from_dict({"label": [0, 2], "text1": ["a", "b"], "text2": ["c", "d"]})
    DatasetDict(train=table, validation=table, test=table).save_to_disk(tmp_path / "labels")
    with pytest.raises(ValueError, match=r"has the labels .*2.*: 0 and 1 are accepted"):
        load_arena_task("retrieval", tmp_path / "labels")
    table = table.select([0])
    DatasetDict(train=table, test=table).save_to_disk(tmp_path / "parts")
    with pytest.raises(ValueError, match=r"has no part validation; .*lra_release.gz"):
        load_arena_task("retrieval", tmp_path / "parts")
    DatasetDict(other=table).save_to_disk(tmp_path / "other")
    with pytest.raises(ValueError, match="holds the parts other, none called train"):
        load_arena_task("retrieval", tmp_path / "other")


@pytest.mark.parametrize("above", ["", "lra_release", "lra_release/lra_release"])
def test_the_unpacked_release_is_searched(tmp_path, above):
    release.write_listops(tmp_path / above / "listops-1000")
    release.write_aan(tmp_path / above / "tsv_data")
    release.write_pathfinder(tmp_path / above / "pathfinder32", tables=1)
    for name in ("listops", "retrieval", "pathfinder"):
        check_task(load_arena_task(name, tmp_path))


def test_broken_pairs_are_refused(tmp_path):
    release.write_aan(tmp_path / "tsv_data")
    file = tmp_path / "tsv_data" / "new_aan_pairs.eval.tsv"
    file.write_text("0.0\ta\tb\tonly one text\n")
    with pytest.raises(ValueError, match="line 1 has 4 columns"):
        load_arena_task("retrieval", tmp_path)
    file.unlink()
    with pytest.raises(ValueError, match=r"eval.tsv does not exist; .*lra_release.gz"):
        load_arena_task("retrieval", tmp_path)


# --- images ---


def test_cifar_batches_become_grey_pixels(tmp_path):
    kept = release.write_cifar(tmp_path / "cifar-10-batches-py")
    task = load_arena_task("image", tmp_path)
    check_task(task)
    assert sizes(task) == (18, 2, 4)
    assert (task.vocab_size, task.max_length, task.mask_ratio) == (258, 1024, 0.5)
    assert task.class_names[3] == "class 3"
    data, labels = kept["data_batch_1"]
    red, green, blue = data[2].reshape(3, 1024).astype(float)
    expected = (0.2989 * red + 0.5870 * green + 0.1140 * blue).astype(int)
    assert task.parts["train"][2]["input_ids"].tolist() == expected.tolist()
    assert task.parts["train"][2]["labels"] == labels[2]
    # the last tenth of the training part, in order
    assert task.parts["validation"][1]["labels"] == kept["data_batch_5"][1][3]
    values = load_arena_task("image", tmp_path, pixels="values", reference_validation=True)
    check_task(values)
    assert sizes(values) == (18, 4, 4)
    found = values.parts["train"][2]["input_values"][:, 0]
    assert np.allclose(found, (expected / 255 - 122.6 / 255) / (61 / 255), atol=1e-4)


def test_batches_that_would_run_code_are_refused(tmp_path):
    release.write_cifar(tmp_path)
    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": print}))
    with pytest.raises(ValueError, match=r"print: arrays are accepted"):
        load_arena_task("image", tmp_path)
    (tmp_path / "test_batch").write_bytes(b"")
    with pytest.raises(ValueError, match="cannot be read as a batch"):
        load_arena_task("image", tmp_path)


@pytest.mark.parametrize("stored", ["folders", "parquet"])
def test_other_images_are_read_like_the_batches(tmp_path, stored):
    chance = np.random.default_rng(1)
    images = chance.integers(0, 256, (34, 8, 8, 3), dtype=np.uint8)
    for number, image in enumerate(images):
        folder = tmp_path / ("train" if number < 30 else "test") / "abc"[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number:02}.png")
    if stored == "parquet":
        # as the Hub has CIFAR-10
        for part, rows in (("train", range(30)), ("test", range(30, 34))):
            files = [tmp_path / part / "abc"[row % 3] / f"{row:02}.png" for row in rows]
            columns = {"img": [{"bytes": file.read_bytes(), "path": None} for file in files]}
            columns["label"] = [row % 3 for row in rows]
            Dataset.from_dict(columns).to_parquet(tmp_path / f"{part}-00000-of-00001.parquet")
    task = load_arena_task("image", tmp_path)
    check_task(task)
    assert sizes(task) == (27, 3, 4)
    assert task.max_length == 64
    # files that go class by class have every class in the validation part
    assert sorted(task.parts["validation"].labels) == [0, 1, 2]
    expected = (images @ [0.2989, 0.5870, 0.1140]).astype(int).reshape(34, -1)
    found = [rows[i]["input_ids"] for rows in task.parts.values() for i in range(len(rows))]
    assert sorted(map(tuple, found)) == sorted(map(tuple, expected))
    whole = load_arena_task(
        "image", tmp_path, validation_fraction=0, reference_validation=True, pixels="values"
    )
    assert sizes(whole) == (30, 4, 4)
    with pytest.raises(ValueError, match="validation_fraction=0 was given"):
        load_arena_task("image", tmp_path, validation_fraction=0)


def test_black_pixels_are_masked_only_on_request(tmp_path):
    arrays = {"x_train": np.zeros((10, 2, 2), np.uint8), "y_train": np.arange(10) % 2}
    arrays |= {"x_test": np.eye(2, dtype=np.uint8)[None].repeat(2, 0), "y_test": np.array([0, 1])}
    np.savez(tmp_path / "data.npz", **arrays)
    task = load_arena_task("image", tmp_path / "data.npz", padding="batch")
    examples = [task.parts["train"][0], task.parts["test"][0]]
    assert task.collator()(examples)["attention_mask"].tolist() == [[1] * 4] * 2
    assert task.pad_token_id == 256
    task = load_arena_task("image", tmp_path / "data.npz", reference_zero_mask=True)
    assert (task.pad_token_id, task.padding) == (0, "batch")
    # an image that is black all over keeps one pixel: a model cannot read nothing
    assert task.collator()(examples)["attention_mask"].tolist() == [[1, 0, 0, 0], [1, 0, 0, 1]]
    with pytest.raises(ValueError, match="it is for ids"):
        load_arena_task("image", tmp_path / "data.npz", reference_zero_mask=True, pixels="values")


# --- Pathfinder ---


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lra")
    return folder, release.write_pathfinder(folder / "lra_release" / "pathfinder32")


def test_pathfinder_folders_skip_and_count_empty_files(images):
    folder, kept = images
    task = load_arena_task("pathfinder", folder)
    check_task(task)
    assert sizes(task) == (25, 2, 2)
    assert task.notes == ["1 empty image files of curv_contour_length_14 are left out."]
    # the split of published loaders, whose training part has what rounding leaves over
    chosen = torch.utils.data.random_split(
        range(29), [25, 2, 2], generator=torch.Generator().manual_seed(42)
    )
    for part, rows in zip(PARTS, chosen, strict=True):
        for index, row in enumerate(rows):
            pixels, label = kept["hard"][row]
            assert np.array_equal(task.parts[part][index]["input_ids"], pixels)
            assert task.parts[part][index]["labels"] == label

    with pytest.raises(ValueError, match=r"curv_contour_length_9 is one difficulty: .*'hard'"):
        load_arena_task(
            "pathfinder", folder / "lra_release" / "pathfinder32" / "curv_contour_length_9"
        )


@pytest.mark.parametrize("path", ["lra_release/pathfinder32", "", "lra_release"])
def test_pathfinder_is_found_at_every_level(images, path):
    task = load_arena_task("pathfinder", images[0] / path, difficulty="easy", split="file_order")
    assert sizes(task) == (25, 2, 2)
    assert np.array_equal(task.parts["train"][0]["input_ids"], images[1]["easy"][0][0])


def test_pathfinder_as_values_of_one_folder(images):
    folder = images[0] / "lra_release" / "pathfinder32" / "curv_contour_length_9"
    task = load_arena_task("pathfinder", folder, difficulty="intermediate", pixels="values")
    check_task(task)
    values = task.parts["test"][0]["input_values"]
    assert (values.min(), values.max()) == (-1, 1)


def test_pathfinder_split_of_paramixer(tmp_path):
    release.write_pathfinder(tmp_path / "pathfinder32", tables=22, per_table=2)
    with pytest.raises(ValueError, match="does not exist"):
        load_arena_task("pathfinder", tmp_path / "none")
    # the fifth image of the first table is not there with two per table
    task = load_arena_task("pathfinder", tmp_path, difficulty="all", split="paramixer")
    assert sizes(task) == (3 * 2 * 2, 3 * 10 * 2, 3 * 10 * 2)


def test_broken_pathfinder_folders_are_refused(tmp_path):
    root = tmp_path / "pathfinder32" / "curv_contour_length_14"
    (root / "metadata").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"holds no .npy files; .*lra_release.gz"):
        load_arena_task("pathfinder", tmp_path)
    (root / "metadata" / "0.npy").write_text("imgs/0 sample_0.png 0 2\n")
    with pytest.raises(ValueError, match=r"line 1 is .*label 0 or 1"):
        load_arena_task("pathfinder", tmp_path)
    (root / "metadata" / "0.npy").write_text("imgs/0 sample_0.png 0 1 x\n")
    with pytest.raises(ValueError, match=r"sample_0.png, which .* names, does not exist"):
        load_arena_task("pathfinder", tmp_path)
    with pytest.raises(ValueError, match="split='x' was given"):
        load_arena_task("pathfinder", tmp_path, split="x")
    with pytest.raises(ValueError, match="all are accepted"):
        load_arena_task("pathfinder", tmp_path, difficulty="x")


def write_copies(folder, kind, kept, names=("0", "1"), parts=PARTS):
    """Images of the release as others store them: each part has all of them."""
    images = np.stack([image.reshape(32, 32) for image, _ in kept])
    labels = np.array([label for _, label in kept])
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "npz":
        arrays = {"x_train": images, "y_train": labels, "x_test": images[:5], "y_test": labels[:5]}
        np.savez(folder / "data.npz", **arrays)
        return folder / "data.npz"
    if kind == "parquet":
        pictures = [Image.fromarray(np.stack([image] * 3, -1)) for image in images]
        rows = Dataset.from_dict({"image": pictures, "label": labels.tolist()})
        rows.to_parquet(str(folder / "train-00000-of-00001.parquet"))
        return folder
    for part in parts:
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            (folder / part / names[label]).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / part / names[label] / f"{number:03}.bmp")
    return folder


def list_images(part):
    return sorted((row["input_ids"].tobytes(), row["labels"]) for row in part)


@pytest.mark.parametrize("kind", ["npz", "parquet", "folders"])
def test_pathfinder_from_other_copies_of_its_images(images, tmp_path, kind):
    kept = images[1]["easy"]
    task = load_arena_task("pathfinder", write_copies(tmp_path / "copies", kind, kept))
    check_task(task)
    count, held = len(kept), len(kept) // 10
    expected = {"npz": (count - held, held, 5), "parquet": (count - 2 * held, held, held)}
    assert sizes(task) == expected.get(kind, (count, count, count))
    assert len(task.notes) == (kind != "folders")
    assert task.config_fields() == load_arena_task("pathfinder", images[0]).config_fields()
    known = sorted((image.tobytes(), int(label)) for image, label in kept)
    if kind == "folders":
        assert all(list_images(task.parts[part]) == known for part in PARTS)
    drawn = [
        pair for part in PARTS[: 2 + (kind != "npz")] for pair in list_images(task.parts[part])
    ]
    if kind != "folders":
        assert sorted(drawn) == known


def test_parts_of_copies_stay_and_classes_go_by_their_names(images, tmp_path):
    kept = images[1]["easy"]
    known = sorted((image.tobytes(), int(label)) for image, label in kept)
    for names in (("two contours", "one contour"), ("no", "yes"), ("Negative", "Positive")):
        folder = tmp_path / names[0]
        write_copies(folder, "folders", kept, names, ("train", "val"))
        task = load_arena_task("pathfinder", folder)
        assert list_images(task.parts["validation"]) == known
        rest = list_images(task.parts["train"]) + list_images(task.parts["test"])
        assert sorted(rest) == known
    with pytest.raises(ValueError, match="goes class by class: split='s4'"):
        load_arena_task("pathfinder", folder, split="file_order")


def test_copies_of_pathfinder_that_do_not_fit_are_refused(images, tmp_path):
    kept = images[1]["easy"]
    folder = write_copies(tmp_path / "copies", "parquet", kept)
    with pytest.raises(ValueError, match="'paramixer' is for folders of the official release"):
        load_arena_task("pathfinder", folder, split="paramixer")
    with pytest.raises(ValueError, match="difficulty='some' was given"):
        load_arena_task("pathfinder", folder, difficulty="some")
    with pytest.raises(ValueError, match="has images of 32 x 32 pixels: 128 x 128"):
        load_arena_task("pathx", folder)
    (folder / "train-00000-of-00001.parquet").rename(folder / "validation.parquet")
    with pytest.raises(ValueError, match="has no part train: it has validation"):
        load_arena_task("pathfinder", folder)
    folder = write_copies(tmp_path / "linked", "folders", kept, ("unlinked", "linked"))
    with pytest.raises(ValueError, match=r"has the classes linked, unlinked: accepted are two "):
        load_arena_task("pathfinder", folder)
    folder = write_copies(tmp_path / "few", "folders", kept[:2], parts=("train",))
    with pytest.raises(ValueError, match="The part train is empty"):
        load_arena_task("pathfinder", folder)


def test_path_x_is_pathfinder_at_128(tmp_path):
    release.write_pathfinder(tmp_path / "pathfinder128", resolution=128, tables=1, per_table=11)
    task = load_arena_task("pathx", tmp_path)
    check_task(task)
    assert (task.name, task.max_length, task.pixel_shape) == ("pathx", 16384, (128, 128))
    (tmp_path / "pathfinder128").rename(tmp_path / "pathfinder32")
    with pytest.raises(ValueError, match="128 x 128 pixels: 32 x 32 are accepted"):
        load_arena_task("pathfinder", tmp_path).parts["train"][0]


# --- documents, series ---


def test_long_documents(tmp_path):
    release.write_longdoc(tmp_path / "longdoc")
    task = load_arena_task("longdoc", tmp_path / "longdoc", max_length=150)
    check_task(task)
    assert task.class_names == ("0", "1", "2", "3")
    assert any("longer than 150" in note for note in task.notes)
    assert task.max_length <= 150
    text = task.tokenizer.decode(task.parts["train"][0]["input_ids"])
    assert "[cs.AI]" not in text
    assert '"quotes"' in text
    tagged = load_arena_task("longdoc", tmp_path / "longdoc", remove_tags=False)
    assert "[cs.AI]" in tagged.tokenizer.decode(tagged.parts["train"][0]["input_ids"])
    assert sizes(tagged) == (28, 4, 8)


@pytest.mark.parametrize("split", ["paper", "release"])
def test_identical_documents_are_in_one_part(tmp_path, split):
    rows = {
        "text": [f"document {n // 2} " * 3 for n in range(80)],
        "label": [n // 2 % 2 for n in range(80)],
    }
    Dataset.from_dict(rows).to_csv(str(tmp_path / "data.csv"))
    task = load_arena_task("longdoc", tmp_path, split=split)
    seen = {
        part: {rows[n]["input_ids"].tobytes() for n in range(len(rows))}
        for part, rows in task.parts.items()
    }
    assert sum(map(len, seen.values())) == 40 == len(set.union(*seen.values()))
    assert len(task.parts["test"]) == 16


def test_long_documents_as_published_loaders_cut_and_split_them(tmp_path):
    release.write_longdoc(tmp_path / "longdoc")
    options = {"max_length": 30, "too_long": "cut", "remove_tags": False, "split": "file_order"}
    task = load_arena_task("longdoc", tmp_path / "longdoc", reference_cut=True, **options)
    check_task(task)
    assert sizes(task) == (28, 4, 8)
    decode = task.tokenizer.decode
    assert decode(task.parts["train"][6]["input_ids"]).endswith("text ")
    assert decode(task.parts["test"][0]["input_ids"]).startswith("arXiv")
    plain = load_arena_task("longdoc", tmp_path / "longdoc", **options)
    assert decode(plain.parts["train"][6]["input_ids"]).startswith("arXiv")
    release_split = load_arena_task(
        "longdoc", tmp_path / "longdoc", split="release", reference_validation=True
    )
    assert sizes(release_split) == (32, 8, 8)
    with pytest.raises(ValueError, match="it is for 'cut'"):
        load_arena_task("longdoc", tmp_path / "longdoc", reference_cut=True)


def test_unknown_characters_of_documents(tmp_path):
    from datasets import Dataset

    rows = {"text": ["ab"] * 10 + ["a?"] * 4, "label": [0, 1] * 7}
    rows["split"] = ["train"] * 10 + ["val"] * 2 + ["test"] * 2
    Dataset.from_dict(rows).to_parquet(str(tmp_path / "data.parquet"))
    task = load_arena_task("longdoc", tmp_path)
    assert task.parts["test"][0]["input_ids"].tolist() == [5, 1]
    quirk = load_arena_task("longdoc", tmp_path, reference_unknown=True)
    assert quirk.parts["test"][0]["input_ids"].tolist() == [5, 0]


def test_uea_series(tmp_path):
    release.write_uea(tmp_path / "Tiny")
    task = load_arena_task("uea", tmp_path / "Tiny", validation_fraction=0.34)
    check_task(task)
    assert task.input_features == 2
    assert sizes(task) == (8, 4, 4)
    assert set(task.class_names) == {"up", "down"}
    values = np.concatenate([task.parts["train"][index]["input_values"] for index in range(8)])
    assert np.allclose(values.mean(0), 0, atol=1e-5)
    assert np.allclose(values.std(0), 1, atol=1e-5)
    same = load_arena_task("uea", tmp_path / "Tiny", reference_validation=True)
    assert sizes(same) == (12, 4, 4)


# --- all ---


@pytest.mark.parametrize("name", TASKS)
def test_missing_files_say_where_to_get_them(name, tmp_path):
    with pytest.raises(ValueError, match=r"does not exist; .*(https://|write_task)"):
        load_arena_task(name, tmp_path / "nothing")


@pytest.mark.parametrize("name", TASKS)
def test_folders_without_the_files_say_where_to_get_them(name, tmp_path):
    options = {"fasta": tmp_path} if name == "variants" else {}
    with pytest.raises(ValueError, match=r"https://|write_task"):
        load_arena_task(name, tmp_path, **options)


@pytest.mark.parametrize("name", [name for name, kind in TASKS.items() if kind.make is None])
def test_tasks_that_cannot_be_made_need_files(name):
    with pytest.raises(ValueError, match=r"cannot be made without files; .*https://"):
        load_arena_task(name)


def test_unknown_names_and_options_are_refused(tmp_path):
    with pytest.raises(ValueError, match="'lists' was asked for: listops, text"):
        load_arena_task("lists", tmp_path)
    with pytest.raises(ValueError, match="colour was given for the task image, read from files"):
        load_arena_task("image", tmp_path, colour=1)
    with pytest.raises(ValueError, match=r"split was given for the task pathfinder, made from"):
        load_arena_task("pathfinder", split="s4")
    release.write_imdb(tmp_path)
    with pytest.raises(ValueError, match="tokenization='words'"):
        load_arena_task("text", tmp_path, tokenization="words")


@pytest.mark.parametrize("name", TASKS)
def test_options_of_every_task_can_be_listed(name):
    options = task_options(name, from_files=True)
    assert options["padding"] == "none"
    assert "name" not in options
    json.dumps(options)
