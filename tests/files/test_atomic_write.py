import errno
import os
import signal
import subprocess
import sys

import pytest

import naim3l.files.atomic_write
from naim3l.files.atomic_write import (
    check_outputs,
    check_writable,
    file_names,
    new_folder,
    write_text,
    written_together,
    written_whole,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")  # as a write says it: without a file


class TestWrittenWhole:
    def test_file_appears_when_the_block_ends(self, tmp_path):
        target = tmp_path / "out.txt"
        with written_whole(target) as part:
            part.write_text("new")
            assert not target.exists()
        assert target.read_text() == "new" and names(tmp_path) == ["out.txt"]

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_error_leaves_the_old_file_and_nothing_else(self, tmp_path, error):
        target = tmp_path / "out.txt"
        write_text(target, "old")
        with pytest.raises(error), written_whole(target) as part:
            part.write_text("half")
            raise error
        assert target.read_text() == "old" and names(tmp_path) == ["out.txt"]

    def test_links_stay_and_are_followed(self, tmp_path):
        (tmp_path / "real").mkdir()
        link, target = tmp_path / "link.txt", tmp_path / "real" / "out.txt"
        link.symlink_to(target)
        write_text(link, "new")
        assert (
            link.is_symlink()
            and target.read_text() == "new"
            and names(target.parent) == ["out.txt"]
        )

    def test_errors_of_the_system_name_the_file(self, tmp_path, monkeypatch):
        target = tmp_path / "out.txt"
        with pytest.raises(OSError, match=r"out\.txt") as caught, written_whole(target):
            full()
        assert caught.value.filename == str(target)
        (tmp_path / "other").mkdir()
        with pytest.raises(FileNotFoundError) as caught, written_whole(target) as part:
            part.unlink()  # the part is of no interest to a user
        assert caught.value.filename == str(target)
        with pytest.raises(OSError) as caught, written_whole(target):
            (tmp_path / "source.csv").read_bytes()
        assert caught.value.filename == str(tmp_path / "source.csv")


class TestParts:
    def test_those_of_dead_writers_go_with_the_next_write(self, tmp_path):
        left = [".fit.[1].txt.0a.part", ".fit.1.txt.0a.part", ".fit.[1].txt.gz.0a.part", "fit.part"]
        for name in left:
            (tmp_path / name).touch()
        check_writable(tmp_path / "fit.[1].txt")
        assert names(tmp_path) == sorted(left[1:])

    def test_that_of_a_living_writer_stays(self, tmp_path):
        target = tmp_path / "out.txt"
        with written_whole(target) as part:
            part.write_text("first")
            write_text(target, "second")
            check_writable(target)
            assert part.read_text() == "first" and target.read_text() == "second"
        assert target.read_text() == "first" and names(tmp_path) == ["out.txt"]


class TestTogether:
    def test_files_appear_together(self, tmp_path):
        with written_together():
            write_text(tmp_path / "a", "a")
            write_text(tmp_path / "b", "b")
            assert not (tmp_path / "a").exists()
            write_text(tmp_path / "a.other", "a")  # takes no living part for a dead one
        assert names(tmp_path) == ["a", "a.other", "b"]

    @pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
    def test_or_not_at_all(self, tmp_path, error):
        write_text(tmp_path / "a", "old")
        with pytest.raises(error), written_together():
            write_text(tmp_path / "a", "new")
            with written_whole(tmp_path / "b"):
                raise error
        assert names(tmp_path) == ["a"] and (tmp_path / "a").read_text() == "old"
        write_text(tmp_path / "c", "c")  # blocks that have ended have no say
        assert (tmp_path / "c").exists()

    @pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX does")
    def test_a_kill_leaves_no_half_file_and_the_next_run_cleans_up(self, tmp_path):
        write_text(tmp_path / "b", "old")
        program = (  # without the package, which takes long to import
            f"import os, runpy; files = runpy.run_path({naim3l.files.atomic_write.__file__!r})\n"
            "with files['written_together']():\n"
            "    files['write_text']('a', 'new')\n"
            "    with files['written_whole']('b') as part:\n"
            "        part.write_text('ne')\n"
            f"        os.kill(os.getpid(), {int(signal.SIGKILL)})\n"
        )
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path)
        assert done.returncode == -signal.SIGKILL
        left = names(tmp_path)
        assert left[-1] == "b" and (tmp_path / "b").read_text() == "old"
        assert len(left) == 3 and all(name.endswith(".part") for name in left[:2])
        check_outputs([tmp_path / "a", tmp_path / "b"])
        assert names(tmp_path) == ["b"]

    def test_new_folders_go_with_the_error(self, tmp_path):
        with pytest.raises(ValueError), new_folder(tmp_path / "a" / "b"):
            raise ValueError
        assert names(tmp_path) == []
        with pytest.raises(ValueError), new_folder(tmp_path / "a" / "b") as folder:
            write_text(folder / "c", "")
            raise ValueError
        assert (tmp_path / "a" / "b" / "c").exists()


