"""Effect of batches on the loss of naim3l.deep: bias of its regulariser, and time.

    python benchmarks/bench_deep.py

The data are generated tables of the size of Corel5k with half of its views and labels missing: six
views of 1750 rows, 260 labels. Needs torch (pip install "naim3l[torch]"); runs on one CPU thread
unless specified otherwise.

The first table divides the regulariser's two norms, estimated on batches as in the loss, by
their values on all rows. A ratio of 1 means no bias; the ratio is at least sqrt(p), where p is the
share of the rows in a batch. The scores are those of a linear fit, in which few directions matter,
and standard normal numbers, in which all directions matter, which is the worst case.

The second table has the seconds per epoch, and the share that is due to the regulariser; with
--devices cpu cuda, on both devices.

The next table has the seconds of a blend of two networks with probabilities, each of which is
trained six times: on all entries, and without each fifth of them. They are trained one by one, and
together as far as the package does so, on each of the devices; --only-together prints it alone.

The last table trains the linear model by batches and divides its final objective on all rows by
the lowest objective that the solver of NAIM3L finds.

With --data and a folder of real datasets there is one more table: test metrics of default networks,
of networks with other settings, and of linear models, on seeds that were not used to choose the
defaults.
"""

import argparse
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import torch
from common import Case, number, print_machine, print_table, progress
from sklearn.kernel_approximation import Nystroem
from threadpoolctl import threadpool_limits

from naim3l import NAIM3L, Recipe
from naim3l.datasets import make_unpaired
from naim3l.deep import DeepNAIM3L, NAIM3LLoss, Network, Training, training
from naim3l.deep.networks import make_networks
from naim3l.deep.training import Batches, Trainer, count_batches
from naim3l.estimators import BlendNAIM3L
from naim3l.solvers import solve_fast
from naim3l_bench.datasets import open_dataset
from naim3l_bench.trials import draw_challenge, make_trial, measure

LAM = 0.4
CPU = torch.device("cpu")
# Share of each view's training rows to remove: half as in the paper, or less with two views.
DATASETS = {"corel5k": 0.5, "emotions": 0.4, "yeast": 0.4}
# Rows and columns of each of six views, labels, and widths of layers.
BLENDS = {
    "small": (300, 72, 6, (64, 32)),
    "medium": (300, 72, 6, (256, 128)),
    "Corel5k": (1750, 400, 260, (2048, 1024)),
}
MODELS = {
    "linear, ridge 1": lambda seed: NAIM3L(LAM, ridge=1.0, features=None, tol=1e-3),
    "linear, ridge 0.3, 300 landmarks": lambda seed: NAIM3L(
        LAM, ridge=0.3, features=Nystroem(gamma=1.0, n_components=300, random_state=0), tol=1e-3
    ),
    "networks": lambda seed: _networks(seed),
    "networks, lam 0": lambda seed: _networks(seed, lam=0.0),
    "networks, squared": lambda seed: _networks(seed, lam=LAM, data_term="squared"),
    "networks, validation 0.1": lambda seed: _networks(seed, training=Training(validation=0.1)),
    "networks, one layer of 512": lambda seed: _networks(seed, network=Network((512,))),
}


def _networks(seed, **options):
    return DeepNAIM3L(features=None, random_state=seed, device="cpu", **options)


def make_case(n_rows, n_labels):
    drawn = {"n_latent": 40, "labels_per_row": 3.4, "noise": 0.3, "missing_labels": 0.5}
    sizes = {"n_features": (120,) * 6, "n_labels": n_labels}
    made = make_unpaired(n_rows, **sizes, **drawn, random_state=0)
    features = [Recipe("scale").fit(X)[1] for X in made.views.values()]
    signed = [np.where(np.isnan(Y), 0, 2 * Y - 1) for Y in made.labels.values()]
    return Case("generated", LAM, features, signed)


def bias_table(case, scores, sizes, repeats):
    """Mean over batches of each norm, scaled as in the loss, relative to that of all rows."""
    loss, positives = NAIM3LLoss(LAM), [Y > 0 for Y in case.labels]
    n_rows = [len(Y) for Y in case.labels]
    first = np.cumsum([0, *n_rows])
    Y = torch.from_numpy(
        np.where(np.concatenate(case.labels) == 0, np.nan, np.concatenate(case.labels) > 0)
    )
    counts = (Y > 0).sum(dim=0).clamp(min=1)
    rows = []
    for size in sizes:
        n_batches = count_batches(n_rows, size, [1] * len(n_rows))
        row = {"rows per view": size, "sqrt(p)": n_batches**-0.5}
        for what, A in scores.items():
            whole, found = loss.parts(A, Y), {"low_rank": [], "high_rank": []}
            rng = np.random.default_rng(0)
            batches = Batches(positives, n_batches, [1] * len(n_rows))
            for _ in range(repeats):
                for batch in batches.deal(rng)[0]:
                    chosen = np.concatenate([first[v] + part for v, part in enumerate(batch)])
                    shares = (Y[chosen] > 0).sum(dim=0) / counts
                    parts = loss.parts(
                        A[chosen], Y[chosen], share=len(chosen) / len(A), label_shares=shares
                    )
                    for name, values in found.items():
                        values.append(float(parts[name] / whole[name]))
            for name, values in found.items():
                row[f"{what}, {name.replace('_', ' ')}"] = np.mean(values)
        rows.append(row)
    print_table("Norms on batches relative to those on all rows.", rows)


