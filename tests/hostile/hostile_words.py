"""Command lines, run in this process."""

import contextlib
import io
import signal

import hostile_values as values
import numpy as np
from hostile_names import HOSTILE
from judge import Case, why_no_sentence

from gpu_consensus.cli.main import main

NUMBERS = [
    "0", "1", "2", "-1", "2.5", "", "nan", "inf", "x", "10" * 30, "1e3", "٣", " 2",
    "2 ",
    "0x2", "1_0", "--", "999999999999", "None", "True", "+2", "auto", "٢", "\x00",
]  # fmt: skip
OPTIONS = {
    "--n-clusters": NUMBERS, "--n-partitions": NUMBERS, "--seed": NUMBERS,
    "--n-jobs": NUMBERS, "--candidates": ["2:3", "3:2", "2", "2:", ":", "x", "",
    "2:10**9",
        "0:3", "1:2", "2,3", "2:3:4", "2:999999999"],
    "--method": ["kcc", "nope", "", "KCC", "hac", *HOSTILE[:2]],
    "--strategy": ["rps", "nope", "", "zipf"], "--metric": ["cosine", "nope", ""],
    "--backend": ["numpy", "native", "cupy", "nope", ""],
    "--utility": ["h", "nope", "l5", "l0", "l999999", ""],
    "--k-range": ["2:3", "3:2", "0:1", "x", "2", "", "2:999999999"],
    "--option": ["n_init=2", "n_init=x", "n_init", "=", "nope=1", "n_init=2=3", "",
    "weights=5",
        "n_clusters=3", "checkpoint=x", "n_init=1e400", "random_state=3", "init=[[[",
        "=5",
        "search=__import__('os')", "n_init=" + "9" * 5000],
    "--generate-option": ["sample_share=0.5", "sample_share=x", "nope=1", "", "X=5"],
    "--columns": ["0", "a", "0,1", "", "99", "-1", "a,a", "\x00"], "--drop": ["0", "z",
    "0,1,2", ""],
    "--output": ["out.csv", "", "data.csv", "no/such/x.csv", ".", "/dev/full", "a\x00b",
        "x" * 300, "out.npy", "out.xyz", "link.csv"],
    "--checkpoint": ["ck", "", "data.csv", "out.csv", "no/such/x", "/dev/null", ".",
    "x" * 300],
    "--report": ["r.html", "", "r.txt", "data.csv", "no/such/r.html", "out.csv", ".",
    "/dev/null"],
    "--header": ["yes", "no", "auto", "maybe", ""], "--weights": ["eci", "1,2", "x",
    ""],
    "--truth": ["data.csv", "nope.csv", "", "labels.csv", "."],
    "--nope": ["1"], "--json": [None], "--example": ["iris", "nope", ""],
    "--quiet": [None],
}  # fmt: skip
COMMANDS = {
    "cluster": ["data.csv", "--n-clusters", "2", "--n-partitions", "3", "--method",
    "kcc"],
    "generate": ["data.csv", "--n-partitions", "3"],
    "consensus": ["labels.csv", "--n-clusters", "2", "--method", "kcc"],
    "evaluate": ["labels.csv", "--truth", "truth.csv"],
    "select-k": ["data.csv", "--candidates", "2:3"],
    "report": ["labels.csv", "truth.csv"],
    "doctor": ["--quick"],
    "nope": [], "": [], "bench": ["nope"],
}  # fmt: skip


def run_command(argv, folder, names):
    """Return the case of a command line whose complaint is one line."""
    before = {p: p.read_bytes() for p in folder.iterdir() if readable(p)}

    def run():
        out, err = io.StringIO(), io.StringIO()
        heard = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(argv)
        finally:
            for number, handler in heard.items():
                signal.signal(number, handler)
        return code, out.getvalue(), err.getvalue()

    def check(ended):
        code, _, err = ended
        lines = [line for line in err.splitlines() if "warning:" not in line]
        assert code in (0, 2), (code, err)
        if code == 2:
            usage = [line for line in lines if line.startswith("gpu-consensus")]
            assert usage, err
            text = usage[-1].split(": ", 1)[1]
            assert len(text) < 6000, len(text)
            assert "Traceback" not in err, err
            assert not any(word in text for word in FOREIGN), text
            complaint = why_no_sentence(text)
            assert complaint in (None, "no full stop") or "argument" in text, (
                complaint,
                text,
            )
            assert complaint is None or "argument" in text or "required" in text, text
        for path, data in before.items():
            assert path.read_bytes() == data, f"{path.name} was changed"
        left = [p.name for p in folder.rglob("*") if ".tmp" in p.name]
        assert not left, left

    return Case("gpu-consensus " + " ".join(map(repr, argv)), run, names, check)


FOREIGN = (
    "object has no attribute", "Error: ", "NoneType", "positional argument", "dtype(",
    "unexpected keyword", "invalid literal", "[Errno",
)  # fmt: skip


def readable(path):
    """Whether it is a plain file, not a link, a pipe or a folder."""
    return path.is_file() and not path.is_symlink()


def command_line(rng, folder):
    """Make a command line with one or two hostile options."""
    X = np.round(rng.normal(size=(24, 3)), 2)
    lines = ["a,b,c", *(",".join(map(str, row)) for row in X)]
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    np.save(folder / "data.npy", X)
    table = rng.integers(3, size=(24, 4))
    text = "\n".join(",".join(f"k{v}" for v in row) for row in table)
    (folder / "labels.csv").write_text("p,q,r,s\n" + text + "\n")
    (folder / "truth.csv").write_text("t\n" + "\n".join(map(str, table[:, 0])) + "\n")
    (folder / "link.csv").symlink_to(folder / "data.csv")
    command = values.pick(rng, [*COMMANDS, "cluster", "consensus", "generate"])
    words = [command, *COMMANDS[command]]
    if command in ("cluster", "consensus"):
        words += ["--output", "out.csv", "--seed", "0"]
    if command in ("generate", "report"):
        words += ["--output", "out" if command == "generate" else "out.html"]
    for _ in range(int(rng.integers(1, 3))):
        option = values.pick(rng, list(OPTIONS))
        value = values.pick(rng, OPTIONS[option])
        words += [option] if value is None else [option, value]
    if rng.random() < 0.1 and len(words) > 1:
        words[1] = values.pick(
            rng, ["", "nope.csv", ".", "/dev/null", "a\x00", "-", "x" * 300]
        )
    return run_command(words, folder, ("",))
