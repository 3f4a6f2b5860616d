"""What the dashboard and the alerts ask for: PromQL, of metrics and labels that a server has."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import promql_parser as promql
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from loadtest.peers.calling import Caller, RealtimeWire
from loadtest.peers.comparison import make_program
from loadtest.peers.environments import Bot

DOCKER = Path(__file__).parents[2] / "docker"
DASHBOARD = json.loads((DOCKER / "grafana/dashboards/antiphon.json").read_text())
RULES = yaml.safe_load((DOCKER / "prometheus/alerts.yml").read_text())["groups"][0]["rules"]
OF_GRAFANA = {"$__rate_interval": "1m", "$__range": "30m"}
OF_PROMETHEUS = {"up": {"job", "instance"}}
NOT_IN_A_SCRIPTED_CALL = {
    "antiphon_doubted_transcripts",
    "antiphon_interruptions",
    "antiphon_refusals",
    "antiphon_barge_in_stop_seconds",
}
"""Nobody doubts, interrupts or is refused in it."""


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for variable, value in OF_GRAFANA.items():
                expression = expression.replace(variable, value)
            yield panel["title"], expression
    for rule in RULES:
        yield rule["alert"], rule["expr"]


def selectors(expression: str) -> list[Any]:
    """Every metric that an expression names, as its selector."""
    found: list[Any] = []

    def visit(node: Any) -> bool:
        if isinstance(node, promql.VectorSelector):
            found.append(node)
        return True

    promql.walk(promql.parse(expression), visit)
    return found


def labels_used(expression: str) -> set[str]:
    """The labels that it selects or groups by."""
    found: set[str] = set()

    def visit(node: Any) -> bool:
        if isinstance(node, promql.VectorSelector):
            found.update(matcher.name for matcher in node.matchers.matchers)
        elif isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            found.update(node.modifier.labels)
        return True

    promql.walk(promql.parse(expression), visit)
    return found - {"le"}


EXPRESSIONS = list(expressions())


@pytest.fixture(scope="module")
def scraped() -> dict[str, Any]:
    """What a server exports after a scripted call, by the name of the family."""

    async def call(port: int) -> None:
        program, wire, loop = make_program(), RealtimeWire(), asyncio.get_running_loop()
        messages = program.messages(wire)
        _, caller = await loop.create_connection(
            lambda: Caller(wire, messages, port), "127.0.0.1", port
        )
        await asyncio.wait_for(caller.opened, 20)
        caller.start(loop.time())
        async with asyncio.timeout(program.seconds + 5):
            while sum(seconds for _, seconds in caller.heard.arrivals) < 2.9:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        caller.hang_up()

    command = (sys.executable, "-m", "voice.cli", "serve", "--scripted", "--port", "0")
    with Bot(command, None, None) as server:
        asyncio.run(call(server.port))
        text = urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def family_of(name: str, scraped: dict[str, Any]) -> Any:
    """The family that a name in an expression belongs to, as its type has its names."""
    if name in scraped and scraped[name].type == "gauge":
        return scraped[name]
    stem, _, suffix = name.rpartition("_")
    family = scraped.get(stem)
    suffixes = {"counter": ("total",), "histogram": ("bucket", "sum", "count")}
    if family is not None and suffix in suffixes.get(family.type, ()):
        return family
    return None


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_each_expression_is_promql(title: str, expression: str) -> None:
    assert selectors(expression), title


@pytest.mark.engine
def test_each_metric_that_is_named_is_there_after_a_call(scraped: dict[str, Any]) -> None:
    named = {each.name for _, expression in EXPRESSIONS for each in selectors(expression)}
    missing = {name for name in named - set(OF_PROMETHEUS) if family_of(name, scraped) is None}
    assert missing == set()
    families = [family_of(name, scraped) for name in named - set(OF_PROMETHEUS)]
    silent = {family.name for family in families if not family.samples}
    assert silent <= NOT_IN_A_SCRIPTED_CALL


@pytest.mark.engine
def test_each_label_that_is_used_is_one_of_its_metrics(scraped: dict[str, Any]) -> None:
    wrong = []
    for title, expression in EXPRESSIONS:
        known: set[str] = set()
        for each in selectors(expression):
            family = family_of(each.name, scraped)
            known |= OF_PROMETHEUS.get(each.name, set())
            if family is not None:
                known.update(*(sample.labels for sample in family.samples))
                if not family.samples:  # nothing happened that would have shown them
                    known |= {"reason", "meant", "tenant"}
        wrong += [f"{title}: {label}" for label in labels_used(expression) - known]
    assert wrong == []


@pytest.mark.engine
def test_a_scripted_call_is_counted_as_what_it_was(scraped: dict[str, Any]) -> None:
    def value(name: str, sample: str, **labels: str) -> float:
        [found] = [
            each.value
            for each in scraped[name].samples
            if each.name == sample and labels.items() <= each.labels.items()
        ]
        return found

    assert value("antiphon_turns", "antiphon_turns_total", outcome="heard") == 1
    sentence, audio = "antiphon_first_sentence_seconds", "antiphon_response_seconds"
    assert value(audio, f"{audio}_count") == value(sentence, f"{sentence}_count") == 1
    assert value(audio, f"{audio}_sum") <= value(sentence, f"{sentence}_sum") < 3
    cpu = "antiphon_tenant_cpu_seconds"
    assert value(cpu, f"{cpu}_total", tenant="default") > 0
    held = "antiphon_tenant_engine_seconds"
    assert value(held, f"{held}_total", tenant="default", engine="tts") > 0
    rows = "antiphon_batch_rows"
    assert value(rows, f"{rows}_count", engine="vad", speaking="1") > 50


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"Antiphon[A-Z]\w+", rule["alert"])
    assert set(rule["annotations"]) == {"summary", "description"}
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert re.fullmatch(r"\d+[sm]", rule["for"])


def test_prometheus_own_tool_agrees_where_it_is_installed() -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed: Debian's package prometheus brings it")
    for check in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        folder = DOCKER / "prometheus"
        done = subprocess.run([tool, *check], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_panels_have_places_of_their_own() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.engine
def test_each_metric_that_is_documented_is_there(scraped: dict[str, Any]) -> None:
    text = (DOCKER.parent / "docs" / "watching.md").read_text()
    named = set(re.findall(r"`(antiphon_[a-z_]+)`", text))
    stems = {name.removesuffix("_total") for name in named}
    assert len(stems) > 30
    assert stems - set(scraped) == set()


def test_each_alert_is_tried() -> None:
    tests = yaml.safe_load((DOCKER / "prometheus/alerts_test.yml").read_text())["tests"]
    tried = {
        case["alertname"]
        for test in tests
        for case in test["alert_rule_test"]
        if "exp_alerts" in case
    }
    assert tried == {rule["alert"] for rule in RULES}
