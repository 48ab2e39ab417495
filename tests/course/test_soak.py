"""The soak of the server, in a short form: `pdm run python benches/soak.py` is the long one."""

from collections import Counter

import soak

from tiny_llm_course.testkit.marks import needs

STILL = {"running": [], "waiting": 0, "pages": {"all": 9, "free": 4, "kept": 5}}


@needs("port")
def test_a_few_hundred_requests(capsys):
    assert soak.main(["--requests", "400"]) == 0, capsys.readouterr().out


def test_what_a_soak_finds():
    well = Counter({("whole", "200"): soak.ENOUGH, ("hangs up", "left"): 2, ("whole", "429"): 1})
    assert soak.faults(well, [100] * 20, STILL) == []
    assert "grown" in soak.faults(well, [100] * 15 + [103] * 5, STILL)[0]
    assert "held by nobody" in soak.faults(well, [100] * 20, STILL | {"pages": {"all": 9, "free": 3, "kept": 5}})[0]
    assert "when all senders have gone" in soak.faults(well, [100] * 20, STILL | {"waiting": 2})[0]
    assert "descriptors" in soak.faults(well, [100] * 20, STILL, (30, 31))[0]
    for outcome in ("500", "left", "400 without a word: ''"):
        assert soak.faults(Counter({("whole", outcome): 1}), [100] * 20, STILL) == [f"whole: {outcome}, 1 times"]
