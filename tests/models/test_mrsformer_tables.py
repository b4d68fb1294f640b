"""MrsFormer on tables: columns as tokens, as in FT-Transformer."""

import pytest
import torch
from torch.export import Dim
from transformers import Trainer, TrainingArguments

from hf_mixers import MrsFormerForSequenceClassification
from tests.families import find_row, random_ids

ROW = find_row("mrsformer")
TABLES = {
    "num_numeric_features": 5,
    "category_sizes": [3, 7],
    "max_position_embeddings": None,
    "pooling": "cls",
    "hidden_act": "reglu",
    "skip_first_norm": True,
}


def build_tables(**changes):
    torch.manual_seed(0)
    return MrsFormerForSequenceClassification(ROW.config(**{**TABLES, **changes})).eval()


def table_rows(count):
    return {
        "numeric_values": torch.randn(count, 5),
        "category_ids": torch.stack([torch.arange(count) % 3, torch.arange(count) % 7], 1),
    }


def test_columns_become_tokens_as_in_ft_transformer():
    model = build_tables()
    rows = table_rows(4)
    embedding = model.model.embed_columns
    tokens = embedding(**rows)
    assert tokens.shape == (4, 7, 16)
    number, category = rows["numeric_values"][2, 3], rows["category_ids"][2, 1]
    torch.testing.assert_close(tokens[2, 3], number * embedding.weight[3] + embedding.bias[3])
    expected = embedding.categories.weight[3 + category] + embedding.bias[6]
    torch.testing.assert_close(tokens[2, 6], expected)
    assert model.config.max_position_embeddings == 7
    assert "embed_tokens" not in dict(model.model.named_children())
    logits = model(**rows).logits
    torch.testing.assert_close(model(**{k: v[1:2] for k, v in rows.items()}).logits, logits[1:2])
    assert model(**model.dummy_inputs).logits.shape == (2, 2)


@pytest.mark.parametrize("columns", [{"category_sizes": None}, {"num_numeric_features": None}])
def test_tables_may_have_only_numbers_or_only_categories(columns):
    model = build_tables(**columns)
    assert model(**model.dummy_inputs).logits.shape == (2, 2)


def test_the_order_of_columns_matters_to_coarse_heads_only():
    rows = table_rows(2)["numeric_values"]
    order = [2, 0, 1, 4, 3]
    for scales, is_equal in (([1] * 4, True), ([1, 2, 2, 4], False)):
        model = build_tables(category_sizes=None, head_scales=scales)
        before = model(numeric_values=rows).logits
        embedding = model.model.embed_columns
        with torch.no_grad():
            embedding.weight.copy_(embedding.weight[order])
            embedding.bias.copy_(embedding.bias[order])
        after = model(numeric_values=rows[:, order]).logits
        assert torch.allclose(before, after, atol=1e-5) == is_equal


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["regression", "single_label_classification"])
def test_tables_are_learned_with_the_stock_trainer(problem, tmp_path):
    rows = table_rows(64)
    targets = rows["numeric_values"][:, 0] + (rows["category_ids"][:, 0] == 1)
    labels = targets if problem == "regression" else (targets > 0.3).long()
    data = [
        {**{name: value[i] for name, value in rows.items()}, "labels": labels[i]} for i in range(64)
    ]
    model = build_tables(num_labels=1 if problem == "regression" else 2, problem_type=problem)
    trainer = Trainer(
        model,
        TrainingArguments(
            str(tmp_path),
            num_train_epochs=25,
            learning_rate=5e-3,
            per_device_train_batch_size=16,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=data,
        eval_dataset=data,
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.2 * before


class Program(torch.nn.Module):
    """Named tensors in, one tensor out: what exporters want."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, numeric_values, category_ids):
        return self.model(numeric_values=numeric_values, category_ids=category_ids).logits


@pytest.mark.slow
def test_exported_programs_read_any_number_of_rows():
    model = Program(build_tables(num_hidden_layers=1))
    rows = Dim("rows", min=2, max=64)
    inputs = table_rows(3)
    shapes = {name: {0: rows} for name in inputs}
    program = torch.export.export(model, (), inputs, dynamic_shapes=shapes)
    others = table_rows(5)
    torch.testing.assert_close(program.module()(**others), model(**others), atol=1e-5, rtol=1e-5)


def test_bad_tables_are_refused_with_one_sentence():
    model = build_tables()
    good = table_rows(3)
    cases = [
        ({}, "This model reads numeric_values, got none"),
        (
            {"numeric_values": good["numeric_values"]},
            r"category_ids must have shape \(B, 2\), got N",
        ),
        ({**good, "numeric_values": torch.zeros(3, 4)}, r"have shape \(B, 5\), got \(3, 4\)"),
        ({**good, "numeric_values": torch.zeros(3, 5).long()}, "floating-point numbers, got torch"),
        ({**good, "category_ids": good["category_ids"] + 1}, r"Column 0 .* 0\.\.2, got 1 to 3"),
        ({**good, "numeric_values": torch.zeros(2, 5)}, "as many rows, got 2 and 3"),
        ({**good, "input_ids": random_ids(3, 2)}, "category_ids must be the only input"),
    ]
    for inputs, message in cases:
        with pytest.raises(ValueError, match=message):
            model(**inputs)
    with pytest.raises(ValueError, match="The tables of this model have no category_ids"):
        build_tables(category_sizes=None)(**good)
