//! Reading some of the catalogue.

use slotwise_core::index::Key;
use slotwise_server::ports::{Commit, ListQuery, Put};

use crate::Harness;
use crate::catalog::{Store, account, ad, apply, campaign, deletes, put, puts, site, zone};

/// Everything after `after`; tests narrow it.
fn from(after: Key) -> ListQuery {
    ListQuery { after, owner: String::new(), id_prefix: String::new(), limit: 1_000 }
}

async fn ids(store: &Store, query: ListQuery) -> Vec<String> {
    let rows = store.list(&query).await.unwrap();
    rows.into_iter().map(|row| row.key.parts().1.to_owned()).collect()
}

pub(crate) async fn get_returns_only_what_is_there(harness: &impl Harness) {
    let store = harness.catalog().await;
    assert_eq!(store.get(&[]).await.unwrap().1, []);
    let keys = [account("net"), site("s"), zone("s", "z"), campaign("x:1"), ad("x:1", "a")];
    apply(&store, puts(keys.clone(), "body")).await;
    let version = apply(&store, deletes([zone("s", "z")])).await;
    let absent = [site("net"), zone("z", "s"), ad("x:1", "b"), ad("x:2", "a"), campaign("x")];
    let asked: Vec<_> = absent.iter().chain(&keys).cloned().collect();
    let (head, rows) = store.get(&asked).await.unwrap();
    assert_eq!((head.version, head.ads), (version, 1));
    let mut found: Vec<_> = rows.into_iter().map(|row| row.key).collect();
    found.sort();
    assert_eq!(found, [account("net"), site("s"), campaign("x:1"), ad("x:1", "a")]);
}

pub(crate) async fn pages_follow_the_order_of_ids(harness: &impl Harness) {
    let store = harness.catalog().await;
    // In the order of their bytes, which is that of their code points.
    let sorted = ["A", "a", "a/b", "a1", "a10", "a2", "ä", "日", "\u{fffd}", "😀"];
    let mut shuffled = sorted.map(account);
    shuffled.reverse();
    shuffled.swap(1, 6);
    apply(&store, puts(shuffled, "")).await;
    apply(&store, puts([site("not an account")], "")).await;
    assert_eq!(ids(&store, from(account(""))).await, sorted);
    for limit in 1..=sorted.len() {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = ids(&store, ListQuery { limit, ..from(account(&after)) }).await;
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after.clone_from(last);
            seen.extend(page);
        }
        assert_eq!(seen, sorted, "pages of {limit}");
    }
    assert_eq!(ids(&store, from(account("a0"))).await[0], "a1", "after one that is not there");
}

pub(crate) async fn an_owners_sites_and_campaigns(harness: &impl Harness) {
    let store = harness.catalog().await;
    let owned = |key, owner: &str| Put { owner: owner.to_owned(), ..put(key, "") };
    let puts = vec![
        owned(site("s1"), "net"),
        owned(site("s2"), "pub"),
        owned(site("s3"), "net"),
        owned(site("s4"), "ne"),
        owned(campaign("x:1"), "pub"),
        owned(campaign("x:2"), "net"),
        owned(campaign("y:1"), "net"),
    ];
    apply(&store, Commit { puts, ..Commit::default() }).await;
    let of = |after, owner: &str| ListQuery { owner: owner.to_owned(), ..from(after) };
    assert_eq!(ids(&store, of(site(""), "net")).await, ["s1", "s3"]);
    assert_eq!(ids(&store, of(site("s1"), "net")).await, ["s3"]);
    assert_eq!(ids(&store, of(site(""), "nobody")).await, [""; 0]);
    assert_eq!(ids(&store, of(site(""), "")).await, ["s1", "s2", "s3", "s4"]);
    assert_eq!(ids(&store, of(campaign(""), "net")).await, ["x:2", "y:1"]);
    let narrow = ListQuery { id_prefix: "x:".to_owned(), ..of(campaign(""), "net") };
    assert_eq!(ids(&store, narrow).await, ["x:2"], "owner and prefix together");
    let one = ListQuery { limit: 1, ..of(campaign(""), "net") };
    assert_eq!(ids(&store, one).await, ["x:2"]);
    // An object that changes hands is listed under its new owner only.
    let moved = Commit { puts: vec![owned(site("s1"), "pub")], ..Commit::default() };
    apply(&store, moved).await;
    assert_eq!(ids(&store, of(site(""), "net")).await, ["s3"]);
    assert_eq!(ids(&store, of(site(""), "pub")).await, ["s1", "s2"]);
}

pub(crate) async fn ids_that_begin_with_a_prefix(harness: &impl Harness) {
    let store = harness.catalog().await;
    let all = [
        "%",
        "%:1",
        "_:1",
        "a",
        "a%:1",
        "a/b:1",
        "a:",
        "a:1",
        "a:2",
        "a_:1",
        "ab:1",
        "b:1",
        "ä:1",
        "äb:1",
        "日本:1",
        "日本語:1",
        "\u{d7ff}:1",
        "\u{e000}:1",
        "😀:1",
        "\u{10ffff}",
        "\u{10ffff}:1",
    ];
    apply(&store, puts(all.map(campaign), "")).await;
    let mut prefixes: Vec<String> = all.iter().map(ToString::to_string).collect();
    prefixes
        .extend(["", "a:", "a_", "a%", "A", "日", "\u{d7ff}", "*", "?", "[a-z]"].map(Into::into));
    for id_prefix in prefixes {
        let mut expected: Vec<_> =
            all.into_iter().filter(|id| id.starts_with(&id_prefix)).collect();
        expected.sort_unstable();
        let query = ListQuery { id_prefix: id_prefix.clone(), ..from(campaign("")) };
        assert_eq!(ids(&store, query).await, expected, "prefix {id_prefix:?}");
        // The second page of the same.
        let Some(&first) = expected.first() else { continue };
        let query = ListQuery { id_prefix: id_prefix.clone(), ..from(campaign(first)) };
        assert_eq!(ids(&store, query).await, expected[1..], "prefix {id_prefix:?}");
    }
    let query = ListQuery { id_prefix: "a:".to_owned(), limit: 2, ..from(campaign("a")) };
    assert_eq!(ids(&store, query).await, ["a:", "a:1"]);
}

pub(crate) async fn zones_of_a_site_and_ads_of_a_campaign(harness: &impl Harness) {
    let store = harness.catalog().await;
    let keys = [
        zone("s", "2"),
        zone("s", "1"),
        zone("s", "3/4"),
        zone("s/3", "4"),
        zone("t", "1"),
        zone("", "1"),
        ad("x:1", "b"),
        ad("x:1", "a"),
        ad("x:2", "a"),
        ad("x", "1:a"),
        site("s"),
        campaign("x:1"),
    ];
    apply(&store, puts(keys, "")).await;
    assert_eq!(ids(&store, from(zone("s", ""))).await, ["1", "2", "3/4"]);
    assert_eq!(ids(&store, from(zone("s", "1"))).await, ["2", "3/4"]);
    assert_eq!(ids(&store, from(zone("s/3", ""))).await, ["4"]);
    assert_eq!(ids(&store, from(zone("absent", ""))).await, [""; 0]);
    assert_eq!(ids(&store, from(ad("x:1", ""))).await, ["a", "b"]);
    assert_eq!(ids(&store, from(ad("x", ""))).await, ["1:a"]);
    let rows = store.list(&from(zone("s", ""))).await.unwrap();
    assert!(rows.iter().all(|row| matches!(&row.key, Key::Zone(site, _) if site.as_str() == "s")));
}
