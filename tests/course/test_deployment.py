"""The manifests in deploy/ against the course: commands parse, ports and paths are the server's, names agree."""

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from tiny_llm_course.commands.serve import serve
from tiny_llm_course.paths import BOOK, ROOT
from tiny_llm_course.serving import app
from tiny_llm_course.serving.guards import OPEN
from tiny_llm_course.serving.run import STUCK_SECONDS

yaml = pytest.importorskip("yaml")

pytestmark = pytest.mark.maintainers
DEPLOY = ROOT / "deploy"


def read(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def instructions(name: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, with their arguments on one line."""
    text = re.sub(r"^#.*\n", "", read(name), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in text.splitlines() if line]


def only(name: str, instruction: str) -> str:
    (found,) = [text for kind, text in instructions(name) if kind == instruction]
    return found


def options(arguments: list[str]) -> dict[str, Any]:
    """What `pdm run serve` understands; click raises UsageError for what it does not."""
    return serve.make_context("serve", list(arguments)).params


def manifests() -> dict[str, dict[str, Any]]:
    return {found["kind"]: found for found in yaml.safe_load_all(read("kubernetes.yaml"))}


def entrypoint() -> list[str]:
    command: list[str] = json.loads(only("Dockerfile", "ENTRYPOINT"))
    assert command[:3] == ["pdm", "run", "serve"]
    return command[3:]


def routes(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The paths of the server's routes, as `make_app` gives them to Starlette."""
    given: list[Route] = []

    class Made(Starlette):
        def __init__(self, routes: list[Route], **others: Any) -> None:
            given.extend(routes)
            super().__init__(routes=routes, **others)

    class Anything:
        """A service of which no route is called."""

        names, adapters, special_tokens = ("model",), (), dict[str, str]()
        name, max_model_len, chat_template = "model", 1, ""

        def __getattr__(self, name: str) -> Any:
            return self

    monkeypatch.setattr(app, "Starlette", Made)
    app.make_app(Anything(), None)  # type: ignore[arg-type]
    return {route.path for route in given}


def test_the_image_runs_the_server_where_it_says() -> None:
    found = options(entrypoint())
    assert found["solution"]
    assert found["host"] == "0.0.0.0"
    assert str(found["port"]) == only("Dockerfile", "EXPOSE")
    with pytest.raises(click.UsageError):
        options([*entrypoint(), "--no-such-option"])


def test_the_image_copies_what_is_there_and_runs_as_a_user() -> None:
    for name in ("Dockerfile", "ray.Dockerfile"):
        kinds = instructions(name)
        copied = [word for kind, text in kinds if kind == "COPY" for word in text.split()[1:-1]]
        assert copied
        assert not [word for word in copied if not (ROOT / word).exists()]
        assert next(text for kind, text in reversed(kinds) if kind == "USER") == "course"
    # What PDM reads, and what its hook after an installation runs.
    copied = [word for kind, text in instructions("Dockerfile") if kind == "COPY" for word in text.split()[1:-1]]
    assert {"pyproject.toml", "pdm.lock", "src", "solutions", "models"} <= {*copied}
    assert "--frozen-lockfile" in read("Dockerfile")


def test_nothing_built_here_is_copied() -> None:
    """A kernel of this machine may not run on another one."""
    assert {"**/.build", "**/.tiny-llm", "**/.venv"} <= {*read("Dockerfile.dockerignore").splitlines()}


def test_probes_ask_for_a_route_that_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    paths = {probe["path"] for probe in probes.values()} | set(re.findall(r"8000(/\w+)", read("Dockerfile")))
    assert paths <= routes(monkeypatch) & {*OPEN}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {ports[probe["port"]] for probe in probes.values()} == {options(entrypoint())["port"]}


def test_kubernetes_objects_select_each_other() -> None:
    found = manifests()
    deployment, service, autoscaler = (found[kind] for kind in ("Deployment", "Service", "HorizontalPodAutoscaler"))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    target = autoscaler["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    assert "replicas" not in deployment["spec"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert [port["targetPort"] for port in service["spec"]["ports"]] == [port["name"] for port in container["ports"]]


def test_a_pod_has_time_to_drain() -> None:
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    grace = options([*entrypoint(), *container["args"]])["grace"]
    _, before = container["lifecycle"]["preStop"]["exec"]["command"]
    # Ten seconds more for `serve` to end: see `_Server.shutdown`.
    assert float(before) + grace + 2 * STUCK_SECONDS + 10 <= pod["terminationGracePeriodSeconds"]


def test_the_image_has_one_name() -> None:
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == only("ray.Dockerfile", "FROM")
    assert f"-t {container['image']} ." in read("Dockerfile")


def test_the_autoscaler_s_metric_is_the_server_s() -> None:
    (metric,) = manifests()["HorizontalPodAutoscaler"]["spec"]["metrics"]
    name = metric["pods"]["metric"]["name"].replace("vllm_", "vllm:")
    assert f'"{name}"' in (ROOT / "src/tiny_llm_course/serving/monitoring.py").read_text(encoding="utf-8")


def test_the_stack_s_router_finds_the_pods() -> None:
    values = yaml.safe_load(read("vllm_stack.yaml"))
    assert values["servingEngineSpec"]["enableEngine"] is False
    given = values["routerSpec"]["extraArgs"]
    router = dict(zip(given[::2], given[1::2], strict=True))
    ((key, value),) = manifests()["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    assert router["--k8s-label-selector"] == f"{key}={value}"
    assert int(router["--k8s-port"]) == options(entrypoint())["port"]


def test_ray_starts_the_course_s_server(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ast.parse(read("ray_serve.py"))
    values = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    command = ast.literal_eval(values["COMMAND"])
    assert command[:3] == ("pdm", "run", "serve")
    found = options([*command[3:], "8000"])  # the port comes last
    assert (found["host"], found["port"]) == ("127.0.0.1", 8000)
    assert {*re.findall(r"\}(/\w+)\"", read("ray_serve.py"))} <= routes(monkeypatch)
    (application,) = yaml.safe_load(read("ray_serve.yaml"))["applications"]
    module, _, name = application["import_path"].partition(":")
    assert (ROOT / module.replace(".", "/")).with_suffix(".py").is_file()
    assert name in values
    (deployment,) = application["deployments"]
    assert deployment["name"] in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert deployment["graceful_shutdown_timeout_s"] >= found["grace"] + 2 * STUCK_SECONDS
    queue = options([])["waiting"]
    assert deployment["max_ongoing_requests"] == queue + 8  # the default of --max-num-seqs


def test_the_page_shows_every_manifest_and_its_commands_are_right() -> None:
    page = (BOOK / "src/week6/deployment.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"#include \.\./\.\./\.\./deploy/([\w.]+?)[:}]", page))
    assert shown >= {file.name for file in DEPLOY.iterdir() if file.is_file() and file.suffix != ".dockerignore"}
    files = re.findall(r"-f (deploy/\S+)", page)
    assert files
    assert not [name for name in files if not (ROOT / name).is_file()]
    for line in re.findall(r"^docker run .*? tiny-llm:\S+ ?(.*)$", page, re.MULTILINE):
        assert options([*entrypoint(), *shlex.split(line)])


def test_every_file_is_used() -> None:
    assert {file.name for file in Path(DEPLOY).iterdir() if file.is_file()} == {
        "Dockerfile", "Dockerfile.dockerignore", "kubernetes.yaml", "ray.Dockerfile", "ray_serve.py", "ray_serve.yaml",
        "vllm_stack.yaml",
    }  # fmt: skip