class TestChecks:
    def test_places_that_can_be_written_are_left_as_they_were(self, tmp_path):
        write_text(tmp_path / "old", "old")
        check_outputs([tmp_path / "old", tmp_path / "new"])
        check_outputs([tmp_path / "no" / "such" / "file"], make_folders=True)
        assert names(tmp_path) == ["old"] and (tmp_path / "old").read_text() == "old"

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("folder", "folder is a folder; name a file"),
            ("no/file", "there is no folder .*no to write file"),
            ("file/below", "file is a file, where a folder is needed"),
            ("pipe", "pipe is not a regular file"),
            ("x" * 300, "File name too long"),
        ],
    )
    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_others_are_refused(self, tmp_path, path, message):
        (tmp_path / "folder").mkdir()
        (tmp_path / "file").touch()
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match=message):
            check_writable(tmp_path / path)
        assert names(tmp_path) == ["file", "folder", "pipe"]

    def test_a_file_in_place_of_a_folder_to_make(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(NotADirectoryError, match="file is a file"):
            check_writable(tmp_path / "file" / "deep" / "below", make_folder=True)

    def test_write_protected_file(self, tmp_path, monkeypatch):
        write_text(tmp_path / "mine", "old")
        (tmp_path / "mine").chmod(0o400)
        monkeypatch.setattr(os, "access", lambda *_: False)  # to root nothing is protected
        for refused in (check_writable, lambda path: write_text(path, "new")):
            with pytest.raises(PermissionError, match="mine is write-protected"):
                refused(tmp_path / "mine")
        assert (tmp_path / "mine").read_text() == "old"

    def test_full_disk_is_found_by_trying(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left on device") as caught:
            check_writable(tmp_path / "out")
        assert caught.value.filename == str(tmp_path / "out") and names(tmp_path) == []

    @pytest.mark.parametrize("other", ["in.csv", "./in.csv", "link", "hard", "up/../in.csv"])
    def test_an_input_is_no_output_whatever_its_name(self, tmp_path, monkeypatch, other):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "up").mkdir()
        write_text("in.csv", "mine")
        os.symlink("in.csv", "link")
        os.link("in.csv", "hard")
        with pytest.raises(ValueError, match="is read by this command and would be overwritten"):
            check_outputs([tmp_path / other], ["in.csv"])
        with pytest.raises(ValueError, match="is read by this command"):
            check_outputs(["in.csv"], [tmp_path / other])

    def test_two_outputs_are_two_files(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path)
        with pytest.raises(ValueError, match="written twice"):
            check_outputs([tmp_path / "a", tmp_path / "link" / "a"])


class TestFileNames:
    def test_usual_names_stay(self):
        usual = ["clinic", "lab_2", "Ärzte-1", "x.y", "second survey"]
        assert file_names(usual) == dict(zip(usual, usual, strict=True))

    @pytest.mark.parametrize(
        "name",
        ["../precious", "/etc/x", "..", ".hidden", "a\\b", "a\0b", "C:x", "nul", "Com1.x", "a\nb",
         "%2e%2e", "\ud800", "~", "*"],
    )  # fmt: skip
    def test_no_name_leads_out_of_its_folder(self, tmp_path, name):
        stem = file_names([name])[name]
        assert stem != name and not set(stem) & set('/\\\0:*"<>|\n') and not stem.startswith(".")
        write_text(tmp_path / f"{stem}.csv", "")
        assert names(tmp_path) == [f"{stem}.csv"]

    def test_different_names_have_different_files(self):
        stems = file_names(["a/b", "a%2Fb", "a\\b", "a_b", "nul", "%6Eul"])
        assert len({stem.casefold() for stem in stems.values()}) == 6

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (["Lab", "lab"], "'Lab' and 'lab' name the same file"),
            (["\uac00", "\u1100\u1161"], "name the same file"),  # one letter, written in two ways
            ([""], "'' is empty"),
            (["x" * 500], "is too long"),
            (["/" * 100], "is too long"),
        ],
    )
    def test_names_that_cannot_be_told_apart(self, given, message):
        with pytest.raises(ValueError, match=message):
            file_names(given)
