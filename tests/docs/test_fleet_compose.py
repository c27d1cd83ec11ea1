"""docs/fleet/compose.yaml without an engine of containers: each service's own command, environment and health check.

What an engine gives each container (a name, a network, a folder of secrets) is put in its place: an address of this
machine, a port, a temporary folder. Nothing else of the file is changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from ruamel.yaml import YAML

from postgres import Server, free_port, run_program, temporary_folder
from specify_cli.features.sync.consent import TOKEN_VARIABLE
from support import FULL, PATIENCE, SPEC_KITTY, Cli, environment, git, wait_until

FLEET = Path(__file__).parents[2] / "docs/fleet"
COLLECTORS = ("collector-1", "collector-2", "collector-3")
# Caddy may sweep away the folder of a certificate that it is about to write, and tries again after a minute.

pytestmark = pytest.mark.stress


class Engine:
    """What stands in for an engine of containers: names become addresses, programs those of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compose: Any = YAML(typ="safe").load(FLEET / "compose.yaml")
        self.ports = {name: free_port() for name in (*COLLECTORS, "proxy")}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.database: dict[str, str] = {}

    def make_secrets(self) -> None:
        """Run the lines of the file's own comment."""
        lines = re.findall(r"^#   (.*)", (FLEET / "compose.yaml").read_text(), flags=re.M)
        assert lines[-1] == "chown 1000 pgpass"
        subprocess.run(["sh", "-ec", lines[0]], cwd=self.folder, check=True)
        for name, secret in self.compose["secrets"].items():
            (self.folder / f"secret-{name}").symlink_to(self.folder / secret["file"])

    def get_environment(self, name: str) -> dict[str, str]:
        given = self.compose["services"][name]["environment"]
        told = {key: value.replace("/run/secrets/", f"{self.folder}/secret-") for key, value in given.items()}
        return {**environment(self.folder), **told, **self.database}

    def get_command(self, name: str, words: list[str]) -> list[str]:
        """Return a command of a service as it runs here."""
        port = self.ports.get(name, 0)
        here = [re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):8742", f"127.0.0.1:{port}", word) for word in words]
        programs = {"spec-kitty": SPEC_KITTY, "python": sys.executable, "sh": "sh", "caddy": "caddy"}
        return [programs[here[0]], *here[1:]]

    def start(self, name: str) -> None:
        if name in self.running:
            self.running[name].wait()
        service = self.compose["services"][name]
        command = self.get_command(name, service["command"])
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                command, cwd=self.folder, env=self.get_environment(name), stdout=log, stderr=log
            )

    def wait_for(self, name: str) -> None:
        """Ask a service's own health check until it says yes."""
        kind, *words = self.compose["services"][name]["healthcheck"]["test"]
        assert kind == "CMD"
        command, env = self.get_command(name, words), self.get_environment(name)
        wait_until(lambda: subprocess.run(command, env=env, capture_output=True).returncode == 0, self.log(name))

    def log(self, name: str) -> Callable[[], str]:
        return lambda: f"{name}: " + (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@contextlib.contextmanager
def serving_database(engine: Engine) -> Iterator[None]:
    """Make of a PostgreSQL what its image makes of the service's environment: a role, its password, its database."""
    given = engine.get_environment("db")
    with temporary_folder() as folder:
        server = Server(folder, settings="fsync = off")
        try:
            with psycopg.connect(server.address(), autocommit=True) as connection:
                connection.execute(f'CREATE DATABASE "{given["POSTGRES_DB"]}"')
                password = Path(given["POSTGRES_PASSWORD_FILE"]).read_text().strip()
                connection.execute(f"ALTER ROLE \"{given['POSTGRES_USER']}\" PASSWORD '{password}'")
            (server.data / "pg_hba.conf").write_text("host all all all scram-sha-256\n")
            run_program("pg_ctl", "reload", "-D", str(server.data))
            engine.database = {"PGHOSTADDR": "127.0.0.1", "PGPORT": str(server.port)}
            run_program(engine.compose["services"]["db"]["healthcheck"]["test"][1], "-h", "127.0.0.1", "-p",
                        str(server.port), *engine.compose["services"]["db"]["healthcheck"]["test"][2:])  # fmt: skip
            yield
        finally:
            server.stop()


def configure_proxy(engine: Engine) -> Path:
    """Write the Caddyfile as it runs here: names are addresses, and its certificate is of an authority of its own."""
    text = (FLEET / "Caddyfile").read_text()
    for name in COLLECTORS:
        assert f"{name}:8742" in text
        text = text.replace(f"{name}:8742", f"127.0.0.1:{engine.ports[name]}")
    assert "\ncollector.example.org {" in text
    text = text.replace("collector.example.org {", f"https://localhost:{engine.ports['proxy']} {{")
    path = engine.folder / "Caddyfile"
    path.write_text("{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n" + text)
    [words] = [engine.compose["services"]["proxy"]["command"]]
    words[words.index("/etc/caddy/Caddyfile")] = str(path)
    engine.compose["services"]["proxy"]["environment"] = {"XDG_DATA_HOME": str(engine.folder)}
    return engine.folder / "caddy/pki/authorities/local/root.crt"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path / "fleet")
    made.folder.mkdir()
    made.make_secrets()
    with serving_database(made):
        try:
            yield made
        finally:
            made.stop()


