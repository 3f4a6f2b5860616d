"""The compose file: by the specification's schema, and that its parts fit each other."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

DOCKER = Path(__file__).parents[2] / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def read(name: str) -> Any:
    return yaml.safe_load((DOCKER / name).read_text())


def mounted(service: str) -> dict[str, str]:
    """What lies where in a container: path there -> folder here, or the name of a volume."""
    pairs = (volume.split(":") for volume in SERVICES[service]["volumes"])
    return {there: here for here, there, *_ in pairs}


def test_it_is_a_compose_file() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    command = [checker, "--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yaml"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_builds_the_cpu_image() -> None:
    build = SERVICES["antiphon"]["build"]
    assert (DOCKER / build["context"]).resolve() == DOCKER.parent
    assert (DOCKER.parent / build["dockerfile"]).is_file()


def test_no_secret_has_a_default_and_no_image_floats() -> None:
    text = (DOCKER / "compose.yaml").read_text()
    variables = re.findall(r"\$\{([^}]*)\}", text)
    assert variables
    assert all(":?" in variable for variable in variables)
    for name, service in SERVICES.items():
        if "build" not in service:
            assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name


def test_the_server_may_do_no_more_than_it_must() -> None:
    server = SERVICES["antiphon"]
    assert server["read_only"]
    assert server["cap_drop"] == ["ALL"]
    assert server["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("service", ["prometheus", "grafana"])
def test_what_is_mounted_is_there(service: str) -> None:
    for here in mounted(service).values():
        assert here in COMPOSE["volumes"] or (DOCKER / here).is_dir(), here


def test_prometheus_scrapes_the_server_and_knows_the_rules() -> None:
    config = read("prometheus/prometheus.yml")
    [job] = config["scrape_configs"]
    [target] = job["static_configs"][0]["targets"]
    name, port = target.split(":")
    assert name in SERVICES
    assert SERVICES[name]["ports"] == [f"{port}:{port}"]
    folder = DOCKER / mounted("prometheus")["/etc/prometheus"]
    assert all((folder / rules).is_file() for rules in config["rule_files"])
    assert "--config.file=/etc/prometheus/prometheus.yml" in SERVICES["prometheus"]["command"]


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    [source] = read("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    assert source["url"].removeprefix("http://").split(":")[0] in SERVICES
    [provider] = read("grafana/provisioning/dashboards/antiphon.yaml")["providers"]
    folder = DOCKER / mounted("grafana")[provider["options"]["path"]]
    [file] = folder.glob("*.json")
    panels = json.loads(file.read_text())["panels"]
    used = {panel["datasource"]["uid"] for panel in panels if "datasource" in panel}
    assert used == {source["uid"]}
