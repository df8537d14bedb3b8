//! `slotwisectl` against the real server, through real sockets.
// A test, and what helps it, fails by a panic.
#![allow(clippy::unwrap_used)]

#[path = "support/bench.rs"]
mod bench;
#[path = "support/run.rs"]
mod run;

use bench::{Bench, CATALOG, text};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::test(flavor = "multi_thread")]
async fn a_good_file_is_imported_and_checking_changes_nothing() {
    let bench = Bench::empty().await;
    let file = bench.file("catalog.ndjson", CATALOG);
    let checked = bench.ok(&["import", "--check", text(&file)]).await;
    assert!(checked.starts_with("checked 8 records"), "{checked}");
    assert!(bench.exported().await.is_empty());
    let imported = bench.doors.run_with_input(&["import", "-", "--json"], CATALOG).await.ok();
    let answer: Value = serde_json::from_str(&imported).unwrap();
    assert_eq!(answer["records"], 8);
    assert_eq!(bench.exported().await.len(), 8);
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_is_refused_with_line_and_field_and_nothing_changes() {
    let bench = Bench::with_catalog().await;
    let good = r#"{"zone":{"siteId":"news","zoneId":"side"}}"#;

    let (file, said) = bench.refused_import(&format!("{good}\nnot json\n")).await;
    assert!(said.starts_with(&format!("{file}:2: ")), "{said}");

    let unknown = r#"{"zone":{"siteId":"news","zoneId":"low","florEcpmMicros":"1"}}"#;
    let (file, said) = bench.refused_import(&format!("{good}\n\n{unknown}\n")).await;
    assert!(said.starts_with(&format!("{file}:3: ")), "{said}");
    assert!(said.contains("florEcpmMicros"), "{said}");

    let (file, said) = bench.refused_import(&format!("{good}\n\n{good}\n")).await;
    assert!(said.starts_with(&format!("{file}:3: ")) && said.contains("zone_id"), "{said}");

    let orphan = r#"{"ad":{"campaignId":"9:none","adUnitId":"a","ecpmMicros":"1","landingUrl":"https://x.example/","zones":[{"siteId":"news","zoneId":"top"}]}}"#;
    let (file, said) = bench.refused_import(&format!("{good}\n\n\n{orphan}\n")).await;
    assert!(said.contains(&format!("{file}:4: ")), "{said}");
    assert!(said.contains("campaign_id") && said.contains("9:none"), "{said}");
    assert!(said.contains("1 problem in"), "{said}");
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_imports_elsewhere_as_the_same_catalogue() {
    let here = Bench::with_catalog().await;
    here.ok(&["campaign", "put", "8:car", "--cap", "campaign:3/24h", "--daily", "5.25"]).await;
    here.ok(&["campaign", "put", "7:=1+1 <b>x</b>", "--account", "acme", "--cpc", "0.45"]).await;
    let file = here.files.path().join("export.ndjson");
    let said = here.ok(&["export", text(&file)]).await;
    assert!(said.starts_with("exported 9 records"), "{said}");
    let there = Bench::empty().await;
    there.ok(&["import", text(&file)]).await;
    let exported = there.exported().await;
    assert_eq!(exported, here.exported().await);
    assert!(exported.iter().any(|r| r["campaign"]["campaignId"] == "7:=1+1 <b>x</b>"));
    let listed = there.ok(&["campaign", "list"]).await;
    assert!(listed.contains("7:=1+1 <b>x</b>"), "{listed}");
    here.server.stop().await;
    there.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stops_the_ads_and_says_so_and_a_repeat_changes_nothing() {
    let bench = Bench::with_catalog().await;
    let choose = ["choose", "news", "top", "--count", "3"];
    assert!(bench.ok(&choose).await.contains("8:car"));

    let said = bench.ok(&["campaign", "pause", "8:car"]).await;
    let sentence = "paused 8:car: 2 ads in 1 zone stopped on 1 of 1 node in ";
    assert!(said.starts_with(sentence), "{said}");
    let chosen = bench.ok(&choose).await;
    assert!(!chosen.contains("8:car") && chosen.contains("7:summer"), "{chosen}");

    let said = bench.ok(&["campaign", "pause", "8:car"]).await;
    assert!(said.starts_with("nothing changed: 8:car"), "{said}");

    // Neither a change nor a file wakes it.
    bench.ok(&["campaign", "put", "8:car", "--tier", "1"]).await;
    let file = bench.file("again.ndjson", CATALOG);
    bench.ok(&["import", text(&file)]).await;
    assert_eq!(bench.campaign("8:car").await["status"], "CAMPAIGN_STATUS_PAUSED");

    let said = bench.ok(&["campaign", "activate", "8:car"]).await;
    assert!(said.starts_with("activated 8:car: 2 ads in 1 zone started on 1 of 1 node"), "{said}");
    assert!(bench.ok(&choose).await.contains("8:car"));

    let said = bench.fails(1, &["campaign", "pause", "9:none"]).await;
    assert!(said.contains("9:none"), "{said}");
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_new_daily_budget_leaves_all_else() {
    let bench = Bench::with_catalog().await;
    let flags = ["--daily", "5.25", "--total", "123.45", "--cap", "ad:1/1h", "--pacing", "even"];
    bench.ok(&[&["campaign", "put", "8:car"], &flags[..]].concat()).await;
    bench.ok(&["campaign", "pause", "8:car"]).await;
    let mut expected = bench.campaign("8:car").await;
    assert_eq!(expected["budget"]["dailyMicros"], "5250000");
    bench.ok(&["campaign", "put", "8:car", "--daily", "6"]).await;
    let after = bench.campaign("8:car").await;
    expected["budget"]["dailyMicros"] = "6000000".into();
    expected["version"] = after["version"].clone();
    assert_eq!(after, expected);
    assert_eq!(after["status"], "CAMPAIGN_STATUS_PAUSED");

    let shown = bench.ok(&["campaign", "show", "8:car"]).await;
    for part in ["6.00 USD", "123.45 USD", "ad:1/1h", "paused", "even", "250.00 USD cpm"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    bench.ok(&["campaign", "put", "8:car", "--total", "none"]).await;
    let budget = bench.campaign("8:car").await["budget"].clone();
    assert_eq!((&budget["dailyMicros"], &budget["totalMicros"]), (&"6000000".into(), &Value::Null));
    let stale = ["campaign", "put", "8:car", "--tier", "1", "--if-version", "1"];
    bench.fails(1, &stale).await;
    bench.fails(2, &["campaign", "put", "8:car", "--daily", "1.0000001"]).await;
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_is_the_accounts_own_and_reads_back() {
    let bench = Bench::with_catalog().await;
    let flight = ["--start", "2015-11-01", "--end", "2099-12-01T20:00"];
    bench.ok(&[&["campaign", "put", "8:car"], &flight[..]].concat()).await;
    let campaign = bench.campaign("8:car").await;
    assert_eq!(campaign["startTime"], "2015-11-01T04:00:00Z");
    assert_eq!(campaign["endTime"], "2099-12-02T01:00:00Z");
    let shown = bench.ok(&["campaign", "show", "8:car"]).await;
    let start = shown.lines().find(|line| line.starts_with("start")).unwrap();
    assert_eq!(start.split_whitespace().nth(1), Some("2015-11-01"), "{shown}");
    assert!(shown.contains("2099-12-01T20:00:00-05:00"), "{shown}");
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn choose_prints_the_scores() {
    let bench = Bench::with_catalog().await;
    let scores = |stdout: String| -> Vec<String> {
        let rows = stdout.lines().skip(1).filter(|line| line.contains(".00"));
        rows.filter_map(|row| row.split_whitespace().last().map(str::to_owned)).collect()
    };
    let choose = |words: &'static [&'static str]| {
        let mut args = vec!["choose", "news", "top", "--count", "3"];
        words.iter().for_each(|word| args.extend(["--keyword", word]));
        args
    };
    let plain = scores(bench.ok(&choose(&[])).await);
    assert_eq!(plain, ["23.827545", "23.827545", "19.062036"]);
    let car = scores(bench.ok(&choose(&["car"])).await);
    assert_eq!(car, ["185.484336", "185.484336", "148.387469"]);
    let both = scores(bench.ok(&choose(&["car", " Performance", "car"])).await);
    assert_eq!(both, ["226.280422", "185.484336", "185.484336"]);

    let unknown = bench.fails(1, &["choose", "news", "nowhere"]).await;
    assert!(unknown.contains("there is no zone news/nowhere"), "{unknown}");
    let seeded = ["choose", "news", "top", "--seed", "7", "--json"];
    let first: Value = serde_json::from_str(&bench.ok(&seeded).await).unwrap();
    let second: Value = serde_json::from_str(&bench.ok(&seeded).await).unwrap();
    assert_eq!(first["ads"], second["ads"]);
    let sport = r#"{"campaign":{"campaignId":"8:car","accountId":"acme",
        "price":{"thousandImpressionsMicros":"250000000"},
        "targeting":{"countries":["AT"],"expression":"section = \"sport\""}}}"#;
    let sport = bench.file("sport.ndjson", &sport.replace('\n', ""));
    bench.ok(&["import", sport.to_str().unwrap()]).await;
    let visit = r#"{"country":"AT","values":{"section":"sport"}}"#;
    let choose = ["choose", "news", "top", "--context", visit];
    assert!(bench.ok(&choose).await.contains("8:car"));
    assert!(bench.ok(&choose[..3]).await.contains("7:summer"), "nothing is known of the visit");
    let said = bench.fails(1, &["choose", "news", "top", "--count", "101"]).await;
    assert!(said.contains("count"), "{said}");
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_what_became_of_each_candidate() {
    let bench = Bench::with_catalog().await;
    bench.ok(&["campaign", "put", "8:car", "--cap", "campaign:1/24h"]).await;
    bench.ok(&["campaign", "pause", "7:summer"]).await;
    bench.ok(&["choose", "news", "top", "--user", "v-1", "--record"]).await;
    let asked = ["choose", "news", "top", "--user", "v-1", "--keyword", "car", "--explain"];
    let said = bench.ok(&asked).await;
    assert!(said.starts_with("no ad: every candidate was turned down"), "{said}");
    let row = |first: &str| {
        let line = said.lines().find(|line| line.starts_with(first)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(row("7:summer")[4..], ["campaign paused", "the campaign is paused"], "{said}");
    let car = row("8:car");
    assert_eq!(car[4], "frequency capped", "{said}");
    assert!(car[5].starts_with("seen 1 of 1 in 24h, next at 20"), "{said}");
    assert!(said.contains("3 candidates: 1 campaign paused, 2 frequency capped"), "{said}");

    let at = ["--at", "2030-01-01T00:00:00Z", "--explain-max", "1", "--json"];
    let replay: Value = serde_json::from_str(&bench.ok(&[&asked[..], &at].concat()).await).unwrap();
    let explanation = &replay["explanation"];
    assert_eq!(explanation["verdicts"].as_array().unwrap().len(), 1);
    assert!(explanation["notes"][0].as_str().unwrap().contains("budgets"), "{explanation}");

    bench.ok(&["campaign", "activate", "7:summer"]).await;
    let page = ["page", "news/top", "news/nowhere", "news/top=5", "--explain"];
    let said = bench.ok(&page).await;
    assert!(said.contains("2 news/nowhere\nno ad: the zone is unknown\n"), "{said}");
    assert!(said.contains("campaign on page"), "{said}");
    assert!(said.contains("note: the visitor is unknown"), "{said}");
    let refused = bench.doors.run(&["page", "news/top=101", "news/top"]).await;
    let said = "1 news/top\nrefused: count: is 101; the limit is 100\n\n2 news/top\n";
    assert!(refused.stdout.starts_with(said), "{refused:?}");
    assert!(refused.failed(1).contains("1 placement refused"));
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalogue_can_be_built_and_taken_down_by_hand() {
    let bench = Bench::empty().await;
    let landing = "https://shop.example/?t={click_token}";
    let steps: [&[&str]; 7] = [
        &["account", "put", "acme", "--name", "Acme", "--time-zone", "Europe/Vienna"],
        &["site", "put", "news", "--account", "acme", "--block-category", "IAB26"],
        &["zone", "put", "news", "top", "--size", "300x250", "--floor", "0.50"],
        &["zone", "put", "news", "side"],
        &["campaign", "put", "7:summer", "--account", "acme", "--cpm", "2.50"],
        &[
            "ad",
            "put",
            "7:summer",
            "banner",
            "--zone",
            "news/top",
            "--zone",
            "news/side=4",
            "--size",
            "300x250",
            "--landing-url",
            landing,
            "--keyword",
            "car",
        ],
        &["ad", "put", "7:summer", "banner", "--ecpm", "3"],
    ];
    for step in steps {
        bench.ok(step).await;
    }
    let shown = bench.ok(&["ad", "show", "7:summer", "banner"]).await;
    for part in ["3.00", "300x250", landing, "car", "4.00"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let zone = bench.ok(&["zone", "show", "news", "top"]).await;
    assert!(zone.contains("0.50") && zone.contains("banner"), "{zone}");
    let status = |zone: &str, status| {
        assert!(zone.lines().any(|l| l.starts_with("7:summer") && l.contains(status)), "{zone}");
    };
    status(&zone, "active");
    bench.ok(&["campaign", "pause", "7:summer"]).await;
    status(&bench.ok(&["zone", "show", "news", "top"]).await, "paused");
    bench.ok(&["campaign", "activate", "7:summer"]).await;
    assert!(bench.ok(&["zone", "list", "news"]).await.contains("side"));
    assert!(bench.ok(&["site", "list", "--account", "acme"]).await.contains("IAB26"));
    assert!(bench.ok(&["account", "list"]).await.contains("Europe/Vienna"));
    assert!(bench.ok(&["choose", "news", "top"]).await.contains("banner"));

    bench.ok(&["ad", "delete", "7:summer", "banner"]).await;
    bench.fails(1, &["ad", "show", "7:summer", "banner"]).await;
    bench.ok(&["campaign", "delete", "7:summer"]).await;
    let changes = bench.ok(&["changes", "--id", "7:summer"]).await;
    assert!(changes.contains("7:summer"), "{changes}");
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_is_seen_put_into_segments_and_forgotten() {
    let bench = Bench::with_catalog().await;
    bench.ok(&["campaign", "put", "8:car", "--cap", "campaign:3/24h"]).await;
    let chosen = bench.ok(&["choose", "news", "top", "--user", "v-1", "--record"]).await;
    assert!(chosen.contains("8:car"), "{chosen}");
    let added = bench.ok(&["user", "segments", "acme", "v-1", "--add", "auto/new"]).await;
    assert!(added.contains("auto/new"), "{added}");
    let shown = bench.ok(&["user", "show", "acme", "v-1"]).await;
    assert!(shown.contains("auto/new") && shown.contains("8:car"), "{shown}");
    let of_another = bench.ok(&["user", "show", "acme", "v-1", "--advertiser", "7"]).await;
    assert!(!of_another.contains("8:car"), "{of_another}");
    let said = bench.ok(&["user", "forget", "v-1"]).await;
    assert!(said.starts_with("forgotten:"), "{said}");
    let said = bench.ok(&["user", "show", "acme", "v-1"]).await;
    assert_eq!(said, "nothing is held under this visitor\n");
    let nodes = bench.ok(&["nodes"]).await;
    assert_eq!(nodes.lines().filter(|line| line.contains("  ok")).count(), 1, "{nodes}");
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_tell_how_it_ended() {
    let bench = Bench::with_catalog().await;
    bench.ok(&["account", "list"]).await;
    bench.fails(1, &["campaign", "show", "9:none"]).await;
    bench.fails(1, &["import", "/no/such/file"]).await;
    bench.fails(2, &["campaign", "fly"]).await;
    let away = bench.doors;
    bench.server.stop().await;
    let said = away.run(&["account", "list"]).await.failed(4);
    assert!(said.contains(&away.admin.to_string()) && said.contains("--admin-addr"), "{said}");
    let said = away.run(&["choose", "news", "top"]).await.failed(4);
    assert!(said.contains(&away.decision.to_string()), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_is_no_failure() {
    let bench = Bench::with_catalog().await;
    // More than a pipe holds, so that the rest is written when nobody reads any more.
    let zones: String = (0..5_000)
        .map(|n| format!("{{\"zone\":{{\"siteId\":\"news\",\"zoneId\":\"zone-{n}\"}}}}\n"))
        .collect();
    bench.doors.run_with_input(&["import", "-"], &zones).await.ok();
    for args in [&["export"][..], &["zone", "list", "news", "--limit", "6000"]] {
        let mut child = bench.doors.command(args).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).await.unwrap();
        drop(reader);
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
    bench.server.stop().await;
}
