"""One round by file: sums of sites, and what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from naim3l import NAIM3L, DataWarning, LabelSubspaceRidge, ModelFileError, load
from naim3l.datasets import make_unpaired
from naim3l.federated import Share, combine, finish, share
from naim3l.files.archive import write_archive
from naim3l.files.stored import dump

LABELS = [f"dx{k}" for k in range(5)]
RIDGE = LabelSubspaceRidge(ridge=1.0, shrinkage=0.7, decide="sign")


def as_frames(data, view):
    return pd.DataFrame(data.views[view]).add_prefix("x"), pd.DataFrame(
        data.labels[view], columns=LABELS
    )


@pytest.fixture(scope="module")
def sites():
    """Tables and label tables of three sites, of which one lacks a label."""
    data = make_unpaired(
        (150, 130, 140),
        n_features=(8, 9, 10),
        n_labels=5,
        missing_labels=0.3,
        noise=1,
        random_state=0,
    )
    frames = {site: as_frames(data, view) for site, view in zip("abc", data.views, strict=True)}
    X, y = frames["b"]
    frames["b"] = X, y.drop(columns="dx2")
    return {site: ({site: X}, {site: y}) for site, (X, y) in frames.items()}


def share_all(sites, estimator=RIDGE, **options):
    return [
        share(*of, estimator, site=site, labels=LABELS, **options) for site, of in sites.items()
    ]


def test_a_common_label_order_and_labels_that_a_site_lacks(sites):
    b = share_all(sites)[1]
    assert b.labels == LABELS and b.left_out == ["dx2"]
    assert b.counts[1, 2] == b.n_sites[2] == 0
    assert not b.matrices[1.0][2].any()  # nothing is said of the label


def test_the_order_of_shares_does_not_matter(sites, tmp_path):
    shares = share_all(sites)
    there, back = combine(shares), combine(shares[::-1])
    assert there.seal == back.seal and list(there.sites) == ["a", "b", "c"]
    nested = combine([combine(shares[:2]), shares[2]])
    assert_allclose(nested.products, there.products, rtol=1e-12)
    for name, of in (("there", there), ("back", back)):
        of.save(tmp_path / name)
    assert (tmp_path / "there").read_bytes() == (tmp_path / "back").read_bytes()


def test_a_share_is_what_was_saved(sites, tmp_path):
    [a, *_] = share_all(sites)
    a.save(tmp_path / "a.share")
    again = Share.load(tmp_path / "a.share")
    assert again.seal == a.seal and again.study == a.study
    for name in vars(a):
        assert_array_equal(getattr(again, name), getattr(a, name))


def test_a_share_has_no_more_than_its_sums(sites):
    """Sizes depend on labels and ridges, not on rows or columns."""
    [a, *_] = share_all(sites, LabelSubspaceRidge())
    assert a.products.shape == (4, 15) and a.counts.shape == (2, 5)
    X, y = ({"a": of["a"].iloc[:100]} for of in sites["a"])
    fewer = share(X, y, LabelSubspaceRidge(), site="a", labels=LABELS)
    assert sum(of.nbytes for of in (fewer.products, fewer.counts)) == 4 * 15 * 8 + 2 * 5 * 8


def test_few_yes_or_no_take_no_part(sites):
    X, y = sites["a"]
    rare = y["a"].copy()
    rare["dx1"] = np.where(np.arange(len(rare)) < 9, 1.0, 0.0)
    rare["dx3"] = np.where(np.arange(len(rare)) < 9, 0.0, 1.0)
    with pytest.warns(DataWarning, match="labels 'dx1', 'dx3' have fewer than 10 yes, or no"):
        found = share(X, {"a": rare}, RIDGE, site="a")
    assert found.left_out == ["dx1", "dx3"]
    hidden = rare.assign(dx1=np.nan, dx3=np.nan)
    expected = share(X, {"a": hidden}, RIDGE, site="a")
    assert_array_equal(found.products, expected.products)
    assert_array_equal(found.counts, expected.counts)
    assert share(X, {"a": rare}, RIDGE, site="a", minimum_count=9).left_out == []


@pytest.mark.filterwarnings("ignore:.*nothing is said of them")
def test_a_site_learns_rare_labels_from_its_own_rows(sites):
    """Its weights are those of a fit in which only others do not know their rare labels."""
    sites = {site: sites[site] for site in "ac"}
    for site, (_, y) in sites.items():
        first = np.arange(len(y[site])) < 5
        y = {site: y[site].assign(dx1=first.astype(float))}
        sites[site] = sites[site][0], y
    X = {site: X[site] for site, (X, _) in sites.items()}
    Y = {site: y[site] for site, (_, y) in sites.items()}
    common = combine(share_all(sites))
    assert common.left_out == ["dx1"]
    for own, other in ("ac", "ca"):
        central = RIDGE.fit(X, Y | {other: Y[other].assign(dx1=np.nan)}).coef_[own]
        found = finish(common, *sites[own], RIDGE, site=own).coef_[own]
        assert_allclose(found, central, atol=1e-10)


def test_parameters_are_chosen_at_each_site_on_its_own_held_out_rows(sites):
    """With the sums of the others: shrinkage is judged in the space that all sites share."""
    auto = LabelSubspaceRidge(random_state=0)
    common = combine(share_all(sites, auto))
    for site, of in sites.items():
        model = finish(common, *of, auto, site=site)
        given = LabelSubspaceRidge(model.ridge_, model.shrinkage_, random_state=0)
        same = finish(combine(share_all(sites, given)), *of, given, site=site)
        assert_allclose(model.coef_[site], same.coef_[site], rtol=1e-10)
        assert model.has_probabilities


def test_a_finished_model_is_an_ordinary_model(sites, tmp_path):
    common, (X, y) = combine(share_all(sites)), sites["b"]
    model = finish(common, X, y, RIDGE, site="b")
    assert list(model.label_names_) == LABELS  # also the one that the site lacks
    assert np.ptp(model.decision_function(X)["b"][:, 2]) > 0
    model.save(tmp_path / "b.model")
    assert_array_equal(load(tmp_path / "b.model").predict(X)["b"], model.predict(X)["b"])
    assert "_site" not in vars(model)
    # Fitted again, it is a model of the own tables alone.
    assert len(model.fit(X, y).label_names_) == 4


def test_what_cannot_be_added_is_refused(sites, tmp_path):
    a, b, _ = share_all(sites)
    with pytest.raises(ValueError, match="site 'a' is there twice"):
        combine([a, b, a])
    with pytest.raises(ValueError, match="site 'a' is there twice"):
        combine([combine([a, b]), a])
    with pytest.raises(ValueError, match="no shares"):
        combine([])
    other = share(*sites["b"], LabelSubspaceRidge(2.0, 0.7), site="b", labels=LABELS)
    with pytest.raises(ValueError, match=r"ridges is \[1\.0\] at 'a', and \[2\.0\] at 'b'"):
        combine([a, other])
    own = share(*sites["b"], RIDGE, site="b")
    with pytest.raises(ValueError, match="labels 'dx2' are not in both"):
        combine([a, own])
    turned = share(*sites["b"], RIDGE, site="b", labels=LABELS[::-1])
    with pytest.raises(ValueError, match="their order differs"):
        combine([a, turned])


def test_what_cannot_be_finished_is_refused(sites):
    a, b, _ = share_all(sites)
    with pytest.raises(ValueError, match="the sums are of the sites 'a', 'b', not of 'c'"):
        finish(combine([a, b]), *sites["c"], RIDGE, site="c")
    with pytest.raises(ValueError, match=r"positive_weight is 1\.0 at 'a' and 'b', and 2.0 at 'a'"):
        heavy = LabelSubspaceRidge(1.0, 0.7, positive_weight=2.0)
        finish(combine([a, b]), *sites["a"], heavy, site="a")
    X, y = sites["a"]
    with pytest.raises(ValueError, match="the tables of site 'a' are not those of its share"):
        finish(a, X, {"a": y["a"].assign(dx0=np.nan)}, RIDGE, site="a")


def test_bad_arguments_are_refused(sites):
    X, y = sites["a"]
    for site in ("", "  ", 3):
        with pytest.raises(ValueError, match="site must be the name"):
            share(X, y, RIDGE, site=site)
    for count in (-1, 2.5, True):
        with pytest.raises(ValueError, match="minimum_count must be a whole number"):
            share(X, y, RIDGE, site="a", minimum_count=count)
    with pytest.raises(TypeError, match="one round is for LabelSubspaceRidge, got NAIM3L"):
        share(X, y, NAIM3L(), site="a")
    with pytest.raises(ValueError, match="soft_labels must be 0"):
        share(X, y, LabelSubspaceRidge(soft_labels=0.5), site="a")
    with pytest.raises(ValueError, match="labels 'dx4' are not among those of the study"):
        share(X, y, RIDGE, site="a", labels=LABELS[:4])


def forge(of, path, *, format="naim3l share", version=1, **changed):
    """A file with a share's seal, and other contents."""
    stored = dump(of, Share)
    arrays = [np.array(changed.get(i, array)) for i, array in enumerate(stored.arrays)]
    document = {"format": format, "version": version, "share": stored.document}
    write_archive(path, document, arrays)


