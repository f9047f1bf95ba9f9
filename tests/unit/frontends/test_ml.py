"""Features, linear models and support vector machines of ai.onnx.ml, and the optimisers of ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_case import check_model, foreign_model
from reference import run_model
from shared_kernels import noting_kernels

import tilewright as tw
from tilewright.core.errors import ModelError
from tilewright.frontends import import_model

RANDOM = np.random.default_rng(0)
ML, TRAINING = "ai.onnx.ml", "ai.onnx.preview.training"
LABELLED = ["int64", "float32"]
NAN, INF = float("nan"), float("inf")


def f(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def floats(*shape: int) -> list[float]:
    return f(*shape).reshape(-1).tolist()


def check(op: str, *arrays: np.ndarray, tol: float = 1e-5, version: int = 3, **options: Any) -> None:
    model, inputs = foreign_model(op, arrays, ML, version=version, **options)
    check_model(model, inputs, tol, tol)


def check_reference(
    op: str, *arrays: np.ndarray, results: Sequence[str], domain: str = ML, tol: float = 1e-5, **options: Any
) -> None:
    model, inputs = foreign_model(op, arrays, domain, results, **options)
    wants = ReferenceEvaluator(model).run(None, inputs)
    for got, want, dtype in zip(run_model(import_model(model), inputs), wants, results, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, np.asarray(want), rtol=tol, atol=tol)


def refusal(op: str, *arrays: np.ndarray, domain: str = ML, **options: Any) -> str:
    model, _ = foreign_model(op, arrays, domain, **options)
    with pytest.raises(ModelError) as error:
        import_model(model)
    return str(error.value)


@pytest.mark.parametrize("x", [f(4), f(3, 4), f(2, 3, 4)], ids=["vector", "matrix", "3d"])
def test_feature_extraction(x):
    check("ArrayFeatureExtractor", x, np.array([[3, 0, 3]]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_binarizer(dtype):
    x = np.array([[0.5, 0.75, -1], [3, 0, 1]]).astype(dtype)
    check_reference("Binarizer", x, threshold=0.5, results=[dtype])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    check("Normalizer", f(3, 4), norm=norm)
    check("Normalizer", np.array([[0, 0], [-1, -2], [3, 4]]), norm=norm)


def test_scaler():
    check("Scaler", f(3, 4), offset=floats(4), scale=floats(4))
    check("Scaler", np.arange(6).reshape(2, 3), offset=[0.5], scale=[2.0])
    assert "scale has 3 elements" in refusal("Scaler", f(3, 4), scale=floats(3), offset=[0.0])


def test_imputer():
    x = np.array([[NAN, 2], [3, 2]], np.float32)
    check("Imputer", x, imputed_value_floats=[7.0, 8.0], replaced_value_float=NAN)
    check("Imputer", x, imputed_value_floats=[7.0], replaced_value_float=2.0)
    whole = np.array([[1, 2], [3, 1]])
    check("Imputer", whole, imputed_value_int64s=[7, 9], replaced_value_int64=1, results=["int64"])
    assert "no imputed_value for dtype int64" in refusal("Imputer", whole, results=["int64"])


def test_one_hot_encoder():
    check("OneHotEncoder", np.array([[1, 2], [5, 1]]), cats_int64s=[1, 5])
    check("OneHotEncoder", np.array([1, 2.5, 5], np.float32), cats_int64s=[1, 2, 5])
    assert "the input is int64, and the categories are not" in refusal(
        "OneHotEncoder", np.array([1]), cats_strings=["a"]
    )


def test_feature_vectorizer():
    check("FeatureVectorizer", f(3, 2), f(3, 4), inputdimensions=[2, 4])
    check("FeatureVectorizer", f(3, 2), f(3, 4), inputdimensions=[3, 1])
    check("FeatureVectorizer", f(3), f(2), inputdimensions=[3, 2])


def test_label_encoder():
    x = np.array([[1, 2], [5, 1]])
    check("LabelEncoder", x, keys_int64s=[1, 5], values_floats=[0.5, 0.75], default_float=9.0)
    check("LabelEncoder", x, keys_int64s=[1, 5], values_int64s=[3, 4], results=["int64"])
    real = np.array([1, NAN, 3], np.float32)
    check("LabelEncoder", real, keys_floats=[1.0, NAN], values_int64s=[3, 4], results=["int64"], version=4)
    arrays = {
        "keys_tensor": np.array([1, 3], np.int16),
        "values_tensor": np.array([4, 8], np.int32),
        "default_tensor": np.array([-2], np.int32),
    }
    protos: dict[str, Any] = {name: numpy_helper.from_array(a, name) for name, a in arrays.items()}
    check_reference("LabelEncoder", np.array([1, 2, 3], np.int16), version=4, results=["int32"], **protos)
    assert "2 keys for 1 values" in refusal("LabelEncoder", x, keys_int64s=[1, 2], values_strings=["a"], version=3)


@pytest.mark.parametrize(
    "keys",
    [
        np.arange(0, 200, 2)[::-1],  # a table of all places
        RANDOM.choice(10**12, 100, replace=False),
        np.array([-(2**63), 2**63 - 1, 0]),
        np.array([7, 7, 5]),
        np.array([], np.int64),
        RANDOM.standard_normal(33).astype(np.float32),
        np.array([NAN], np.float32),
        np.array([0.0, NAN, INF, -INF], np.float32),
    ],
    ids=["dense", "apart", "far", "twice", "none", "floats", "nan", "infinite"],
)
def test_labels_are_looked_up(keys):
    """No element is compared with each key."""
    others = [-(2**63), -1, 0, 1, 2**63 - 1] if keys.dtype.kind == "i" else [NAN, INF, -INF, 0.0, -0.0]
    x = np.concatenate([keys, np.array(others, keys.dtype), RANDOM.permutation(keys)])
    values = np.arange(1, keys.size + 1)
    attributes: dict[str, Any] = {
        "keys_tensor": numpy_helper.from_array(keys, "k"),
        "values_tensor": numpy_helper.from_array(values, "v"),
    }
    model, inputs = foreign_model("LabelEncoder", [x], ML, version=4, **attributes)
    want = [
        max((int(v) for k, v in zip(keys, values, strict=True) if k == e or (k != k and e != e)), default=-1) for e in x
    ]
    with noting_kernels() as found:
        module = tw.compile(model, workers=0)
    np.testing.assert_array_equal(module(*inputs.values())[0], want)
    assert len(found) == 1 and "reduce" not in found[0].name


def test_a_label_encoder_compiles():
    model, inputs = foreign_model(
        "LabelEncoder", [np.array([[1, 2], [5, 1]])], ML, version=3, keys_int64s=[1, 5], values_floats=[0.5, 0.75]
    )
    [got] = tw.compile(model, cache=False, workers=0, num_threads=1)(*inputs.values())
    np.testing.assert_array_equal(got, np.array([[0.5, 0], [0.75, 0.5]], np.float32))


TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_models(transform):
    check("LinearRegressor", f(5, 3), coefficients=floats(6), intercepts=floats(2), targets=2, post_transform=transform)
    labels = {"classlabels_ints": [5, 7, 2], "results": LABELLED, "post_transform": transform}
    check("LinearClassifier", f(5, 3), coefficients=floats(9), intercepts=floats(3), **labels)
    check("LinearClassifier", RANDOM.integers(-9, 9, (5, 3)), coefficients=floats(9), intercepts=floats(3), **labels)


@pytest.mark.parametrize("transform", TRANSFORMS[:2])
def test_one_row_of_coefficients_decides_between_two_classes(transform):
    labels = {"classlabels_ints": [5, 7], "results": LABELLED, "post_transform": transform}
    check("LinearClassifier", f(9, 3), coefficients=floats(3), intercepts=[0.1], **labels)


def test_probit_is_the_inverse_of_the_normal_distribution():
    shares = np.array([[0.5, 0.975, 0.025, 0.8413447]], np.float32)
    model, inputs = foreign_model(
        "LinearRegressor", [shares], ML, coefficients=np.eye(4).reshape(-1).tolist(), targets=4, post_transform="PROBIT"
    )
    [got] = run_model(import_model(model), inputs)
    np.testing.assert_allclose(got, [[0, 1.959964, -1.959964, 1]], atol=5e-3)


def test_linear_models_refuse_lengths_that_do_not_fit():
    both: dict[str, Any] = {"classlabels_strings": ["a", "b"], "classlabels_ints": [1, 2], "results": LABELLED}
    assert "labels are integers and strings" in refusal("LinearClassifier", f(5, 3), coefficients=floats(6), **both)
    assert "7 coefficients do not make 2 rows" in refusal("LinearRegressor", f(5, 3), coefficients=floats(7), targets=2)
    one = {"classlabels_ints": [5], "results": LABELLED}
    assert "1 labels for one score" in refusal("LinearClassifier", f(5, 3), coefficients=floats(3), **one)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vector_machines(kernel):
    x, options = f(6, 3), {"kernel_type": kernel, "kernel_params": [0.5, 0.1, 3.0], "tol": 1e-4}
    regressor = {"support_vectors": floats(4, 3), "coefficients": floats(4), "rho": [0.1], "n_supports": 4, **options}
    check("SVMRegressor", x, **regressor)
    check("SVMRegressor", x, one_class=1, **regressor)
    labels = {"classlabels_ints": [5, 7, 1], "results": LABELLED, "vectors_per_class": [2, 4, 1], **options}
    check("SVMClassifier", x, support_vectors=floats(7, 3), coefficients=floats(14), rho=[0.1, 0.2, -0.3], **labels)
    two = {**labels, "classlabels_ints": [5, 7], "vectors_per_class": [1, 3]}
    vectors = {"support_vectors": floats(4, 3), "coefficients": floats(4), "rho": [0.1]}
    check("SVMClassifier", x, **vectors, **two)
    probable = {**two, "tol": 3e-3}  # onnxruntime stops an iteration that near to them
    check("SVMClassifier", x, **vectors, prob_a=[-0.7], prob_b=[0.2], **probable)


def test_support_vector_machines_without_vectors_are_linear():
    params: dict[str, Any] = {"kernel_params": [0.5, 0.1, 3.0]}
    check("SVMRegressor", f(5, 3), coefficients=floats(3), rho=[0.1], **params)
    labels = {"classlabels_ints": [5, 7, 9], "results": LABELLED}
    check("SVMClassifier", f(5, 3), coefficients=floats(9), rho=[0.1], **labels, **params)


def test_probabilities_of_fewer_pairs_than_classes_have_are_refused():
    options = {"support_vectors": floats(7, 3), "coefficients": floats(14), "rho": floats(3), "results": LABELLED}
    sizes: dict[str, Any] = {"vectors_per_class": [2, 4, 1], "classlabels_ints": [1, 2, 3]}
    chances: dict[str, Any] = {"prob_a": floats(2), "prob_b": floats(3)}
    assert "2 and 3 elements for 3 pairs" in refusal("SVMClassifier", f(5, 3), **options, **sizes, **chances)


OPTIMIZERS = {
    "Adagrad": (1, {"norm_coefficient": 0.1, "decay_factor": 0.5}),
    "Adam": (2, {"norm_coefficient": 0.1, "alpha": 0.8, "beta": 0.9, "norm_coefficient_post": 0.05}),
    "Momentum": (1, {"norm_coefficient": 0.1, "alpha": 0.9, "beta": 0.5, "mode": "nesterov"}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_step_of_an_optimizer_on_two_tensors(name, steps, dtype):
    states, options = OPTIMIZERS[name]
    shapes = [(2, 3), (4,)] * (2 + states)
    inputs = [np.abs(f(*shape)).astype(dtype) for shape in shapes]
    results = [np.dtype(dtype).name] * (2 + 2 * states)
    rate = np.array(0.1, np.float32)
    check_reference(name, rate, np.array(steps), *inputs, domain=TRAINING, results=results, tol=1e-4, **options)


def test_optimizers_refuse_groups_that_do_not_fit_and_gradients():
    x, rate, count = f(2), np.array(0.1, np.float32), np.array(1)
    many = ["float32"] * 2
    assert "make groups of 3" in refusal("Adagrad", rate, count, x, x, domain=TRAINING, results=many)
    assert "gradient and states" in refusal("Adagrad", rate, count, x, f(3), x, domain=TRAINING, results=many)
    assert "gradients are not computed" in refusal("Gradient", x, domain=TRAINING, xs=["in0"], y="in0")
