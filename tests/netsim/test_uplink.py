"""NOMA, SIC, OMA, power, deadlines: closed forms and textbook numbers."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import (
    arange,
    array,
    asarray,
    atleast_1d,
    atleast_2d,
    broadcast_to,
    clip,
    errstate,
    flatnonzero,
    full,
    inf,
    isfinite,
    isinf,
    linspace,
    log2,
    log10,
    maximum,
    minimum,
    nan,
    ones,
    sqrt,
    vdot,
    where,
    zeros,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark, raises
from tabled import cases

from netsim.errors import BadInput
from netsim.radio.power import Average, Fixed, Fractional, Full
from netsim.radio.rate import LinkAdaptation, Shannon
from netsim.radio.shared_band import Noma, Oma
from netsim.radio.uplink import Cohort, Ideal, Payload
from netsim.rng import Rng

RNG = Rng(0, "test")
BOUND = {"norm_bound": 1.0, "rate": Shannon()}


def cohort(gain, power, serving=None, fading=None, rows=None, compute=0.0, sinr=inf):
    gain = atleast_2d(asarray(gain, float))
    n, n_bs = gain.shape
    return Cohort(
        ue=arange(n),
        serving=zeros(n, int) if serving is None else asarray(serving),
        gain=gain,
        fading=ones((n, n_bs, 1), complex) if fading is None else fading,
        power_w=broadcast_to(asarray(power, float), n).copy(),
        rows=ones(n, int) if rows is None else asarray(rows),
        downlink_sinr=full(n, float(sinr)),
        compute_s=full(n, float(compute)),
        compute_j=full(n, 0.0),
    )


def draw_fading(rng, *shape):
    """CN(0, 1) amplitudes of a shape."""
    parts = rng.normal(size=(2, *shape))
    return (parts[0] + 1j * parts[1]) / sqrt(2)


def draw_cohort(rng, low=-3, **fields):
    """Up to 13 UEs and 3 cells, some UEs without one."""
    n, n_bs = int(rng.integers(1, 14)), int(rng.integers(1, 4))
    gain = 10 ** rng.uniform(low, 1, (n, n_bs))
    c = cohort(gain, rng.uniform(0.1, 2, n), rng.integers(-1, n_bs, n), sinr=1e9)
    return replace(c, fading=None, **fields)


def draw_six(seed, power=1.0):
    """Six UEs of two cells, all with one."""
    rng = default_rng(seed)
    c = cohort(10 ** rng.uniform(-2, 1, (6, 2)), power, rng.integers(0, 2, 6), sinr=9.0)
    return replace(c, fading=None), rng


def payload(bits=1e6, q=100, bound=1.0):
    return Payload(bits, q, bound)


def compute_group_sinr(uplink, c, noise=1.0):
    return uplink.compute_sinr(c, noise, uplink.group_ues(c), c.serving >= 0)


def slow_sinr(c, noise, residual, interference, turns, lower=0.0):
    """The formula of the docstring, UE by UE, from the strongest to the weakest; below `lower`
    nothing is cancelled."""
    n = len(c.ue)
    result = zeros(len(c.ue))

    def h(k, b):
        return sqrt(c.gain[k, b]) * c.fading[k, b]

    def arrives(k):
        values = h(k, max(c.serving[k], 0))
        return c.power_w[k] * vdot(values, values).real

    for k in sorted(range(n), key=arrives, reverse=True):
        b = c.serving[k]
        if b < 0:
            continue
        values = h(k, b)
        size = vdot(values, values).real
        power_w = c.power_w[k]
        selected = power_w * size
        disturb = 0.0
        for j in range(n):
            if j == k or c.serving[j] < 0 or turns[j] != turns[k]:
                continue
            second = h(j, b)
            cross = c.power_w[j] * abs(vdot(values, second)) ** 2
            if c.serving[j] != b:
                disturb += cross if interference == "all" else 0.0
                continue
            if interference == "none":
                continue
            earlier = c.power_w[j] * vdot(second, second).real > selected
            disturb += cross * (residual if earlier and result[j] >= lower else 1.0)
        result[k] = power_w * size**2 / (disturb + size * noise)
    return result


@given(
    seed=st.integers(0, 10_000),
    antennas=st.sampled_from([1, 2, 4]),
    group=st.sampled_from([None, 1, 2, 3]),
)
@settings(max_examples=30, deadline=None)
@mark.parametrize("max_ser", [None, 0.3])
@mark.parametrize("interference", ["none", "intra", "all"])
def test_the_fast_form_equals_the_formula(interference, max_ser, seed, antennas, group):
    rng = default_rng(seed)
    c = draw_cohort(rng)
    c = replace(c, fading=draw_fading(rng, *c.gain.shape, antennas))
    residual = float(rng.choice([0.0, 0.2]))
    uplink = Noma(
        interference=interference,
        sic_residual=residual,
        group_size=group,
        norm_bound=1.0,
        max_ser=max_ser,
    )
    turns = uplink.group_ues(c)
    expected = slow_sinr(c, 0.3, residual, interference, turns, uplink.min_sinr())
    assert_allclose(compute_group_sinr(uplink, c, 0.3), expected, rtol=1e-9, atol=1e-15)


@mark.parametrize("antennas", [None, 2])
@mark.parametrize("kind", [Noma, Oma])
def test_a_round_of_nobody_is_planned(kind, antennas):
    fading = None if antennas is None else zeros((0, 3, antennas), complex)
    c = replace(cohort(zeros((0, 3)), 1.0), fading=fading)
    assert len(kind(**BOUND).plan(c, payload()).sinr) == 0


@mark.parametrize("bad_w", [nan, inf, -inf, -1e-9])
def test_a_power_that_is_no_power_is_refused_with_its_ue(bad_w):
    good = cohort([[1.0], [2.0], [4.0]], 0.1)
    with raises(BadInput, match=rf"UE 7 would send with {bad_w:g} W"):
        replace(good, ue=array([5, 7, 9]), power_w=array([0.1, bad_w, 0.2]))
    with raises(BadInput, match="UE 1 would"):
        good.with_power_w(array([0.1, bad_w, 0.2]))
    with raises(BadInput, match=r"shape \(2,\) for 3 UEs"):
        good.with_power_w(array([0.1, 0.2]))


def test_who_is_not_decoded_is_not_cancelled():
    # 5 against 4.5 + 0.1 and noise 1: below the threshold, so that 4.5 and 0.1 meet the 5 as well
    c = cohort([[5.0], [4.5], [0.1]], 1.0)
    for fading in (None, ones((3, 1, 2), complex)):
        # two equal antennas: twice the signal, and all are disturbed alike
        gain = c.gain if fading is None else c.gain / 2
        # qpsk, Q = 1 - sqrt(0.8)
        uplink = Noma(interference="intra", noise_w=1.0, max_ser=0.2, **BOUND)
        assert_allclose(uplink.min_sinr(), 1.5636, atol=1e-4)
        channel = uplink.plan(replace(c, gain=gain, fading=fading), payload())
        assert_allclose(channel.sinr, [5 / 5.6, 4.5 / 6.1, 0.1 / 10.5])
        assert_array_equal(channel.decoded, [True, False, False])  # nobody passes: the best one
        # 20 is heard and cancelled, 5 is heard and cancelled, 1 is not
        strong = replace(c, gain=array([[20.0], [5.0], [1.0]]) * gain[0] / 5.0, fading=fading)
        channel = uplink.plan(strong, payload())
        assert_allclose(channel.sinr, [20 / 7, 5 / 2, 1.0])
        assert_array_equal(channel.decoded, [True, True, False])
    interval = Noma(interference="intra", noise_w=1.0, **BOUND)
    assert_allclose(compute_group_sinr(interval, c), [5 / 5.6, 4.5 / 1.1, 0.1])


def slow_waits(uplink, c, p, channel, turns, limit_s, airtime_s):
    """Group after group: who can still be in time makes the next ones wait."""
    lower = min(uplink.min_sinr(), channel.sinr.max(initial=0.0))
    down = p.n_bits * c.rows / uplink.downlink_bps(c)
    result = zeros(len(c.ue))
    for b in set(c.serving.tolist()) - {-1}:
        begins = 0.0
        for t in range(turns.max() + 1):
            selected = flatnonzero((c.serving == b) & (turns == t))
            result[selected] = begins
            ends = down[selected] + c.compute_s[selected] + begins + airtime_s[selected]
            good = (
                (channel.sinr[selected] > 0) & (channel.sinr[selected] >= lower) & (ends <= limit_s)
            )
            begins += airtime_s[selected][good].max(initial=0.0)
    return result


@given(seed=st.integers(0, 10_000), group=st.integers(1, 3), max_ser=st.sampled_from([None, 0.1]))
@settings(max_examples=30, deadline=None)
def test_nobody_waits_for_whom_never_finishes(seed, group, max_ser):
    rng = default_rng(seed)
    c = draw_cohort(rng, -4, limit_s=9.0)
    n = len(c.ue)
    c = replace(c, compute_s=rng.uniform(0, 1, n), downlink_sinr=10 ** rng.uniform(-2, 2, n))
    c.power_w[rng.uniform(size=n) < 0.1] = 0.0
    fields = {
        "sic_residual": 0.1,
        "group_size": group,
        "noise_w": 0.1,
        "bandwidth_hz": 1e6,
        **BOUND,
    }
    for deadline_s, limit_s in ((None, 9.0), (4.0, 4.0)):
        uplink = Noma(deadline_s=deadline_s, max_ser=max_ser, **fields)
        channel = uplink.plan(c, payload())
        turns = uplink.group_ues(c)
        with errstate(divide="ignore"):
            airtime = 1e6 / channel.rate_bps
        wait = slow_waits(uplink, c, payload(), channel, turns, limit_s, airtime)
        down = 1e6 / uplink.downlink_bps(c)
        heard = isfinite(airtime)
        begins = (down + c.compute_s + wait)[heard]
        ends = begins + airtime[heard]
        assert_allclose(channel.delay_s[heard], minimum(ends, limit_s), rtol=1e-12)
        sent = clip(limit_s - begins, 0.0, airtime[heard])  # who is late stops there
        assert_allclose(channel.airtime_s[heard], sent, rtol=1e-9, atol=1e-12)
        assert_allclose(channel.energy_j, c.power_w * where(heard, channel.airtime_s, 0.0))


def test_groups_of_a_cell_take_turns_in_order_of_power():
    c = cohort([[5.0], [1.0], [3.0], [4.0], [2.0]], 1.0)
    uplink = Noma(group_size=2, noise_w=1.0, **BOUND)
    turns = uplink.group_ues(c)
    assert_array_equal(turns, [0, 2, 1, 0, 1])
    channel = uplink.plan(c, payload())
    downlink = 1e6 / (uplink.bandwidth_hz * uplink.rate.max_bps_per_hz)
    first = downlink + channel.airtime_s[[0, 3]].max()
    assert_allclose(channel.delay_s[[2, 4]], first + channel.airtime_s[[2, 4]])


def test_noise_on_the_update_is_rho_over_root_sinr():
    c = cohort([[1e-10], [1e-12]], 0.2)
    channel = Noma(interference="none", noise_w=1e-13).plan(c, payload(q=400, bound=2.0))
    assert_allclose(channel.noise_std, 2.0 / sqrt(400 * array([200.0, 2.0])))
    exact = Noma(interference="none", noise_w=1e-13, decoding="error-free").plan(
        c, payload(bound=None)
    )
    assert not exact.noise_std.any()
    with raises(ValueError, match="bound"):
        Noma(noise_w=1e-13).plan(c, payload(bound=None))


@given(seed=st.integers(0, 10_000), n=st.integers(1, 8), antennas=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_thermal_noise_is_the_part_that_no_other_ue_makes(seed, n, antennas):
    """1 / SINR = 1 / SNR + 1 / SIR; the first part hangs on one's own signal alone, whoever else
    sends."""
    g = default_rng(seed)
    fading = draw_fading(g, n, 2, antennas)
    serving = g.integers(-1, 2, n)
    c = cohort(g.exponential(size=(n, 2)), g.uniform(0.1, 1, n), serving=serving, fading=fading)
    has = serving >= 0
    values = maximum(serving, 0)
    strength = (c.gain[:, :, None] * abs(fading) ** 2).sum(axis=2)[arange(n), values]
    thermal = where(has, sqrt(2.0**2 / 400 * 0.3 / (c.power_w * strength)), 0.0)
    for interference in ("none", "intra", "all"):
        uplink = Noma(interference=interference, sic_residual=0.2, noise_w=0.3, rate=Shannon())
        result = uplink.plan(c, payload(q=400, bound=2.0))
        assert_allclose(result.thermal_std, thermal, rtol=1e-9)
        with errstate(divide="ignore", invalid="ignore"):
            alone = slow_sinr(c, 1e-300, 0.2, interference, uplink.group_ues(c))
            rest = where(alone > 1e200, 0.0, 2.0**2 / 400 / alone)
        assert_allclose(result.noise_std[has] ** 2, (thermal**2 + rest)[has], rtol=1e-9)
    exact = Noma(decoding="error-free", noise_w=0.3).plan(c, payload(bound=None))
    assert not exact.thermal_std.any()


def test_thermal_noise_of_a_share_of_the_band():
    """Two UEs of a cell hear half of the band's noise each; a third, of another cell, disturbs the
    model alone."""
    c = cohort([[4.0, 1.0], [1.0, 2.0], [0.5, 3.0]], 0.5, serving=[0, 0, 1])
    loud, calm = (
        Oma(noise_w=0.2, interference=i).plan(c, payload(q=100, bound=1.0)) for i in ("all", "none")
    )
    assert_allclose(calm.thermal_std, 0.1 / sqrt([2.0 / 0.1, 0.5 / 0.1, 1.5 / 0.2]))
    assert_array_equal(loud.thermal_std, calm.thermal_std)
    assert_array_equal(calm.noise_std, calm.thermal_std)
    assert (loud.noise_std > loud.thermal_std).all()
    assert not Ideal().plan(c, payload()).thermal_std.any()


def test_the_deadline_judges_downlink_training_and_uplink():
    bits = 1e6
    band = 1e6
    c = cohort([[3.0]], 1.0, compute=0.7, sinr=1.0)
    turn = bits / band / 1.0 + 0.7 + bits / (band * 2.0)
    for deadline, heard in ((turn + 1e-9, True), (turn - 1e-9, False)):
        uplink = Noma(
            interference="none",
            noise_w=1.0,
            bandwidth_hz=band,
            deadline_s=deadline,
            decoding="error-free",
            rate=Shannon(),
        )
        channel = uplink.plan(c, payload(bits))
        assert_allclose(channel.delay_s, turn)
        assert channel.decoded == heard
        assert channel.late != heard


def test_a_ue_without_a_cell_is_not_heard_and_disturbs_nobody():
    c = cohort([[4.0], [2.0]], 1.0, serving=[0, -1])
    for uplink in (Noma(noise_w=1.0, norm_bound=1.0), Oma(noise_w=1.0, norm_bound=1.0)):
        channel = uplink.plan(c, payload())
        assert_allclose(channel.sinr[0], 4.0)
        assert channel.sinr[1] == 0
        assert_array_equal(channel.decoded, [True, False])
        assert isfinite(channel.energy_j).all()


def test_oma_shares_the_band_and_its_noise():
    c = cohort([[4.0], [1.0]], 1.0)
    channel = Oma(noise_w=1.0, bandwidth_hz=2e6, decoding="error-free", rate=Shannon()).plan(
        c, payload()
    )
    assert_allclose(channel.sinr, [8.0, 2.0])
    assert_allclose(channel.rate_bps, [1e6 * log2(9), 1e6 * log2(3)])


class TestPower:
    def power_w(self, law, max_w, gain=((1e-8, 1e-12), (1e-12, 1e-10)), serving=(0, 1)):
        return law.power_w(array(gain), array(serving), max_w, None, RNG)[0]

    def test_full_and_fixed(self):
        assert (self.power_w(Full(), 0.2) == 0.2).all()
        assert_allclose(self.power_w(Fixed(power_dbm=10), 0.2), 0.01)
        assert_allclose(self.power_w(Fixed(power_dbm=40), 0.2), 0.2)

    def test_average_splits_the_middle_of_the_total(self):
        assert_allclose(self.power_w(Average(), 0.2, ones((15, 1)), zeros(15, int)), 0.055)

    def test_fractional_is_the_open_loop(self):
        power = self.power_w(Fractional(p0_dbm=-80, alpha=0.8), 10.0)
        assert_allclose(10 * log10(power / 1e-3), [-80 + 0.8 * 80, -80 + 0.8 * 100])
        received = self.power_w(Fractional(p0_dbm=-80, alpha=1.0), 1e9) * [1e-8, 1e-10]
        assert_allclose(10 * log10(received / 1e-3), -80)
        assert_allclose(self.power_w(Fractional(p0_dbm=20, alpha=1.0), 0.2), 0.2)


LAWS = [
    LinkAdaptation(),
    LinkAdaptation(attenuation=0.75, max_bps_per_hz=5.0, min_sinr_db=-6.0),
    Shannon(),
]


@mark.parametrize("law", LAWS)
@mark.parametrize("kind", [Noma, Oma])
def test_both_directions_follow_the_rate_law(kind, law):
    """TR 36.942, Annex A: uplink 0.4, at most 2 bit/s/Hz, downlink 0.6 and 4.4, both to -10 dB;
    Shannon: 1 and 8."""
    up, upper, floor = down, top, deaf = 1.0, 8.0, 0.0
    if law.kind != "shannon":
        up = law.attenuation
        upper = law.max_bps_per_hz
        floor = 10 ** (law.min_sinr_db / 10)
        down = 0.6
        top = 4.4
        deaf = 0.1
    sinr = 10 ** linspace(-2.05, 5.0, 95)
    uplink = kind(rate=law, bandwidth_hz=3e6, norm_bound=1.0)
    expected = where(sinr < floor, 0.0, 3e6 * minimum(up * log2(1 + sinr), upper))
    assert_allclose(
        uplink.rate_bps(sinr),
        expected,
    )
    heard = cohort(ones((95, 1)), 1.0)
    expected = where(sinr < deaf, 0.0, 3e6 * minimum(down * log2(1 + sinr), top))
    assert_allclose(
        uplink.downlink_bps(replace(heard, downlink_sinr=sinr)),
        expected,
    )
    assert_allclose(uplink.floor_sinr(), floor)


def test_link_adaptation_is_the_default_and_decodes_nothing_below_its_floor():
    lost = 0
    for seed in range(20):
        g = default_rng(seed)
        c = cohort(10 ** g.uniform(-4, 1, (9, 3)), 1.0, g.integers(0, 3, 9), sinr=1.0)
        for uplink in (Noma(noise_w=0.1, norm_bound=1.0), Oma(noise_w=0.1, norm_bound=1.0)):
            assert uplink.rate == LinkAdaptation()
            channel = uplink.plan(c, payload())
            assert (channel.sinr[channel.decoded] >= 0.1).all()
            none = ~channel.decoded
            lost += none.sum()
            assert not channel.late.any()
            assert (channel.rate_bps[none] == 0).all()
            assert isinf(channel.airtime_s[none]).all()
            assert (channel.energy_j[none] == 0).all()
    assert lost > 50


def test_an_eavesdropper_receives_whole_updates_only_and_needs_no_rate_for_analog_ones():
    """Near her: three that send; one stops at its deadline, one has no rate at its base station."""
    c = cohort([[9.0], [0.5], [0.05]], 1.0, sinr=1e9)
    for decoding, far in (("error-free", [False] * 3), ("noisy", [True, False, False])):
        uplink = Noma(
            interference="none",
            noise_w=1.0,
            bandwidth_hz=1e6,
            deadline_s=2.0,
            decoding=decoding,
            norm_bound=1.0,
        )
        sent = uplink.plan(c, payload(1e6))
        assert_array_equal(sent.decoded, [True, False, False])
        assert_array_equal(sent.late, [False, True, False])
        assert sent.airtime_s[1] < 2.0
        assert sent.delay_s[1] == 2.0
        near, away = (
            uplink.eavesdrop(replace(c, gain=c.gain * f), payload(1e6), sent) for f in (100.0, 1e-3)
        )
        assert_array_equal(near.decoded, [True, False, False])
        assert_array_equal(away.decoded, far)


def test_a_late_upload_stops_at_its_deadline_and_so_does_training():
    """0.5 s of downlink, 2 s of training for 3 J, 0.5 s on the air at 0.5 W."""
    c = replace(
        cohort([[3.0]], 0.5, compute=2.0), compute_j=array([3.0]), downlink_sinr=array([3.0])
    )
    uplink = Noma(interference="none", noise_w=0.5, bandwidth_hz=1e6, **BOUND)
    for limit_s, energy_j, airtime_s in cases("""
        9.0, 3.25, 0.5
        2.75, 3.125, 0.25
        2.5, 3.0, 0.0
        1.5, 1.5, 0.0
    """):
        for channel in (
            uplink.plan(replace(c, limit_s=limit_s), payload(1e6)),
            uplink.model_copy(update={"deadline_s": limit_s}).plan(c, payload(1e6)),
        ):
            assert_allclose(channel.energy_j, energy_j)
            assert_allclose(channel.airtime_s, airtime_s)
            assert channel.late == (limit_s < 9)
            assert_allclose(channel.delay_s, min(limit_s, 3.0))
    whole = uplink.plan(c, payload(1e6))
    cut = whole.stop_late(2.75)
    assert cut.late
    assert_allclose(cut.energy_j, 3.125)
    assert_allclose(cut.airtime_s, 0.25)
    ideal = Ideal().plan(replace(c, limit_s=1.5), payload())
    assert ideal.late
    assert_allclose(ideal.energy_j, 2.25)
    assert ideal.delay_s == 1.5


# -- an eavesdropper over a shared band


def place_at_antenna(c, rng, antennas=None):
    """The UEs of a cohort, with their cells, at one antenna elsewhere."""
    n = len(c.ue)
    fading = None
    if antennas is not None:
        fading = draw_fading(rng, n, 1, antennas)
    return replace(c, gain=10 ** rng.uniform(-3, 1, (n, 1)), fading=fading)


def slow_ear(uplink, noise_w, c, antenna, sent, group_of):
    """SINR at the antenna, UE by UE: those on the air at the same time, in a share of the band or
    cancelled."""
    n = len(c.ue)
    everybody = uplink.interference == "all"
    on = [k for k in range(n) if c.serving[k] >= 0 and sent.rate_bps[k] > 0]
    h = {
        k: sqrt(antenna.gain[k, 0]) * (1.0 if antenna.fading is None else antenna.fading[k, 0])
        for k in on
    }
    h = {k: atleast_1d(v) for k, v in h.items()}
    size = {k: vdot(v, v).real for k, v in h.items()}
    w = {k: c.power_w[k] * size[k] for k in on}
    result = zeros(n)
    for k in on:
        selected = [j for j in on if c.serving[j] == c.serving[k]]
        if uplink.kind == "oma":
            m = len(selected)
            if everybody:
                rest = sum(w[j] / len(h[j]) / m for j in on if j not in selected)
            else:
                rest = 0.0
            result[k] = w[k] / (noise_w / m + rest)
            continue
        with_me = [
            j for j in (on if everybody else selected) if group_of[j] == group_of[k] and j != k
        ]
        disturb = 0.0
        for j in [] if uplink.interference == "none" else with_me:
            share = uplink.sic_residual if w[j] > w[k] else 1.0
            disturb += share * c.power_w[j] * abs(vdot(h[k], h[j])) ** 2
        noise = size[k] * noise_w
        result[k] = c.power_w[k] * size[k] ** 2 / (disturb + noise)
    return result


@given(
    seed=st.integers(0, 10_000),
    antennas=st.sampled_from([None, 1, 3]),
    group=st.sampled_from([None, 1, 2, 3]),
)
@settings(max_examples=25, deadline=None)
@mark.parametrize("decoding", ["noisy", "error-free"])
@mark.parametrize("interference", ["none", "intra", "all"])
@mark.parametrize("kind", [Noma, Oma])
def test_an_eavesdropper_hears_what_is_on_the_air_together(
    kind, interference, decoding, seed, antennas, group
):
    rng = default_rng(seed)
    c = draw_cohort(rng)
    c.gain[c.serving < 0] = nan  # absent
    fields = {"sic_residual": 0.2, "group_size": group} if kind is Noma else {}
    rise_db = float(rng.choice([0.0, 6.0]))
    uplink = kind(
        interference=interference,
        decoding=decoding,
        norm_bound=1.0,
        noise_w=0.3,
        bandwidth_hz=1e6,
        interference_over_thermal_db=rise_db,
        uplink_share=0.5,
        **fields,
    )
    sent = uplink.plan(c, payload())
    antenna = place_at_antenna(c, rng, antennas)
    antenna.gain[c.serving < 0] = nan
    group_of = uplink.group_ues(c)
    heard = uplink.eavesdrop(antenna, payload(), sent, group_of)
    expected = slow_ear(uplink, 0.3, c, antenna, sent, group_of)
    assert_allclose(heard.sinr, expected, rtol=1e-9)
    fast = uplink.rate_bps(expected) >= uplink.rate_bps(sent.sinr) * (1 - 1e-12)
    whole = (expected > 0) & isfinite(sent.airtime_s)
    assert_array_equal(heard.decoded, whole & (fast | (decoding == "noisy")))
    if decoding == "noisy":
        on = expected > 0
        assert_allclose(heard.noise_std[on], 0.1 / sqrt(expected[on]), rtol=1e-9)


def test_thermal_noise_at_an_ear_is_that_of_the_share_of_the_own_cell():
    """Two cells of two and six UEs, all with 20 W at the antenna over noise of 1 W: 40 and 120,
    less interference."""
    gain = zeros((8, 2))
    serving = array([0, 0, 1, 1, 1, 1, 1, 1])
    gain[arange(8), serving] = 50.0
    c = replace(cohort(gain, 1.0, serving, sinr=1e9), fading=None)
    near = replace(c, gain=full((8, 1), 20.0))
    for interference, few, many in (
        ("none", 40, 120),
        ("intra", 40, 120),
        ("all", 20 / 60.5, 20 / (41 / 6)),
    ):
        uplink = Oma(noise_w=1.0, norm_bound=1.0, interference=interference, decoding="error-free")
        heard = uplink.eavesdrop(near, payload(), uplink.plan(c, payload()), uplink.group_ues(c))
        assert_allclose(heard.sinr, where(serving == 0, few, many))
        assert_array_equal(heard.decoded, interference != "all")


def test_those_that_send_one_after_the_other_do_not_meet_at_an_ear():
    """Four of a cell, weak at the antenna where they are strong at the mast; nothing is cancelled,
    noise 1."""
    c = replace(cohort([[4.0], [3.0], [2.0], [1.0]], 1.0, sinr=1e9), fading=None)
    near = replace(c, gain=c.gain[::-1].copy())
    for size, expected in (
        (1, [1, 2, 3, 4]),
        (2, [1 / 3, 1, 3 / 5, 1]),
        (None, [1 / 10, 2 / 9, 3 / 8, 4 / 7]),
    ):
        uplink = Noma(noise_w=1.0, group_size=size, sic_residual=1.0, **BOUND)
        heard = uplink.eavesdrop(near, payload(), uplink.plan(c, payload()), uplink.group_ues(c))
        assert_allclose(heard.sinr, expected)


# -- absent UEs, noise from outside, a share of the time


@mark.parametrize("antennas", [None, 2])
@mark.parametrize("absent", [nan, inf])
@mark.parametrize("kind", [Oma, Noma])
def test_an_absent_ue_changes_nothing_for_the_others(kind, absent, antennas):
    rng = default_rng(1)
    if antennas is None:
        fading = None
    else:
        fading = rng.normal(size=(5, 3, antennas)) + 0j
    c = cohort(10 ** rng.uniform(-2, 1, (5, 3)), 1.0, [0, 1, -1, 2, 1], sinr=9.0)
    c = replace(c, fading=fading)
    is_present = array([0, 1, 3, 4])
    uplink = kind(noise_w=0.1, **BOUND)
    expected = uplink.plan(c.select(is_present), payload())
    c.gain[2] = absent
    result = uplink.plan(c, payload())
    for f in ("sinr", "rate_bps", "noise_std", "delay_s", "decoded"):
        assert_array_equal(getattr(result, f)[is_present], getattr(expected, f), err_msg=f)
    assert expected.decoded.all()
    assert not result.decoded[2]
    assert isfinite(uplink.snr_per_w(c)).all()


@mark.parametrize("interference", ["none", "intra", "all"])
@mark.parametrize("kind", [Oma, Noma])
def test_noise_from_outside_raises_the_floor_and_is_no_privacy(kind, interference):
    """As four times the thermal noise at base stations, of which a quarter counts."""
    c, rng = draw_six(2)
    rise_db = 10 * log10(4.0)
    fields = {"interference": interference, **BOUND}
    calm, loud = (kind(noise_w=w, **fields).plan(c, payload()) for w in (0.1, 0.4))
    uplink = kind(noise_w=0.1, interference_over_thermal_db=rise_db, **fields)
    result = uplink.plan(c, payload())
    for f in ("sinr", "rate_bps", "noise_std", "delay_s", "energy_j"):
        assert_allclose(getattr(result, f), getattr(loud, f), rtol=1e-12, err_msg=f)
    assert_allclose(result.thermal_std, calm.thermal_std, rtol=1e-12)
    assert_array_equal(uplink.snr_per_w(c), kind(noise_w=0.1, **fields).snr_per_w(c))
    received_w = array([0.1, 3.0])
    assert_allclose(uplink.alone_bps(received_w), kind(noise_w=0.4, **fields).alone_bps(received_w))
    assert not uplink.isolates_ues  # what the model suffers is not what may count as privacy
    antenna = place_at_antenna(c, rng)
    ear = uplink.eavesdrop(antenna, payload(), result, uplink.group_ues(c))
    same = kind(noise_w=0.1, **fields).eavesdrop(antenna, payload(), calm, uplink.group_ues(c))
    assert_array_equal(ear.sinr, same.sinr)


@mark.parametrize("uplink", [Oma(noise_w=0.1, **BOUND), Noma(noise_w=0.1, group_size=2, **BOUND)])
def test_a_share_of_the_time_divides_rates_and_not_energy(uplink):
    """A fifth: uploads take five times as long, at the same energy; the broadcast and the SINR
    stay."""
    c, _ = draw_six(3, 0.5)
    uplink = uplink.model_copy(update={"bandwidth_hz": 1e6})
    whole, part = (
        uplink.model_copy(update={"uplink_share": s}).plan(c, payload()) for s in (1.0, 0.2)
    )
    assert_allclose(part.rate_bps, whole.rate_bps / 5)
    assert_allclose(part.airtime_s, whole.airtime_s * 5)
    assert_allclose(part.energy_j, whole.energy_j)
    assert_allclose(whole.energy_j, 0.5 * whole.airtime_s)
    down_s = 1e6 / uplink.downlink_bps(c)
    assert_allclose(part.delay_s - down_s, 5 * (whole.delay_s - down_s))
    assert_array_equal(part.sinr, whole.sinr)
    fifth = uplink.model_copy(update={"uplink_share": 0.2})
    cut = fifth.model_copy(update={"deadline_s": 6.0}).plan(c, payload())
    within = part.stop_late(6.0, fifth.share_of_time())
    assert cut.late.any()
    assert cut.decoded.any()
    for f in ("airtime_s", "delay_s", "energy_j", "decoded", "late"):
        if not uplink.groups_ues:  # in groups, who is late makes no one wait
            assert_allclose(getattr(within, f), getattr(cut, f), err_msg=f)
    assert_allclose(cut.energy_j, 0.5 * 0.2 * cut.airtime_s)
