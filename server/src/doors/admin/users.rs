//! `UserService`: what is known of one visitor, what they are said to be, and how they are
//! forgotten. Ids of visitors come in here, and go no further than their hash.

mod check;
mod history;

use std::sync::Arc;
use std::time::Instant;

use slotwise_core::index::Key;
use slotwise_core::model::{AccountSerial, AdvertiserId};
use slotwise_proto::v1::user_service_server::UserService;
use slotwise_proto::v1::{
    ForgetUserRequest, ForgetUserResponse, GetProfileRequest, Profile, UpdateSegmentsRequest,
};
use tonic::{Request, Response, Status};

use super::gate::actor;
use super::{Admin, AdminDoor};
use crate::catalog::CatalogError;
use crate::doors::refusal::Refusal;
use crate::limits::{FORGET_WAIT_MAX, PROFILE_SHOWN_WAIT};
use crate::ports::{Clock, ProfileStore, VisitorKey};
use crate::visitors::VisitorHash;

/// What the calls on visitors need.
pub struct Users {
    /// What is known of visitors.
    pub profiles: Arc<dyn ProfileStore>,
    /// What stands for a visitor's id.
    pub hash: VisitorHash,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

#[tonic::async_trait]
impl UserService for AdminDoor {
    async fn get_profile(
        &self,
        request: Request<GetProfileRequest>,
    ) -> Result<Response<Profile>, Status> {
        Ok(Response::new(get(&self.admin, request.get_ref()).await?))
    }

    async fn update_segments(
        &self,
        request: Request<UpdateSegmentsRequest>,
    ) -> Result<Response<Profile>, Status> {
        Ok(Response::new(update(&self.admin, request.into_inner()).await?))
    }

    async fn forget_user(
        &self,
        request: Request<ForgetUserRequest>,
    ) -> Result<Response<ForgetUserResponse>, Status> {
        let actor = actor(&request)?;
        Ok(Response::new(forget(&self.admin, request.get_ref(), &actor).await?))
    }
}

async fn get(admin: &Admin, request: &GetProfileRequest) -> Result<Profile, Refusal> {
    check::get(request)?;
    let visitor = visitor(admin, &request.account_id, &request.user_id).await?;
    let now_us = admin.users.clock.now_us();
    let known = admin.users.profiles.read(visitor, now_us, PROFILE_SHOWN_WAIT).await?;
    if !known.is_certain {
        let problem = "the profiles' store is away; what this node remembers may not be all";
        return Err(Refusal::unavailable(problem));
    }
    let advertiser = match request.advertiser_id.as_str() {
        "" => None,
        named => Some(AdvertiserId::from(named)),
    };
    history::told(admin, &known.profile, advertiser.as_ref()).await
}

async fn update(admin: &Admin, request: UpdateSegmentsRequest) -> Result<Profile, Refusal> {
    let now_us = admin.users.clock.now_us();
    let change = check::segments(&request, now_us)?;
    let visitor = visitor(admin, &request.account_id, &request.user_id).await?;
    let profile = admin.users.profiles.update_segments(visitor, now_us, change).await?;
    history::told(admin, &profile, None).await
}

/// Answers once no live node holds anything of the visitor, nor lets what was shown until now make
/// them again. One that is cut off from the store follows when it is back, and remembers nobody
/// for longer than some minutes.
async fn forget(
    admin: &Admin,
    request: &ForgetUserRequest,
    actor: &str,
) -> Result<ForgetUserResponse, Refusal> {
    check::forget(request)?;
    let account = match request.account_id.as_str() {
        "" => None,
        named => Some(account(admin, named).await?),
    };
    let hash = admin.users.hash.of(&request.user_id);
    let now_us = admin.users.clock.now_us();
    let forgotten = admin.users.profiles.forget(hash, account, now_us).await?;
    forgotten_everywhere(admin, forgotten.number).await?;
    tracing::info!(actor, forgotten.number, forgotten.held_something, "visitor forgotten");
    Ok(ForgetUserResponse { held_something: forgotten.held_something })
}

/// Waits until every node has followed the forget of this number.
async fn forgotten_everywhere(admin: &Admin, number: u64) -> Result<(), Refusal> {
    let began = Instant::now();
    let mut forgets = admin.users.profiles.forgets();
    let here = forgets.wait_for(|followed| *followed >= number);
    let here = tokio::time::timeout(FORGET_WAIT_MAX, here).await;
    // The store may have stopped meanwhile: it has not followed then.
    let is_followed_here = here.is_ok_and(|followed| followed.is_ok());
    let left = FORGET_WAIT_MAX.saturating_sub(began.elapsed());
    let tally = admin.fleet.wait(left, |node| node.forgets >= number).await;
    if is_followed_here && tally.applied >= tally.live {
        return Ok(());
    }
    let limit = FORGET_WAIT_MAX.as_secs();
    Err(Refusal::unavailable(format!(
        "the store has forgotten the visitor, but only {} of {} nodes have said so within {limit} s; \
         ask again",
        tally.applied, tally.live
    )))
}

async fn visitor(admin: &Admin, account_id: &str, user_id: &str) -> Result<VisitorKey, Refusal> {
    let account = account(admin, account_id).await?;
    Ok(VisitorKey { account, visitor: admin.users.hash.of(user_id) })
}

/// The account's serial, from the store: a change that is not served yet counts.
async fn account(admin: &Admin, account_id: &str) -> Result<AccountSerial, Refusal> {
    let key = Key::Account(account_id.into());
    let (_, rows) = admin.catalog.store().get(std::slice::from_ref(&key)).await?;
    let not_found = || CatalogError::NotFound { kind: "account", id: account_id.to_owned() };
    match rows.first().ok_or_else(not_found)?.serial {
        // Nothing was ever kept under it: it would look as if there were nothing.
        0 => Err(Refusal::unavailable(format!("account {account_id} is damaged in the store"))),
        serial => Ok(AccountSerial(serial)),
    }
}
