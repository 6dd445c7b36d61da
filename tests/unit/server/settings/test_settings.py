"""Settings: where they come from, what is refused and how, and what developer mode means."""

from __future__ import annotations

import os
import runpy
from collections.abc import Mapping
from pathlib import Path

import pytest

from hubbub.server.settings import (
    Secret,
    Settings,
    SettingsError,
    cautions,
    describe,
    developer_settings,
    known_keys,
    load,
)
from hubbub.server.settings.cluster_checks import signing_problems
from hubbub.server.settings.sources import variable_of

LONG_SECRET = "correct-horse-battery-staple-0123456789"
OTHER_SECRET = "another-horse-battery-staple-0123456789"


def load_text(
    tmp_path: Path,
    text: str,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    path = tmp_path / "hubbub.yaml"
    path.write_text(text)
    return load(path, environment or {}, overrides)


def problems_of(
    tmp_path: Path, text: str = "", environment: Mapping[str, str] | None = None
) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_text(tmp_path, text, environment)
    return caught.value.problems


def the_problem(
    tmp_path: Path, text: str = "", environment: Mapping[str, str] | None = None
) -> str:
    problems = problems_of(tmp_path, text, environment)
    assert len(problems) == 1, problems
    return problems[0]


@pytest.mark.spec("OPS-02")
def test_nothing_given_means_loopback_no_hub_no_secret_and_no_origin() -> None:
    settings = load(None, {})
    assert settings.listener.host == "127.0.0.1"
    assert settings.hubs == {}
    assert not settings.engine.allow_dynamic_hubs
    assert settings.auth.session.secret is None
    assert settings.auth.admin.secret is None
    assert settings.listener.allowed_origins == ()
    assert not settings.developer


@pytest.mark.spec("OPS-02")
def test_a_hub_declared_without_settings_is_closed(tmp_path: Path) -> None:
    hub = load_text(tmp_path, "hubs: {shop: }").hubs["shop"]
    assert not hub.settings.allow_anonymous
    rules = hub.rules_for("news")
    assert not rules.public
    assert not rules.client_publish
    assert not rules.allow_anonymous


@pytest.mark.spec("OPS-01")
def test_file_environment_and_options_win_in_this_order(tmp_path: Path) -> None:
    text = "listener: {port: 1, backlog: 1, maxConnections: 1}"
    variables = {"HUBBUB_LISTENER_BACKLOG": "2", "HUBBUB_LISTENER_MAX_CONNECTIONS": "2"}
    options = {"listener.maxConnections": 3, "listener.host": None}
    listener = load_text(tmp_path, text, variables, options).listener
    assert (listener.port, listener.backlog, listener.max_connections) == (1, 2, 3)
    assert listener.host == "127.0.0.1"


@pytest.mark.spec("OPS-01")
def test_variables_hold_numbers_booleans_lists_and_paths() -> None:
    settings = load(
        None,
        {
            "HUBBUB_CONNECTION_WS_PING_INTERVAL": "12.5",
            "HUBBUB_CONNECTION_WS_COMPRESSION": "yes",
            "HUBBUB_LISTENER_ALLOWED_ORIGINS": "https://a.example, https://b.example",
            "HUBBUB_LISTENER_TRUSTED_PROXIES": "",
            "HUBBUB_STORAGE_PATH": "/var/lib/hubbub",
            "HUBBUB_AUTH_SESSION_SECRET": LONG_SECRET,
            "PATH": "/bin",
        },
    )
    assert settings.connection.ws.ping_interval == 12.5
    assert settings.connection.ws.compression
    assert settings.listener.allowed_origins == ("https://a.example", "https://b.example")
    assert settings.listener.trusted_proxies == ()
    assert settings.storage.path == Path("/var/lib/hubbub")
    assert settings.auth.session.secret == Secret(LONG_SECRET)


@pytest.mark.spec("OPS-01")
def test_hubs_can_be_declared_in_one_variable() -> None:
    settings = load(None, {"HUBBUB_HUBS": '{"shop": {"settings": {"userChannel": true}}}'})
    assert settings.hubs["shop"].settings.user_channel


@pytest.mark.spec("OPS-01")
def test_every_key_has_a_variable_of_its_own() -> None:
    variables = {variable_of(path) for path in known_keys()}
    assert len(variables) == len(known_keys())


@pytest.mark.spec("OPS-01")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("session: {maxChanels: 3}", ["session.maxChanels", "did you mean session.maxChannels?"]),
        ("sesion: {}", ["sesion", "did you mean session?"]),
        ("session: {pingInterval: 3}", ["did you mean connection.ws.pingInterval?"]),
        ("developer: true", ["developer is not a known key"]),
        ("zzzz: 1", ["zzzz", "known here: listener"]),
        ("redis: {address: x}", ["redis is refused", "live in the store"]),
        ("broker: {user: x}", ["broker has no effect", "broker.host"]),
        ("streams: {target: jetstream}", ["streams.target", "broker.host"]),
        ('hubs: {a: {rpcRoutes: {r: {url: "nats:a.>", method: m}}}}', ["is no subject"]),
        ('hubs: {a: {rpcRoutes: {r: {url: "http://x"}}}}', ["rpcRoutes.r.method is missing"]),
        ("cluster: {rpc: {secretKey: x}}", ["cluster.rpc is refused", "cluster.secretKey"]),
        ("discovery: {type: udp}", ["discovery is refused", "broker.host"]),
        ("admin: {url: x}", ["admin.url", "begins with http://"]),
        ("storage: {user: x}", ["storage.user is refused", "storage.postgres.user"]),
        ("storage: {dbName: x}", ["storage.dbName is refused", "storage.postgres.dbName"]),
        ("debug: {pprof: true}", ["debug.pprof is refused"]),
        ("connection: {ws: {pongInterval: 3}}", ["connection.ws.pongTimeout"]),
        ("connection: {ws: {msgSendBufferSize: 3}}", ["connection.ws.sendBufferBytes"]),
        ("connection: {sse: {msgBufferSize: 3}}", ["connection.sse.sendBufferBytes"]),
        ("hubs: {a: {rule: {}}}", ["hubs.a.rule", "did you mean hubs.a.rules?"]),
        ("hubs: {a: {settings: {anonymous: true}}}", ["did you mean", "allowAnonymous"]),
        ("hubs: {a: {settings: {quotas: {session: 1}}}}", ["hubs.a.settings.quotas.sessions?"]),
    ],
)
def test_unknown_and_refused_keys_are_named_with_a_way_out(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    problem = the_problem(tmp_path, text)
    assert all(word in problem for word in words), problem


@pytest.mark.spec("OPS-01")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("listener: {port: 70000}", "listener.port is 70000; expected a whole number from 0"),
        ("listener: {port: '80'}", "listener.port is '80'; expected a whole number"),
        ("listener: {port: true}", "listener.port is True; expected a whole number"),
        ("listener: {port: }", "listener.port is empty; expected a whole number"),
        ("listener: {host: ''}", "listener.host is ''; expected text that is not empty"),
        ("listener: {tls: yes}", "listener.tls is true or false; expected a mapping"),
        ("listener: {trustedProxies: [10.0.0.1/8]}", "has '10.0.0.1/8'; expected an IP address"),
        ("listener: {trustedProxies: [proxy]}", "has 'proxy'; expected an IP address"),
        ("listener: {dashboard: {host: 'https://a'}}", "is 'https://a'; expected a host"),
        ("listener: {dashboard: {port: 8000}}", "dashboard.port is 8000, the port of the hub"),
        ("listener: {allowedOrigins: [example.org]}", "has 'example.org'; expected an origin"),
        ("listener: {allowedOrigins: ['https://a/']}", "has 'https://a/'; expected an origin"),
        ("listener: {allowedOrigins: 'https://a'}", "expected a list of texts"),
        ("connection: {ws: {compression: 1}}", "is 1; expected true or false"),
        ("connection: {ws: {pingInterval: .nan}}", "connection.ws.pingInterval is nan"),
        ("connection: {ws: {pingInterval: .inf}}", "connection.ws.pingInterval is inf"),
        ("connection: {ws: {pingInterval: 5}}", "connection.ws.pongTimeout is 10"),
        ("connection: {ws: {sendBufferBytes: 4096}}", "ws.sendBufferBytes is 4096; expected at"),
        ("connection: {sse: {sendBufferBytes: 4096}}", "sse.sendBufferBytes is 4096; expected at"),
        ("session: {messagesPerSecond: -1}", "session.messagesPerSecond is -1; expected a whole"),
        ("session: {messageBurst: {a: 1}}", "session.messageBurst is a mapping; expected a whole"),
        ("session: 5", "session is a number; expected a mapping"),
        ("document: {maxBytes: 1}", "document.maxBytes is 1; expected a whole number from 2"),
        ("document: {maxChangeBytes: 1}", "document.maxChangeBytes is 1; expected a whole"),
        ("document: {maxOperations: 0}", "document.maxOperations is 0; expected a whole"),
        ("document: {maxDepth: 61}", "document.maxDepth is 61; expected a whole number from 1"),
        ("document: {maxNameBytes: 0}", "document.maxNameBytes is 0; expected a whole"),
        ("document: {memoryBytes: -1}", "document.memoryBytes is -1; expected a whole"),
        ("auth: {algorithm: none}", "auth.algorithm is 'none'; expected one of HS256, HS384"),
        ("debug: {level: loud}", "debug.level is 'loud'; expected one of debug, error"),
        ("storage: {path: 3}", "storage.path is 3; expected a path"),
        ("[]", "the configuration is a list; expected a mapping"),
        ("1: 2", "1 has a key that YAML reads as a number; put it in quotes"),
        ("hubs: {no: {}}", "hubs.False has a key that YAML reads as true or false"),
        ("hubs: []", "hubs is a list; expected a mapping"),
        ("hubs: {'a*': {}}", "hubs: the hub name 'a*' contains '*'"),
        ("hubs: {a: {rules: {x: {public: 1}}}}", "hubs.a.rules.x.public is 1; expected true"),
        ("hubs: {a: {namespaces: {'x:y': z}}}", "contains ':'; a namespace is the text before"),
        ("hubs: {a: {namespaces: {x: 3}}}", "hubs.a.namespaces.x is not the id of rules"),
        ("hubs: {a: {channels: {'#': {}}}}", "hubs.a.channels: the channel name '#' contains"),
        ("hubs: {a: {channels: {x: {metadata: 3}}}}", "x.metadata is 3; expected a mapping"),
        ("hubs: {a: {channels: {x: {metadata: {a: .nan}}}}}", "x.metadata is not JSON"),
        ("hubs: {a: {channels: {x: {metadata: {1: b}}}}}", "metadata"),
        ("hubs: {a: {settings: {quotas: {storedBytes: -1}}}}", "quotas.storedBytes is -1"),
        ("hubs: {a: {settings: {allowedOrigins: [x]}}}", "hubs.a.settings.allowedOrigins has 'x'"),
    ],
)
def test_a_bad_value_is_named_with_what_is_expected(
    tmp_path: Path, text: str, problem: str
) -> None:
    assert problem in the_problem(tmp_path, text)


