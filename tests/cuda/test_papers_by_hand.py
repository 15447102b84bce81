"""The papers' models by hand: the notebook and the how-to run, and commands take a launch file.

`python -m tests.cuda.test_papers_by_hand` runs the notebook's cells again and writes their outputs.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from warplens.cli import main
from warplens.models.published import hong_kim, kothapalli, lemeire, sim2012, volkov
from warplens.papers import Item

pytestmark = pytest.mark.cuda
ROOT = Path(__file__).parents[2]
NOTEBOOK, HOWTO = ROOT / "examples" / "papers.ipynb", ROOT / "docs" / "howto" / "papers-models.md"
PAPERS = ("Volkov 2016", "Lemeire 2017", "Hong & Kim 2009", "Kothapalli 2009", "Sim 2012")
MATRIX = str(ROOT / "examples" / "matmul" / "matmul_tiled16.toml")


def outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell as a notebook does: what it prints, and its last expression where that is one."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/plain": [repr(value)[:200]]}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = [value._repr_html_()]
        found.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return found


def write() -> None:
    """Run the notebook's cells and write their outputs into it."""
    notebook, names = json.loads(NOTEBOOK.read_text()), dict[str, Any]()
    with contextlib.chdir(NOTEBOOK.parent):
        for number, cell in enumerate(code_cells(notebook), 1):
            cell["outputs"], cell["execution_count"] = outputs("".join(cell["source"]), names), number
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of a notebook that have code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_runs_and_has_its_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    notebook, names = json.loads(NOTEBOOK.read_text()), dict[str, Any]()
    cells = code_cells(notebook)
    ran = [outputs("".join(cell["source"]), names) for cell in cells]
    assert NOTEBOOK.stat().st_size < 100_000
    for cell, found in zip(cells, ran, strict=True):
        stored = [output["output_type"] for output in cell["outputs"]]
        assert stored == [output["output_type"] for output in found]
    printed = "".join(line for cell in cells for o in cell["outputs"] for line in o.get("text", []))
    assert all(paper in printed for paper in PAPERS)
    assert "<svg" in json.dumps(notebook) or "&lt;svg" in json.dumps(notebook)  # the curves


def test_the_how_to_is_twenty_lines_that_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [source] = re.findall(r"^```python\n(.*?)^```", HOWTO.read_text(), re.M | re.S)
    assert len(source.splitlines()) <= 20
    monkeypatch.chdir(NOTEBOOK.parent)
    names: dict[str, Any] = {}
    found = outputs(source, names)
    assert len(names["curves"]) == len(PAPERS)
    text = "".join(found[0]["text"])
    for model in (volkov, lemeire, hong_kim, kothapalli, sim2012):
        assert model.__doc__ is not None
    assert "(21)" in text and "§3.6, Table 3.4" in text and "(16), (17)" in text  # terms name their equations
    assert "&lt;svg" in found[1]["data"]["text/html"][0]


def test_compare_and_the_papers_simulator_take_a_launch_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", MATRIX, "--json"]) == 0
    compared = json.loads(capsys.readouterr()[0])
    assert {"volkov", "lemeire", "hong-kim", "sim2012", "kothapalli-max"} <= set(compared["predictions"])
    assert main(["simulate", "--launch", MATRIX, "--mode", "lemeire", "--json"]) == 0
    found = json.loads(capsys.readouterr()[0])["simulation"]
    assert found["mode"] == "lemeire"
    assert found["cycles"] > compared["predictions"]["lemeire"]["cycles"]  # conflicts and barriers are in the graph


def test_items_show_their_page_in_a_notebook() -> None:
    assert "srcdoc" in Item("x", "A title", "a source")._repr_html_()  # type: ignore[attr-defined]


if __name__ == "__main__":
    write()