def test_other_files_are_refused(sites, tmp_path):
    [a, *_] = share_all(sites)
    path = tmp_path / "a.share"
    forge(a, path)
    assert Share.load(path).seal == a.seal  # the forger can write files
    stored = dump(a, Share).arrays
    for i, array in enumerate(stored):
        changed = array.copy()
        changed.flat[-1] += 1
        write_archive(
            path,
            {"format": "naim3l share", "version": 1, "share": dump(a, Share).document},
            [changed if i == j else other for j, other in enumerate(stored)],
        )
        with pytest.raises(ModelFileError, match="it was changed after it was written"):
            Share.load(path)
    forge(a, path, version=2)
    with pytest.raises(ModelFileError, match="this naim3l reads up to 1: update naim3l"):
        Share.load(path)
    forge(a, path, format="naim3l model")
    with pytest.raises(ModelFileError, match="its format is 'naim3l model'"):
        Share.load(path)
    data = (a.save(path), path.read_bytes())[1]
    for damaged in (data[:-30], data.replace(b"dx0", b"dx9"), b""):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            Share.load(path)


def test_a_share_that_could_not_be_read_again_is_not_written(sites, tmp_path):
    [a, *_] = share_all(sites)
    path = tmp_path / "a.share"
    path.write_text("kept")
    with pytest.raises(ValueError, match="cannot be saved"):
        replace(a, products=a.products * np.nan).save(path)
    assert path.read_text() == "kept" and [*tmp_path.iterdir()] == [path]
