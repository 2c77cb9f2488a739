"""Traps D: what nvidia-smi says. Each test is named by the trap's id; texts are from samples."""

import json
from pathlib import Path

import pytest

from agentops.commands.base import Completed
from agentops.commands.gpu import (
    GpuProcesses,
    GpuProcessesSeen,
    GpuStatus,
    GpuStatusSeen,
)
from agentops.commands.smi import mig_devices, reading, tool_state

SAMPLES = Path(__file__).parents[1] / "support" / "samples"
PLACE = {
    "boot_id": "f229a767-e34f-49e7-a050-8fccbb8f6c44",
    "pid_namespace": 4026531836,
    "namespace_init_start_ticks": 1,
    "kernel_devices": 1,
    "stuck": [],
    "memory_available_kib": 100_000,
}
FIELDS = GpuStatus().script_arguments()[1:]
ROW = dict(
    zip(
        FIELDS,
        ["0", "GPU-0", "NVIDIA H200", "4623", "143771", "0", "132.51", "42", "0", "Disabled",
         "Enabled", "580.159.04"],
        strict=True,
    )
)  # fmt: skip


def said(
    text: str, *, status: int | None = 0, asked: tuple[str, ...] = FIELDS, **more: object
) -> dict[str, object]:
    return {
        "tool": "/usr/bin/nvidia-smi", "status": status, "timed_out": False, "asked": asked,
        "dropped": [], "stdout": text, "stderr": "", **more,
    }  # fmt: skip


def answer(*rows: dict[str, object]) -> Completed:
    lines = [json.dumps(row) for row in (*rows, {"done": len(rows)})]
    return Completed(0, "\n".join(lines).encode(), b"")


def devices(text: str, **more: object) -> GpuStatusSeen:
    seen = GpuStatus().parse(answer({**PLACE}, said(text, **more)))  # type: ignore[arg-type] # options of said
    assert isinstance(seen, GpuStatusSeen), seen
    return seen


def row(**changes: str) -> str:
    return ", ".join({**ROW, **{key.replace("_", "."): v for key, v in changes.items()}}.values())


@pytest.mark.parametrize(
    ("cell", "missing"),
    [("[Not Supported]", "not_supported"), ("[N/A]", "not_available"), ("N/A", "not_available"),
     ("[Unknown Error]", "unknown_error"), ("ERR!", "err"), ("", "other"), ("-", "other"),
     ("nan", "other"), ("-5", "other"), ("1e400", "other")],
)  # fmt: skip
def test_d01_a_number_that_is_missing_says_why_and_is_never_zero(cell: str, missing: str) -> None:
    assert (reading(cell).value, reading(cell).missing) == (None, missing)


def test_d01_a_pid_that_is_no_number_is_a_row_without_identity() -> None:
    asked = ("gpu_uuid", "pid", "process_name", "used_gpu_memory")
    rows = said("[Not Supported], [Not Supported], [Not Supported], [Not Supported]\n", asked=asked)
    seen = GpuProcesses().parse(answer({**PLACE, "owners": [], "holders": []}, rows))
    assert isinstance(seen, GpuProcessesSeen)
    assert seen.processes[0].pid.missing == "not_supported"
    assert seen.processes[0].identity is None


def test_d02_a_card_that_shares_the_machines_memory_is_marked() -> None:
    seen = devices(row(memory_used="[N/A]", memory_total="[N/A]"))
    assert seen.unified_memory
    assert seen.devices[0].memory_used_mib.value is None
    assert seen.memory_available_kib == 100_000
    assert not devices(row()).unified_memory


def test_d03_a_driver_mismatch_on_stdout_is_no_table() -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 5\n"
    seen = devices(text, status=18)
    assert (seen.state, seen.exit_status, seen.devices) == ("driver_mismatch", 18, ())


def test_d04_a_container_that_lost_its_devices_is_told_from_a_dead_gpu() -> None:
    text = "Failed to initialize NVML: Unknown Error\n"
    assert devices(text, status=255).state == "nvml_unknown_error"