def test_what_the_compose_file_starts_takes_what_clones_send_while_collectors_end(
    engine: Engine, cli: Cli, chartered: Path
) -> None:
    if shutil.which("caddy") is None:
        pytest.skip("caddy is not installed, so nothing of the compose file was tried: apt-get install caddy")
    for name in COLLECTORS:
        engine.start(name)
    for name in COLLECTORS:
        engine.wait_for(name)
    root = configure_proxy(engine)
    engine.start("proxy")
    [told] = re.findall(r"exec collector-1 sh -c '(.*)'$", (FLEET / "compose.yaml").read_text(), flags=re.M)
    env = {**engine.get_environment("collector-1"), "PATH": f"{Path(SPEC_KITTY).parent}:{os.environ['PATH']}"}
    token = subprocess.run(["sh", "-c", told], env=env, capture_output=True, text=True, check=True).stdout.strip()
    address = f"https://localhost:{engine.ports['proxy']}"
    wait_until(root.exists, engine.log("proxy"))
    trusting = ssl.create_default_context(cafile=str(root))

    def ask(path: str) -> Any:
        request = urllib.request.Request(f"{address}{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, context=trusting, timeout=PATIENCE) as answer:
            return json.load(answer)

    def is_ready() -> bool:
        with contextlib.suppress(OSError):
            return bool(ask("/readyz")["status"] == "ready")
        return False

    wait_until(is_ready, engine.log("proxy"))
    git(chartered, "init", "-q")
    cli("init")
    given = {TOKEN_VARIABLE: token, "SSL_CERT_FILE": str(root)}
    enable = ("sync", "enable", "--endpoint", f"{address}/v1/events", "--level", "records", "--yes")
    assert cli(*enable, env=given).code == 0

    def deliver() -> None:
        """Deliver one record; what the proxy cannot do yet the next push does, as the next command would."""
        cli("do", "implement WP01")
        cli("profile-invocation", "complete", "last")
        wait_until(lambda: cli("sync", "push", "--json", env=given).json()["state"] == "delivered")

    deliver()
    # One is killed, and one is told to end as an engine tells it: it answers on until nobody is sent there.
    engine.running["collector-1"].kill()
    deliver()
    engine.running["collector-2"].send_signal(signal.SIGTERM)
    deliver()
    if FULL:
        assert engine.running["collector-2"].wait(timeout=PATIENCE) == 0
        engine.start("collector-1")
        engine.wait_for("collector-1")
        engine.running["collector-3"].kill()
        deliver()
        deliver()
    [held] = ask("/v1/projects")["items"]

    assert (held["invocations"], held["records"], held["open"]) == (*[5 if FULL else 3] * 2, 0)
    assert (held["conflicts"], held["missing"]) == (0, 0)
    assert oct((engine.folder / "pgpass").stat().st_mode & 0o777) == "0o600"


def test_every_service_of_the_file_is_one_the_test_starts() -> None:
    compose: Any = YAML(typ="safe").load(FLEET / "compose.yaml")
    mounted = [volume.split(":")[0] for volume in compose["services"]["proxy"]["volumes"]]

    assert set(compose["services"]) == {"db", "proxy", *COLLECTORS}
    assert {secret for one in compose["services"].values() for secret in one.get("secrets", [])} == set(
        compose["secrets"]
    )
    assert mounted[0] == "./Caddyfile" and set(compose["volumes"]) == {"ledger", "certificates"}
    assert all(compose["services"][name] == compose["services"]["collector-1"] for name in COLLECTORS)
