"""A report is whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report import samples
from tilesight.report import html
from tilesight.report.write import write_text_atomically


def test_it_writes_and_makes_folders(tmp_path: Path) -> None:
    path = write_text_atomically(tmp_path / "new" / "report.html", "内容")
    assert path.read_text(encoding="utf-8") == "内容"
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_text_atomically(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_text_that_cannot_be_encoded_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_text_atomically(tmp_path / "report.html", "\ud800")
    assert [each.name for each in tmp_path.iterdir()] == []


def test_a_report_that_cannot_be_rendered_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> str:
        raise RuntimeError("template")

    monkeypatch.setattr(html, "page", fail)
    with pytest.raises(RuntimeError):
        html.write_html(samples.trace(), tmp_path / "report.html")
    assert [each.name for each in tmp_path.iterdir()] == []


def test_permissions_are_those_of_any_new_file_or_of_the_old_one(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    assert write_text_atomically(tmp_path / "new", "").stat().st_mode == plain.stat().st_mode
    plain.chmod(0o600)
    assert write_text_atomically(plain, "x").stat().st_mode & 0o777 == 0o600


def test_a_link_keeps_pointing_to_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
