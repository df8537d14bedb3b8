use sha2::{Digest, Sha256};

use super::*;

const HEADER: &str = "time,ad,zone,kind,visitor\n";

/// Every event or problem of a file, as text.
fn read_as(format: FileFormat, text: impl AsRef<[u8]>, names: &Names) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events");
    std::fs::write(&path, &text).unwrap();
    let told = |bad| match bad {
        Bad::Line(line, what) => format!("{line}: {what}"),
        Bad::File(line, what) => format!("file:{line}: {what}"),
        Bad::Io(error) => panic!("{error}"),
    };
    let mut events = match Events::open(&path, format, names) {
        Ok(events) => events,
        Err(bad) => return vec![told(bad)],
    };
    let mut seen = Vec::new();
    loop {
        match events.next() {
            Ok(Some(event)) => {
                let at = event.occurred_at.unwrap();
                seen.push(format!(
                    "{} {:?} {}.{} {} {} {} {} {:?} {}",
                    event.line,
                    event.kind(),
                    at.seconds,
                    at.nanos,
                    event.campaign_id,
                    event.ad_unit_id,
                    event.site_id,
                    event.zone_id,
                    event.user_id,
                    event.value_micros
                ));
            }
            Ok(None) => break,
            Err(Bad::File(line, what)) => {
                seen.push(format!("file:{line}: {what}"));
                return seen;
            }
            Err(bad) => seen.push(told(bad)),
        }
    }
    let expected: [u8; 32] = Sha256::digest(text.as_ref()).into();
    assert_eq!(events.sha256(), expected, "all of the file is hashed");
    seen
}

fn csv(text: &str) -> Vec<String> {
    read_as(FileFormat::Csv, text, &Names::new(&[]))
}

#[test]
fn both_forms_say_the_same() {
    let rows = "2019-11-24 00:03:13.442536+00:00,x:1/a,s/top,impression,v1\n\
                2019-11-24T01:03:13.5+01:00,x:1/a/b,s/top,click,\n";
    // 2019-11-24T00:03:13Z
    let expected = [
        "2 Impression 1574553793.442536000 x:1 a s top \"v1\" 0",
        "3 Click 1574553793.500000000 x:1/a b s top \"\" 0",
    ];
    assert_eq!(csv(&format!("{HEADER}{rows}")), expected);
    let lines = "\n{\"time\":\"2019-11-24 00:03:13.442536\",\"ad\":\"x:1/a\",\"zone\":\"s/top\",\
                 \"kind\":\"impression\",\"visitor\":\"v1\",\"else\":7}\n\
                 {\"time\":\"2019-11-24T00:03:13.5Z\",\"ad\":\"x:1/a/b\",\"zone\":\"s/top\",\
                 \"kind\":\"click\",\"visitor\":null}";
    assert_eq!(read_as(FileFormat::Ndjson, lines, &Names::new(&[])), expected);
}

