//! `user`: what is kept of a visitor, their segments, and forgetting them.

use slotwise_proto::v1::{
    AdvertiserHistory, ForgetUserRequest, GetProfileRequest, Profile, SeenAd, UpdateSegmentsRequest,
};

use super::{Context, wire_span};
use crate::ctl::cli::user::{Segments, UserCommand, UserName};
use crate::ctl::error::Error;
use crate::ctl::time;
use crate::stubs::UserServiceClient;

pub(super) async fn run(context: &mut Context, command: UserCommand) -> Result<(), Error> {
    match command {
        UserCommand::Show { name, advertiser } => {
            show(context, name, advertiser.unwrap_or_default()).await
        }
        UserCommand::Segments(args) => segments(context, args).await,
        UserCommand::Forget { user, account } => forget(context, user, account).await,
    }
}

async fn show(context: &mut Context, name: UserName, advertiser_id: String) -> Result<(), Error> {
    let UserName { account: account_id, user: user_id } = name;
    let users = context.users().await?;
    let request = GetProfileRequest { account_id, user_id, advertiser_id };
    let profile = users.call(request, UserServiceClient::get_profile).await?;
    if context.out.is_json() {
        return context.out.message(&profile);
    }
    if profile.segments.is_empty() && profile.histories.iter().all(|h| h.seen.is_empty()) {
        return context.out.line("nothing is held under this visitor");
    }
    segment_table(context, &profile)?;
    if profile.histories.is_empty() {
        return Ok(());
    }
    context.out.line("")?;
    let rows = profile.histories.iter().flat_map(seen_rows).collect();
    context.out.table(&["ADVERTISER", "CAMPAIGN", "AD", "SITE", "ZONE", "SEEN", "CLICKED"], rows)
}

fn segment_table(context: &mut Context, profile: &Profile) -> Result<(), Error> {
    if profile.segments.is_empty() {
        return context.out.line("no segments");
    }
    let rows = profile
        .segments
        .iter()
        .map(|segment| vec![segment.name.clone(), instant(segment.expires_at.as_ref())]);
    context.out.table(&["SEGMENT", "UNTIL"], rows.collect())
}

fn seen_rows(history: &AdvertiserHistory) -> impl Iterator<Item = Vec<String>> {
    history.seen.iter().map(|seen: &SeenAd| {
        vec![
            history.advertiser_id.clone(),
            seen.campaign_id.clone(),
            seen.ad_unit_id.clone(),
            seen.site_id.clone(),
            seen.zone_id.clone(),
            instant(seen.at.as_ref()),
            if seen.clicked { "yes".to_owned() } else { String::new() },
        ]
    })
}

/// In UTC: what a visitor saw belongs to no account's day.
fn instant(wire: Option<&prost_types::Timestamp>) -> String {
    wire.and_then(time::from_wire).map(|instant| instant.to_string()).unwrap_or_default()
}

async fn segments(context: &mut Context, args: Segments) -> Result<(), Error> {
    let users = context.users().await?;
    let request = UpdateSegmentsRequest {
        account_id: args.name.account,
        user_id: args.name.user,
        add: args.add,
        remove: args.remove,
        time_to_live: args.ttl.map(wire_span),
    };
    let profile = users.call(request, UserServiceClient::update_segments).await?;
    if context.out.is_json() {
        return context.out.message(&profile);
    }
    segment_table(context, &profile)
}

async fn forget(
    context: &mut Context,
    user_id: String,
    account: Option<String>,
) -> Result<(), Error> {
    let place = match &account {
        Some(account) => format!("in account {account}"),
        None => "in any account".to_owned(),
    };
    let users = context.users().await?;
    let request = ForgetUserRequest { account_id: account.unwrap_or_default(), user_id };
    let answer = users.call(request, UserServiceClient::forget_user).await?;
    if context.out.is_json() {
        return context.out.message(&answer);
    }
    context.out.line(&match answer.held_something {
        true => "forgotten: what was held under this visitor is gone".to_owned(),
        false => format!("nothing was held under this visitor {place}; nothing will be"),
    })
}
