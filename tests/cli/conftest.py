import pytest

from study import QUICK, ROLES, VIEWS, run, write_files


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with the files and a model of them."""
    path = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        write_files()
        result = run("fit", *VIEWS, *ROLES, *QUICK, "-o", "model.naim3l")
        assert result.exit_code == 0, result.output
    return path


@pytest.fixture
def folder(made, monkeypatch):
    """The working folder of a test: that of the files."""
    monkeypatch.chdir(made)
    return made