def start_training(
    case, size, *, lam=LAM, hidden=(1024,), epochs=1, learning_rate=1e-3, device=CPU
):
    features = {str(v): X for v, X in enumerate(case.features)}
    labels = [np.concatenate(case.labels)]
    torch.manual_seed(0)
    network = Network(hidden, 0.5 if hidden else 0.0)
    networks = make_networks(None, features, case.labels[0].shape[1], network)
    options = Training(epochs, size, learning_rate, weight_decay=0.0)
    return Trainer(networks, features, labels, NAIM3LLoss(lam), options, seed=0, device=device)


def seconds_per_epoch(case, size, repeats, **options):
    trainer = start_training(case, size, epochs=repeats + 1, **options)
    trainer.run(last_epoch=1)
    _wait()
    start = perf_counter()
    trainer.run()
    _wait()
    return (perf_counter() - start) / repeats


def _wait():
    if torch.cuda.is_available():  # its work runs in the background
        torch.cuda.synchronize()


def time_table(case, sizes, repeats, devices):
    """Columns for each device; ratios are relative to one step on all rows on that device."""
    rows = {size: {"rows per view": size} for size in sizes}
    for device in devices:
        times = {}
        for size in sizes:
            progress(f"seconds per epoch, {size} rows, {device}")
            times[size] = [
                seconds_per_epoch(case, size, repeats, lam=lam, device=torch.device(device))
                for lam in (LAM, 0.0)
            ]
        for size, (whole, plain) in times.items():
            rows[size] |= {f"{device}: seconds": whole}
            rows[size] |= {f"{device}: ratio": whole / times[sizes[-1]][0]}
            rows[size] |= {f"{device}: due to regulariser": f"{1 - plain / whole:.0%}"}
    title = "Time of an epoch: networks with 1024 hidden units."
    print_table(title, list(rows.values()))


@dataclass(eq=False, repr=False)
class Timed(DeepNAIM3L):
    """Networks that add up the seconds of their training, and count stacks."""

    seconds, n_stacks = 0.0, 0

    def _train(self, *given):
        start = perf_counter()
        super()._train(*given)
        _wait()
        Timed.seconds += perf_counter() - start
        Timed.n_stacks += 1


@contextmanager
def one_by_one():
    """Leave no memory for a second network."""
    before = training.DEVICE_SHARE, training.CPU_BYTES
    training.DEVICE_SHARE = training.CPU_BYTES = 0
    try:
        yield
    finally:
        training.DEVICE_SHARE, training.CPU_BYTES = before


def timed_blend(data, network, options, device):
    """Seconds of a blend, those of the training of its networks, and the number of stacks."""
    kinds = {"scale": 0.0, "rbf": 0.4}  # features, and noise
    members = [
        (
            features,
            Timed(
                0.0,
                features=features,
                network=replace(network, noise=noise),
                training=options,
                device=device,
            ),
        )
        for features, noise in kinds.items()
    ]
    Timed.seconds, Timed.n_stacks, start = 0.0, 0, perf_counter()
    BlendNAIM3L(members, random_state=0).fit(data.views, data.labels)
    return perf_counter() - start, Timed.seconds, Timed.n_stacks


def together_table(sizes, epochs, repeats, devices):
    """Least seconds of several blends, of which those one by one and together take turns."""
    rows = []
    for name, (n_rows, n_columns, n_labels, hidden) in sizes.items():
        drawn = {"n_latent": min(40, n_columns), "labels_per_row": 3.4, "noise": 0.3}
        widths = {"n_features": (n_columns,) * 6, "n_labels": n_labels, "missing_labels": 0.5}
        data = make_unpaired(n_rows, **widths, **drawn, random_state=0)
        given = data, Network(hidden, shared_head=True), Training(epochs)
        for device in devices:
            timed_blend(*given[:2], Training(1), device)  # starts libraries
            found = {"one by one": [], "together": []}
            for _ in range(repeats):
                progress(f"blend, {name}, {device}")
                with one_by_one():
                    found["one by one"].append(timed_blend(*given, device))
                found["together"].append(timed_blend(*given, device))
            alone, together = (np.min(of, axis=0) for of in found.values())
            for i, what in enumerate(("blend", "its networks")):
                row = {"case": name, "device": device, "in a stack": round(12 / together[2])}
                row |= {"seconds of": what, "one by one": alone[i], "together": together[i]}
                rows.append(row | {"ratio": alone[i] / together[i]})
    print_table(f"Blends of two networks with probabilities, {epochs} epochs.", rows)


