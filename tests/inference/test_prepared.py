"""Models of tables, series and images predict new files with the preparation of their training."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from PIL import Image

from hf_mixers import (
    ChordMixerConfig,
    ChordMixerForSequenceClassification,
    MrsFormerConfig,
    MrsFormerForImageClassification,
    MrsFormerForSequenceClassification,
)
from hf_mixers.data.other import PixelScaler, SeriesScaler, TableEncoder
from hf_mixers.inference.prepared import load_preparation

SMALL = {"track_size": 4, "intermediate_size": 8}
MRS = {"hidden_size": 8, "num_hidden_layers": 1, "head_scales": [1, 2], "intermediate_size": 16}
NAMES = {0: "cat", 1: "dog"}


def save(model, preparation, folder):
    model.save_pretrained(folder)
    (folder / "preparation.json").write_text(json.dumps(preparation.to_dict()))
    return model.eval()


def read(path):
    return pd.read_csv(path, sep="\t", keep_default_na=False)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_tables_are_encoded_as_in_training(run, tmp_path, task):
    frame = pd.DataFrame(
        {"size": [1.0, 2.0, np.nan, 5.0], "kind": ["a", "b", "a", "new"], "id": list("wxyz")}
    )
    train = {"size": [1.0, 2.0, None], "kind": ["a", "b", "a"]}
    labels = [0, 1, 0] if task == "classification" else [10.0, 20.0, 60.0]
    encoder = TableEncoder.fit(Dataset.from_dict({**train, "label": labels}))
    fields = {"id2label": NAMES} if task == "classification" else {"num_labels": 1}
    kind = None if task == "classification" else "regression"
    config = MrsFormerConfig(**MRS, **encoder.config_fields(), **fields, problem_type=kind)
    model = save(MrsFormerForSequenceClassification(config), encoder, tmp_path)
    frame.to_csv(tmp_path / "new.csv", index=False)
    frame.drop(columns="id").to_parquet(tmp_path / "new.parquet")
    for name, ids in (("new.csv", list("wxyz")), ("new.parquet", list("1234"))):
        words = ("predict", tmp_path, tmp_path / name, "-o", tmp_path / "out.tsv")
        done = run(*words, "--overwrite", "--all-scores", "--token-budget", 5)
        assert done.code == 0, done.error
        table = read(tmp_path / "out.tsv")
        assert [str(one) for one in table["id"]] == ids
        rows = encoder.encode(Dataset.from_pandas(frame))
        with torch.no_grad():
            logits = model(
                numeric_values=torch.tensor(rows["numeric_values"][:]),
                category_ids=torch.tensor(rows["category_ids"][:]),
            ).logits
        if task == "classification":
            expected = logits.softmax(-1).numpy()
            assert np.abs(table[["score_cat", "score_dog"]] - expected).to_numpy().max() < 1e-5
        else:
            assert np.abs(table["label"] - encoder.unscale_target(logits[:, 0])).max() < 1e-3
    frame.drop(columns="kind").to_csv(tmp_path / "less.csv")
    done = run("predict", tmp_path, tmp_path / "less.csv")
    assert (done.code, "has no column 'kind'" in done.error) == (1, True)
    done = run("predict", tmp_path, tmp_path / "new.csv", "--rc-average")
    assert (done.code, "Both strands require sequences of DNA" in done.error) == (1, True)


@pytest.mark.parametrize("pooling", ["mean", "flat"])
def test_series_are_scaled_as_in_training(run, tmp_path, pooling):
    generator = np.random.default_rng(0)
    series = [generator.normal(size=(length, 2)).astype(np.float32) for length in (3, 9, 5)]
    scaler = SeriesScaler([0.5, -1.0], [2.0, 3.0])
    config = ChordMixerConfig(
        **{**SMALL, "input_features": 2, "id2label": NAMES, "max_position_embeddings": 8},
        pooling=pooling,
        position_embedding_type="absolute",
    )
    model = save(ChordMixerForSequenceClassification(config), scaler, tmp_path)
    lengths = np.array([len(one) for one in series])
    np.savez(tmp_path / "new.npz", x=np.concatenate(series), lengths=lengths)
    words = ("predict", tmp_path, tmp_path / "new.npz", "-o", tmp_path / "out.tsv", "--all-scores")
    done = run(*words)
    assert done.code == 0, done.error
    table = read(tmp_path / "out.tsv")
    assert list(table["length"]) == [3, 9, 5]
    if pooling == "mean":
        assert list(table["note"]) == ["", "longer than 8 tokens", ""]
        values = scaler.scale(series[0])
    else:
        assert list(table["note"]) == ["padded", "cut", "padded"]
        values = np.pad(scaler.scale(series[0]), [(0, 5), (0, 0)])
    with torch.no_grad():
        expected = model(input_values=torch.from_numpy(values)[None]).logits.softmax(-1)[0].numpy()
    assert np.abs(table.loc[0, ["score_cat", "score_dog"]].astype(float) - expected).max() < 1e-5
    # lines of a .ts file are series, too
    lines = (",".join(map(str, channel)) for channel in series[0].T)
    text = f"@classLabel true cat dog\n@data\n{':'.join(lines)}:cat\n"
    (tmp_path / "new.ts").write_text(text)
    done = run("predict", tmp_path, tmp_path / "new.ts", "--all-scores")
    found = done.out.splitlines()[1].split("\t")
    assert found[0] == "new.ts:1"
    assert np.abs(np.array(found[4:6], float) - expected).max() < 1e-5


def test_pictures_are_scaled_as_in_training(run, tmp_path):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (3, 8, 8), dtype=np.uint8)
    scaler = PixelScaler("picture", [100.0], [50.0])
    config = MrsFormerConfig(**MRS, image_size=8, num_channels=1, patch_size=4, id2label=NAMES)
    model = save(MrsFormerForImageClassification(config), scaler, tmp_path)
    (tmp_path / "new").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "new" / f"{number}.png")
    (tmp_path / "new" / "3.png").write_bytes(b"not a picture")
    Image.fromarray(np.stack([images[0]] * 3, -1)).save(tmp_path / "new" / "4.png")
    done = run("predict", tmp_path, tmp_path / "new", "-o", tmp_path / "out.tsv", "--all-scores")
    assert done.code == 0, done.error
    table = read(tmp_path / "out.tsv")
    assert [name.rsplit("/", 1)[-1] for name in table["id"]] == [f"{n}.png" for n in range(5)]
    assert "is no picture that can be read" in table["note"][3]
    with torch.no_grad():
        values = torch.from_numpy(np.stack([scaler.scale(image[None]) for image in images]))
        expected = model(pixel_values=values).logits.softmax(-1).numpy()
    found = table[["score_cat", "score_dog"]].iloc[[0, 1, 2, 4]].astype(float).to_numpy()
    # colours become grey
    assert np.abs(found - expected[[0, 1, 2, 0]]).max() < 1e-5
    assert run("predict", tmp_path, tmp_path / "new", "--strict").code == 1
    # an array that cannot be read is an error: a note would stand for many images
    np.savez(tmp_path / "wrong.npz", x=np.zeros((2, 8, 8, 3), np.uint8))
    done = run("predict", tmp_path, tmp_path / "wrong.npz")
    assert (done.code, "the scaler is for (1, H, W)" in done.error) == (1, True)


@pytest.mark.parametrize("read_as", ["values", "ids"])
def test_pixels_are_read_as_in_training(run, tmp_path, read_as):
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 4), dtype=np.uint8)
    scaler = PixelScaler(read_as, [100.0], [50.0])
    special = dict.fromkeys(("pad_token_id", "cls_token_id", "sep_token_id", "mask_token_id"))
    kind = {"input_features": 1} if read_as == "values" else {"vocab_size": 256}
    config = ChordMixerConfig(**SMALL, **kind, **special, id2label=NAMES)
    model = save(ChordMixerForSequenceClassification(config), scaler, tmp_path)
    np.savez(tmp_path / "new.npz", x_test=images)
    done = run("predict", tmp_path, tmp_path / "new.npz", "--all-scores")
    assert done.code == 0, done.error
    found = np.array([line.split("\t")[4:6] for line in done.out.splitlines()[1:]], float)
    name = {"values": "input_values", "ids": "input_ids"}[read_as]
    values = torch.from_numpy(np.stack([scaler.scale(image[None]) for image in images]))
    with torch.no_grad():
        values = values.long() if read_as == "ids" else values
        expected = model(**{name: values}).logits.softmax(-1).numpy()
    assert np.abs(found - expected).max() < 1e-5


def test_a_preparation_that_is_not_known_is_named(tmp_path):
    assert load_preparation(str(tmp_path)) is None
    (tmp_path / "preparation.json").write_text('{"colour": 1}')
    with pytest.raises(ValueError, match=r"preparation.json is not the preparation of a table"):
        load_preparation(str(tmp_path))
