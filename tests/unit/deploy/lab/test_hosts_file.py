from pathlib import Path

from deploy.lab.hosts_file import Names


def test_a_name_that_is_dropped_is_gone_from_the_file_and_comes_back_when_added(tmp_path: Path) -> None:
    names = Names(tmp_path / "hosts")
    names.add("c1.kraftwatch.invalid", "c2.kraftwatch.invalid")
    names.drop("c1.kraftwatch.invalid", "never.there")

    assert names.file.read_text() == "127.0.0.1 localhost\n127.0.0.1 c2.kraftwatch.invalid\n"

    names.add("c1.kraftwatch.invalid")

    assert names.known == {"c1.kraftwatch.invalid", "c2.kraftwatch.invalid"}
    assert "127.0.0.1 c1.kraftwatch.invalid\n" in names.file.read_text()


def test_the_file_is_replaced_whole_so_that_a_reader_never_sees_half_of_it(tmp_path: Path) -> None:
    names = Names(tmp_path / "hosts")
    names.add("c1.kraftwatch.invalid")
    with names.file.open() as reader:
        names.drop("c1.kraftwatch.invalid")

        assert "c1.kraftwatch.invalid" in reader.read()
    assert [path.name for path in tmp_path.iterdir()] == ["hosts"]