@pytest.mark.spec("OPS-01")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "hubs: {a: {settings: {defaultRules: opn}, rules: {open: {}}}}",
            "hubs.a.settings.defaultRules refers to 'opn', which hubs.a.rules does not declare; "
            "did you mean 'open'?",
        ),
        (
            "hubs: {a: {namespaces: {room: open}}}",
            "hubs.a.namespaces.room refers to 'open', which hubs.a.rules does not declare",
        ),
        (
            "hubs: {a: {channels: {news: {rules: open}}}}",
            "hubs.a.channels.news.rules refers to 'open', which hubs.a.rules does not declare",
        ),
        (
            "hubs: {a: {settings: {authProvider: main}}}",
            "hubs.a.settings.authProvider refers to 'main', which hubs.a.authProviders does not "
            "declare",
        ),
    ],
)
def test_a_reference_to_what_is_not_declared_names_both(
    tmp_path: Path, text: str, problem: str
) -> None:
    assert the_problem(tmp_path, text) == problem


@pytest.mark.spec("OPS-01")
@pytest.mark.parametrize(
    ("provider", "problem"),
    [
        ("{}", "hubs.a.authProviders.p.url is missing"),
        ("{url: 'ftp://x'}", "url is no URL that begins with http"),
        ("{url: 'http://'}", "https:// and names a host"),
        ("{url: 'http://x:port'}", "url is no URL; check its host and port"),
        ("{url: 'http://u:hunter2@x'}", "url holds a user or password; send"),
        ("{url: 'http://x', timeoutSeconds: 0}", "timeoutSeconds is 0"),
        ("{url: 'http://x', headers: {'a b': c}}", "the name 'a b', which HTTP does not allow"),
        (
            "{url: 'http://x', headers: {a: \"hunter2\\r\\nb: c\"}}",
            "headers.a holds what HTTP",
        ),
        ("{url: 'http://x', headers: {a: 3}}", "headers is a mapping; expected"),
    ],
)
def test_a_bad_auth_provider_is_refused_without_showing_its_secrets(
    tmp_path: Path, provider: str, problem: str
) -> None:
    found = the_problem(tmp_path, f"hubs: {{a: {{authProviders: {{p: {provider}}}}}}}")
    assert problem in found
    assert "hunter2" not in found