def test_d05_no_device_and_no_field_are_states_of_their_own() -> None:
    assert devices("No devices were found\n", status=6).state == "no_devices"
    bad = 'Field "bogus.field" is not a valid field to query.\n\n'
    assert devices(bad, status=2).state == "bad_field"
    fewer = tuple(field for field in FIELDS if field != "power.draw")
    text = ", ".join(ROW[field] for field in fewer)
    seen = devices(text, asked=fewer, dropped=["power.draw"])
    assert (seen.state, seen.dropped_fields) == ("ok", ("power.draw",))
    assert seen.devices[0].power_mw.value is None


def test_d06_a_tool_that_hangs_is_hung_and_names_the_stuck_ones() -> None:
    silent = said("", status=None, timed_out=True)
    seen = GpuStatus().parse(answer({**PLACE, "stuck": [4711]}, silent))
    assert isinstance(seen, GpuStatusSeen)
    assert (seen.state, seen.stuck_pids, seen.kernel_devices) == ("hung", (4711,), 1)


def test_d07_one_err_leaves_the_other_numbers() -> None:
    seen = devices(row(power_draw="ERR!")).devices[0]
    assert (seen.power_mw.missing, seen.memory_used_mib.value) == ("err", 4623)


MIG_XML = """<gpu id="00000000:31:00.0"><mig_devices>
<mig_device><index>0</index><gpu_instance_id>3</gpu_instance_id>
<compute_instance_id>0</compute_instance_id>
<fb_memory_usage><total>19968 MiB</total><reserved>0 MiB</reserved><used>14366 MiB</used>
</fb_memory_usage></mig_device></mig_devices></gpu>"""


def test_d08_mig_instances_are_devices_of_their_own() -> None:
    text = row(utilization_gpu="[N/A]", memory_used="39", mig_mode_current="Enabled")
    parent = said(text.replace("Disabled", "Enabled"))
    xml = {key: value for key, value in said(MIG_XML).items() if key not in {"asked", "dropped"}}
    seen = GpuStatus().parse(answer({**PLACE}, parent, xml))
    assert isinstance(seen, GpuStatusSeen)
    assert seen.devices[0].utilization_percent.missing == "not_available"
    instance = seen.mig_devices[0]
    assert (instance.gpu_instance, instance.memory_used_mib.value) == (3, 14366)


def test_d08_a_bomb_of_entities_is_not_expanded() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + MIG_XML.replace("14366", "&b;")
    assert mig_devices(bomb)[0].memory_used_mib.missing == "other"


def test_d09_the_cards_memory_is_more_than_its_processes_and_both_are_kept() -> None:
    asked = ("gpu_uuid", "pid", "process_name", "used_gpu_memory")
    rows = said("GPU-0, 439, python3, 4614\n", asked=asked)
    seen = GpuProcesses().parse(answer({**PLACE, "owners": [], "holders": []}, rows))
    assert isinstance(seen, GpuProcessesSeen)
    assert seen.processes[0].memory_mib.value == 4614
    assert devices(row()).devices[0].memory_used_mib.value == 4623
    assert "more than" in GpuStatus.metric_cards["memory_used_mib"]


def test_d10_memory_whose_owner_cannot_be_seen_stays_unattributed() -> None:
    asked = ("gpu_uuid", "pid", "process_name", "used_gpu_memory")
    rows = said("GPU-0, 31794, Unknown Error, 5371\n", asked=asked)
    gone: dict[str, object] = {
        "pid": 31794,
        "state": None,
        "start_ticks": None,
        "namespace_pids": [],
    }
    seen = GpuProcesses().parse(answer({**PLACE, "owners": [gone], "holders": []}, rows))
    assert isinstance(seen, GpuProcessesSeen)
    assert (seen.processes[0].identity, seen.processes[0].state) == (None, None)
    zombie = {"pid": 31794, "state": "Z", "start_ticks": 5, "namespace_pids": [31794]}
    seen = GpuProcesses().parse(answer({**PLACE, "owners": [zombie], "holders": []}, rows))
    assert isinstance(seen, GpuProcessesSeen)
    assert seen.processes[0].state == "Z"


def test_d11_columns_are_read_by_the_place_that_was_asked_for() -> None:
    # The header would say "used_gpu_memory [MiB]", so none is asked for.
    assert devices(row()).devices[0].power_mw.value == 132_510
    assert "noheader,nounits" in " ".join(GpuStatus().argv())


