from pathlib import Path

from deploy.lab.addresses import HostsFile


def test_dropped_name_is_removed_from_the_file_until_it_is_added_again(tmp_path: Path) -> None:
    names = HostsFile(tmp_path / "hosts")
    names.add("c1.kraftwatch.invalid", "c2.kraftwatch.invalid")
    names.drop("c1.kraftwatch.invalid", "never.there")

    assert names.file.read_text() == "127.0.0.1 localhost\n127.0.0.1 c2.kraftwatch.invalid\n"

    names.add("c1.kraftwatch.invalid")

    assert names._names == {"c1.kraftwatch.invalid", "c2.kraftwatch.invalid"}
    assert "127.0.0.1 c1.kraftwatch.invalid\n" in names.file.read_text()


def test_file_is_replaced_atomically(tmp_path: Path) -> None:
    names = HostsFile(tmp_path / "hosts")
    names.add("c1.kraftwatch.invalid")
    with names.file.open() as reader:
        names.drop("c1.kraftwatch.invalid")

        assert "c1.kraftwatch.invalid" in reader.read()
    assert [path.name for path in tmp_path.iterdir()] == ["hosts"]
