"""Scores of a model as a graph of ONNX, in double precision."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from naim3l import __version__
from naim3l._arrays import Matrix
from naim3l.export.scoring import Language, answers, check_exported
from naim3l.features.plan import ColumnPlan, ViewPlan
from naim3l.features.survey import TEXT
from naim3l.files.errors import load_extra
from naim3l.input.batches import UNKNOWN

OPSET, IR_VERSION = {"": 17, "ai.onnx.ml": 2}, 8
_TINY = 10 * np.finfo(np.float64).eps  # length of a row that is not divided by it


def to_onnx(model: Any, view: str | None = None) -> Any:
    """A graph of ONNX that computes what a linear model predicts from the columns of a table.

    Each column that the view uses is an input of shape (n_rows, 1), under its name: text as
    strings, and all others as doubles; of truth values 1 and 0, and of dates and times the days
    since 1970-01-01. A missing number is NaN, and missing text is empty. Outputs are ``scores``,
    ``probabilities`` if the model has them, and ``decisions``, (n_rows, n_labels), in the order of
    the labels in the metadata of the graph. Rows without any value have NaN, and -1 as decisions.

    What ONNX cannot express is refused by name: kernels, histograms, free text, numbers with units,
    and transformers. It needs the extra ``export``.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model, with features="auto", the default.
    view : str, optional
        View whose table is scored; needed if there are several separate tables.

    Returns
    -------
    onnx.ModelProto
        To be written by ``onnx.save``, or run from ``SerializeToString()``.

    Examples
    --------
    >>> import pandas as pd
    >>> from naim3l import NAIM3L
    >>> from naim3l.export import to_onnx
    >>> X = pd.DataFrame({"age": [61, 35, 58, 29], "fever": [37.2, 39.1, 36.9, 38.8]})
    >>> y = pd.DataFrame({"flu": [0, 1, 0, 1]})
    >>> graph = to_onnx(NAIM3L().fit({"clinic": X}, {"clinic": y}))
    >>> [each.name for each in graph.graph.input], [each.name for each in graph.graph.output]
    (['age', 'fever'], ['scores', 'decisions'])
    """
    onnx, graph = load_extra("onnx"), _Graph(load_extra("onnx"))
    block = check_exported(model, view, graph)
    views = model.views_ if model.names_.wide else [block]
    graph.open([column for each in views for column in model.features_[each].plan.columns])
    found = answers(model, block, graph)
    here = graph.node("Greater", found.present, graph.constant([[0.0]]))
    nothing = graph.constant([[np.nan]])
    yes = graph.node("Greater", found.scores, graph.constant(found.thresholds[None]))
    no_answer = graph.constant(np.full((1, 1), -1))
    yes = graph.node("Cast", yes, to=onnx.TensorProto.INT64)
    outputs = {"scores": graph.node("Where", here, found.scores, nothing)}
    if found.probabilities is not None:
        outputs["probabilities"] = graph.node("Where", here, found.probabilities, nothing)
    outputs["decisions"] = graph.node("Where", here, yes, no_answer)
    return graph.close(outputs, found.labels)


class _Graph(Language):
    """Vectors are names of tensors, (n_rows, n)."""

    title = "ONNX"

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.nodes, self.constants = onnx, list[Any](), list[Any]()
        self.inputs, self.sizes = dict[str, Any](), dict[str, int]()
        self.codes = dict[tuple[str, tuple[Any, ...]], str]()

    def open(self, columns: Sequence[ColumnPlan]) -> None:
        """Declare the columns as inputs."""
        proto = self.onnx.TensorProto
        for column in columns:
            if not column.name:
                raise ValueError("a column with an empty name cannot be an input of ONNX.")
            kind = proto.STRING if column.kind == TEXT else proto.DOUBLE
            info = self.onnx.helper.make_tensor_value_info(column.name, kind, ["rows", 1])
            self.inputs[column.name] = info

    def close(self, outputs: dict[str, str], labels: list[str]) -> Any:
        """The whole model, with these outputs."""
        helper, found = self.onnx.helper, []
        for name, tensor in outputs.items():
            while name in self.inputs:
                name += "_"
            self.nodes.append(helper.make_node("Identity", [tensor], [name]))
            proto = self.onnx.TensorProto
            kind = proto.INT64 if tensor == outputs["decisions"] else proto.DOUBLE
            found.append(helper.make_tensor_value_info(name, kind, ["rows", len(labels)]))
        inputs = [*self.inputs.values()]
        graph = helper.make_graph(self.nodes, "naim3l", inputs, found, self.constants)
        versions = [helper.make_opsetid(domain, n) for domain, n in OPSET.items()]
        about = {"producer_name": "naim3l", "producer_version": __version__}
        whole = helper.make_model(graph, opset_imports=versions, ir_version=IR_VERSION, **about)
        helper.set_model_props(whole, {"labels": json.dumps(labels)})
        self.onnx.checker.check_model(whole)
        return whole

    # Tensors.

    def _new(self) -> str:
        name = f"tensor {len(self.nodes) + len(self.constants)}"
        while name in self.inputs:
            name += "_"
        return name

    def constant(self, values: Any) -> str:
        """Name of a constant tensor."""
        array, name = np.ascontiguousarray(values), self._new()
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        self.sizes[name] = array.shape[-1] if array.ndim else 1
        return name

    def node(self, operation: str, *inputs: str, size: int = 0, **options: Any) -> str:
        """Name of the result of an operation, by default with the size of the first input."""
        name = self._new()
        self.nodes.append(self.onnx.helper.make_node(operation, [*inputs], [name], **options))
        self.sizes[name] = size or max((self.sizes.get(each, 1) for each in inputs), default=1)
        return name

    # Cells.

    def encode(self, view: str, plan: ViewPlan) -> str:
        columns = [plan.columns[j] for j in plan._order]
        numbers = [column for column in columns if column.kind != TEXT]
        parts = [self._numbers(numbers)] if numbers else []
        for column in columns[len(numbers) :]:
            code = self._codes(column)
            values = [*column.categories, *[0] * bool(column.n_rare)]
            n, known = len(values), [value for value in column.categories if value is not None]
            # A row for each known value, for all others, and for missing cells.
            table = np.zeros((len(known) + 2, n))
            table[np.arange(len(known)), [values.index(value) for value in known]] = 1
            table[-2:, n - 1] = bool(column.n_rare)
            if None in column.categories:
                table[-1] = np.arange(n) == values.index(None)
            cells = self.node("Gather", self.constant(table), code, size=n)
            axis = self.constant(np.array([1]))
            parts.append(self.node("Squeeze", cells, axis, size=n))
        return self.join(*parts)

    def _numbers(self, columns: Sequence[ColumnPlan]) -> str:
        raw = self.join(*(column.name for column in columns))
        filled, shift = raw, np.array([[column.log_shift for column in columns]])
        if shift.any():
            positive = self.clip(raw, np.zeros(len(columns)), None)
            of_logs = self.add(positive, np.where(shift, shift, 1)[0])
            chosen = self.constant(shift > 0)
            filled = self.node("Where", chosen, self.log(of_logs), raw)
        means = self.constant(np.array([[column.mean for column in columns]]))
        return self.node("Where", self.node("IsNaN", raw), means, filled)

    def _codes(self, column: ColumnPlan) -> str:
        """Tensor of the number of each cell's value; others come next, and then missing cells."""
        known = [value for value in column.categories if value is not None]
        key = column.name, tuple(known)
        if key not in self.codes:
            forms = (str.lower, str.upper, str.title)
            words = {form(word) for word in UNKNOWN for form in forms} - {*known}
            keys = {value: k for k, value in enumerate(known)} | dict.fromkeys(
                sorted(words), len(known) + 1
            )
            options: dict[str, Any] = {"keys_strings": [*keys], "values_int64s": [*keys.values()]}
            options |= {"default_int64": len(known), "domain": "ai.onnx.ml"}
            self.codes[key] = self.node("LabelEncoder", column.name, **options)
        return self.codes[key]

    def present(self, columns: Sequence[ColumnPlan]) -> str:
        known, double = list[str](), self.onnx.TensorProto.DOUBLE
        for column in columns:
            if column.kind == TEXT:
                last = sum(value is not None for value in column.categories) + 1
                code = self._codes(column)
                missing = self.node("Equal", code, self.constant(np.array([[last]])))
            else:
                missing = self.node("IsNaN", column.name)
            known.append(self.node("Cast", self.node("Not", missing), to=double))
        n = self._sum(self.join(*known))
        some = self.node("Greater", n, self.constant([[0.0]]))
        return self.node("Cast", some, to=double)

    # Numbers.

    def _sum(self, x: str) -> str:
        return self.node("ReduceSum", x, self.constant(np.array([1])), size=1)

    def affine(self, x: str, A: Matrix, b: Matrix) -> str:
        product = self.node("MatMul", x, self.constant(A), size=A.shape[1])
        return self.add(product, b)

    def add(self, x: str, b: Matrix) -> str:
        return self.node("Add", x, self.constant(np.asarray(b, dtype=float)[None]))

    def unit(self, x: str) -> str:
        length = self.node("Sqrt", self._sum(self.multiply(x, x)), size=1)
        short = self.node("Less", length, self.constant([[_TINY]]))
        return self.divide(x, self.node("Where", short, self.constant([[1.0]]), length))

    def clip(self, x: str, low: Matrix | None, high: Matrix | None) -> str:
        for operation, bound in (("Max", low), ("Min", high)):
            if bound is not None:
                x = self.node(operation, x, self.constant(bound[None]))
        return x

    def log(self, x: str) -> str:
        return self.node("Log", x)

    def expit(self, x: str) -> str:
        return self.node("Sigmoid", x)

    def multiply(self, x: str, y: str) -> str:
        return self.node("Mul", x, y)

    def divide(self, x: str, y: str) -> str:
        return self.node("Div", x, y)

    def join(self, *parts: str) -> str:
        size = sum(self.sizes.get(part, 1) for part in parts)
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, size=size, axis=1)

    def size(self, x: str) -> int:
        return self.sizes[x]

    def take(self, x: str, at: Sequence[int]) -> str:
        indices = self.constant(np.array([*at], dtype=np.int64))
        return self.node("Gather", x, indices, size=len(at), axis=1)
