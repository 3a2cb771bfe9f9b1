"""Files in a store that speaks S3, and addresses without keys in what users see."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3L
from naim3l.files.errors import ReadError
from naim3l.files.secrets import drop_secrets, show_source
from naim3l.files.stores import _as_regex
from naim3l.files.tables import is_folder, open_table
from study import run

KEY, SECRET = "AKIAEXAMPLE", "wJalr/XUtn:FEMI"


@pytest.fixture(scope="module")
def bucket():
    """Function that puts bytes into a bucket of a server of moto."""
    boto3 = pytest.importorskip("boto3")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        client = boto3.client("s3")
        client.create_bucket(Bucket="bucket")
        yield lambda key, body: client.put_object(
            Bucket="bucket", Key=key, Body=body, ACL="public-read"
        )
    client.close()
    server.stop()


def parquet(table):
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    return file.getvalue()


def make_tables(n_tables=3, n=40):
    rng = np.random.default_rng(0)
    for k in range(n_tables):
        x = rng.normal(size=(n, 3)).round(3)
        yield pd.DataFrame(x, columns=["a", "b", "c"]).assign(
            flu=(x[:, 0] > 0) * 1, row=range(n), part=k
        )


@pytest.mark.places
@pytest.mark.dask
@pytest.mark.filterwarnings("ignore:.*utcnow:DeprecationWarning")
def test_folders_patterns_and_files_of_a_bucket_are_tables(bucket, tmp_path, monkeypatch):
    tables = [*make_tables()]
    for k, table in enumerate(tables):
        bucket(f"hub/data/train-{k:05d}-of-00003.parquet", parquet(table))
        bucket(f"months/year=2026/month={k}/part [{k}].parquet", parquet(table))
        bucket(f"text/part {k}.csv.gz", table.to_csv(index=False).encode()) if k > 5 else None
        bucket(f"text/part {k}.csv", table.to_csv(index=False).encode())
    bucket("hub/README.md", b"about")
    bucket("hub/.hidden/data.parquet", b"no table")
    whole = pd.concat(tables, ignore_index=True)
    for source in (
        "s3://bucket/hub",
        "s3://bucket/hub/data/",
        "s3://bucket/hub/**/train-*.parquet",
    ):
        assert is_folder(source)
        frame, origin = open_table(source).read()
        pd.testing.assert_frame_equal(frame, whole)
        assert origin.source == source
    frame, _ = open_table("s3://bucket/months").read()
    assert frame["month"].tolist() == whole["part"].tolist()
    assert frame["year"].unique().tolist() == [2026]
    one = "s3://bucket/months/year=2026/month=1/part [[]1].parquet"
    pd.testing.assert_frame_equal(open_table(one).read()[0][[*whole]], tables[1])
    text = open_table("s3://bucket/text/part*.csv")
    pd.testing.assert_frame_equal(text.read()[0], whole)
    pd.testing.assert_frame_equal(open_table("s3://bucket/text/part 1.csv").read()[0], tables[1])
    parts = pickle.loads(pickle.dumps(text.parts))
    pd.testing.assert_frame_equal(next(parts[2].batches())[0], tables[2])
    monkeypatch.setenv("AWS_NO_SIGN_REQUEST", "true")
    assert len(open_table("s3://bucket/hub").parts) == 3
    monkeypatch.chdir(tmp_path)
    address = f"s3://{KEY}:{SECRET.replace('/', '%2F')}@bucket/hub"
    roles = ("--labels", "flu", "--seed", "0", "-o", "m.naim3l")
    result = run("fit", f"lab={address}", *roles)
    assert result.exit_code == 0, result.output
    result = run("predict", "m.naim3l", "lab=s3://bucket/hub/data/*.parquet", "-o", "p.parquet")
    assert result.exit_code == 0, result.output
    X = {"lab": "s3://bucket/hub"}
    model = NAIM3L().fit(X, {"lab": ["flu"]})
    assert (
        len(model.decision_function(X)["lab"].compute())
        == len(whole)
        == len(pd.read_parquet("p.parquet"))
    )


@pytest.mark.places
def test_errors_of_stores_name_the_address_without_keys(bucket, tmp_path):
    wrong = f"s3://{KEY}:{SECRET.replace('/', '%2F')}@"
    for rest, reason in (
        ("nobucket/hub", "nobucket/hub: "),
        ("bucket/none/*.parquet", "no files there"),
        ("bucket/hub?password=topsecret", "cannot be read"),
    ):
        with pytest.raises(ReadError, match=reason) as caught:
            open_table(wrong + rest)
        assert not [of for of in (KEY, "wJalr", "FEMI", "topsecret") if of in str(caught.value)]
    bucket("table.xlsx", b"PK")
    with pytest.raises(ReadError, match="must have the extension"):
        open_table("s3://bucket/table.xlsx")
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(ReadError, match="of this machine and of a store"):
        open_table([str(tmp_path / "a.csv"), "s3://bucket/hub"])


def test_addresses_are_shown_and_stored_without_keys():
    for address, bare in {
        "s3://bucket/lab/*.parquet": "s3://bucket/lab/*.parquet",
        "s3://bucket/a@b.parquet": "s3://bucket/a@b.parquet",
        f"s3://{KEY}:{SECRET}@bucket/lab": "s3://bucket/lab",
        f"s3://{KEY}:a@b@bucket/lab?token=x&region=eu": "s3://bucket/lab?region=eu",
        "s3://TOKEN@bucket/lab": "s3://bucket/lab",
        "gs://anonymous@bucket/lab": "gs://anonymous@bucket/lab",
        "abfs://container@account.dfs.core.windows.net/lab?sig=x": (
            "abfs://container@account.dfs.core.windows.net/lab"
        ),
        "abfs://account:key@container/lab": "abfs://container/lab",
    }.items():
        assert show_source(address) == drop_secrets(address) == bare


def test_file_addresses_are_paths(tmp_path):
    for k, table in enumerate(make_tables(2)):
        table.to_csv(tmp_path / f"part {k}.csv", index=False)
    for source, n in (
        ((tmp_path / "part 1.csv").as_uri(), 40),
        (tmp_path.as_uri(), 80),
        (f"file://{tmp_path}/part*.csv", 80),
    ):
        assert is_folder(source) == (n > 40)
        assert len(open_table(source).read()[0]) == n


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("b/*.parquet", "b/x.parquet", "b/c/x.parquet"),
        ("b/**/x", "b/x", "b/xx"),
        ("b/**/x", "b/c/d/x", "c/x"),
        ("b/[!a]?[+].csv", "b/bc+.csv", "b/ac+.csv"),
    ],
)
def test_patterns_are_those_of_glob(pattern, yes, no):
    assert _as_regex(pattern).match(yes) and not _as_regex(pattern).match(no)
