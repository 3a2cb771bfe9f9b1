"""Every figure that the paper prints in its tables, and those that its text states.

Results are percentages, ``(mean, standard deviation)``, under
``TABLE[dataset][method][metric]``. Datasets have their names of `CATALOG`, which has Table 1, too.
"""

from typing import Any

from naim3l_bench.datasets import CATALOG

Result = tuple[float, float]
Results = dict[str, dict[str, dict[str, Result]]]


def _parse(methods: str, block: str) -> Results:
    """Results from a line per dataset and metric: ``dataset metric mean(std) mean(std) ...``."""
    names = methods.split()
    results: Results = {}
    for line in block.strip().splitlines():
        dataset, metric, *cells = line.split()
        for method, cell in zip(names, cells, strict=True):
            mean, std = cell.rstrip(")").split("(")
            results.setdefault(dataset, {}).setdefault(method, {})[metric] = float(mean), float(std)
    return results


# Samples, labels, labels per sample, ranks of the label matrices of the training and test rows.
TABLE1: dict[str, dict[str, float]] = {
    dataset: {
        "n": facts.n_samples,
        "c": facts.n_labels,
        "avg": facts.labels_per_row,
        "train_rank": facts.train_rank,
        "test_rank": facts.test_rank,
    }
    for dataset, facts in CATALOG.items()
    if facts.train_rank is not None and facts.test_rank is not None
}

# Half of the views and half of the labels missing; all but NAIM3L have aligned views.
TABLE2 = _parse(
    "lrMMC MVL-IV LabelMe iMSF iMVWL NAIM3L",
    """
    corel5k   1-HL 95.40(0.00) 95.40(0.00) 94.60(0.00) 94.30(0.00) 97.84(0.02) 98.70(0.01)
    corel5k   1-RL 76.20(0.20) 75.60(0.10) 63.80(0.30) 70.90(0.50) 86.50(0.33) 87.84(0.21)
    corel5k   AP   24.00(0.20) 24.00(0.10) 20.40(0.20) 18.90(0.20) 28.31(0.72) 30.88(0.35)
    corel5k   AUC  76.30(0.20) 76.20(0.10) 71.50(0.10) 66.30(0.50) 86.82(0.32) 88.13(0.20)
    pascal07  1-HL 88.20(0.00) 88.30(0.00) 83.70(0.00) 83.60(0.00) 88.23(0.38) 92.84(0.05)
    pascal07  1-RL 69.80(0.30) 70.20(0.10) 64.30(0.40) 56.80(0.00) 73.66(0.93) 78.30(0.12)
    pascal07  AP   42.50(0.30) 43.30(0.20) 35.80(0.30) 32.50(0.00) 44.08(1.74) 48.78(0.32)
    pascal07  AUC  72.80(0.20) 73.00(0.10) 68.60(0.50) 62.00(0.10) 76.72(1.20) 81.09(0.12)
    espgame   1-HL 97.00(0.00) 97.00(0.00) 96.70(0.00) 96.40(0.00) 97.19(0.01) 98.26(0.01)
    espgame   1-RL 77.70(0.10) 77.80(0.00) 68.30(0.20) 72.20(0.20) 80.72(0.14) 81.81(0.16)
    espgame   AP   18.80(0.00) 18.90(0.00) 13.20(0.00) 10.80(0.00) 24.19(0.34) 24.57(0.17)
    espgame   AUC  78.30(0.10) 78.40(0.00) 73.40(0.10) 67.40(0.30) 81.29(0.15) 82.36(0.16)
    iaprtc12  1-HL 96.70(0.00) 96.70(0.00) 96.30(0.00) 96.00(0.00) 96.85(0.02) 98.05(0.01)
    iaprtc12  1-RL 80.10(0.00) 79.90(0.10) 72.50(0.00) 63.10(0.00) 83.30(0.27) 84.78(0.11)
    iaprtc12  AP   19.70(0.00) 19.80(0.00) 14.10(0.00) 10.10(0.00) 23.54(0.39) 26.10(0.13)
    iaprtc12  AUC  80.50(0.00) 80.40(0.10) 74.60(0.00) 66.50(0.10) 83.55(0.22) 84.96(0.11)
    mirflickr 1-HL 83.90(0.00) 83.90(0.00) 77.80(0.00) 77.50(0.00) 83.98(0.28) 88.15(0.07)
    mirflickr 1-RL 80.20(0.10) 80.80(0.00) 77.10(0.10) 64.10(0.00) 80.60(1.11) 84.40(0.09)
    mirflickr AP   44.10(0.10) 44.90(0.00) 37.50(0.00) 32.30(0.00) 49.48(1.24) 55.08(0.18)
    mirflickr AUC  80.60(0.10) 80.70(0.00) 76.10(0.00) 71.50(0.10) 79.44(1.46) 83.71(0.06)
    """,
)

