"""The model under training is the model that is served, and its gradients are MLX's."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.maintainers
load_solution()

from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.dataset.loss import cross_entropy  # noqa: E402
from tiny_llm_solution.dataset.packing import document_mask, pack_documents  # noqa: E402
from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel  # noqa: E402
from tiny_llm_solution.training import model  # noqa: E402

CONFIG = ModelConfig("qwen3", 24, 2, 40, 4, 2, 8, 50, 1e-6, 1e4, 64, True)
DOCUMENTS = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8, 9, 7]]


def test_each_document_has_the_logits_that_serving_computes():
    params = model.initial_params(CONFIG, 0, 0.3)
    rows = pack_documents(DOCUMENTS, 17, eos=49)
    logits = model.TrainableModel(CONFIG, params)(rows.tokens, rows.positions, document_mask(rows.document_ids))
    served, first = Qwen3CachedModel(CONFIG, params), 0
    for document in DOCUMENTS:
        alone = served(mx.array([[*document, 49]]), served.new_caches(), all_positions=True)
        mine = logits[:, first : first + len(document) + 1]
        np.testing.assert_allclose(np.array(mine), np.array(alone), atol=1e-4)
        first += len(document) + 1


def test_the_gradients_are_those_of_plain_operations(monkeypatch):
    params = model.initial_params(CONFIG, 1, 0.3)
    rows = pack_documents(DOCUMENTS, 12, eos=49)
    by_hand = mx.grad(model.loss_function(CONFIG))(params, rows)
    monkeypatch.setattr(model, "trainable_linear", lambda x, w: x @ w.T)
    plainly = model.Operators(
        lambda eps: lambda x, w: mx.fast.rms_norm(x, w, eps), lambda gate, up: nn.silu(gate) * up, model.attend
    )

    def loss(params, rows):
        logits = model.TrainableModel(CONFIG, params, plainly)(
            rows.tokens, rows.positions, document_mask(rows.document_ids)
        )
        return cross_entropy(logits, rows.targets)

    plain = mx.grad(loss)(params, rows)
    for name, grad in plain.items():
        np.testing.assert_allclose(np.array(by_hand[name]), np.array(grad), rtol=1e-3, atol=1e-5, err_msg=name)


def test_a_row_of_padding_gives_no_nan():
    params = model.initial_params(CONFIG, 2)
    rows = pack_documents([[1, 2]], 8, eos=49)
    padding = type(rows)(rows.tokens, mx.full((1, 8), -100), mx.full((1, 8), -1), rows.positions)
    loss, grads = mx.value_and_grad(model.loss_function(CONFIG))(params, padding)
    assert loss.item() == 0
    assert all(mx.all(grad == 0).item() for grad in grads.values())
    logits = model.TrainableModel(CONFIG, params)(rows.tokens, rows.positions, mx.zeros((1, 1, 8, 8), mx.bool_))
    assert mx.all(mx.isfinite(logits)).item()
