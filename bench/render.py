"""Markdown from the JSON of a benchmark, and from nothing else."""

from __future__ import annotations

from typing import Any

FORMAT = "gpu_consensus.bench"
VERSION = 1


def check_format(result: Any) -> dict[str, Any]:
    """Return ``result`` if it is the JSON of a benchmark that this release reads."""
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise ValueError("it was not written by this benchmark")
    if result.get("version") != VERSION:
        raise ValueError(
            f"its version is {result.get('version')}, this release reads {VERSION}"
        )
    return result


def to_markdown(result: dict[str, Any]) -> str:
    """Return the whole result as Markdown.

    Parameters
    ----------
    result : dict
        What the JSON file holds.
    """
    parts = [_head(result)]
    claims = [claim for table in result["tables"] for claim in table["claims"]]
    if claims:
        parts.append(_claims(claims))
    skipped = [entry for table in result["tables"] for entry in table["skipped"]]
    if skipped:
        lines = dict.fromkeys(f"- {e['name']}: {e['reason']}" for e in skipped)
        parts.append("\n".join(["## Left out", "", *lines]))
    parts += [render_table(table) for table in result["tables"]]
    return "\n\n".join(parts) + "\n"


def _head(result: dict[str, Any]) -> str:
    machine, commit = result["machine"], result["commit"]
    state = "none: not a checkout, or git cannot tell"
    if commit is not None:
        state = commit["sha"][:12] + (", with changes" if commit["dirty"] else "")
    versions = ", ".join(
        f"{name} {version or 'absent'}" for name, version in result["versions"].items()
    )
    title = f"# Benchmark {result['suite']}" + (" (quick)" if result["quick"] else "")
    lines = [
        title,
        "",
        f"- command: `{result['command']}`",
        f"- date: {result['date']}, {_number(result['seconds'], '.1f')} s",
        f"- machine: {machine['cpu']}, {machine['usable_cores']} cores, "
        f"{machine['memory_gb']} GB, other processes before the run: "
        f"{_number(machine['others_busy_before'], '.0%')} of the cores",
        f"- system: {result['os']}, Python {result['python']}",
        f"- versions: {versions}",
        f"- commit: {state}",
        f"- seeds: {', '.join(str(seed) for seed in result['seeds'])}",
    ]
    if not result["complete"]:
        lines.append("- **not complete**: the run was stopped or failed on the way")
    return "\n".join(lines)


def _claims(claims: list[dict[str, Any]]) -> str:
    word = {True: "pass", False: "**FAIL**", None: "not decided"}
    rows = [[c["claim"], c["measured"], word[c["passed"]]] for c in claims]
    return "## Summary\n\n" + _grid(["must show", "measured", "result"], rows)


def render_table(table: dict[str, Any]) -> str:
    """Return one table under its heading, with its notes."""
    columns = table["columns"]
    parts = [f"## {table['title']}"]
    if table["rows"]:
        rows = [
            [_number(row.get(column["key"]), column["form"]) for column in columns]
            for row in table["rows"]
        ]
        parts.append(_grid([column["title"] for column in columns], rows))
    else:
        parts.append("No rows: see what was left out and why.")
    if table["notes"]:
        parts.append("\n".join(f"- {note}" for note in table["notes"]))
    return "\n\n".join(parts)


def _grid(titles: list[str], rows: list[list[str]]) -> str:
    def line(cells: list[str]) -> str:
        safe = [" ".join(cell.split()).replace("|", "\\|") for cell in cells]
        return "| " + " | ".join(safe) + " |"

    return "\n".join([line(titles), line(["---"] * len(titles)), *map(line, rows)])


def _number(value: Any, form: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and form:
        return format(value, form)
    return str(value)
