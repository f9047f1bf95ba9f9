"""A fleet of this machine alone: what travels, who is refused, and what becomes of jobs whose worker is lost."""

from __future__ import annotations

import contextlib
import signal
import ssl
import stat
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright.core.choices import PREFIX
from tilewright.core.program import Kernel, Signature
from tilewright.core.target import Target
from tilewright.driver import api
from tilewright.driver.machine import measure_rates
from tilewright.records.database import Database
from tilewright.tools import cli
from tilewright.tuning import laboratory as laboratories
from tilewright.tuning import session as tuning_session
from tilewright.tuning.fleet import client as clients
from tilewright.tuning.fleet import laboratory as fleet_laboratories
from tilewright.tuning.fleet.address import Fleet, parse_address
from tilewright.tuning.fleet.encoding import decode_value, encode_value
from tilewright.tuning.fleet.jobs import Request, WorkerFacts, describe_worker
from tilewright.tuning.measuring.bench import Measured, Setup
from tilewright.tuning.session import Tuning
from tilewright.tuning.tasks import extract_tasks
from tilewright.tvm import autotvm, rpc, te
from tilewright.workers.process import Job, Limits

pytest.importorskip("distributed", reason="the extra 'fleet' is not installed")
pytest.importorskip("cryptography", reason="the extra 'fleet' is not installed")

from fleet_case import Machines, plant_kernel

from tilewright.tuning.fleet.certificates import make_certificates
from tilewright.tuning.fleet.client import FleetClient, connect_workers
from tilewright.tuning.fleet.laboratory import FleetLaboratory
from tilewright.tuning.fleet.tracker import Tracker

SETUP = Setup("k", ("2x3xf32",), ("2xf32",), (0,), 7, (b"\0object", b""), 2, (1, 3), 5)
KERNEL = Kernel("k", b"code", 4, True, signature=Signature(("2x3xf32",), ("2xf32",)), same_sizes=(((0, 1), (1, -1)),))


@pytest.mark.parametrize("value", [
    None, True, -3, 0.1, float("inf"), "über\n", b"\0\xff", b"", (1, (2.5, ()), [b"x", None]), {1: (b"a",), "b": {}},
    SETUP, KERNEL, Measured((1e-5,), (2e-5,), load=0.5), Request("m.f", "what", (SETUP, KERNEL, 0.9), Limits(3.0)),
])  # fmt: skip
def test_what_travels_comes_back_as_it_was(value: object) -> None:
    assert decode_value(encode_value(value)) == value


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "bool", "float16"])
def test_arrays_travel(dtype: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)[:, ::2]
    found = decode_value(encode_value((array,)))[0]
    assert found.dtype == array.dtype and np.array_equal(found, array) and found.flags.writeable


@pytest.mark.parametrize("damage", [
    lambda m: b"", lambda m: m[:10], lambda m: b"tilewright-fleet-2" + m[18:], lambda m: m[:-1], lambda m: m + b"x",
    lambda m: m.replace(b"tuning.measuring.bench.Setup", b"core.errors.TilewrightError0"),
    lambda m: m.replace(b"tuning.measuring.bench.Setup", b"tuning.measuring.bench.Bench"),
    lambda m: m.replace(b'"threads"', b'"thraeds"'),
])  # fmt: skip
def test_a_message_that_is_none_is_refused(damage) -> None:
    with pytest.raises(tw.FleetError, match="message of the fleet"):
        decode_value(damage(encode_value(SETUP)))


def test_what_is_no_plain_data_does_not_travel() -> None:
    for value in (object(), open, np.array([object()])):
        with pytest.raises(TypeError, match="cannot be sent"):
            encode_value(value)


@pytest.mark.parametrize(("text", "address"), [
    ("tls://a.b:1", "tls://a.b:1"), ("10.0.0.1", "tls://10.0.0.1:9190"), ("tcp://127.0.0.1:5", "tcp://127.0.0.1:5"),
    ("tcp://localhost", "tcp://localhost:9190"), ("tls://[::1]:7", "tls://[::1]:7"),
])  # fmt: skip
def test_addresses(text: str, address: str) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "http://a:1", "tls://", "tls://a:x", "tls://a:70000", "a b:c:d", "tcp://10.0.0.1:9190"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(tw.FleetError):
        parse_address(text)