@pytest.mark.spec("OPS-01")
@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("HUBBUB_LISTENER_PROT", "1", "did you mean HUBBUB_LISTENER_PORT?"),
        ("HUBBUB_ZZZZZZZZZZZZZZZZ", "1", "is not a known variable; see docs/configuration.md"),
        ("HUBBUB_REDIS_ADDRESS", "x", "HUBBUB_REDIS_ADDRESS is refused: retained messages"),
        ("HUBBUB_STORAGE_PASSWORD", "x", "is refused: it is called storage.postgres.password"),
        ("HUBBUB_LISTENER_PORT", "http", "listener.port (HUBBUB_LISTENER_PORT) is 'http'"),
        ("HUBBUB_LISTENER_PORT", "", "listener.port (HUBBUB_LISTENER_PORT) is ''"),
        ("HUBBUB_LISTENER_HOST", "", "listener.host (HUBBUB_LISTENER_HOST) is ''"),
        ("HUBBUB_DEBUG_ACCESS_LOG", "maybe", "is 'maybe'; expected true or false"),
        ("HUBBUB_AUTH_ADMIN_SECRET", "", "auth.admin.secret (HUBBUB_AUTH_ADMIN_SECRET)"),
        ("HUBBUB_HUBS", "3", "hubs (HUBBUB_HUBS) is a number; expected a mapping"),
        ("HUBBUB_HUBS", "{", "HUBBUB_HUBS, line 1"),
    ],
)
def test_a_bad_variable_is_named(tmp_path: Path, variable: str, value: str, problem: str) -> None:
    assert problem in the_problem(tmp_path, environment={variable: value})


