"""How much memory is free, as the files of the kernel tell it."""

import pytest

from gpu_consensus.util import memory

FREE = 8 << 30
UNBOUNDED = 9223372036854771712


def tree(tmp_path, groups, files):
    """Write a machine with 8 GiB free, the groups of this process and their files."""
    everything = {
        "proc/meminfo": f"MemTotal: 99999999 kB\nMemAvailable: {FREE // 1024} kB\n",
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }
    for name, text in everything.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return memory.available_memory(tmp_path)


def group(path, limit, used, cache=0, version=2):
    names = ("memory.max", "memory.current", "inactive_file")
    if version == 1:
        names = (
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        )
    limit_file, used_file, cache_name = names
    return {
        f"{path}{limit_file}": f"{limit}\n",
        f"{path}{used_file}": f"{used}\n",
        f"{path}memory.stat": f"anon 5\n{cache_name} {cache}\nslab 7\n",
    }


def test_a_machine_without_groups(tmp_path):
    assert tree(tmp_path, "", {}) == FREE


def test_a_container_sees_its_own_group_at_the_top(tmp_path):
    files = group("", 1000, 300)
    assert tree(tmp_path, "0::/\n", files) == 700


def test_what_files_left_in_memory_is_free(tmp_path):
    files = group("", 1000, 900, cache=250)
    assert tree(tmp_path, "0::/\n", files) == 350


def test_the_tightest_of_nested_groups_counts(tmp_path):
    files = (
        group("user/", 5000, 1000)
        | group("user/job/", "max", 900)
        | group("user/job/step/", 6000, 800)
    )
    assert tree(tmp_path, "0::/user/job/step\n", files) == 4000


@pytest.mark.parametrize("path", ["/docker/abc", "/../../elsewhere"])
def test_a_path_as_from_outside_of_the_container(tmp_path, path):
    assert tree(tmp_path, f"0::{path}\n", group("", 1000, 300)) == 700


def test_groups_without_a_bound(tmp_path):
    files = group("job/", "max", 300)
    assert tree(tmp_path, "0::/job\n", files) == FREE


def test_a_group_that_has_used_more_than_its_bound(tmp_path):
    assert tree(tmp_path, "0::/\n", group("", 1000, 1200)) == 0


def test_version_1(tmp_path):
    lines = "12:cpu,cpuacct:/docker/a\n5:memory:/docker/a\n1:name=systemd:/a\n0::/\n"
    files = group("memory/docker/a/", 2000, 500, 100, version=1)
    files |= group("memory/", UNBOUNDED, 70, version=1)
    assert tree(tmp_path, lines, files) == 1600


def test_version_1_without_a_bound(tmp_path):
    files = group("memory/", UNBOUNDED, 70, version=1)
    assert tree(tmp_path, "5:memory:/\n", files) == FREE


def test_here_it_is_a_number():
    found = memory.available_memory()
    assert found is None or found > 0
