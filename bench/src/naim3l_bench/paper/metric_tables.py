"""Tables 2, 3, 4 and 6: metrics of the model and its variants under different challenges."""

from functools import partial

from naim3l_bench.paper.comparison import VARIANTS, MetricTable, variant_fits
from naim3l_bench.paper.published import TABLE2, TABLE3, TABLE4, TABLE6

METRIC_TABLES = {
    "table2": MetricTable(
        "Table 2: half of the views and half of the labels missing, rows not aligned",
        TABLE2,
        {"NAIM3L": variant_fits},
    ),
    "table3": MetricTable(
        "Table 3: half of the views missing, labels complete, rows aligned",
        TABLE3,
        {"NAIM3L-V": partial(variant_fits, beta=0.0, aligned=True)},
    ),
    "table4": MetricTable(
        "Table 4: half of the labels missing, views complete, rows aligned",
        TABLE4,
        {"NAIM3L-L": partial(variant_fits, alpha=0.0, aligned=True)},
    ),
    "table6": MetricTable(
        "Table 6: what the two terms of the regulariser add",
        TABLE6,
        {name: partial(variant_fits, variant=name) for name in VARIANTS},
    ),
}