@pytest.mark.spec("OPS-01")
def test_variables_of_others_are_left_alone() -> None:
    """Kubernetes gives some to the neighbours of a service called hubbub; the CLI has others."""
    foreign = {
        "HUBBUB_SERVICE_HOST": "10.0.0.1",
        "HUBBUB_SERVICE_PORT_HTTP": "8000",
        "HUBBUB_PORT": "tcp://10.0.0.1:8000",
        "HUBBUB_PORT_8000_TCP_ADDR": "10.0.0.1",
        "HUBBUB_TOKEN": "x",
        "HUBBUB_CONFIG": "x",
    }
    assert load(None, foreign) == load(None, {})


@pytest.mark.spec("OPS-01")
def test_a_variable_does_not_hide_a_category_that_is_no_mapping(tmp_path: Path) -> None:
    problem = the_problem(tmp_path, "session: 5", {"HUBBUB_SESSION_MAX_CHANNELS": "3"})
    assert "session is a number" in problem


@pytest.mark.spec("OPS-01")
def test_an_unknown_option_is_refused_like_any_key() -> None:
    with pytest.raises(SettingsError, match=r"did you mean listener\.port"):
        load(None, {}, {"listener.prt": 3})


@pytest.mark.spec("OPS-01")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 1"),
        ("a: 1\na: 2", "line 2, column 1: not valid YAML: the key a is there twice"),
        ("listener: {allowedOrigins: [*]}", "line 1, column"),
        ("a: &x 1\nb: *x", "line 2, column 4: not valid YAML: aliases are not supported"),
        ("? [a]\n: b", "a key is not text"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
        ("a: \x01", "a character is not allowed"),
        ("a: 0b_", "a number cannot be read"),
        ("[" * 1500, "nested too deeply"),
    ],
)
def test_what_is_not_yaml_is_refused_with_its_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    assert problem in the_problem(tmp_path, text)


