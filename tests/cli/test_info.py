"""`siggpde info`: the installation, and saved models."""

import json
from pathlib import Path

import siggpde
from helpers.cli_data import figures, refuse, run, start, succeed


def test_info_lists_versions_and_backends():
    result = succeed("info")
    for word in ("python", "torch", "numpy", "threads", "SIMD", "native", "reference", "triton"):
        assert word in result.stdout


def test_info_as_json_from_the_shell():
    result = start("info", "--json")
    assert result.returncode == 0, result.stderr
    values = json.loads(result.stdout)
    assert set(values) == {"versions", "machine", "simd", "backends"}
    assert values["versions"]["python"].startswith("3.")
    assert values["machine"]["processors"] >= 1
    assert values["backends"]["reference"] == {"available": True, "reason": None}
    assert values["backends"]["triton"]["reason"]
    for backend in values["backends"].values():
        assert backend["available"] == (backend["reason"] is None)
    assert (values["simd"] is None) == (not values["backends"]["native"]["available"])


def test_info_says_why_there_is_no_native_core_and_uses_the_instruction_set_asked_for():
    result = start("info", "--json", SIGGPDE_BACKEND="reference")
    values = json.loads(result.stdout)
    assert values["backends"]["native"] == {"available": False, "reason": "SIGGPDE_BACKEND=reference"}
    assert values["simd"] is None
    assert "Warning" not in result.stderr
    values = json.loads(start("info", "--json", SIGGPDE_ISA="baseline").stdout)
    assert values["simd"] in (None, "baseline")


def test_info_of_a_model(models: Path):
    values = figures("info", models / "kinds")
    assert values["series"] == 40 and values["labels"] == {"[red]": 20, "blue": 20}
    assert values["reading"]["series"] == "who" and values["versions"]["siggpde"] == siggpde.__version__
    assert values["members"][0]["nlpp"] > 0 and values["settings"]["n_features"] == 20
    shown = run("info", models / "kinds").stdout
    for words in ("[red] (20), blue (20)", "--series who", "least squares", "40 of the training", siggpde.__version__):
        assert words in shown
    assert "target" in run("info", models / "sizes").stdout
    refuse(1, "there is no model folder", "info", models / "none")