#[test]
fn lines_are_those_of_the_file_whatever_ends_them_and_whatever_lies_between() {
    let row = "2026-11-30T12:00:00Z,x:1/a,s/top,click,v";
    let lines = |text: &str| {
        let seen = csv(text);
        seen.iter().map(|event| event.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(lines(&format!("{HEADER}{row}\n{row}\n{row}")), ["2", "3", "4"]);
    let windows = format!("{HEADER}{row}\n{row}\n{row}\n").replace('\n', "\r\n");
    assert_eq!(lines(&windows), ["2", "3", "4"]);
    assert_eq!(lines(&format!("{HEADER}{row}\n\n\n{row}\n")), ["2", "5"]);
    assert_eq!(lines(&format!("{HEADER}\n{row}\r\n\r\n{row}\n")), ["3", "5"]);
    assert_eq!(lines(&format!("{HEADER}{row}\n{row}\n").replace('\n', "\r")), ["2", "3"]);
    assert_eq!(lines(&format!("\n\n{HEADER}{row}\n\nbad\n{row}")), ["4", "6:", "7"]);
    let many = format!("{HEADER}{}", format!("{row}\r\n\r\n").repeat(20_000));
    let expected: Vec<_> = (0..20_000).map(|at| (2 + 2 * at).to_string()).collect();
    assert_eq!(lines(&many), expected);
    let quoted = "2026-11-30T12:00:00Z,x:1/a,s/top,click,\"v\nw\"";
    assert_eq!(lines(&format!("{HEADER}{quoted}\n{row}\n")), ["2", "4"]);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_column() {
    let with = |time: &str, ad: &str, zone: &str, kind: &str| {
        let seen = csv(&format!("{HEADER}{time},{ad},{zone},{kind},\n"));
        seen.into_iter().next().unwrap()
    };
    let (time, ad, zone, kind) = ("2026-11-30T12:00:00Z", "x:1/a", "s/top", "click");
    for bad in [
        "yesterday",
        "2026-11-30",
        "2026-11-30T12:00",
        "2026-11-30T12:00Z",
        "2026-13-30T12:00:00Z",
        "2026-11-30T25:00:00Z",
        "2026-11-30 12:00:00[Europe/Vienna]",
        "1796040000",
        "2026-11-30T12:00:00 PM",
        "2026-11-30T12:00:0\u{42a}",
        "2026-11-30T12:00:0\u{feff}",
        "2026-11-30T12:00:00\u{42a}",
        "\u{42a}\u{42a}\u{42a}\u{42a}\u{42a}T12:00:0\u{42a}",
    ] {
        assert!(with(bad, ad, zone, kind).starts_with("2: time: "), "{bad}");
    }
    assert_eq!(with("", ad, zone, kind), "2: time: is missing");
    assert_eq!(with(time, "x:1", zone, kind), "2: ad: \"x:1\" is not CAMPAIGN/UNIT");
    assert_eq!(with(time, ad, "/top", kind), "2: zone: \"/top\" is not SITE/ZONE");
    let said = with(time, ad, zone, "view");
    assert_eq!(said, "2: kind: \"view\" is none of impression, click, conversion");
    assert_eq!(csv("time,ad,zone\n"), ["file:1: there is no column \"kind\" in the header"]);
    assert_eq!(csv("time,ad,zone,kind,ad\n"), ["file:1: there are two columns \"ad\""]);
    assert_eq!(csv(""), ["file:1: there is no column \"time\" in the header"]);
    let short = format!("{HEADER}a,b\n{time},{ad},{zone},{kind},\n");
    let seen = csv(&short);
    assert_eq!(seen[0], "2: has 2 columns, where the header has 5");
    assert!(seen[1].starts_with("3 Click"), "{seen:?}");
    let ndjson = |text: &str| read_as(FileFormat::Ndjson, text, &Names::new(&[])).remove(0);
    assert!(ndjson("[1]").starts_with("1: no JSON object"));
    assert_eq!(ndjson("\n{\"time\":5}"), "2: time: not a string");
    let binary = [HEADER.as_bytes(), b"\xff,x:1/a,s/top,click,\n"].concat();
    let seen = read_as(FileFormat::Csv, binary, &Names::new(&[]));
    assert_eq!(seen, ["2: column 1: not UTF-8"]);
}

#[test]
fn only_conversions_have_a_value() {
    let line = |kind: &str, value: &str| {
        let header = HEADER.replace("visitor", "value");
        csv(&format!("{header}2026-11-30T12:00:00Z,x:1/a,s/top,{kind},{value}\n")).remove(0)
    };
    assert!(line("conversion", "12.50").ends_with(" 12500000"));
    assert!(line("conversion", "").ends_with(" 0"));
    assert_eq!(line("click", "1"), "2: value: only a conversion has one");
    assert!(line("conversion", "1e3").starts_with("2: value: an amount is"));
}

#[test]
fn a_foreign_log_keeps_its_names() {
    let names =
        Names::new(&[(Column::Time, "timestamp".to_owned()), (Column::Visitor, "uid".to_owned())]);
    let text = "\u{feff}timestamp,uid,zone,ad,kind,time\n\
                2026-11-30 12:00:00,7,s/top,x:1/a,click,never\n";
    let seen = read_as(FileFormat::Csv, text, &names);
    // 2026-11-30T12:00:00Z
    assert_eq!(seen, ["2 Click 1796040000.0 x:1 a s top \"7\" 0"]);
}