@pytest.mark.spec("OPS-01")
def test_a_file_that_is_missing_a_folder_or_not_text_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.yaml", tmp_path, binary):
        with pytest.raises(SettingsError) as caught:
            load(path, {})
        assert str(path) in caught.value.problems[0]


@pytest.mark.spec("OPS-01")
def test_an_empty_file_and_empty_categories_mean_the_defaults(tmp_path: Path) -> None:
    assert load_text(tmp_path, "# nothing\n") == load(None, {})
    assert load_text(tmp_path, "session:\nhubs:\n") == load(None, {})


@pytest.mark.spec("OPS-01")
def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    text = "listener: {port: x}\nsession: {maxChanels: 1}\nredis: {}\nhubs: {a: {rules: 3}}"
    problems = problems_of(tmp_path, text, {"HUBBUB_NONSENSE_KEY": "1"})
    assert len(problems) == 5
    for word in ("listener.port", "maxChanels", "redis", "hubs.a.rules", "HUBBUB_NONSENSE_KEY"):
        assert sum(word in problem for problem in problems) == 1


@pytest.mark.spec("OPS-02", "OPS-03")
@pytest.mark.parametrize(
    "text",
    [
        "auth: {session: {secret: hunter2}}",
        "auth: {session: {secret: {a: hunter2}}}",
        "auth: {session: {secret: [hunter2]}}",
        "auth: {session: hunter2}",
        "auth: hunter2",
        "auth: {session: {secret: *hunter2}}",
        "auth: {session: {secret: !hunter2 x}}",
        "auth: {session: {secret: &a hunter2 }}}}",
        'auth: {session: {secret: "hunter2}}',
        "auth: {issuer: {secret: hunter2}}",
    ],
)
def test_no_problem_shows_a_secret(tmp_path: Path, text: str) -> None:
    assert "hunter2" not in "".join(problems_of(tmp_path, text))