# Half of the views missing, labels complete.
TABLE3 = _parse(
    "iMVWL-V NAIM3L-V",
    """
    corel5k   1-HL 97.85(0.03) 98.70(0.01)
    corel5k   1-RL 87.00(0.27) 88.52(0.25)
    corel5k   AP   28.90(0.89) 31.72(0.32)
    corel5k   AUC  87.30(0.26) 88.81(0.23)
    pascal07  1-HL 88.19(0.28) 92.87(0.05)
    pascal07  1-RL 73.74(0.53) 79.07(0.08)
    pascal07  AP   43.54(0.87) 49.25(0.24)
    pascal07  AUC  76.80(0.59) 81.81(0.10)
    espgame   1-HL 97.19(0.01) 98.27(0.01)
    espgame   1-RL 80.96(0.15) 82.22(0.15)
    espgame   AP   24.46(0.40) 24.89(0.17)
    espgame   AUC  81.55(0.19) 82.77(0.16)
    iaprtc12  1-HL 96.84(0.02) 98.05(0.01)
    iaprtc12  1-RL 83.23(0.26) 85.14(0.09)
    iaprtc12  AP   23.40(0.46) 26.45(0.14)
    iaprtc12  AUC  83.50(0.22) 85.29(0.10)
    mirflickr 1-HL 83.89(0.20) 88.17(0.07)
    mirflickr 1-RL 80.59(0.72) 84.55(0.08)
    mirflickr AP   48.95(0.97) 55.30(0.16)
    mirflickr AUC  79.69(1.15) 83.84(0.05)
    """,
)

# Views complete, half of the labels missing. Erratum: for AP on ESPGame, NAIM3L-L is set in bold
# as the better one, though 24.90 is less than 25.80.
TABLE4 = _parse(
    "iMVWL-L NAIM3L-L",
    """
    corel5k   1-HL 97.91(0.01) 98.70(0.01)
    corel5k   1-RL 88.00(0.31) 88.55(0.28)
    corel5k   AP   30.77(0.58) 31.93(0.39)
    corel5k   AUC  88.32(0.32) 88.84(0.26)
    pascal07  1-HL 88.79(0.12) 92.87(0.06)
    pascal07  1-RL 76.30(0.59) 79.04(0.15)
    pascal07  AP   46.95(0.55) 49.30(0.31)
    pascal07  AUC  79.24(0.61) 81.79(0.13)
    espgame   1-HL 97.23(0.01) 98.27(0.01)
    espgame   1-RL 81.54(0.22) 82.20(0.14)
    espgame   AP   25.80(0.34) 24.90(0.17)
    espgame   AUC  82.03(0.19) 82.74(0.14)
    iaprtc12  1-HL 96.90(0.01) 98.05(0.01)
    iaprtc12  1-RL 84.14(0.17) 85.11(0.10)
    iaprtc12  AP   25.00(0.18) 26.47(0.13)
    iaprtc12  AUC  84.17(0.15) 85.27(0.10)
    mirflickr 1-HL 84.25(0.58) 88.18(0.07)
    mirflickr 1-RL 81.22(1.97) 84.57(0.08)
    mirflickr AP   50.23(2.03) 55.36(0.14)
    mirflickr AUC  79.48(2.91) 83.86(0.06)
    """,
)

# Ranks of the predicted label matrices.
TABLE5 = {"corel5k": 260, "espgame": 268, "iaprtc12": 291, "pascal07": 20, "mirflickr": 38}

