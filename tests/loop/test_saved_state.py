"""A checkpoint with changed content is never gone on with."""

import json

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.loop.saved_state import digest

LABELS = np.random.default_rng(0).integers(3, size=(60, 4))
PLAIN = {"search": False, "init": "random", "n_init": 3}


def run(path, **options):
    return gpc.kcc(LABELS, 3, random_state=0, checkpoint=path, **options)


def change(path, name, value, *, sealed):
    """Change one part of a checkpoint; ``sealed`` makes the hash fit again."""
    with np.load(path) as archive:
        parts = dict(archive)
    if name in parts:
        parts[name] = value(parts[name])
    else:
        meta = json.loads(str(parts["meta"]))
        meta[name] = value(meta[name])
        parts["meta"] = np.str_(json.dumps(meta))
    if sealed:
        parts["digest"] = np.str_(digest(str(parts["meta"]), parts))
    np.savez(path, **parts)


CHANGES = {
    "zeros": ("assignment", np.zeros_like),
    "lower objective": ("objective", lambda old: old - 50),
    "nan": ("objective", lambda old: old * np.nan),
    "fewer objects": ("assignment", lambda old: old[:, :5]),
    "fewer starts": ("objective", lambda old: old[:0]),
    "no such cluster": ("assignment", lambda old: old + 7),
    "signed": ("assignment", lambda old: old.astype(np.int64) - 2),
    "scalar": ("objective", lambda old: np.float64(3)),
    "history": ("history", lambda old: 5),
    "text in history": ("history", lambda old: [["x"]] * len(old)),
    "seen": ("seen", lambda old: [[[]]]),
    "refining": ("refining", lambda old: [1]),
    "refining nobody": (
        "refining",
        lambda old: [{"active": [99], "most_steps": 1}] * 2,
    ),
    "searching": ("searching", lambda old: 3),
    "no end": ("searching", lambda old: {"most": 10**15, "patience": 10**15}),
    "seed": ("seed", lambda old: {"entropy": "x", "spawn_key": [], "pool_size": 4}),
    "key": ("key", lambda old: [1]),
}


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("options", [PLAIN, {}], ids=["starts", "search"])
@pytest.mark.parametrize("name", CHANGES)
def test_changed_content(tmp_path, name, options, sealed):
    path = tmp_path / "run.npz"
    whole = run(path, **options)
    change(path, *CHANGES[name], sealed=sealed)
    try:
        again = run(path, **options)
    except ValueError as error:
        assert "delete it to start anew" in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
        return
    # what does not matter here: a search that has ended, or none
    assert sealed
    assert again.labels.tolist() == whole.labels.tolist()
    assert again.objective == whole.objective


@pytest.mark.parametrize(
    "text", ["[]", "{}", "[" * 100_000 + "]" * 100_000, "no json", "\ud800"]
)
def test_descriptions_that_are_none(tmp_path, text):
    path = tmp_path / "run.npz"
    run(path, **PLAIN)
    with np.load(path) as archive:
        parts = dict(archive)
    parts["meta"] = np.array(text)
    np.savez(path, **parts)
    with pytest.raises(ValueError, match=r"not a readable checkpoint .*start anew"):
        run(path, **PLAIN)


def test_links_are_not_followed_into_nothing(tmp_path):
    X = LABELS.astype(float)
    for name in ("call.json", "000001.npy", "consensus.npz"):
        folder = tmp_path / name.replace(".", "-")
        options = {"n_partitions": 3, "random_state": 0, "method": "kcc"}
        gpc.cluster(X, 3, checkpoint=folder, **options)
        (folder / name).unlink()
        (folder / name).symlink_to(tmp_path / "outside")
        with pytest.raises(ValueError, match="is a link, and a checkpoint holds files"):
            gpc.cluster(X, 3, checkpoint=folder, **options)
        assert not (tmp_path / "outside").exists()