@pytest.mark.spec("OPS-02")
@pytest.mark.parametrize(("algorithm", "size"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_shorter_than_its_algorithm_needs_is_refused(
    tmp_path: Path, algorithm: str, size: int
) -> None:
    text = "auth: {{algorithm: {}, admin: {{secret: {}}}}}"
    problem = the_problem(tmp_path, text.format(algorithm, "x" * (size - 1)))
    assert f"auth.admin.secret has {size - 1} bytes (hidden); expected at least {size}" in problem
    load_text(tmp_path, text.format(algorithm, "x" * size))


@pytest.mark.spec("OPS-02")
def test_one_secret_for_sessions_and_administrators_is_refused(tmp_path: Path) -> None:
    text = f"auth: {{session: {{secret: {LONG_SECRET}}}, admin: {{secret: {LONG_SECRET}}}}}"
    assert "auth.admin.secret is the same as" in the_problem(tmp_path, text)


@pytest.mark.spec("OPS-04")
def test_tls_needs_both_files_and_they_must_be_there(tmp_path: Path) -> None:
    pem = tmp_path / "pem"
    pem.write_text("x")
    assert "listener.tls.key is missing" in the_problem(
        tmp_path, f"listener: {{tls: {{certificate: {pem}}}}}"
    )
    missing = f"listener: {{tls: {{certificate: {pem}, key: {tmp_path}/none}}}}"
    assert "where there is no file" in the_problem(tmp_path, missing)
    assert load_text(tmp_path, f"listener: {{tls: {{certificate: {pem}, key: {pem}}}}}")


@pytest.mark.spec("OPS-04")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_tls_key_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    pem = tmp_path / "pem"
    pem.write_text("x")
    pem.chmod(0)
    text = f"listener: {{tls: {{certificate: {pem}, key: {pem}}}}}"
    assert all("may not read" in problem for problem in problems_of(tmp_path, text))


@pytest.mark.spec("OPS-01")
def test_a_storage_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    problem = the_problem(tmp_path, f"storage: {{path: {tmp_path}/hubbub.yaml}}")
    assert "a file; expected a folder" in problem


HUB = """
hub: {authenticateRequestTimeout: 3}
hubs:
  shop:
    settings:
      allowAnonymous: true
      defaultRules: open
      authProvider: main
      sessionRestore: false
      allowedOrigins: ["https://shop.example", "*"]
      quotas: {sessions: 10, messagesPerSecond: 100}
    rules:
      open: {public: true, clientPublish: true}
      kept: {store: true, liveHistory: true}
    namespaces: {log: kept}
    channels:
      news: {rules: kept, metadata: {since: 2024-01-31, tags: [a, 1, null]}}
    authProviders:
      main: {url: "https://auth.example/check", headers: {X-Key: hunter2}}
      slow: {url: "http://localhost:9000", timeoutSeconds: 30}
"""


@pytest.mark.spec("OPS-01")
def test_a_declared_hub_becomes_the_domains_configuration(tmp_path: Path) -> None:
    hub = load_text(tmp_path, HUB).hubs["shop"]
    assert hub.hub == "shop"
    assert hub.settings.allow_anonymous
    assert not hub.settings.session_restore
    assert hub.settings.quotas.messages_per_second == 100
    assert hub.settings.allowed_origins == ("https://shop.example", "*")
    assert hub.rules_for("anything").client_publish
    assert hub.rules_for("log:a").store
    assert hub.rules_for("news").live_history
    assert hub.channels["news"].metadata == {"since": "2024-01-31", "tags": ["a", 1, None]}
    provider = hub.auth_provider()
    assert provider is not None
    assert provider.headers == {"X-Key": "hunter2"}
    assert provider.timeout_seconds == 3
    assert hub.auth_providers["slow"].timeout_seconds == 30


@pytest.mark.spec("OPS-01", "OPS-02")
def test_description_lists_what_is_in_effect_and_hides_secrets(tmp_path: Path) -> None:
    settings = load_text(tmp_path, HUB, {"HUBBUB_AUTH_ADMIN_SECRET": LONG_SECRET})
    text = describe(settings)
    for line in (
        "listener.port = 8000",
        "hub.authenticateRequestTimeout = 3    # set",
        "auth.session.secret = generated on first start",
        "auth.admin.secret = hidden    # set",
        "hubs.shop.rules.kept = store, liveHistory",
        "hubs.shop.settings.quotas.sessions = 10",
    ):
        assert line in text.splitlines(), line
    routed = load_text(
        tmp_path,
        "hubs: {a: {rpcRoutes: {r: {url: 'http://x', method: 'm', headers: {K: secret}}}}}",
    )
    assert "hubs.a.rpcRoutes.r = m at http://x, 10 s, headers K: hidden" in describe(routed)
    for shown in (text, repr(settings), str(settings), repr(settings.auth)):
        assert LONG_SECRET not in shown
        assert "hunter2" not in shown


@pytest.mark.spec("OPS-02", "OPS-04")
def test_what_is_risky_gets_a_caution(tmp_path: Path) -> None:
    assert cautions(load(None, {})) == []
    text = HUB.replace("https://auth", "http://auth")
    variables = {"HUBBUB_LISTENER_HOST": "0.0.0.0", "HUBBUB_LISTENER_ALLOWED_ORIGINS": "*"}
    found = cautions(load_text(tmp_path, text, variables))
    assert any("without TLS" in each for each in found)
    assert any("every web page" in each for each in found)
    assert any("hubs.shop.authProviders.main.url is not https" in each for each in found)
    assert not any("authProviders.slow" in each for each in found)  # on this machine


@pytest.mark.spec("OPS-04")
@pytest.mark.parametrize("network", ["10.0.0.0/8", "172.16.0.0/12", "0.0.0.0/0", "fd00::/8"])
def test_a_wide_network_of_proxies_gets_a_caution(tmp_path: Path, network: str) -> None:
    (caution,) = cautions(load_text(tmp_path, f"listener: {{trustedProxies: ['{network}']}}"))
    assert f"listener.trustedProxies has {network}" in caution
    narrow = "listener: {trustedProxies: [127.0.0.1, 10.0.0.0/29, '::1', 'fd00::1']}"
    assert cautions(load_text(tmp_path, narrow)) == []


@pytest.mark.spec("OPS-04")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "127.0.0.1.nip.io"])
def test_developer_mode_is_refused_where_others_can_reach_it(host: str) -> None:
    with pytest.raises(SettingsError, match=r"listener\.host .*developer mode"):
        developer_settings(load(None, {"HUBBUB_LISTENER_HOST": host}))