def objective_table(case, sizes, steps):
    """Objective on all rows after at least ``steps`` steps, relative to that of the solver."""
    objective = case.objective()
    least = solve_fast(objective, tol=1e-5, max_iter=500)
    rows = []
    for size in sizes:
        progress(f"linear model by batches, {size} rows")
        n_batches = count_batches([len(Y) for Y in case.labels], size, [1] * len(case.labels))
        trainer = start_training(
            case, size, hidden=(), learning_rate=2e-2, epochs=-(-steps // n_batches)
        )
        trainer.run()
        truth = np.where(objective.problem.Y == 0, np.nan, objective.problem.Y > 0)
        value = float(
            NAIM3LLoss(LAM)(torch.from_numpy(trainer.scores()[0]), torch.from_numpy(truth))
        )
        ratio = value / least.history[-1]["objective"]
        rows.append({"rows per view": size, "ratio": f"{ratio:.4f}"})
    title = f"Objective of the linear model after at least {steps} steps, relative to the solver."
    print_table(title, rows)


def generated_tables(n_rows, n_labels, sizes, steps, repeats, devices):
    case = make_case(n_rows, n_labels)
    objective = case.objective()
    W = solve_fast(objective, tol=1e-3).W
    fitted = torch.from_numpy(objective.problem.multiply(W).astype(np.float32))
    normal = torch.from_numpy(np.random.default_rng(0).normal(size=fitted.shape)).float()
    bias_table(case, {"fit": fitted, "normal": normal}, sizes[:-1], repeats=2)
    time_table(case, sizes, repeats, devices)
    objective_table(case, sizes, steps)


def prepare(source, name, seed):
    """Trial with half of the labels hidden, rows not aligned, and features from training rows."""
    settings = {"alpha": DATASETS[name], "beta": 0.5, "aligned": False, "seed": seed}
    trial = make_trial(source, draw_challenge(source, settings), features="raw", seed=seed)
    X_train, X_test = {}, {}
    for view, rows in trial.X_train.items():
        recipe = Recipe("histogram", 200) if name == "corel5k" else Recipe("scale")
        fitted, X_train[view] = recipe.fit(rows)
        X_test[view] = fitted.apply(trial.X_test[view])
    return replace(trial, X_train=X_train, X_test=X_test)


def real_table(data, name, seeds):
    source = open_dataset(name, data)
    progress(f"{name}: preparing")
    trials = {seed: prepare(source, name, seed) for seed in seeds}
    rows = []
    for title, make in MODELS.items():
        progress(f"{name}: {title}")
        found, start = [], perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about few iterations and rare labels, as expected
            for seed, trial in trials.items():
                model = make(seed).fit(trial.X_train, trial.Y_train)
                metrics = measure(trial, model.decision_function(trial.X_test))
                parts = metrics["fused"] or {}, metrics["per view"]
                found.append([of.get(metric, np.nan) for of in parts for metric in ("AP", "1-RL")])
        seconds = (perf_counter() - start) / len(seeds)
        names = ("fused AP", "fused 1-RL", "AP", "1-RL")
        means = zip(names, 100 * np.mean(found, axis=0), strict=True)
        row = {"": title} | {metric: f"{value:.2f}" for metric, value in means}
        rows.append(row | {"seconds": number(seconds, 2)})
    print_table(f"{name}, test rows, percent, seeds {list(seeds)}.", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with real datasets, for the last table")
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[103], help="seeds for real data")
    parser.add_argument("--only-data", action="store_true", help="print only the last table")
    parser.add_argument("--only-together", action="store_true", help="print only that of blends")
    parser.add_argument("--blends", nargs="+", default=list(BLENDS), choices=BLENDS)
    parser.add_argument("--epochs", type=int, default=10, help="epochs of the networks of blends")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--devices", nargs="+", default=["cpu"], help="devices to time epochs on")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch and BLAS")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    n_rows, n_labels, steps = (120, 12, 20) if arguments.quick else (1750, 260, 200)
    sizes = [30, 60, 120] if arguments.quick else [64, 128, 256, 512, 1750]
    with threadpool_limits(arguments.threads, "blas"):
        print_machine()
        print(f"torch {torch.__version__}, {arguments.threads} threads")
        repeats = 1 if arguments.quick else 3
        if not arguments.only_data:
            epochs = 1 if arguments.quick else arguments.epochs
            blends = {name: BLENDS[name] for name in arguments.blends}
            blends = {"quick": (60, 8, 4, (8,))} if arguments.quick else blends
            together_table(blends, epochs, repeats, arguments.devices)
        if not (arguments.only_data or arguments.only_together):
            generated_tables(n_rows, n_labels, sizes, steps, repeats, arguments.devices)
        for name in arguments.datasets if arguments.data else ():
            real_table(arguments.data, name, arguments.seeds)


if __name__ == "__main__":
    main()
