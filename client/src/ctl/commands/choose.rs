//! `choose` and `page`: what would be shown now, and why.

use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::{
    ChooseAdsRequest, ChoosePageRequest, ChosenAd, NoAdReason, Placement, PlacementAnswer,
};

use super::{Context, explain};
use crate::ctl::cli::choose::{Choose, Page};
use crate::ctl::error::Error;
use crate::ctl::money::format_micros;
use crate::ctl::text;
use crate::ctl::time::to_wire;

pub(super) async fn run(context: &mut Context, args: Choose) -> Result<(), Error> {
    let place = format!("{}/{}", args.site, args.zone);
    let mut visit = args.visit;
    let request = ChooseAdsRequest {
        site_id: args.site,
        zone_id: args.zone,
        count: args.count,
        floor_ecpm_micros: args.floor.unwrap_or(0),
        sizes: args.size,
        context: visit.context(),
        user_id: visit.user.unwrap_or_default(),
        keywords: visit.keyword,
        blocked_advertisers: visit.block_advertiser,
        blocked_categories: visit.block_category,
        blocked_domains: visit.block_domain,
        limited: visit.limited,
        dry_run: !visit.record,
        seed: visit.seed,
        as_of: visit.at.map(to_wire),
        explain: visit.explain,
        explain_max: visit.explain_max,
        ..ChooseAdsRequest::default()
    };
    let decisions = context.decisions().await?;
    let answer = decisions.call(request, AdDecisionServiceClient::choose_ads).await?;
    if context.out.is_json() {
        return context.out.message(&answer);
    }
    if answer.no_ad_reason() == NoAdReason::ZoneUnknown {
        return Err(Error::Input(format!("there is no zone {place}")));
    }
    chosen(context, &answer.ads, answer.no_ad_reason())?;
    if let Some(explanation) = &answer.explanation {
        explain::print(context, explanation)?;
    }
    decided(context, visit.record, answer.catalog_version)
}

pub(super) async fn run_page(context: &mut Context, args: Page) -> Result<(), Error> {
    let mut visit = args.visit;
    let names: Vec<String> =
        args.places.iter().map(|place| format!("{}/{}", place.site, place.zone)).collect();
    let placements = args.places.into_iter().enumerate().map(|(at, place)| Placement {
        // A zone may stand on a page more than once.
        placement_id: (at + 1).to_string(),
        site_id: place.site,
        zone_id: place.zone,
        count: place.count,
        ..Placement::default()
    });
    let request = ChoosePageRequest {
        placements: placements.collect(),
        campaign_max_per_page: args.campaign_max,
        context: visit.context(),
        user_id: visit.user.unwrap_or_default(),
        keywords: visit.keyword,
        blocked_advertisers: visit.block_advertiser,
        blocked_categories: visit.block_category,
        blocked_domains: visit.block_domain,
        limited: visit.limited,
        dry_run: !visit.record,
        seed: visit.seed,
        as_of: visit.at.map(to_wire),
        explain: visit.explain,
        explain_max: visit.explain_max,
        ..ChoosePageRequest::default()
    };
    let decisions = context.decisions().await?;
    let answer = decisions.call(request, AdDecisionServiceClient::choose_page).await?;
    let refused = answer.placements.iter().filter(|placement| placement.error.is_some()).count();
    if context.out.is_json() {
        context.out.message(&answer)?;
    } else {
        for (name, placement) in names.iter().zip(&answer.placements) {
            filled(context, name, placement)?;
        }
        decided(context, visit.record, answer.catalog_version)?;
    }
    match refused {
        0 => Ok(()),
        n => Err(Error::Input(format!("{} refused", text::count(n as u64, "placement")))),
    }
}

fn filled(context: &mut Context, name: &str, placement: &PlacementAnswer) -> Result<(), Error> {
    context.out.line(&format!("{} {name}", placement.placement_id))?;
    match &placement.error {
        Some(error) => context.out.line(&format!("refused: {}", error.message))?,
        None => chosen(context, &placement.ads, placement.no_ad_reason())?,
    }
    if let Some(explanation) = &placement.explanation {
        explain::print(context, explanation)?;
    }
    context.out.line("")
}

fn decided(context: &mut Context, is_recorded: bool, version: u64) -> Result<(), Error> {
    context.out.line(&match is_recorded {
        true => format!("recorded at catalogue version {version}"),
        false => format!("dry run at catalogue version {version}: nothing was recorded"),
    })
}

fn chosen(context: &mut Context, ads: &[ChosenAd], reason: NoAdReason) -> Result<(), Error> {
    if ads.is_empty() {
        return context.out.line(&format!("no ad: {}", no_ad(reason)));
    }
    let tokens = ads.iter().any(|ad| !ad.token.is_empty());
    let mut header = vec!["#", "CAMPAIGN", "AD", "ECPM", "MATCHED", "SCORE"];
    if tokens {
        header.push("TOKEN");
    }
    let rows = ads.iter().enumerate().map(|(index, ad)| row(index + 1, ad, tokens));
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
        NoAdReason::AllTurnedDown => "every candidate was turned down; --explain says why",
        NoAdReason::CatalogStale => "the node's catalogue is too old",
    }
}
