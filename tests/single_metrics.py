"""Each metric of `naim3l.evaluate` by itself, as a function."""

from naim3l.metrics import evaluate


def single(name, *, loss=False):
    """The function of a metric; with ``loss``, what it lacks to 1."""

    def metric(y_true, scores, **options):
        value = evaluate(y_true, scores, **options)[name]
        return 1 - value if loss else value

    metric.__name__ = name
    return metric


ranking_loss = single("1-RL", loss=True)
average_precision = single("AP")
adapted_auc = single("AUC")
coverage = single("coverage")
one_error = single("one-error")
macro_auc = single("macro-AUC")
micro_auc = single("micro-AUC")
hamming_loss = single("1-HL", loss=True)
macro_f1 = single("macro-F1")
micro_f1 = single("micro-F1")
example_f1 = single("example-F1")
