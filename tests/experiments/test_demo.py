import pytest

from naim3l.experiments import demo


def test_every_method_runs_on_every_seed_and_beats_chance(monkeypatch):
    monkeypatch.setattr(demo, "LAMS_AND_RIDGES", [(0.4, 1.0)])
    seen = []
    records = demo.run_demo([3], on_record=seen.append)
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
