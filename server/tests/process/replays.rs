//! The same dry run, seed and instant give the same bytes, also after a restart.

use prost::Message;
use slotwise_proto::v1::{ChooseAdsRequest, ChoosePageRequest, Detail, Placement};

use super::catalogue::Clients;
use super::child::Slotwise;
use crate::support::{NOON_US, ad, ask, campaign, place};

const CAPPED: &str =
    r#""caps":[{"level":"CAP_LEVEL_CAMPAIGN","impressionsMax":1,"window":"2592000s"}]"#;

/// Zones `top` and `side`, in both of them 40 equal ads, half of them capped.
fn catalogue() -> Vec<String> {
    let mut records = place(&["top", "side"]);
    for n in 0..40 {
        let id = format!("x{n}:1");
        let more = if n % 2 == 0 { CAPPED } else { r#""competitiveLabels":["all"]"# };
        records.push(campaign(&id, more));
        records.push(ad(&id, "box", &["top", "side"], 5, r#""keywords":["car"]"#));
    }
    records
}

/// Answers to decisions and pages, with and without explanations, at an instant of the future.
async fn replayed(clients: &mut Clients) -> Vec<Vec<u8>> {
    let as_of = Some(prost_types::Timestamp { seconds: NOON_US / 1_000_000 + 60, nanos: 7_000 });
    let placement = |zone: &str| Placement {
        placement_id: zone.into(),
        site_id: "s".into(),
        zone_id: zone.into(),
        count: 6,
        ..Placement::default()
    };
    let mut answers = Vec::new();
    for seed in 0..10 {
        let (seed, explain, detail) = (Some(seed), seed % 2 == 0, Detail::Facts.into());
        let request = ChooseAdsRequest {
            dry_run: true,
            seed,
            as_of,
            explain,
            detail,
            keywords: vec!["car".into()],
            ..ask("top", "v", 10)
        };
        let answer = clients.decisions.choose_ads(request).await.unwrap().into_inner();
        assert_eq!((answer.ads.len(), answer.explanation.is_some()), (10, explain));
        answers.push(answer.encode_to_vec());
        let page = ChoosePageRequest {
            user_id: "v".into(),
            placements: ["top", "side"].map(placement).into(),
            campaign_max_per_page: 1,
            dry_run: true,
            seed,
            as_of,
            explain,
            detail,
            ..ChoosePageRequest::default()
        };
        let answer = clients.decisions.choose_page(page).await.unwrap().into_inner();
        answers.push(answer.encode_to_vec());
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_gives_the_same_bytes_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (slotwise, doors) = Slotwise::serve(dir.path(), &[]);
    let mut clients = Clients::of(doors).await;
    clients.put(&catalogue()).await;
    // The profile is a part of it: what is capped by now is.
    clients.decisions.choose_ads(ask("top", "v", 5)).await.unwrap();
    let before = replayed(&mut clients).await;
    assert_eq!(replayed(&mut clients).await, before);
    slotwise.stop();
    let (slotwise, doors) = Slotwise::serve(dir.path(), &[]);
    assert_eq!(replayed(&mut Clients::of(doors).await).await, before);
    slotwise.stop();
}
