"""Laws of rows of transmissions: what is sent in pieces is what is sent at once, and failed blocks are taken back."""

import numpy as np
import pytest

from netsim.radio.fates import ENDED, PREPARING, SENDING, WAITING
from netsim.radio.row_laws import close_blocks, next_s, send_rest, sends_for_s, settle


def columns(n, **values):
    names = ["since_s", "waited_s", "airtime_s", "left_bits", "rate_bps", "sinr", "snr", "block_noise", "block_thermal"]
    return {name: np.full(n, float(values.get(name, 0.0))) for name in names}


def spend(stage, moments, **values):
    """Columns of one row that is settled at each of the moments."""
    row = columns(1, **values)
    for at_s in moments:
        settle(
            np.array([0]), np.array([at_s]), np.array([stage]), row["since_s"], row["waited_s"], row["airtime_s"],
            row["left_bits"], row["rate_bps"], row["sinr"], row["snr"], row["block_noise"], row["block_thermal"],
        )  # fmt: skip
    return {name: column.item() for name, column in row.items()}


def test_time_and_bits_add_up():
    sender = {"left_bits": 12.0, "rate_bps": 2.0, "sinr": 4.0, "snr": 8.0}
    assert spend(SENDING, [5.0], **sender) == spend(SENDING, [1.0, 2.5, 2.5, 5.0], **sender)
    found = spend(SENDING, [5.0], **sender)
    assert (found["airtime_s"], found["left_bits"], found["waited_s"]) == (5.0, 2.0, 0.0)
    assert (found["block_noise"], found["block_thermal"]) == (10 / 4, 10 / 8)
    assert spend(SENDING, [50.0], **sender)["left_bits"] == 0.0  # no more than there was
    waits = spend(WAITING, [1.0, 5.0], **sender)
    assert (waits["waited_s"], waits["airtime_s"], waits["left_bits"]) == (5.0, 0.0, 12.0)
    idle = spend(ENDED, [5.0], **sender)
    assert (idle["waited_s"], idle["airtime_s"], idle["since_s"]) == (0.0, 0.0, 5.0)
    assert spend(SENDING, [5.0], **sender | {"sinr": 0.0})["block_noise"] == 0.0  # nothing heard leaves no noise


def test_the_last_bit_leaves_when_the_rate_says():
    row = columns(2, left_bits=12.0, rate_bps=5.0, sinr=4.0, since_s=1.0)
    send_rest(
        np.array([1]), row["since_s"], row["airtime_s"], row["left_bits"], row["rate_bps"], row["sinr"], row["snr"],
        row["block_noise"], row["block_thermal"],
    )  # fmt: skip
    assert row["since_s"].tolist() == [1.0, 1.0 + 12 / 5] and row["left_bits"].tolist() == [12.0, 0.0]
    assert row["airtime_s"][1] == 12 / 5 and row["block_noise"].tolist() == [0.0, 3.0]


def test_a_row_goes_on_until_its_bits_or_its_energy_end():
    rows, bits, rate = np.arange(4), np.full(4, 6.0), np.array([2.0, 2.0, 0.0, 2.0])
    limit, spent = np.array([np.inf, 2.0, np.inf, 1.0]), np.array([0.0, 0.5, 0.0, 3.0])
    assert sends_for_s(rows, bits, rate, spent, limit).tolist() == [3.0, 1.5, np.inf, 0.0]


@pytest.mark.parametrize(
    ("stage", "ready_s", "deadline_s", "stops_s", "expected"),
    [
        (PREPARING, 3.0, 9.0, 8.0, 3.0),
        (PREPARING, np.inf, 9.0, 8.0, 1.0),  # never ready: lost at the request
        (WAITING, 3.0, 9.0, 8.0, 8.0),
        (SENDING, 3.0, 9.0, 8.0, 7.0),  # 6 bits at 2 bit/s from 4 s on
        (SENDING, 3.0, 6.0, 8.0, 6.0),
        (ENDED, 3.0, 9.0, 8.0, np.inf),
    ],
)
def test_what_comes_next(stage, ready_s, deadline_s, stops_s, expected):
    one = np.ones(1)
    found = next_s(
        np.array([stage]), one, one * ready_s, one * 4.0, one * 6.0, one * 2.0, one * 0.0, one * np.inf,
        one * deadline_s, one * stops_s,
    )  # fmt: skip
    assert found.tolist() == [expected]


def test_blocks_are_kept_taken_back_or_lost():
    """Of ten bits of a block six are sent: decoded; failed, the first time and once too often; in a cell that changed;
    and a block that has not begun, failed or not.
    """
    rows, again = np.arange(6), np.array([False, False, False, True, False, False])
    left = np.array([4.0, 4.0, 4.0, 4.0, 10.0, 10.0])
    block, lost, stuck = np.full(6, 10.0), np.zeros(6), np.zeros(6, dtype=bool)
    block_noise, block_thermal, noise, thermal = np.full(6, 2.0), np.full(6, 1.0), np.full(6, 5.0), np.full(6, 3.0)
    failed, tries = np.array([False, True, True, True, True, False]), np.array([1, 0, 1, 1, 1, 1])
    hopeless = close_blocks(
        rows, again, stuck, 1, left, block, lost, block_noise, block_thermal, noise, thermal, failed, tries
    )
    assert hopeless.tolist() == [False, False, True, False, False, False]
    assert left.tolist() == [4.0, 10.0, 4.0, 10.0, 10.0, 10.0] and lost.tolist() == [0.0, 6.0, 0.0, 6.0, 0.0, 0.0]
    assert noise.tolist() == [7.0, 5.0, 5.0, 5.0, 5.0, 5.0] and thermal.tolist() == [4.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    assert tries.tolist() == [0, 1, 2, 1, 1, 1] and failed.tolist() == [False, False, True, False, False, False]
    assert block.tolist() == [4.0, 10.0, 10.0, 10.0, 10.0, 10.0]
    assert block_noise.tolist() == [0.0, 0.0, 2.0, 0.0, 0.0, 0.0]


def test_a_block_in_which_a_row_only_waited_leaves_its_tries():
    """Nothing is sent: one that was on the air without a rate has tried; one that only waited has not begun."""
    zero = [np.zeros(2) for _ in range(5)]
    stuck, failed, tries = np.array([True, False]), np.zeros(2, dtype=bool), np.array([1, 1])
    hopeless = close_blocks(
        np.arange(2), np.zeros(2, dtype=bool), stuck, 3, np.full(2, 10.0), np.full(2, 10.0), *zero, failed, tries
    )
    assert not hopeless.any() and tries.tolist() == [2, 1] and not failed.any()
