"""`siggpde fit --config`: options from a file."""

import json
from pathlib import Path

import pytest

from helpers.cli_data import FAST, LONG, long_table, run, write


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(long_table(), tmp_path_factory.mktemp("data") / "turns.csv")


def fit(table, output, *more):
    return run("fit", table, "--output", output, *LONG, *FAST, *more)


def test_a_config_file_is_under_the_command_line(table: Path, tmp_path: Path):
    config = tmp_path / "fit.toml"
    config.write_text(
        'series = "who"\ntime = "day"\nchannels = ["x", "y"]\nn-features = 30\nseed = 5\nmembers = 1\n'
        f'[fit]\ntarget = "kind"\noutput = {json.dumps(str(tmp_path / "model"))}\nmax_iter = 7\njson = true\njobs = 1\n'
    )
    result = run("fit", table, "--config", config, "--n-features", "20")
    assert result.exit_code == 0, result.output
    settings = json.loads(result.stdout)["settings"]
    assert (settings["n_features"], settings["random_state"], settings["max_iter"]) == (20, 5, 7)
    assert settings["n_jobs"] == 1
    assert (tmp_path / "model" / "model.json").is_file()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("features = 3\n[fit]\nmenbers = 1", ["features", "menbers", "n-features"]),
        ("n-features = true", ["n-features", "number"]),
        ("mask = 1", ["mask", "true or false"]),
        ("max-iter = 'many'", ["--max-iter", "whole number"]),
        ("task = 'guessing'", ["--task", "guessing"]),
        ("n-features = {a = 1}", ["n-features"]),
        ("fit = 1", ["table"]),
        ("as_json = true", ["as_json"]),
        ("config = 'other.toml'", ["config"]),
        ("nonsense", ["TOML"]),
    ],
)
def test_wrong_config_files_are_wrong_calls(text: str, said: list[str], table: Path, tmp_path: Path):
    config = tmp_path / "fit.toml"
    config.write_text(text)
    result = fit(table, tmp_path / "model", "--target", "kind", "--config", config)
    assert result.exit_code == 2
    flat = "".join(result.output.replace("│", "").split())
    assert all(word.replace(" ", "") in flat for word in said), result.output
    assert not (tmp_path / "model").exists()


def test_a_config_file_that_is_not_there(table: Path, tmp_path: Path):
    assert fit(table, tmp_path / "m", "--config", tmp_path / "none.toml").exit_code == 2