# Without both trace norms (I), without the concave one (II), and the whole model.
TABLE6 = _parse(
    "NAIM3L-I NAIM3L-II NAIM3L",
    """
    corel5k   1-HL 98.70(0.00) 98.70(0.00) 98.70(0.01)
    corel5k   1-RL 82.73(0.20) 83.54(0.21) 87.84(0.21)
    corel5k   AP   30.20(0.40) 30.47(0.36) 30.88(0.35)
    corel5k   AUC  82.99(0.20) 83.80(0.21) 88.13(0.20)
    pascal07  1-HL 92.83(0.00) 92.83(0.00) 92.84(0.05)
    pascal07  1-RL 77.29(0.18) 77.35(0.17) 78.30(0.12)
    pascal07  AP   48.64(0.35) 48.66(0.35) 48.78(0.32)
    pascal07  AUC  79.99(0.17) 80.55(0.17) 81.09(0.12)
    espgame   1-HL 98.26(0.00) 98.26(0.00) 98.26(0.01)
    espgame   1-RL 79.63(0.20) 79.80(0.11) 81.81(0.16)
    espgame   AP   24.28(0.20) 24.34(0.16) 24.57(0.17)
    espgame   AUC  80.04(0.20) 80.24(0.13) 82.36(0.16)
    iaprtc12  1-HL 98.05(0.00) 98.05(0.00) 98.05(0.01)
    iaprtc12  1-RL 82.52(0.00) 82.70(0.00) 84.78(0.11)
    iaprtc12  AP   25.71(0.10) 25.76(0.10) 26.10(0.13)
    iaprtc12  AUC  82.56(0.10) 82.76(0.10) 84.96(0.11)
    mirflickr 1-HL 88.15(0.00) 88.15(0.00) 88.15(0.07)
    mirflickr 1-RL 84.05(0.00) 84.10(0.00) 84.40(0.09)
    mirflickr AP   54.95(0.20) 54.98(0.16) 55.08(0.18)
    mirflickr AUC  83.33(0.00) 83.39(0.00) 83.71(0.06)
    """,
)

# Seconds by the order of the sizes (rows, columns), None where memory was out (16 GB, MATLAB).
# Erratum: the full SVD of 10000 x 100 takes longer than that of 10000 x 200, and so with 20000
# rows; that line is no target.
TABLE7_SIZES = [
    (10_000, 100),
    (10_000, 200),
    (20_000, 100),
    (20_000, 200),
    (40_000, 100),
    (40_000, 200),
    (40_000, 400),
    (100_000, 200),
    (100_000, 400),
]
TABLE7: dict[str, list[float | None]] = {
    "SVD full": [20.0031, 1.3839, 80.2122, 4.9386, None, None, None, None, None],
    "SVD economy": [0.0571, 0.1377, 0.1459, 0.2264, 0.1696, 0.4400, 1.3460, 1.3813, 3.9416],
    "SVD truncated": [0.0475, 0.1471, 0.0955, 0.2133, 0.1838, 0.4791, 1.4396, 1.4526, 4.2048],
    "Algorithm 2": [0.0334, 0.0731, 0.0590, 0.1603, 0.0864, 0.2109, 0.6736, 0.5019, 1.6042],
}

# What the text says of the labels of Corel5k; the last two are "about", and mean and median.
FIG2: dict[str, Any] = {
    "dataset": "corel5k",
    "train_rank": 259,
    "test_rank": 249,
    "sub_rank_mean": 15,
    "sub_rank_median": 5,
}
# Of the Nemenyi tests: critical values, and methods that the text calls significantly worse than
# NAIM3L. Erratum: its critical distance is q sqrt(k (k + 1) / N), without the 6 under N.
FIG4: dict[str, dict[str, Any]] = {
    "table2": {"q": 2.850, "worse": ["lrMMC", "MVL-IV", "LabelMe", "iMSF"]},
    "table6": {"q": 2.344, "worse": ["NAIM3L-I", "NAIM3L-II"]},
}


def table7_seconds(method: str, rows: int, columns: int) -> float | None:
    """Seconds of a method in Table 7, None where there are none."""
    size = rows, columns
    if method not in TABLE7 or size not in TABLE7_SIZES:
        return None
    return TABLE7[method][TABLE7_SIZES.index(size)]
