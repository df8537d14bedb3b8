"""Checks what a server answered, knowing nothing but the catalogue and the answers.

usage: check.py CATALOGUE ANSWERS

CATALOGUE holds the imported records, one JSON object a line. ANSWERS holds one object a line for
each row that was asked, in order: row (from 1), at_us, cohort, zone, ads (campaign_id,
ad_unit_id, ecpm_micros), no_ad_reason. Every ask was for one ad.

For each cohort, at each instant: no ad is over its cap; what was shown is among the best eCPM of
what was still allowed; and nothing came only where nothing was allowed.
"""

import json
import sys
from collections import defaultdict

US = 1_000_000
ALL_TURNED_DOWN = "NO_AD_REASON_ALL_TURNED_DOWN"


class Wrong(Exception):
    """An answer that must not be."""


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def seconds_us(text):
    """A window such as "86400s" in microseconds."""
    if not text.endswith("s"):
        raise Wrong(f"{text!r} is no number of seconds")
    return int(text[:-1]) * US


class Catalogue:
    """Which ads stand in each zone, what they are worth, and how often they may be shown."""

    def __init__(self, records):
        self.ecpm_micros = {}
        self.caps = {}
        self.zones = defaultdict(set)
        caps_of_campaign = {}
        for record in records:
            if campaign := record.get("campaign"):
                caps = [
                    (cap["impressionsMax"], seconds_us(cap["window"]))
                    for cap in campaign.get("caps", [])
                    if cap["level"] == "CAP_LEVEL_AD"
                ]
                if len(caps) != len(campaign.get("caps", [])):
                    raise Wrong("only caps at the level of ads are understood here")
                caps_of_campaign[campaign["campaignId"]] = caps
            elif ad := record.get("ad"):
                name = (ad["campaignId"], ad["adUnitId"])
                self.ecpm_micros[name] = int(ad["ecpmMicros"])
                for zone in ad["zones"]:
                    self.zones[zone["zoneId"]].add(name)
        for name in self.ecpm_micros:
            self.caps[name] = caps_of_campaign[name[0]]


class History:
    """When each cohort was shown each ad."""

    def __init__(self, catalogue):
        self.catalogue = catalogue
        self.shown_at_us = defaultdict(list)

    def is_allowed(self, cohort, name, now_us):
        """Whether one more showing keeps every cap; at exactly the window's age the old one
        no longer counts."""
        shown = self.shown_at_us[cohort, name]
        return all(
            sum(1 for at_us in shown if now_us - at_us < window_us) < impressions_max
            for impressions_max, window_us in self.catalogue.caps[name]
        )

    def add(self, cohort, name, at_us):
        self.shown_at_us[cohort, name].append(at_us)


def check_one(catalogue, history, answer):
    """Checks one answer and remembers it; returns whether an ad was shown."""
    row, now_us, cohort = answer["row"], answer["at_us"], answer["cohort"]
    where = f"row {row}: cohort {cohort} in {answer['zone']} at {now_us} us"
    candidates = catalogue.zones[answer["zone"]]
    if not candidates:
        raise Wrong(f"{where}: there is no such zone")
    allowed = {name for name in candidates if history.is_allowed(cohort, name, now_us)}
    ads = [(ad["campaign_id"], ad["ad_unit_id"], ad["ecpm_micros"]) for ad in answer["ads"]]
    if not ads:
        if allowed:
            raise Wrong(f"{where}: withheld, though {len(allowed)} ads were allowed")
        if answer["no_ad_reason"] != ALL_TURNED_DOWN:
            raise Wrong(f"{where}: the reason is {answer['no_ad_reason']}")
        return False
    if len(ads) > 1:
        raise Wrong(f"{where}: {len(ads)} ads where one was asked for")
    campaign, unit, ecpm_micros = ads[0]
    name = (campaign, unit)
    if name not in candidates:
        raise Wrong(f"{where}: {name} does not stand there")
    if ecpm_micros != catalogue.ecpm_micros[name]:
        raise Wrong(f"{where}: {name} is not worth {ecpm_micros}")
    if name not in allowed:
        raise Wrong(f"{where}: {name} was shown again inside its window")
    best = max(catalogue.ecpm_micros[other] for other in allowed)
    if ecpm_micros < best:
        raise Wrong(f"{where}: {name} is worth {ecpm_micros}, where {best} was allowed")
    history.add(cohort, name, now_us)
    return True


def check(catalogue, answers):
    """Checks every answer in order; returns a summary in words."""
    history, shown, cohorts = History(catalogue), 0, set()
    last_us = None
    for expected_row, answer in enumerate(answers, 1):
        if answer["row"] != expected_row:
            raise Wrong(f"row {expected_row} is missing")
        if last_us is not None and answer["at_us"] < last_us:
            raise Wrong(f"row {expected_row} lies before the one above it")
        last_us = answer["at_us"]
        cohorts.add(answer["cohort"])
        shown += check_one(catalogue, history, answer)
    empty = len(answers) - shown
    return f"rows {len(answers)}, shown {shown}, empty {empty}, cohorts {len(cohorts)}"


def main(catalogue_path, answers_path):
    try:
        print(check(Catalogue(read(catalogue_path)), read(answers_path)))
    except Wrong as wrong:
        sys.exit(f"check.py: {wrong}")


if __name__ == "__main__":
    main(*sys.argv[1:])