@pytest.mark.spec("OPS-04")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_developer_mode_opens_the_demo_hub_on_loopback(host: str) -> None:
    settings = developer_settings(load(None, {"HUBBUB_LISTENER_HOST": host}))
    assert settings.developer
    assert settings.engine.allow_dynamic_hubs
    assert settings.storage.path == Path("data")
    assert {"http://localhost:*", "http://127.0.0.1:*", "null"} <= set(
        settings.listener.allowed_origins
    )
    demo = settings.hubs["demo"]
    assert demo.settings.allow_anonymous
    for channel in ("chat", "room:1", "log:1"):
        rules = demo.rules_for(channel)
        assert rules.public
        assert rules.client_publish
        assert rules.allow_anonymous
        assert rules.live_history
        assert rules.retain
        assert rules.presence == rules.occupancy == channel.startswith("room")
        assert rules.store == channel.startswith("log")


@pytest.mark.spec("OPS-04")
def test_developer_mode_keeps_the_declared_hubs_and_origins(tmp_path: Path) -> None:
    text = "listener: {allowedOrigins: ['https://a.example']}\nhubs: {demo: {}, shop: {}}"
    settings = developer_settings(load_text(tmp_path, text))
    assert set(settings.hubs) == {"demo", "shop"}
    assert not settings.hubs["demo"].settings.allow_anonymous
    assert settings.listener.allowed_origins[0] == "https://a.example"


