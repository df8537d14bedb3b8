//! Logs for machines, and what is never in them or on the disk: a visitor's id.

use std::path::{Path, PathBuf};

use serde_json::Value;
use slotwise_proto::v1::{
    ChooseAdsBatchRequest, ChooseAdsRequest, ForgetUserRequest, GetProfileRequest,
    UpdateSegmentsRequest,
};
use tonic::Code;

use super::catalogue::Clients;
use super::child::Slotwise;
use crate::support::{ad, ask, campaign, place};

/// Long and odd enough to be nowhere by chance.
const VISITOR: &str = "visitor-Zq7Xv2Kp9-cookie";
const CAMPAIGN: &str = "x:capped";

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Neither the id as it is nor as it would look in hexadecimal.
fn assert_unknown(place: &str, bytes: &[u8]) {
    let hexadecimal: String = VISITOR.bytes().map(|byte| format!("{byte:02x}")).collect();
    for form in [VISITOR, &hexadecimal] {
        assert!(!holds(bytes, form), "{place} holds {form}");
    }
}

/// Every file of the data directory.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => vec![(path.clone(), std::fs::read(&path).unwrap())],
    };
    paths.flat_map(read).collect()
}

/// No file knows the visitor; the campaign is found, so that looking is known to find.
fn assert_unknown_on_disk(dir: &Path) {
    let files = files(dir);
    assert!(files.iter().any(|(_, bytes)| holds(bytes, CAMPAIGN)));
    for (path, bytes) in files {
        assert_unknown(&path.display().to_string(), &bytes);
    }
}

/// Every way in which an id comes in: shown, capped, dry, limited, refused; alone, in a batch
/// and in a stream.
async fn visit(clients: &mut Clients) {
    let visit = || ask("top", VISITOR, 1);
    assert_eq!(clients.choose("top", VISITOR).await.ads.len(), 1);
    assert_eq!(clients.choose("top", VISITOR).await.ads.len(), 0, "the visitor is remembered");
    let asked = vec![
        visit(),
        ChooseAdsRequest { dry_run: true, ..visit() },
        ChooseAdsRequest { limited: true, ..visit() },
        ChooseAdsRequest { count: 101, ..visit() },
        ChooseAdsRequest { user_id: format!("{VISITOR}\n"), ..visit() },
        ChooseAdsRequest { user_id: VISITOR.repeat(10), ..visit() },
    ];
    for request in asked.clone() {
        let is_refused = request.count > 100 || request.user_id != VISITOR;
        match clients.decisions.choose_ads(request).await {
            Ok(_) => assert!(!is_refused),
            Err(status) => {
                assert!(is_refused && status.code() == Code::InvalidArgument, "{status}");
                assert_unknown("a refusal", format!("{status:?}").as_bytes());
            }
        }
    }
    let batch = ChooseAdsBatchRequest { requests: asked.clone() };
    let answers = clients.decisions.choose_ads_batch(batch).await.unwrap().into_inner();
    assert_eq!(answers.responses.len(), asked.len());
    let stream = tokio_stream::iter(asked.clone());
    let mut answers = clients.decisions.choose_ads_stream(stream).await.unwrap().into_inner();
    for _ in asked {
        assert!(answers.message().await.unwrap().is_some());
    }
}

/// The calls on one visitor: asked for, refused, with segments, and forgotten.
async fn manage(clients: &mut Clients) {
    let update = |user_id: &str| UpdateSegmentsRequest {
        account_id: "a".into(),
        user_id: user_id.into(),
        add: vec!["auto/in-market".into()],
        ..Default::default()
    };
    let get = |account_id: &str| GetProfileRequest {
        account_id: account_id.into(),
        user_id: VISITOR.into(),
        advertiser_id: String::new(),
    };
    let profile = clients.users.update_segments(update(VISITOR)).await.unwrap().into_inner();
    assert_eq!((profile.segments.len(), profile.histories.len()), (1, 1));
    clients.users.get_profile(get("a")).await.unwrap();
    for refused in [
        clients.users.update_segments(update(&VISITOR.repeat(10))).await,
        clients.users.update_segments(update(&format!("{VISITOR}\n"))).await,
        clients.users.get_profile(get("nowhere")).await,
    ] {
        assert_unknown("a refusal", format!("{:?}", refused.unwrap_err()).as_bytes());
    }
    let forget = ForgetUserRequest { account_id: String::new(), user_id: VISITOR.into() };
    assert!(clients.users.forget_user(forget).await.unwrap().into_inner().held_something);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_are_json_lines_and_no_visitor_is_ever_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let (slotwise, doors) = Slotwise::serve(dir.path(), &["--log", "trace"]);
    let mut clients = Clients::of(doors).await;
    let cap = r#""caps":[{"level":"CAP_LEVEL_AD","impressionsMax":1,"window":"86400s"}]"#;
    let mut records = place(&["top"]);
    records.extend([campaign(CAMPAIGN, cap), ad(CAMPAIGN, "box", &["top"], 5, "")]);
    clients.put(&records).await;
    visit(&mut clients).await;
    manage(&mut clients).await;

    // The files that are only there while it runs, too.
    assert_unknown_on_disk(dir.path());
    drop(clients);
    let ended = slotwise.stop();
    assert_unknown_on_disk(dir.path());
    assert_unknown("standard output", ended.stdout.as_bytes());
    assert_unknown("the log", ended.stderr.as_bytes());

    let mut levels = std::collections::BTreeSet::new();
    for line in ended.stderr.lines() {
        let entry: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
        let has = |key: &str| entry[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(has("timestamp") && has("level") && has("target"), "{line}");
        levels.insert(entry["level"].as_str().unwrap().to_owned());
    }
    assert!(levels.contains("INFO") && levels.contains("TRACE"), "{levels:?}");
}

#[test]
fn the_default_log_is_json_with_what_happened() {
    let dir = tempfile::tempdir().unwrap();
    let (slotwise, _) = Slotwise::serve(dir.path(), &[]);
    let stderr = slotwise.stop().stderr;
    let messages: Vec<_> = stderr
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|entry| entry["message"].as_str().unwrap().to_owned())
        .collect();
    assert!(messages.contains(&"stopping".to_owned()), "{stderr}");
    assert!(messages.contains(&"stopped".to_owned()), "{stderr}");
}
