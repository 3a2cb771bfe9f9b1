import pytest

from naim3l import missing
from naim3l.experiments import yeast_demo as demo


def test_every_method_runs_on_every_seed_and_beats_chance(monkeypatch):
    monkeypatch.setattr(demo, "LAMS_AND_RIDGES", [(0.4, 1.0)])
    seen, challenges = [], []

    def make_challenge(labels, n_views, **options):
        challenges.append((labels.shape, n_views, options))
        return missing.make_challenge(labels, n_views, **options)

    monkeypatch.setattr(demo, "make_challenge", make_challenge)
    records = demo.run_demo([3], on_record=seen.append)
    options = {"alpha": demo.ALPHA, "beta": demo.BETA, "random_state": 3}
    assert challenges == [((2417, 14), 2, options)] and demo.BETA == 0.5 and demo.ALPHA > 0.49
    assert len({record["AP"] for record in records}) == len(records), "methods differ"
    assert seen == records
    assert [record["method"] for record in records] == list(demo.METHODS)
    for record in records:
        assert 50 < record["AUC"] < 100 and 50 < record["1-HL"] < 100


def test_summary_is_mean_and_population_deviation():
    records = [
        {"method": "a", "seed": seed, **dict.fromkeys(demo.METRICS, value)}
        for seed, value in ((0, 1.0), (1, 4.0))
    ]
    mean, deviation = demo.summarise(records)["a"]["AP"]
    assert (mean, deviation) == (pytest.approx(2.5), pytest.approx(1.5))
