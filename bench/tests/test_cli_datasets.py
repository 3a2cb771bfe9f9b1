import numpy as np
from typer.testing import CliRunner

from naim3l_bench.cli import app
from naim3l_bench.datasets import CATALOG, open_dataset, open_npz, save_npz


def run(*arguments):
    return CliRunner().invoke(app, ["datasets", *map(str, arguments)], env={"COLUMNS": "250"})


def test_lists_every_dataset_with_its_origin():
    result = run()
    assert result.exit_code == 0
    for name, facts in CATALOG.items():
        assert name in result.stdout and str(facts.n_samples) in result.stdout


def test_checks_a_folder(tmp_path):
    data = open_dataset("yeast")
    save_npz(tmp_path / "yeast.npz", data.views, data.labels)
    result = run("--data", tmp_path)
    assert result.exit_code == 0 and "2417" in result.stdout and "NO" not in result.stdout


def test_wrong_data_are_told_by_the_exit_code(tmp_path):
    save_npz(tmp_path / "emotions.npz", {"a": np.eye(3)}, np.eye(3, dtype=int))
    result = run("--data", tmp_path)
    assert result.exit_code == 1 and "NO" in result.stdout


def test_converts(tmp_path):
    result = run("--convert", "yeast", "-o", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(
        open_npz(tmp_path / "out.npz").labels, open_dataset("yeast").labels
    )


def test_empty_and_absent_folders_are_told(tmp_path):
    empty, absent = run("--data", tmp_path), run("--data", tmp_path / "no")
    assert empty.exit_code == absent.exit_code == 1
    assert "has none" in empty.stderr and "Traceback" not in empty.output + absent.output
    assert run("--convert", "birds", "--data", tmp_path).exit_code == 1
