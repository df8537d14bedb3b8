//! `choose`: what a zone would show now, and why.

use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::{ChooseAdsRequest, ChooseAdsResponse, ChosenAd, NoAdReason};

use super::Context;
use crate::ctl::cli::choose::Choose;
use crate::ctl::error::Error;
use crate::ctl::money::format_micros;
use crate::ctl::time::to_wire;

pub(super) async fn run(context: &mut Context, args: Choose) -> Result<(), Error> {
    let place = format!("{}/{}", args.site, args.zone);
    let request = ChooseAdsRequest {
        site_id: args.site,
        zone_id: args.zone,
        user_id: args.user.unwrap_or_default(),
        keywords: args.keyword,
        context: args.context.map(|context| *context),
        count: args.count,
        floor_ecpm_micros: args.floor.unwrap_or(0),
        sizes: args.size,
        dry_run: !args.record,
        seed: args.seed,
        as_of: args.at.map(to_wire),
        ..ChooseAdsRequest::default()
    };
    let decisions = context.decisions().await?;
    let answer = decisions.call(request, AdDecisionServiceClient::choose_ads).await?;
    if context.out.is_json() {
        return context.out.message(&answer);
    }
    let has_tokens = answer.ads.iter().any(|ad| !ad.token.is_empty());
    chosen(context, &place, &answer, has_tokens)?;
    let version = answer.catalog_version;
    context.out.line(&match args.record {
        true => format!("recorded at catalogue version {version}"),
        false => format!("dry run at catalogue version {version}: nothing was recorded"),
    })
}

fn chosen(
    context: &mut Context,
    place: &str,
    answer: &ChooseAdsResponse,
    tokens: bool,
) -> Result<(), Error> {
    if answer.no_ad_reason() == NoAdReason::ZoneUnknown {
        return Err(Error::Input(format!("there is no zone {place}")));
    }
    if answer.ads.is_empty() {
        return context.out.line(&format!("no ad: {}", no_ad(answer.no_ad_reason())));
    }
    let mut header = vec!["#", "CAMPAIGN", "AD", "ECPM", "MATCHED", "SCORE"];
    if tokens {
        header.push("TOKEN");
    }
    let rows = answer.ads.iter().enumerate().map(|(index, ad)| row(index + 1, ad, tokens));
    context.out.table(&header, rows.collect())
}

fn row(rank: usize, ad: &ChosenAd, tokens: bool) -> Vec<String> {
    let mut row = vec![
        rank.to_string(),
        ad.campaign_id.clone(),
        ad.ad_unit_id.clone(),
        format_micros(ad.ecpm_micros),
        ad.matched_keywords.to_string(),
        format!("{:.6}", ad.score),
    ];
    if tokens {
        row.push(ad.token.clone());
    }
    row
}

fn no_ad(reason: NoAdReason) -> &'static str {
    match reason {
        NoAdReason::Unspecified => "the server gave no reason",
        NoAdReason::ZoneUnknown => "the zone is unknown",
        NoAdReason::ZoneEmpty => "the zone is empty",
        NoAdReason::AllTurnedDown => "every candidate was turned down",
        NoAdReason::CatalogStale => "the node's catalogue is too old",
    }
}