def test_a_secret_shows_itself_only_on_request() -> None:
    secret = Secret(LONG_SECRET)
    assert LONG_SECRET not in f"{secret} {secret!r}"
    assert secret.reveal() == LONG_SECRET
    assert secret == Secret(LONG_SECRET)
    assert secret != Secret(OTHER_SECRET)
    assert len({secret, Secret(LONG_SECRET)}) == 1


@pytest.mark.spec("OPS-01")
def test_the_example_configuration_is_valid() -> None:
    root = Path(__file__).parents[4]
    settings = load(root / "examples" / "hubbub.yaml", {})
    assert settings.hubs
    assert cautions(settings) == []


@pytest.mark.spec("OPS-01")
def test_the_reference_is_what_the_settings_say() -> None:
    """If this fails: python scripts/generate_configuration_reference.py"""
    root = Path(__file__).parents[4]
    script = runpy.run_path(str(root / "scripts" / "generate_configuration_reference.py"))
    page = (root / "docs" / "configuration.md").read_text()
    assert page == script["render"]()
    for path in known_keys():
        assert f"`{path}`" in page
        assert f"`{variable_of(path)}`" in page


@pytest.mark.spec("OPS-01", "PIPE-01")
def test_off_is_a_word_for_rules_of_the_journal_as_yaml_reads_it_too(tmp_path: Path) -> None:
    rules = "{bare: {journal: off}, quoted: {journal: 'off'}, whole: {journal: payload}, none: {}}"
    hub = load_text(tmp_path, f"hubs: {{shop: {{rules: {rules}}}}}").hubs["shop"]
    assert {name: each.journal for name, each in hub.rules.items()} == {
        "bare": "off",
        "quoted": "off",
        "whole": "payload",
        "none": "metadata",
    }
    with pytest.raises(SettingsError) as refused:
        load_text(tmp_path, "hubs: {shop: {rules: {a: {journal: true}}}}")
    assert "one of" in str(refused.value)


SECRET = "k" * 32
CLUSTER = {
    "cluster.secretKey": SECRET,
    "broker.host": "nats://one:4222, two:4222",
    "storage.postgres.host": "127.0.0.1",
    "auth.session.secret": "s" * 32,
    "auth.admin.secret": "a" * 32,
}


@pytest.mark.spec("CLU-06", "OPS-01")
def test_a_cluster_is_a_secret_a_broker_and_a_database() -> None:
    settings = load(None, {}, CLUSTER)
    assert settings.broker.servers == ("nats://one:4222", "nats://two:4222")
    assert list(signing_problems(settings)) == []


@pytest.mark.spec("CLU-06", "OPS-01")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cluster.secretKey": "short"}, ["cluster.secretKey has 5 bytes", "openssl rand"]),
        (
            {"cluster.secretKey": None, "cluster.node": "a"},
            ["cluster has no effect without cluster.secretKey"],
        ),
        ({"cluster.node": "a.b"}, ["cluster.node is 'a.b'", "letters, digits"]),
        ({"broker.host": None}, ["broker.host is missing"]),
        ({"broker.password": "x"}, ["broker.user is missing"]),
        ({"broker.credentialsFile": "/nowhere"}, ["broker.credentialsFile", "no file"]),
        ({"storage.postgres.host": None}, ["storage.postgres.host is missing"]),
        ({"cluster.silenceTimeout": 0.2}, ["cluster.silenceTimeout is 0.2", "0.1"]),
    ],
)
def test_what_a_cluster_lacks_is_named(change: dict[str, object], words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, {}, {**CLUSTER, **change})
    for word in words:
        assert word in str(caught.value)


@pytest.mark.spec("CLU-06")
def test_nodes_must_share_the_keys_of_their_tokens() -> None:
    settings = load(None, {}, {**CLUSTER, "auth.admin.secret": None})
    (problem,) = signing_problems(settings)
    assert "auth.admin.secret" in problem
