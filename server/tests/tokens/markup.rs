//! Markup with its macros replaced.

use slotwise_proto::v1::{ChooseAdsRequest, Detail};
use slotwise_server::testing::Server;

use crate::support::{ad, ask, campaign, import, place};
use crate::{choose, server};

const LANDING: &str = "https://shop.example/?a=1&t={click_token}";
const MARKUP: &str = "<a href=\"{click_url}\" data-r=\"{request_id}\">{unknown}</a>\
    <img src=\"{impression_url}\"><i>{landing_url}</i><b>{click_url:enc}</b><u>{cachebuster}</u>";

/// One ad, with this markup and landing URL.
async fn market(server: &Server) {
    let mut records = place(&["z"]);
    let markup = format!("\"markup\":{}", serde_json::Value::from(MARKUP));
    records.push(campaign("f:1", ""));
    records.push(ad("f:1", "u", &["z"], 4, &markup).replace("https://x.example/", LANDING));
    import(server, &records).await;
}

async fn markup(server: &Server, request_id: &str, dry_run: bool) -> (String, String) {
    let request = ChooseAdsRequest {
        request_id: request_id.into(),
        detail: Detail::Markup.into(),
        dry_run,
        seed: Some(1),
        ..ask("z", "v", 1)
    };
    let ad = choose(server, request).await.ads.remove(0);
    (ad.token, ad.creative.unwrap().markup)
}

#[tokio::test(flavor = "multi_thread")]
async fn macros_have_the_values_of_their_own_showing() {
    let (server, ..) = server(&[("event_base_url", "https://e.example")]).await;
    market(&server).await;
    let (token, text) = markup(&server, "\"><script>", false).await;
    let (before, cachebuster) = text.split_once("<u>").unwrap();
    assert_eq!(
        before,
        format!(
            "<a href=\"https://e.example/c/{token}\" data-r=\"%22%3E%3Cscript%3E\">{{unknown}}</a>\
             <img src=\"https://e.example/i/{token}\">\
             <i>https://shop.example/?a=1&t={token}</i>\
             <b>https%3A%2F%2Fe.example%2Fc%2F{token}</b>"
        )
    );
    let (_, again) = markup(&server, "\"><script>", false).await;
    assert_ne!(again.split_once("<u>").unwrap().1, cachebuster, "random, whatever the seed");
    assert!(cachebuster.len() > "</u>".len());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_runs_markup_is_the_same_twice_and_names_no_showing() {
    let (server, ..) = server(&[]).await;
    market(&server).await;
    let first = markup(&server, "r", true).await;
    let expected = "<a href=\"\" data-r=\"r\">{unknown}</a><img src=\"\">\
        <i>https://shop.example/?a=1&t=</i><b></b><u></u>";
    assert_eq!(first, (String::new(), expected.to_owned()));
    assert_eq!(markup(&server, "r", true).await, first);
    server.stop().await;
}