def test_a_process_name_with_commas_keeps_the_columns_right() -> None:
    asked = ("gpu_uuid", "pid", "process_name", "used_gpu_memory")
    rows = said("GPU-0, 439, python3 -c a, b, 4614\n", asked=asked)
    seen = GpuProcesses().parse(answer({**PLACE, "owners": [], "holders": []}, rows))
    assert isinstance(seen, GpuProcessesSeen)
    assert (seen.processes[0].name, seen.processes[0].memory_mib.value) == ("python3 -c a, b", 4614)


def lines_of(name: str) -> list[str]:
    return (SAMPLES / name).read_text().splitlines()


def test_sample_nvidia_smi_failure_texts_each_has_a_state_of_its_own() -> None:
    expected = {
        "Driver/library version mismatch": "driver_mismatch",
        "NVML: Unknown Error": "nvml_unknown_error",
        "GPU 0000:0B:00.0: Unknown Error": "device_handle",
        "GPU0000:07:00.0: Unknown Error": "device_handle",
        "GPU is lost": "gpu_lost",
        "No devices were found": "no_devices",
        "bogus.field": "bad_field",
        "couldn't communicate": "no_driver",
    }
    for part, state in expected.items():
        line = next(x for x in lines_of("nvidia_smi_failure_texts.txt") if part in x)
        assert tool_state(1, has_tool=True, timed_out=False, text=line) == state, line
    assert tool_state(None, has_tool=False, timed_out=False, text="") == "no_tool"
    assert tool_state(None, has_tool=True, timed_out=True, text="") == "hung"


def test_sample_nvidia_smi_h200_error_forms_are_read() -> None:
    text = "\n".join(lines_of("nvidia_smi_h200_error_forms.txt")[1:3])
    assert tool_state(2, has_tool=True, timed_out=False, text=text) == "bad_field"


def test_sample_nvidia_smi_h200_query_gpu_csv_reads_with_and_without_units() -> None:
    rows = [x for x in lines_of("nvidia_smi_h200_query_gpu_csv.txt") if x.startswith("0, GPU-")]
    with_units, without = ([cell.strip() for cell in x.split(",")] for x in rows)
    for place, value in ((3, 0), (4, 143771), (5, 0)):
        assert reading(with_units[place]).value == reading(without[place]).value == value
    assert reading(without[6]).missing == "not_available"
    assert reading(with_units[7], scale=1000).value == 132_490


def test_sample_nvidia_smi_query_gpu_na_variants_holds_no_false_zero() -> None:
    for line in lines_of("nvidia_smi_query_gpu_na_variants.csv"):
        if line.startswith("#") or "[%]" in line or "timestamp" in line or "[MiB]" in line:
            continue
        for cell in line.split(","):
            if "[" in cell:
                assert reading(cell).value is None
                assert reading(cell).missing != "other"


def test_sample_nvidia_smi_table_err_and_mig_cells_are_typed() -> None:
    text = "\n".join(lines_of("nvidia_smi_table_err_and_mig.txt"))
    for cell in ("ERR!", "Unknown Error", "Not Supported", "N/A"):
        assert cell in text
        assert reading(cell).missing not in {None, "other"}
    assert reading("14366MiB").value == 14366


def test_sample_nvidia_smi_h200_qx_head_has_no_mig_device() -> None:
    assert mig_devices("\n".join(lines_of("nvidia_smi_h200_qx_head.txt")) + "</gpu>") == ()


def test_sample_nvidia_smi_h200_table_and_l_says_in_words_what_the_csv_says_in_cells() -> None:
    text = "\n".join(lines_of("nvidia_smi_h200_table_and_L.txt"))
    used, total = "0MiB", "143771MiB"
    assert f"{used} / {total}" in text
    assert (reading(used).value, reading(total).value) == (0, 143771)


def test_sample_nvidia_smi_h200_memory_release_after_sigkill_is_late_and_then_whole() -> None:
    name = "nvidia_smi_h200_memory_release_after_sigkill_timeline.txt"
    samples = [line.split() for line in lines_of(name) if " Z " in line]
    values = [reading(mib).value for _, _, mib in samples]
    assert values == [4623, 0, 0, 0, 0, 102927, 0, 0, 0, 0]