def test_a_worker_of_another_kind_is_refused_in_words() -> None:
    facts = describe_worker(None, Target.parse("x86"), 1)
    assert facts.key == f"{facts.target}-1t" and facts.explain_refusal(facts.target, 1) == ""
    assert "it has 1 thread(s), and this is for 2" in facts.explain_refusal(facts.target, 2)
    assert f"it runs code for {facts.target}" in facts.explain_refusal("another", 1)
    old = WorkerFacts.read({"key": "k", "version": "0.0.1", "threads": "many", "more": 1})
    assert old is not None and "it has Tilewright 0.0.1" in old.explain_refusal(facts.target, 1)
    assert WorkerFacts.read(asdict(facts)) == facts and WorkerFacts.read({}) is None


@pytest.mark.parametrize(("words", "said"), [
    (["worker"], "needs its scheduler"), (["status"], "needs its scheduler"), (["certificates"], "needs the folder"),
    (["scheduler", "tls://a"], "takes no address"), (["status", "tls://a", "--key", "x"], "takes no --key"),
    (["scheduler", "--insecure", "--host", "0.0.0.0"], "for this machine alone"), (["scheduler", "--port", "-1", "--insecure"], "the port is -1"),
    (["worker", "tls://10.0.0.1"], "say with --host"), (["status", "tcp://10.0.0.1"], "for this machine alone"),
    (["certificates", "{tmp}/c", "--days", "0"], "days is 0"), (["status", "tls://127.0.0.1:1"], "ca.pem is not there"),
])  # fmt: skip
def test_what_a_user_does_wrong_is_one_line(words, said, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert cli.main(["fleet", *(word.format(tmp=tmp_path) for word in words)]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_certificates(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    made = make_certificates(folder, 30)
    assert sorted(path.name for path in made) == ["ca-key.pem", "ca.pem", "client.pem", "scheduler.pem", "worker.pem"]
    secret = [path for path in folder.iterdir() if path.name != "ca.pem"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secret)
    before = (folder / "client.pem").read_bytes()
    (folder / "worker.pem").unlink()
    assert make_certificates(folder, 30) == [folder / "worker.pem"]
    assert (folder / "client.pem").read_bytes() == before and not make_certificates(folder)
    (folder / "ca-key.pem").unlink()
    with pytest.raises(tw.FleetError, match="no whole authority"):
        make_certificates(folder)
    (tmp_path / "file").touch()
    with pytest.raises(tw.FleetError, match="cannot write"):
        make_certificates(tmp_path / "file")


def test_a_clients_certificate_is_good_for_no_server(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    for role, good in (("scheduler", True), ("worker", True), ("client", False)):
        assert _accepts_server(tmp_path, role) is good


def _accepts_server(folder: Path, role: str) -> bool:
    """Whether a client takes who has a role's certificate for a server."""
    server, client = (ssl.SSLContext(p) for p in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
    server.load_cert_chain(folder / f"{role}.pem")
    client.check_hostname = False
    client.load_verify_locations(folder / "ca.pem")
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(ours, theirs), server.wrap_bio(theirs, ours, server_side=True)]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return True


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """A scheduler and a worker, whose key is 'here'."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    made = Machines(folder)
    try:
        made.start_scheduler()
        made.start_worker("--key", "here")
        yield made
    finally:
        made.end()


@pytest.fixture(autouse=True)
def short_contests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_session, "_LEAST_CONTEST", 0.2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two products of sizes for which no kernel comes near to its bound: each is tuned."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((random.standard_normal(shape) * 0.1).astype(np.float32), name)
        for name, shape in (("w0", (37, 53)), ("w1", (53, 19)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Softmax", ["a"], ["b"], name="between"),
        helper.make_node("MatMul", ["b", "w1"], ["y"], name="second"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (23, 37)), ("y", (23, 19)))]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], weights)
    path = tmp_path_factory.mktemp("model") / "products.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def test_a_wrong_certificate_is_said(machines: Machines, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_certificates(tmp_path)
    assert cli.main(["fleet", "status", machines.address, "--certificates", str(tmp_path)]) == 2
    assert "a certificate that the folder's authority did not make" in capsys.readouterr().err
    assert machines.certificates is not None
    (tmp_path / "ca.pem").write_bytes((machines.certificates / "ca.pem").read_bytes())
    for words in (["status", machines.address], ["worker", machines.address]):
        assert cli.main(["fleet", *words, "--certificates", str(tmp_path)]) == 2
        assert "certificate (" in (err := capsys.readouterr().err) and err.count("\n") == 1


def test_a_port_that_others_have_is_said(machines: Machines, capsys: pytest.CaptureFixture[str]) -> None:
    port, folder = machines.address.rpartition(":")[2], str(machines.certificates)
    for words in (["scheduler"], ["worker", machines.address, "--threads", "1"]):
        assert cli.main(["fleet", *words, "--port", port, "--certificates", folder]) == 2
        assert "Address already in use" in (err := capsys.readouterr().err) and err.count("\n") == 1


def test_status_is_a_trackers(machines: Machines, capsys: pytest.CaptureFixture[str]) -> None:
    with Tracker(machines.fleet()) as tracker:
        summary = tracker.summary()
    assert summary["queue_info"]["here"] == {"free": 1, "pending": 0}
    [server] = summary["server_info"]
    assert server["key"] == "server:here" and server["addr"][0] == "127.0.0.1"
    assert cli.main(["fleet", "status", machines.address, "--certificates", str(machines.certificates)]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:3] == ["Server List", "-" * 30, "server-address           key"]
    assert "Queue Status" in lines and "key    total  free  pending" in lines and "here   1      1     0" in lines


def test_tvms_tracker_is_the_scheduler(machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machines.certificates is not None
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "tilewright").mkdir()
    (tmp_path / "tilewright" / "fleet").symlink_to(machines.certificates)
    port = int(machines.address.rpartition(":")[2])
    with rpc.connect_tracker("127.0.0.1", port) as tracker:
        assert "server:here" in tracker.text_summary()
        with pytest.raises(tw.InputError, match="by autotvm"):
            tracker.request("here")
    with pytest.raises(tw.InputError, match="`tilewright fleet` starts what measures"):
        rpc.Server()
    with pytest.raises(tw.FleetError, match="no scheduler answers"):
        rpc.connect_tracker("127.0.0.1", 1)


@autotvm.template("fleet/product")
def product(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s, cfg = te.create_schedule(c.op), autotvm.get_config()
    cfg.define_split("tile", c.op.axis[0], num_outputs=2)
    cfg["tile"].apply(s, c, c.op.axis[0])
    return s, [a, b, c]


def test_tvms_runners_measure_on_the_fleet(machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machines.certificates is not None
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "tilewright").mkdir()
    (tmp_path / "tilewright" / "fleet").symlink_to(machines.certificates)
    port, found = int(machines.address.rpartition(":")[2]), list[autotvm.MeasureResult]()
    task = autotvm.task.create("fleet/product", [16], target="llvm")
    for key in ("here", "there"):
        runner = autotvm.RPCRunner(key, "127.0.0.1", port, number=1, repeat=2, cooldown_interval=0, timeout=60)
        option = autotvm.measure_option(autotvm.LocalBuilder(timeout=60), runner)
        tuner = autotvm.tuner.GridSearchTuner(task)
        with contextlib.nullcontext() if key == "here" else pytest.raises(tw.FleetError, match="no worker of key"):
            tuner.tune(2, option, callbacks=[lambda _, inputs, results: found.extend(results)])
    assert [(each.error_no, len(each.costs)) for each in found] == [(0, 2)] * 2


def test_no_worker_of_the_key_is_said(machines: Machines, model: str, tmp_path: Path, capsys) -> None:
    words = ["tune", model, "--threads", "1", "--key", "there", "--records", str(tmp_path / "r.sqlite")]
    assert cli.main(words) == 2 and "are for --fleet ADDRESS" in capsys.readouterr().err
    assert cli.main([*words, "--fleet", machines.address, "--certificates", str(machines.certificates)]) == 2
    assert "no worker of key 'there' at tls://" in (err := capsys.readouterr().err) and "it has here; start one" in err
    with pytest.raises(tw.FleetError, match="it has 1 thread"):
        FleetLaboratory(machines.fleet("here"), Target.parse("x86"), 2)
    other, _ = machines.start_worker("--key", "there", "--target", "x86 -mcpu=haswell")
    with pytest.raises(tw.FleetError, match="is not used: it runs code for x86-256"):
        FleetLaboratory(machines.fleet("there"), Target.parse("x86"), 1)
    other.kill()


def test_candidates_that_crash_or_hang_or_err_cost_the_worker_nothing(machines, model, monkeypatch) -> None:
    [task, *_] = [t for t in extract_tasks(model, options=api.make_options("x86", 1)) if t.default is not None]
    with FleetLaboratory(machines.fleet("here"), task.target, 1) as laboratory:
        [prepared] = laboratory.prepare([task])
        assert prepared.seconds > 0
        race = lambda kernel: laboratory.race(prepared, kernel, 1.0)  # noqa: E731
        errors = {what: race(plant_kernel(prepared.default, what)).error for what in ("nothing", "crash")}
        assert errors == {"nothing": "wrong", "crash": "crash"}
        with monkeypatch.context() as patches:
            patches.setattr(laboratories, "_LEAST_SECONDS", 3.0)
            patches.setattr(laboratories, "_TIMES_DEFAULT", 0.0)
            assert race(plant_kernel(prepared.default, "loop")).error == "timeout"
        measured = race(prepared.default)
        assert not measured.error and len(measured.seconds) > 1 and laboratory.notes == []
    with FleetClient(machines.fleet()) as client:
        [facts] = client.list_workers().values()
        assert measured.process == facts.process


def test_a_worker_that_stands_still_is_given_up(machines: Machines, model: str, monkeypatch) -> None:
    monkeypatch.setattr(clients, "_MORE_SECONDS", 1.0)
    monkeypatch.setattr(fleet_laboratories, "_LOOK_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(laboratories, "_LEAST_SECONDS", 5.0)
    monkeypatch.setattr(laboratories, "_TIMES_DEFAULT", 0.0)
    slow, address = machines.start_worker("--key", "here")
    tasks = [t for t in extract_tasks(model, options=api.make_options("x86", 1)) if t.default is not None]
    with FleetLaboratory(machines.fleet("here"), tasks[0].target, 1) as laboratory:
        prepared = [*laboratory.prepare(tasks[:1]), *laboratory.prepare(tasks[1:])]
        assert set(map(laboratory.worker_of, (task.name for task in tasks))) == set(laboratory.workers)
        [mine, *_] = [each for each in prepared if laboratory.worker_of(each.task.name) == address]
        slow.send_signal(signal.SIGSTOP)
        measured = laboratory.race(mine, mine.default, 1.0)
        assert not measured.error and laboratory.worker_of(mine.task.name) != address
        assert [note for note in laboratory.notes if "has not answered for" in note]
        newcomer, another = machines.start_worker("--key", "here")
        laboratory.look_for_workers()
        assert another in laboratory.workers and f"the worker at {another} measures, too" in laboratory.notes
        assert another in map(laboratory.worker_of, (task.name for task in tasks))
    slow.kill()
    newcomer.kill()


def test_jobs_of_others_go_to_a_worker_as_to_a_pool(machines: Machines) -> None:
    [pool, *others] = connect_workers(machines.fleet("here"), Target.parse("x86"))
    try:
        done: list[int] = []
        job = Job("the rates", measure_rates, (Target.parse("x86"),))
        [rates] = pool.with_limits(Limits(60.0)).run([job], done.append)
        assert rates.flops > 0 and done == [1] and pool.address not in [other.address for other in others]
        with pytest.raises(tw.CompileTimeoutError):
            pool.with_limits(Limits(1e-9)).run([job])
        with pytest.raises(tw.FleetError, match="do not run"):
            pool.run([Job("a secret", make_certificates, ())])
    finally:
        pool.close()


def test_a_worker_that_is_lost_is_replaced_by_another(machines: Machines, model: str, tmp_path: Path) -> None:
    victim, address = machines.start_worker("--key", "here")
    with FleetClient(machines.fleet()) as client:
        left = {facts.process for where, facts in client.list_workers().items() if where != address}
    records = tmp_path / "r.sqlite"

    def watch(tuning: Tuning) -> None:
        if tuning.stage == "searching":
            victim.kill()

    result = tw.tune(model, num_threads=1, trials=12, records=records, fleet=machines.fleet("here"), progress=watch)
    assert [note for note in result.notes if address in note and "go to other workers" in note]
    with Database.open(records) as database:
        kernels = (trial for trial in database.trials() if not trial.kernel.startswith(PREFIX))  # not plans
        measured = [trial for trial in kernels if trial.error != "refused"]
    assert result.trials == len(measured) == 12 and {trial.process for trial in measured} <= left
    assert not [trial for trial in measured if trial.error]


def test_a_scheduler_that_is_gone_ends_it_with_what_was_measured(tmp_path, model, monkeypatch) -> None:
    monkeypatch.setattr(clients, "_RETURN_SECONDS", 2.0)
    monkeypatch.setattr(fleet_laboratories, "_RETURN_SECONDS", 2.0)
    alone, records = Machines(None), tmp_path / "r.sqlite"
    try:
        scheduler = alone.start_scheduler()
        assert alone.address.startswith("tcp://127.0.0.1:")
        alone.start_worker("--key", "here")

        def watch(tuning: Tuning) -> None:
            if tuning.budget.used_trials == 2:
                scheduler.kill()

        with pytest.raises(tw.FleetError, match="start it again"):
            tw.tune(
                model, num_threads=1, trials=9, records=records, fleet=Fleet(alone.address, key="here"), progress=watch
            )
    finally:
        alone.end()
    with Database.open(records) as database:
        assert sum(trial.error != "refused" for trial in database.trials()) >= 2
