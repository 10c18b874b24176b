"""From a command line and an environment to a checked configuration."""

import pytest

from headrace.config import ConfigurationError
from headrace.registry import Registry
from headrace.startup import configure

EVERYWHERE = "0.0.0.0"  # noqa: S104 - to be refused


def start(path=None, environ=None, **server):
    return configure(path, environ=environ or {}, server=server, registry=Registry(tuple))


def test_a_file_is_read_watched_and_overruled_by_the_command_line(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('[server]\nport = 1\n[[providers]]\nid = "d"\nkind = "demo"\n')
    setup = start(path, port=0)
    assert (setup.path, setup.config.server.port) == (path, 0)
    assert setup.reloader.poll() is None
    path.write_text("[server]\nport = 2\nthreads = 3\n")
    again = setup.reloader.poll()
    assert (again.server.port, again.server.threads) == (0, 3)


def test_a_missing_file_that_was_asked_for_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        start(tmp_path / "none.toml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        start(environ={"HEADRACE_CONFIG": str(tmp_path / "none.toml")})


def test_without_a_file_the_demo_is_there():
    setup = start(environ={"OPENAI_API_KEY": "sk-x"}, port=0)
    ids = [row.id for row in setup.config.providers]
    assert (ids[0], ids[-1]) == ("openai", "demo")
    assert (setup.path, setup.reloader, setup.config.server.port) == (None, None, 0)


def test_what_the_command_line_says_is_checked_too(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('[server]\nhost = "127.0.0.1"\n')
    for where in (path, None):
        with pytest.raises(ConfigurationError) as caught:
            start(where, host=EVERYWHERE)
        assert str(caught.value).startswith("--host: this address is open to others")


def test_every_check_is_made(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('[[providers]]\nid = "d"\nkind = "dmo"\n[models]\nx = "e/m"\n')
    with pytest.raises(ConfigurationError) as caught:
        start(path)
    assert [one.line for one in caught.value.problems] == [3, 5]
